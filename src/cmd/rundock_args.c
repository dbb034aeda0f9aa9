/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cmd/help.h"
#include "cmd/rundock.h"
#include "spec/srundocker.h"

#define SOCKET "/var/run/docker.sock"

/* How a value is kept: as it is, as words of a shell, or as a list with commas. */
enum kind { FLAG, TEXT, WORDS, LIST };

struct option {
    const char *name;
    const char *arg;
    enum kind kind;
    size_t field; /* in struct rg_rundock */
    const char *help;
};

#define FIELD(name) offsetof(struct rg_rundock, name)

static const struct option options[] = {
    { "container", "IMAGE", TEXT, FIELD(container), "The image. Required." },
    { "dockname", "NAME", TEXT, FIELD(dockname), "The container's name; default: USER_dock." },
    { "entrypoint", "PROGRAM", TEXT, FIELD(entrypoint),
      "Run this in the place of the image's entry point; default: the image's." },
    { "workdir", "DIR", TEXT, FIELD(workdir),
      "Where to start: a directory of the container, or default for the image's own. Default: the "
      "directory you are in, which is mounted." },
    { "envlist", "NAME[=VALUE],...", LIST, FIELD(envlist), "Variables to hand on." },
    { "datamnts", "DIR,...", LIST, FIELD(datamnts),
      "Directories to mount at their own paths. Your home is mounted anyway." },
    { "dockopts", "OPTIONS", WORDS, FIELD(dockopts),
      "More of docker's options, as one word: \"--ipc=host -e NAME=VALUE -v /datasets:/data\"." },
    { "dockcmd", "COMMAND", WORDS, FIELD(command),
      "The container's command, as one word; arguments that are no options of ours follow it." },
    { "noninteractive", NULL, FLAG, FIELD(noninteractive),
      "Run the container's command and end with its exit code." },
    { "daemon", NULL, FLAG, FIELD(daemon),
      "Start the container, and leave it. For a session: docker exec -it NAME bash." },
    { "keepalive", NULL, FLAG, FIELD(keepalive), "Leave the container after the session." },
    { "bashinit", "FILE", TEXT, FIELD(bashinit), "What the session's bash reads at its start." },
    { "dockindock", NULL, FLAG, FIELD(dockindock),
      "Mount docker's socket, which gives the container all of the host." },
    { "privileged", NULL, FLAG, FIELD(privileged),
      "Give the container all rights. Then it sees all GPUs whatever NV_GPU says; use "
      "--envlist=CUDA_VISIBLE_DEVICES." },
    { "net", "NETWORK", TEXT, FIELD(net), "The container's network; default: the host's." },
    { "dry-run", NULL, FLAG, FIELD(dry_run), "Print docker's command lines, and run none." },
    { "help", NULL, FLAG, FIELD(help), "Print this." },
};

void rg_rundock_fini(struct rg_rundock *dock)
{
    rg_strv_fini(&dock->envlist);
    rg_strv_fini(&dock->datamnts);
    rg_strv_fini(&dock->dockopts);
    rg_strv_fini(&dock->command);
}

void rg_rundock_help(struct rg_buf *text, int columns)
{
    rg_buf_printf(text, "usage: reigen run-dock-asuser --container=IMAGE [OPTION...] "
                        "[ARGUMENT...]\n\n");
    rg_wrap(text,
            "A session in a container in which you are who you are outside. srun_docker.sh's users "
            "know it as run_dock_asuser.sh.",
            0, columns);
    for (size_t i = 0; i < rg_array_len(options); i++) {
        rg_buf_printf(text, "\n  --%s%s%s\n", options[i].name, options[i].arg ? "=" : "",
                      options[i].arg ? options[i].arg : "");
        rg_wrap(text, options[i].help, 6, columns);
    }
}

static int add_list(struct rg_strv *list, const char *value)
{
    rg_autofree char *copy = strdup(value);

    if (!copy)
        return -ENOMEM;
    for (char *rest = copy, *word; (word = strsep(&rest, ","));)
        if (*word && rg_strv_add(list, word) < 0)
            return -ENOMEM;
    return 0;
}

static int keep(struct rg_rundock *dock, const struct option *o, const char *value,
                struct rg_error *err)
{
    void *field = (char *) dock + o->field;
    rg_autofree char *what = rg_strf("run-dock-asuser --%s", o->name);

    if (o->kind == FLAG) {
        *(bool *) field = true;
        return 0;
    }
    if (o->kind == WORDS)
        return rg_srundocker_split(what ? what : o->name, value, field, err);
    if (o->kind == LIST)
        return add_list(field, value);
    if (!*value)
        return rg_error_set(err, EINVAL, "run-dock-asuser --%s: its value is empty", o->name);
    *(const char **) field = value;
    return 0;
}

/* The option of a word, and its value: after '=', else NULL. */
static const struct option *find(const char *word, const char **ret_value)
{
    if (!rg_str_starts(word, "--"))
        return NULL;
    size_t n = strcspn(word + 2, "=");
    for (size_t i = 0; i < rg_array_len(options); i++) {
        if (strlen(options[i].name) != n || strncmp(options[i].name, word + 2, n) != 0)
            continue;
        *ret_value = word[2 + n] ? word + 3 + n : NULL;
        return &options[i];
    }
    return NULL;
}

static int parse_one(struct rg_rundock *dock, struct rg_strv *args, char *const *argv, int *i,
                     struct rg_error *err)
{
    const char *value = NULL;
    const struct option *o = strcmp(argv[*i], "-h") == 0 ? find("--help", &value)
                                                         : find(argv[*i], &value);

    if (!o)
        return rg_strv_add(args, argv[*i]);
    if (o->kind == FLAG && value)
        return rg_error_set(err, EINVAL, "run-dock-asuser --%s takes no value", o->name);
    if (o->kind != FLAG && !value && !(value = argv[*i + 1]))
        return rg_error_set(err, EINVAL, "run-dock-asuser --%s: its value is missing", o->name);
    *i += o->kind != FLAG && value == argv[*i + 1];
    return keep(dock, o, value, err);
}

int rg_rundock_parse(struct rg_rundock *dock, int argc, char *const *argv, struct rg_error *err)
{
    rg_autostrv struct rg_strv args = RG_STRV_INIT;
    int rc = 0;
    int i = 1;

    for (; rc == 0 && i < argc && strcmp(argv[i], "--") != 0; i++)
        rc = parse_one(dock, &args, argv, &i, err);
    if (rc == 0 && i < argc)
        rc = rg_strv_add_all(&args, argv + i + 1);
    if (rc == 0 && args.count)
        rc = rg_strv_add_all(&dock->command, args.v);
    if (rc < 0 || dock->help)
        return rc;
    if (!dock->container)
        return rg_error_set(err, EINVAL, "run-dock-asuser: no image; give --container=IMAGE");
    if (dock->daemon && dock->noninteractive)
        return rg_error_set(err, EINVAL, "run-dock-asuser: --daemon and --noninteractive exclude "
                                         "each other");
    if (dock->entrypoint && strcmp(dock->entrypoint, "default") == 0)
        dock->entrypoint = NULL;
    return 0;
}

/* Whether the user's own docker options have one of these names. */
static bool has_option(const struct rg_rundock *dock, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; i < dock->dockopts.count; i++) {
        const char *word = dock->dockopts.v[i];
        if (strncmp(word, name, n) == 0 && (!word[n] || word[n] == '='))
            return true;
    }
    return false;
}

static int add_mount(struct rg_strv *argv, const char *path)
{
    if (strchr(path, ':'))
        return rg_strv_addf(argv, "--volume=%s", path);
    return rg_strv_addf(argv, "--mount=type=bind,source=%s,target=%s", path, path);
}

static bool lies_in(const char *path, const char *dir)
{
    size_t n = dir ? strlen(dir) : 0;

    return dir && strncmp(path, dir, n) == 0 && (path[n] == '/' || !path[n]);
}

static int add_mounts(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                      struct rg_strv *argv)
{
    bool need_cwd = host->cwd && !dock->workdir && !lies_in(host->cwd, host->home);
    int rc = host->home ? add_mount(argv, host->home) : 0;

    for (size_t i = 0; rc == 0 && i < dock->datamnts.count; i++) {
        rc = add_mount(argv, dock->datamnts.v[i]);
        need_cwd = need_cwd && !lies_in(host->cwd, dock->datamnts.v[i]);
    }
    if (rc == 0 && need_cwd)
        rc = add_mount(argv, host->cwd);
    if (rc == 0 && dock->dockindock)
        rc = rg_strv_add(argv, "--volume=" SOCKET ":" SOCKET);
    if (rc == 0 && dock->workdir && strcmp(dock->workdir, "default") != 0)
        rc = rg_strv_addf(argv, "--workdir=%s", dock->workdir);
    else if (rc == 0 && !dock->workdir && host->cwd)
        rc = rg_strv_addf(argv, "--workdir=%s", host->cwd);
    return rc;
}

static int add_user(const struct rg_rundock_host *host, struct rg_strv *argv)
{
    int rc = rg_strv_addf(argv, "--user=%d:%d", (int) host->uid, (int) host->gid);

    for (size_t i = 0; rc == 0 && i < host->ngroups; i++)
        if (host->groups[i] != host->gid)
            rc = rg_strv_addf(argv, "--group-add=%d", (int) host->groups[i]);
    if (rc == 0 && host->home)
        rc = rg_strv_addf(argv, "--env=HOME=%s", host->home);
    return rc < 0 ? rc : rg_strv_addf(argv, "--env=USER=%s", host->user);
}

static int add_settings(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                        struct rg_strv *argv)
{
    int rc = 0;

    if (!has_option(dock, "--net") && !has_option(dock, "--network"))
        rc = rg_strv_addf(argv, "--network=%s", dock->net ? dock->net : "host");
    /* Docker's own 64 MiB are too little for data loaders. */
    if (rc == 0 && !has_option(dock, "--shm-size") && !has_option(dock, "--ipc"))
        rc = rg_strv_add(argv, "--shm-size=1g");
    if (rc == 0 && host->gpus && !has_option(dock, "--gpus"))
        rc = rg_strv_addf(argv, "--gpus=%s", host->gpus);
    if (rc == 0 && dock->privileged)
        rc = rg_strv_add(argv, "--privileged");
    for (size_t i = 0; rc == 0 && i < dock->envlist.count; i++)
        rc = rg_strv_addf(argv, "--env=%s", dock->envlist.v[i]);
    if (rc == 0 && dock->entrypoint)
        rc = rg_strv_addf(argv, "--entrypoint=%s", dock->entrypoint);
    return rc;
}

int rg_rundock_create(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                      struct rg_strv *argv)
{
    bool service = !dock->noninteractive;
    int rc = rg_strv_add(argv, "docker");

    rc = rc < 0 ? rc : rg_strv_add(argv, "create");
    rc = rc < 0 ? rc : rg_strv_add(argv, "--interactive");
    /* A shell that is the service's command ends at once without a terminal. */
    if (rc == 0 && (service || host->terminal))
        rc = rg_strv_add(argv, "--tty");
    if (rc == 0 && dock->dockname)
        rc = rg_strv_addf(argv, "--name=%s", dock->dockname);
    else if (rc == 0)
        rc = rg_strv_addf(argv, "--name=%s_dock", host->user);
    rc = rc < 0 ? rc : add_user(host, argv);
    rc = rc < 0 ? rc : add_mounts(dock, host, argv);
    rc = rc < 0 ? rc : add_settings(dock, host, argv);
    if (rc == 0 && dock->dockopts.count)
        rc = rg_strv_add_all(argv, dock->dockopts.v);
    rc = rc < 0 ? rc : rg_strv_add(argv, dock->container);
    if (rc == 0 && dock->command.count)
        rc = rg_strv_add_all(argv, dock->command.v);
    return rc;
}

int rg_rundock_session(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                       const char *id, struct rg_strv *argv)
{
    static char *const words[] = { "docker", "exec", "--interactive", NULL };
    int rc = rg_strv_add_all(argv, words);

    if (rc == 0 && host->terminal)
        rc = rg_strv_add(argv, "--tty");
    rc = rc < 0 ? rc : rg_strv_add(argv, id);
    rc = rc < 0 ? rc : rg_strv_add(argv, "bash");
    if (rc == 0 && dock->bashinit)
        rc = rg_strv_add(argv, "--rcfile");
    return rc < 0 || !dock->bashinit ? rc : rg_strv_add(argv, dock->bashinit);
}
