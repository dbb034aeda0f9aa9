/* SPDX-License-Identifier: Apache-2.0 */
/* srun_docker.sh's options are read as that script reads them. */
#include "spec/srundocker/srundocker.h"

#include <stdio.h>
#include <string.h>

#include "container/container.h"

#define APPLY(name)                                                                        \
    static int apply_##name(struct rg_srundocker *s, const char *what, const char *value, \
                            struct rg_error *err)
#define UNUSED(x) ((void) (x))

/* "A,B" in the place of what was there. Empty items say nothing. */
static int keep_list(struct rg_strv *list, const char *what, const char *value,
                     struct rg_error *err)
{
    rg_autofree char *copy = strdup(value);
    char *rest = copy, *item;
    int rc = copy ? 0 : -ENOMEM;

    rg_strv_fini(list);
    while (rc == 0 && (item = strsep(&rest, ","))) {
        if (*item)
            rc = rg_strv_add(list, item);
        if (list->count > RG_CONTAINER_LISTED_MAX)
            return rg_error_set(err, EINVAL, "%s: more than %d of them", what,
                                RG_CONTAINER_LISTED_MAX);
    }
    return rc < 0 ? rg_error_set(err, -rc, "out of memory") : 0;
}

APPLY(container)
{
    if (*value == '-')
        return rg_error_set(err, EINVAL, "%s %s: an image's name does not begin with '-'", what,
                            value);
    return rg_parse_text(what, value, &s->container, err);
}

APPLY(script)
{
    return rg_parse_text(what, value, &s->script, err);
}

APPLY(slots_per_node)
{
    int64_t n;
    int rc = rg_parse_int(what, value, 1, RG_JOB_SLOTS_MAX, &n, err);

    if (rc == 0)
        s->slots_per_node = (int) n;
    return rc;
}

APPLY(datamnts)
{
    int rc = keep_list(&s->datamnts, what, value, err);

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
    rg_strv_fini(&s->dockopts);
    return rg_srundocker_split(what, value, &s->dockopts, err);
}

APPLY(privileged)
{
    UNUSED(what), UNUSED(value), UNUSED(err);
    s->privileged = true;
    return 0;
}

APPLY(script_help)
{
    UNUSED(what), UNUSED(value), UNUSED(err);
    s->script_help = true;
    return 0;
}

APPLY(help)
{
    UNUSED(what), UNUSED(value), UNUSED(err);
    s->help = true;
    return 0;
}

APPLY(nodelist)
{
    return rg_parse_text(what, value, &s->nodelist, err);
}

static bool is_variable(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "_0123456789";

    return name[strspn(name, letters)] == '\0' && !(*name >= '0' && *name <= '9');
}

APPLY(envlist)
{
    int rc = keep_list(&s->envlist, what, value, err);

    for (size_t i = 0; i < s->envlist.count && rc == 0; i++)
        if (!is_variable(s->envlist.v[i]))
            rc = rg_error_set(err, EINVAL,
                              "%s: \"%.200s\" is not a variable's name; give names, as in "
                              "%s=A,B, whose values are taken from where srun is called",
                              what, s->envlist.v[i], what);
    return rc;
}

APPLY(ibdevices)
{
    int rc = 0;

    rg_strv_fini(&s->devices);
    s->ibdevices = true;
    if (value)
        rc = keep_list(&s->devices, what, value, err);
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
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "_.-0123456789";

    if (value[strspn(value, letters)] || *value == '-' || strlen(value) > 128)
        return rg_error_set(err, EINVAL,
                            "%s: \"%.200s\" is not a name: at most 128 letters, digits, '_', '.' "
                            "and '-'", what, value);
    return rg_parse_text(what, value, &s->dockname, err);
}

APPLY(sshconfigdir)
{
    return rg_parse_text(what, value, &s->sshconfigdir, err);
}

APPLY(sshdport)
{
    int64_t n;
    int rc = rg_parse_int(what, value, 1, 65535, &n, err);

    if (rc == 0)
        s->sshdport = (int) n;
    return rc;
}

APPLY(runtime)
{
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
    uint64_t ms;
    int rc = rg_parse_duration_ms(what, value, &ms, err);

    if (rc == 0 && !ms)
        rc = rg_error_set(err, EINVAL, "%s %s: nothing starts in no time; give for example 1h",
                          what, value);
    if (rc == 0)
        s->start_timeout_ms = ms;
    return rc;
}

static const struct rg_srundocker_option options[] = {
    { "container", "IMAGE", false, NULL, "The image. Required.", apply_container },
    { "script", "FILE", false, "@file",
      "What to run, once, on the first node, in its container. Required. It finds hostlist "
      "(node1:4,node2:4) and np in its environment.", apply_script },
    { "slots_per_node", "N", false, NULL,
      "Ranks on each node, in hostlist and np. The default is the number of GPUs that the job has "
      "there; without GPUs, its CPUs divided by --cpus-per-task.", apply_slots_per_node },
    { "datamnts", "DIR,...", false, "@dir",
      "Directories of the nodes to show in the containers at their own paths. The home and the "
      "current directory are there already.", apply_datamnts },
    { "dockopts", "OPTIONS", false, NULL,
      "More options of docker run, in one string: --dockopts=\"--ipc=host -e NAME=VALUE\".",
      apply_dockopts },
    { "privileged", NULL, false, NULL, "Give the containers all rights on their nodes.",
      apply_privileged },
    { "nodelist", "NODES", false, NULL,
      "The nodes to use, such as dgx[02-03]. The default is those of srun.", apply_nodelist },
    { "envlist", "NAME,...", false, "@var",
      "Variables that the script gets from where srun is called. Their names are in ENVLIST.",
      apply_envlist },
    { "ibdevices", "DEVICE,...", true, NULL,
      "Give the containers the nodes' InfiniBand devices, all or these.", apply_ibdevices },
    { "dockname", "NAME", false, NULL,
      "The name of each node's container; no other one there may have it. The default is a name of "
      "its own for each job.", apply_dockname },
    { "sshconfigdir", "DIR", false, "@dir",
      "Start a real sshd in each container, with the sshd_config in DIR, which is made where it is "
      "missing. The default with --sshdport is ~/mpisshconfig. Neither is needed for mpirun, pdsh "
      "and ssh in the script.", apply_sshconfigdir },
    { "sshdport", "PORT", false, NULL,
      "Start a real sshd in each container, on this port. The default with --sshconfigdir is "
      "12345.", apply_sshdport },
    { "container-runtime", "RUNTIME", false, "docker podman apptainer singularity enroot none",
      "What makes the containers: docker, podman, apptainer, singularity, enroot, or none for no "
      "containers. The default is the first of them that a node has.", apply_runtime },
    { "start-timeout", "TIME", false, NULL,
      "Give up when the containers have not started by then; a node that lacks the image fetches "
      "it first. Write 90, 10m or 2h; the default is 30m.", apply_start_timeout },
    { "script_help", NULL, false, NULL, "Run the script with --help.", apply_script_help },
    { "help", NULL, false, NULL, "Print this.", apply_help },
};

const struct rg_srundocker_option *rg_srundocker_options(size_t *ret_count)
{
    *ret_count = rg_array_len(options);
    return options;
}

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
                : rg_error_set(err, ENOMEM, "out of memory");
}

/* One word from *text on, into word, which has room for all of it. False: a quote is open. */
static bool take_word(const char **text, char *word)
{
    const char *p = *text;
    char quote = '\0';

    for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
        bool escapes = quote == '"' ? p[1] && strchr("\"\\$`", p[1]) : !quote && p[1];
        if (*p == '\\' && escapes)
            *word++ = *++p;
        else if (quote && *p == quote)
            quote = '\0';
        else if (!quote && (*p == '\'' || *p == '"'))
            quote = *p;
        else
            *word++ = *p;
    }
    *word = '\0';
    *text = p;
    return !quote;
}

int rg_srundocker_split(const char *what, const char *text, struct rg_strv *words,
                        struct rg_error *err)
{
    rg_autofree char *word = malloc(strlen(text) + 1);
    const char *rest = text;
    int rc = word ? 0 : -ENOMEM;

    for (rest += strspn(rest, " \t\n"); rc == 0 && *rest; rest += strspn(rest, " \t\n")) {
        if (!take_word(&rest, word))
            return rg_error_set(err, EINVAL, "%s: a quote is open in: %.300s", what, text);
        if (words->count >= RG_CONTAINER_LISTED_MAX)
            return rg_error_set(err, EINVAL, "%s: more than %d words", what,
                                RG_CONTAINER_LISTED_MAX);
        rc = rg_strv_add(words, word);
    }
    return rc < 0 ? rg_error_set(err, -rc, "out of memory") : 0;
}

/* --- the line -------------------------------------------------------------------------------- */

/* The option that the argument is, and its value if that is attached; or NULL. */
static const struct rg_srundocker_option *find(const char *arg, const char **ret_value)
{
    size_t n = strcspn(arg, "=");

    *ret_value = NULL;
    if (strcmp(arg, "-h") == 0)
        arg = "--help", n = 6;
    for (size_t i = 0; rg_str_starts(arg, "--") && i < rg_array_len(options); i++) {
        if (strlen(options[i].name) != n - 2 || strncmp(arg + 2, options[i].name, n - 2) != 0)
            continue;
        *ret_value = arg[n] ? arg + n + 1 : NULL;
        return &options[i];
    }
    return NULL;
}

/* Options may be what --dockopts is about; for others, what looks like ours is not their value. */
static bool is_value(const struct rg_srundocker_option *option, const char *arg)
{
    const char *ignored;

    return arg && (strcmp(option->name, "dockopts") == 0 || !find(arg, &ignored));
}

/* A script of srun_docker.sh's users may hand on a variable that is empty: as if nothing were said.
 * Lists and docker's options mean what they say. */
static bool says_nothing(const struct rg_srundocker_option *option, const char *value)
{
    static const char *const names[] = { "slots_per_node", "nodelist", "ibdevices", "dockname",
                                         "sshconfigdir", "sshdport", "container-runtime",
                                         "start-timeout" };

    for (size_t i = 0; value && !*value && i < rg_array_len(names); i++)
        if (strcmp(option->name, names[i]) == 0)
            return true;
    return false;
}

static int take_option(struct rg_srundocker *s, const struct rg_srundocker_option *option,
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
    return says_nothing(option, value) ? 0 : option->apply(s, what, value, err);
}

/* An argument of the script's. The first that is nearly an option of ours is kept for a remark. */
static int take_argument(struct rg_srundocker *s, const char *arg, bool ours)
{
    const char *words[rg_array_len(options) + 1];

    for (size_t i = 0; i < rg_array_len(options); i++)
        words[i] = options[i].name;
    words[rg_array_len(options)] = NULL;
    rg_autofree char *name = strndup(arg, strcspn(arg, "="));
    if (ours && !s->slip && name && rg_str_starts(name, "--")) {
        const char *near = rg_str_nearest(name + 2, words);
        s->slip = near ? rg_strf("%.80s goes to the script; did you mean --%s? (no remark behind "
                                 "--)", name, near) : NULL;
    }
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
        const struct rg_srundocker_option *option = ours ? find(argv[i], &value) : NULL;
        int rc = 0;

        if (ours && strcmp(argv[i], "--") == 0)
            ours = false;
        else if (option)
            rc = take_option(s, option, value, argc, argv, &i, err);
        else if (take_argument(s, argv[i], ours) < 0)
            rc = rg_error_set(err, ENOMEM, "out of memory");
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
        return rg_error_set(err, ENOMEM, "out of memory");
    return 0;
}
