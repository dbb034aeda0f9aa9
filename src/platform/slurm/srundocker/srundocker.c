/* SPDX-License-Identifier: Apache-2.0 */
/* srun_docker.sh's options are read as that script reads them. */
#include "platform/slurm/srundocker/srundocker.h"

#include <stdio.h>
#include <string.h>

#include "container/container.h"
#include "job/envfile.h"
#include "job/shellwords.h"

#define APPLY(name)                                                                        \
    static int apply_##name(void *object, const char *what, const char *value,             \
                            struct rg_error *err)

APPLY(container)
{
    struct rg_srundocker *s = object;

    if (*value == '-')
        return rg_error_set(err, EINVAL, "%s %s: an image's name does not begin with '-'", what,
                            value);
    return rg_parse_text(what, value, &s->container, err);
}

APPLY(datamnts)
{
    struct rg_srundocker *s = object;
    int rc = rg_items_parse(what, value, RG_CONTAINER_LISTED_MAX, &s->datamnts, err);

    for (size_t i = 0; i < s->datamnts.count && rc == 0; i++)
        if (s->datamnts.v[i][0] != '/' || strchr(s->datamnts.v[i], ':'))
            rc = rg_error_set(err, EINVAL,
                              "%s: \"%.200s\" is not a directory's full path; give for example "
                              "%s=/datasets,/scratch, or --dockopts=\"-v /from:/to\"",
                              what, s->datamnts.v[i], what);
    return rc;
}

APPLY(dockopts)
{
    struct rg_srundocker *s = object;

    rg_strv_fini(&s->dockopts);
    return rg_srundocker_dockopts(what, value, &s->dockopts, err);
}

APPLY(envlist)
{
    struct rg_srundocker *s = object;
    int rc = rg_items_parse(what, value, RG_CONTAINER_LISTED_MAX, &s->envlist, err);

    for (size_t i = 0; i < s->envlist.count && rc == 0; i++)
        if (strchr(s->envlist.v[i], '=') || rg_env_check_name(what, s->envlist.v[i], NULL) < 0)
            rc = rg_error_set(err, EINVAL,
                              "%s: \"%.200s\" is not a variable's name; give names, as in "
                              "%s=A,B, whose values are taken from where srun is called",
                              what, s->envlist.v[i], what);
    return rc;
}

APPLY(ibdevices)
{
    struct rg_srundocker *s = object;
    int rc = 0;

    rg_strv_fini(&s->devices);
    s->ibdevices = true;
    if (value)
        rc = rg_items_parse(what, value, RG_CONTAINER_LISTED_MAX, &s->devices, err);
    for (size_t i = 0; i < s->devices.count && rc == 0; i++)
        if (!rg_str_starts(s->devices.v[i], "/dev/"))
            rc = rg_error_set(err, EINVAL,
                              "%s: \"%.200s\" is not a device; give for example "
                              "%s=/dev/infiniband/uverbs0, or no value for all",
                              what, s->devices.v[i], what);
    return rc;
}

APPLY(dockname)
{
    struct rg_srundocker *s = object;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "_.-0123456789";

    if (value[strspn(value, letters)] || *value == '-' || strlen(value) > 128)
        return rg_error_set(err, EINVAL,
                            "%s: \"%.200s\" is not a name: at most 128 letters, digits, '_', '.' "
                            "and '-'", what, value);
    return rg_parse_text(what, value, &s->dockname, err);
}

APPLY(runtime)
{
    struct rg_srundocker *s = object;
    static const char *const words[] = { "docker", "podman", "apptainer", "singularity", "enroot",
                                         "none", NULL };

    for (size_t i = 0; words[i]; i++)
        if (strcmp(words[i], value) == 0)
            return rg_parse_text(what, value, &s->runtime, err);
    return rg_error_set(err, EINVAL,
                        "%s %.80s: give docker, podman, apptainer, singularity, enroot or none",
                        what, value);
}

APPLY(start_timeout)
{
    struct rg_srundocker *s = object;
    uint64_t ms;
    int rc = rg_parse_duration_ms(what, value, &ms, err);

    if (rc == 0 && !ms)
        rc = rg_error_set(err, EINVAL, "%s %s: nothing starts in no time; give for example 1h",
                          what, value);
    if (rc == 0)
        s->start_timeout_ms = ms;
    return rc;
}

#define FLAG(name) NULL, RG_MEMBER(FLAG, struct rg_srundocker, name, 0, 0)
#define INT(name, max) NULL, RG_MEMBER(INT, struct rg_srundocker, name, 1, max)
#define TEXT(name) NULL, RG_MEMBER(TEXT, struct rg_srundocker, name, 0, 0)

const struct rg_script_option rg_srundocker_options[] = {
    { "container", "IMAGE", false, NULL, "The image. Required.", .apply = apply_container },
    { "script", "FILE", false, "@file",
      "What to run, once, on the first node, in its container. Required. It finds hostlist "
      "(node1:4,node2:4) and np in its environment.", TEXT(script) },
    { "slots_per_node", "N", false, NULL,
      "Ranks on each node, in hostlist and np. The default is the number of GPUs that the job has "
      "there; without GPUs, its CPUs divided by --cpus-per-task.",
      INT(slots_per_node, RG_JOB_SLOTS_MAX) },
    { "datamnts", "DIR,...", false, "@dir",
      "Directories of the nodes to show in the containers at their own paths. The home and the "
      "current directory are there already.", .apply = apply_datamnts },
    { "dockopts", "OPTIONS", false, NULL,
      "More options of docker run, in one string: --dockopts=\"--ipc=host -e NAME=VALUE\".",
      .apply = apply_dockopts },
    { "privileged", NULL, false, NULL, "Give the containers all rights on their nodes.",
      FLAG(privileged) },
    { "nodelist", "NODES", false, NULL,
      "The nodes to use, such as dgx[02-03]. The default is those of srun.", TEXT(nodelist) },
    { "envlist", "NAME,...", false, "@var",
      "Variables that the script gets from where srun is called. Their names are in ENVLIST.",
      .apply = apply_envlist },
    { "ibdevices", "DEVICE,...", true, NULL,
      "Give the containers the nodes' InfiniBand devices, all or these.",
      .apply = apply_ibdevices },
    { "dockname", "NAME", false, NULL,
      "The name of each node's container; no other one there may have it. The default is a name of "
      "its own for each job.", .apply = apply_dockname },
    { "sshconfigdir", "DIR", false, "@dir",
      "Start a real sshd in each container, with the sshd_config in DIR, which is made where it is "
      "missing. The default with --sshdport is ~/mpisshconfig. Neither is needed for mpirun, pdsh "
      "and ssh in the script.", TEXT(sshconfigdir) },
    { "sshdport", "PORT", false, NULL,
      "Start a real sshd in each container, on this port. The default with --sshconfigdir is "
      "12345.", INT(sshdport, 65535) },
    { "container-runtime", "RUNTIME", false, "docker podman apptainer singularity enroot none",
      "What makes the containers: docker, podman, apptainer, singularity, enroot, or none for no "
      "containers. The default is the first of them that a node has.", .apply = apply_runtime },
    { "start-timeout", "TIME", false, NULL,
      "Give up when the containers have not started by then; a node that lacks the image fetches "
      "it first. Write 90, 10m or 2h; the default is 30m.", .apply = apply_start_timeout },
    { "script_help", NULL, false, NULL, "Run the script with --help.", FLAG(script_help) },
    { "help", NULL, false, NULL, "Print this.", FLAG(help) },
    { .name = NULL }
};

void rg_srundocker_init(struct rg_srundocker *s)
{
    *s = (struct rg_srundocker){ .start_timeout_ms = RG_SRUNDOCKER_START_MS };
}

void rg_srundocker_fini(struct rg_srundocker *s)
{
    free(s->container);
    free(s->script);
    free(s->nodelist);
    free(s->dockname);
    free(s->runtime);
    free(s->sshconfigdir);
    free(s->slip);
    rg_strv_fini(&s->devices);
    rg_strv_fini(&s->datamnts);
    rg_strv_fini(&s->dockopts);
    rg_strv_fini(&s->envlist);
    rg_strv_fini(&s->args);
    *s = (struct rg_srundocker){ 0 };
}

bool rg_srundocker_has_sshd(const struct rg_srundocker *s)
{
    return s->sshconfigdir || s->sshdport;
}

int rg_srundocker_settle_sshd(struct rg_srundocker *s, const char *home, struct rg_error *err)
{
    rg_autofree char *path = NULL, *cwd = NULL;

    if (!rg_srundocker_has_sshd(s))
        return 0;
    if (s->sshdport == 22)
        return rg_error_set(err, EINVAL,
                            "--sshdport=22 is the nodes' own sshd's; give a port that only these "
                            "containers use, such as %d", RG_SRUNDOCKER_SSHD_PORT);
    if (!s->sshdport)
        s->sshdport = RG_SRUNDOCKER_SSHD_PORT;
    const char *dir = s->sshconfigdir ? s->sshconfigdir : "~/" RG_SRUNDOCKER_SSH_DIR;
    bool in_home = strncmp(dir, "~/", 2) == 0; /* no shell replaces that behind a '=' */

    if (in_home && (!home || *home != '/'))
        return rg_error_set(err, EINVAL,
                            "--sshconfigdir=%.200s: there is no home; give a full path", dir);
    if (in_home)
        path = rg_strf("%s%s", home, dir + 1);
    else if (*s->sshconfigdir == '/')
        path = strdup(s->sshconfigdir);
    else if ((cwd = getcwd(NULL, 0)))
        path = rg_strf("%s/%s", cwd, s->sshconfigdir);
    if (path && strchr(path, '\''))
        return rg_error_set(err, EINVAL, "--sshconfigdir=%.200s: its path must have no single "
                                         "quotes; give another directory", path);
    return path ? rg_parse_text("--sshconfigdir", path, &s->sshconfigdir, err)
                : rg_error_memory(err);
}

int rg_srundocker_split(const char *what, const char *text, struct rg_strv *words,
                        struct rg_error *err)
{
    return rg_shell_split(what, text, RG_CONTAINER_LISTED_MAX, words, err);
}

/* "device=0,1", for which docker wants quotes of its own; or NULL. */
static const char *bare_devices(const struct rg_strv *words, size_t i)
{
    const char *word = words->v[i];
    const char *value = rg_str_starts(word, "--gpus=") ? word + strlen("--gpus=")
                        : i > 0 && strcmp(words->v[i - 1], "--gpus") == 0 ? word : "";

    return rg_str_starts(value, "device=") && strchr(value, ',') &&
                   strchr(value, '=') == strrchr(value, '=') ? value : NULL;
}

int rg_srundocker_dockopts(const char *what, const char *text, struct rg_strv *words,
                           struct rg_error *err)
{
    int rc = rg_srundocker_split(what, text, words, err);

    for (size_t i = 0; i < words->count && rc == 0; i++) {
        const char *value = bare_devices(words, i);
        char *quoted = value ? rg_strf("%.*s\"%s\"", (int) (value - words->v[i]), words->v[i],
                                       value) : NULL;
        if (value && !quoted)
            rc = rg_error_memory(err);
        if (quoted) {
            free(words->v[i]);
            words->v[i] = quoted;
        }
    }
    return rc;
}

/* --- the line -------------------------------------------------------------------------------- */

/* Options may be what --dockopts is about; for others, what looks like ours is not their value. */
static bool is_value(const struct rg_script_option *option, const char *arg)
{
    const char *ignored;

    return arg && (strcmp(option->name, "dockopts") == 0 ||
                   !rg_script_option_find(rg_srundocker_options, arg, &ignored));
}

/* A script of srun_docker.sh's users may hand on a variable that is empty: as if nothing were said.
 * Lists and docker's options mean what they say. */
static bool says_nothing(const struct rg_script_option *option, const char *value)
{
    static const char *const names[] = { "slots_per_node", "nodelist", "ibdevices", "dockname",
                                         "sshconfigdir", "sshdport", "container-runtime",
                                         "start-timeout" };

    for (size_t i = 0; value && !*value && i < rg_array_len(names); i++)
        if (strcmp(option->name, names[i]) == 0)
            return true;
    return false;
}

static int take_option(struct rg_srundocker *s, const struct rg_script_option *option,
                       const char *value, int argc, char *const *argv, int *i,
                       struct rg_error *err)
{
    char what[40];

    snprintf(what, sizeof what, "--%s", option->name);
    if (!option->arg && value)
        return rg_error_set(err, EINVAL, "%s=%.80s: %s takes no value", what, value, what);
    if (option->arg && !option->optional && !value) {
        if (*i + 1 >= argc || !is_value(option, argv[*i + 1]))
            return rg_error_set(err, EINVAL, "%s: its value is missing; write %s=%s", what, what,
                                option->arg);
        value = argv[++*i];
    }
    if (says_nothing(option, value))
        return 0;
    return option->apply ? option->apply(s, what, value, err)
                         : rg_member_set(&option->member, s, what, value, err);
}

/* An argument of the script's. The first that is nearly an option of ours is kept for a remark. */
static int take_argument(struct rg_srundocker *s, const char *arg, bool ours)
{
    int n = (int) strcspn(arg, "=");
    const char *near = ours && !s->slip && rg_str_starts(arg, "--")
                           ? rg_script_option_nearest(rg_srundocker_options, arg) : NULL;

    if (near)
        s->slip = rg_strf("%.*s goes to the script; did you mean --%s? (no remark behind --)",
                          n < 80 ? n : 80, arg, near);
    return rg_strv_add(&s->args, arg);
}

/* What was left out may stand among the script's arguments, with a slip in its name. */
static int missing(const struct rg_srundocker *s, const char *name, const char *example,
                   struct rg_error *err)
{
    const char *const words[] = { name, NULL };

    for (size_t i = 0; i < s->args.count; i++) {
        rg_autofree char *arg = strndup(s->args.v[i], strcspn(s->args.v[i], "="));
        const char *bare = arg ? arg + strspn(arg, "-") : "";
        if (bare != arg && rg_str_nearest(bare, words))
            return rg_error_set(err, EINVAL,
                                "--%s is missing; %.80s went to the script: did you mean --%s?",
                                name, arg, name);
    }
    return rg_error_set(err, EINVAL, "--%s is missing; write for example --%s=%s", name, name,
                        example);
}

int rg_srundocker_parse(struct rg_srundocker *s, int argc, char *const *argv, struct rg_error *err)
{
    bool ours = true;

    for (int i = 1; i < argc; i++) {
        const char *value;
        const struct rg_script_option *option =
            ours ? rg_script_option_find(rg_srundocker_options, argv[i], &value) : NULL;
        int rc = 0;

        if (ours && strcmp(argv[i], "--") == 0)
            ours = false;
        else if (option)
            rc = take_option(s, option, value, argc, argv, &i, err);
        else if (take_argument(s, argv[i], ours) < 0)
            rc = rg_error_memory(err);
        if (rc < 0)
            return rc;
        if (s->help)
            return 0;
    }
    bool none = s->runtime && strcmp(s->runtime, "none") == 0;
    if (!s->container && !none)
        return missing(s, "container", "IMAGE", err);
    if (!s->script)
        return missing(s, "script", "./job.sh", err);
    if (s->script_help && rg_strv_add(&s->args, "--help") < 0)
        return rg_error_memory(err);
    return 0;
}
