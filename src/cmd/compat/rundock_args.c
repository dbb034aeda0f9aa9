/* SPDX-License-Identifier: Apache-2.0 */
/* This has run-dock-asuser's options, and makes docker's command lines of them. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cmd/compat/rundock.h"
#include "platform/slurm/srundocker/srundocker.h"

#define SOCKET RG_RUNDOCK_SOCKET

static int apply_dockopts(void *dock, const char *what, const char *value, struct rg_error *err)
{
    struct rg_strv *words = &((struct rg_rundock *) dock)->dockopts;

    rg_strv_fini(words);
    return rg_srundocker_dockopts(what, value, words, err);
}

static int apply_dockcmd(void *dock, const char *what, const char *value, struct rg_error *err)
{
    struct rg_strv *words = &((struct rg_rundock *) dock)->command;

    rg_strv_fini(words);
    return rg_srundocker_split(what, value, words, err);
}

static int apply_ibdevices(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct rg_rundock *dock = object;
    int rc = rg_items_parse(what, value ? value : "", 0, &dock->devices, err);

    dock->ibdevices = true;
    for (size_t i = 0; rc == 0 && i < dock->devices.count; i++)
        if (!rg_str_starts(dock->devices.v[i], "/dev/"))
            rc = rg_error_set(err, EINVAL,
                              "%s: \"%.200s\" is not a device; give for example "
                              "--ibdevices=/dev/infiniband/uverbs0, or no value for all", what,
                              dock->devices.v[i]);
    return rc;
}

#define FLAG(name) NULL, RG_MEMBER(FLAG, struct rg_rundock, name, 0, 0)
#define LIST(name) NULL, RG_MEMBER(ITEMS, struct rg_rundock, name, 0, 0)
#define TEXT(name) NULL, RG_MEMBER(WORD, struct rg_rundock, name, 1, 0)
/* An empty one: as if nothing had been said, for scripts that hand on variables. */
#define NAME(name) NULL, RG_MEMBER(WORD, struct rg_rundock, name, 0, 0)

const struct rg_script_option rg_rundock_options[] = {
    { "container", "IMAGE", false, NULL, "The image. Required.", TEXT(container) },
    { "dockname", "NAME", false, NULL,
      "The container's name; default: USER_dock.", NAME(dockname) },
    { "entrypoint", "PROGRAM", false, NULL,
      "Run this in the place of the image's entry point; default: the image's.", NAME(entrypoint) },
    { "workdir", "DIR", false, "@dir",
      "Where to start: a directory of the container, or default for the image's own. Default: the "
      "directory you are in, which is mounted.", NAME(workdir) },
    { "envlist", "NAME[=VALUE],...", false, "@var", "Variables to hand on.", LIST(envlist) },
    { "datamnts", "DIR,...", false, "@dir",
      "Directories to mount at their own paths. Your home is mounted anyway.", LIST(datamnts) },
    { "dockopts", "OPTIONS", false, NULL,
      "More of docker's options, as one word: \"--ipc=host -e NAME=VALUE -v /datasets:/data\".",
      .apply = apply_dockopts },
    { "dockcmd", "COMMAND", false, NULL,
      "The container's command, as one word; arguments that are no options of ours follow it.",
      .apply = apply_dockcmd },
    { "noninteractive", NULL, false, NULL,
      "Run the container's command and end with its exit code.", FLAG(noninteractive) },
    { "daemon", NULL, false, NULL,
      "Start the container, and leave it. For a session: docker exec -it NAME bash.",
      FLAG(daemon) },
    { "keepalive", NULL, false, NULL,
      "Leave the container after the session, or after the command.", FLAG(keepalive) },
    { "bashinit", "FILE", false, "@file",
      "What the session's bash reads at its start. Default: nothing; the ~/.bashrc there is the "
      "host's.", NAME(bashinit) },
    { "ibdevices", "DEVICE,...", true, NULL,
      "Give the container this computer's InfiniBand devices, all or these, and the right to lock "
      "memory.", .apply = apply_ibdevices },
    { "dockindock", NULL, false, NULL,
      "Mount docker's socket, which gives the container all of the host.", FLAG(dockindock) },
    { "privileged", NULL, false, NULL,
      "Give the container all rights. Then it sees all GPUs whatever NV_GPU says; use "
      "--envlist=CUDA_VISIBLE_DEVICES.", FLAG(privileged) },
    { "net", "NETWORK", false, "host bridge none",
      "The container's network. Default: the host's; docker's own where --dockopts publishes "
      "ports.", NAME(net) },
    { "userdefault", NULL, false, NULL,
      "Be the image's user, often root, instead of yourself. Then your home is not mounted.",
      FLAG(userdefault) },
    { "nvdock1", NULL, false, NULL, "The same as --nvdock2.", FLAG(nvidia_runtime) },
    { "nvdock2", NULL, false, NULL,
      "Give GPUs by --runtime=nvidia, for a Docker without --gpus.", FLAG(nvidia_runtime) },
    { "dry-run", NULL, false, NULL, "Print docker's command lines, and run none.", FLAG(dry_run) },
    { "help", NULL, false, NULL, "Print this.", FLAG(help) },
    { .name = NULL }
};

void rg_rundock_fini(struct rg_rundock *dock)
{
    rg_strv_fini(&dock->envlist);
    rg_strv_fini(&dock->datamnts);
    rg_strv_fini(&dock->dockopts);
    rg_strv_fini(&dock->devices);
    rg_strv_fini(&dock->command);
}

static int keep(struct rg_rundock *dock, const struct rg_script_option *o, const char *value,
                struct rg_error *err)
{
    char what[64];

    snprintf(what, sizeof(what), "run-dock-asuser --%s", o->name);
    if (o->apply)
        return o->apply(dock, what, value, err);
    if (o->member.kind == RG_MEMBER_WORD && *value == '-')
        return rg_error_set(err, EINVAL, "%s=%.80s: docker would take the value for an option",
                            what, value);
    return rg_member_set(&o->member, dock, what, value, err);
}

/* An argument for the command. What is nearly an option of ours, and nothing of a command stands
 * before it, is a slip. */
static int take_argument(struct rg_rundock *dock, struct rg_strv *args, const char *word,
                         struct rg_error *err)
{
    const char *near = rg_str_starts(word, "--") && !args->count && !dock->command.count
                           ? rg_script_option_nearest(rg_rundock_options, word) : NULL;

    if (near)
        return rg_error_set(err, EINVAL,
                            "run-dock-asuser %.80s: did you mean --%s? What is for the container's "
                            "command stands behind --", word, near);
    return rg_strv_add(args, word);
}

static int parse_one(struct rg_rundock *dock, struct rg_strv *args, char *const *argv, int *i,
                     struct rg_error *err)
{
    const char *value = NULL, *other;
    const struct rg_script_option *o = rg_script_option_find(rg_rundock_options, argv[*i], &value);

    if (!o)
        return take_argument(dock, args, argv[*i], err);
    if (!o->arg && value)
        return rg_error_set(err, EINVAL, "run-dock-asuser --%s takes no value", o->name);
    if (o->arg && !o->optional && !value) {
        value = argv[++*i];
        /* Only docker's options and commands may be what ours look like. */
        if (!value || (!o->apply && rg_str_starts(value, "--") &&
                       rg_script_option_find(rg_rundock_options, value, &other)))
            return rg_error_set(err, EINVAL, "run-dock-asuser --%s: its value is missing; write "
                                "--%s=%s", o->name, o->name, o->arg);
    }
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

/* Whether the user's own docker options have this name. */
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
    const char *home = dock->userdefault ? NULL : host->home;
    bool need_cwd = host->cwd && !dock->workdir && !lies_in(host->cwd, home);
    int rc = home ? add_mount(argv, home) : 0;

    for (size_t i = 0; rc == 0 && i < dock->datamnts.count; i++) {
        rc = add_mount(argv, dock->datamnts.v[i]);
        need_cwd = need_cwd && !lies_in(host->cwd, dock->datamnts.v[i]);
    }
    if (rc == 0 && need_cwd)
        rc = add_mount(argv, host->cwd);
    if (rc == 0 && dock->dockindock)
        rc = rg_strv_add(argv, "--volume=" SOCKET ":" SOCKET);
    if (rc == 0 && dock->dockindock && host->socket_gid >= 0)
        rc = rg_strv_addf(argv, "--group-add=%lld", (long long) host->socket_gid);
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

/* "-p 80:80", "-p80:80", "-P" and their long names. */
static bool publishes(const struct rg_rundock *dock)
{
    for (size_t i = 0; i < dock->dockopts.count; i++)
        if (rg_str_starts(dock->dockopts.v[i], "-p") || rg_str_starts(dock->dockopts.v[i], "-P"))
            return true;
    return has_option(dock, "--publish") || has_option(dock, "--publish-all");
}

static int add_network(const struct rg_rundock *dock, struct rg_strv *argv)
{
    /* With the host's network docker has no ports of the container's to publish. */
    if (has_option(dock, "--net") || has_option(dock, "--network") ||
        (!dock->net && publishes(dock)))
        return 0;
    return rg_strv_addf(argv, "--network=%s", dock->net ? dock->net : "host");
}

static int add_gpus(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                    struct rg_strv *argv)
{
    if (!host->gpus || has_option(dock, "--gpus"))
        return 0;
    if (strcmp(host->gpus, "void") == 0)
        return rg_strv_add(argv, "--env=NVIDIA_VISIBLE_DEVICES=void");
    if (dock->nvidia_runtime) {
        int rc = rg_strv_add(argv, "--runtime=nvidia");
        return rc < 0 ? rc : rg_strv_addf(argv, "--env=NVIDIA_VISIBLE_DEVICES=%s", host->gpus);
    }
    if (strcmp(host->gpus, "all") == 0)
        return rg_strv_add(argv, "--gpus=all");
    /* Docker reads the value as a line of comma-separated fields, one of which has commas. */
    return rg_strv_addf(argv, "--gpus=\"device=%s\"", host->gpus);
}

/* All of them come with unlimited locked memory, where they are. */
static int add_ibdevices(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                         struct rg_strv *argv)
{
    bool all = dock->ibdevices && !dock->devices.count && host->infiniband;
    int rc = all ? rg_strv_add(argv, "--device=/dev/infiniband") : 0;

    for (size_t i = 0; rc == 0 && i < dock->devices.count; i++)
        rc = rg_strv_addf(argv, "--device=%s", dock->devices.v[i]);
    if (rc == 0 && (all || dock->devices.count))
        rc = rg_strv_add(argv, "--cap-add=IPC_LOCK");
    return rc == 0 && all && !dock->privileged ? rg_strv_add(argv, "--ulimit=memlock=-1") : rc;
}

static int add_settings(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                        struct rg_strv *argv)
{
    int rc = add_network(dock, argv);

    /* Docker's own 64 MiB are too little for data loaders. */
    if (rc == 0 && !has_option(dock, "--shm-size") && !has_option(dock, "--ipc"))
        rc = rg_strv_add(argv, "--shm-size=1g");
    /* As NVIDIA advises for its images. A docker option of the user's comes later, and counts. */
    if (rc == 0)
        rc = rg_strv_add(argv, "--ulimit=stack=67108864");
    if (rc == 0 && host->cpus && !has_option(dock, "--cpuset-cpus"))
        rc = rg_strv_addf(argv, "--cpuset-cpus=%s", host->cpus);
    rc = rc < 0 ? rc : add_gpus(dock, host, argv);
    if (rc == 0 && dock->privileged)
        rc = rg_strv_add(argv, "--privileged");
    /* Without these rights docker may not be able to. */
    if (rc == 0 && dock->privileged)
        rc = rg_strv_add(argv, "--ulimit=memlock=-1");
    rc = rc < 0 ? rc : add_ibdevices(dock, host, argv);
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
    int rc = rg_strv_add_all(argv, (char *[]){ "docker", "create", "--interactive", NULL });

    /* A shell that is the service's command ends at once without a terminal. */
    if (rc == 0 && (service || host->terminal))
        rc = rg_strv_add(argv, "--tty");
    if (rc == 0 && dock->dockname)
        rc = rg_strv_addf(argv, "--name=%s", dock->dockname);
    else if (rc == 0)
        rc = rg_strv_addf(argv, "--name=%s_dock", host->user);
    if (rc == 0 && !dock->userdefault)
        rc = add_user(host, argv);
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
    /* The home's .bashrc sets PATH and more for the host. */
    const char *const bash[] = { id, "bash", "--rcfile",
                                 dock->bashinit ? dock->bashinit : "/dev/null", NULL };
    int rc = rg_strv_add_all(argv, (char *[]){ "docker", "exec", "--interactive", NULL });

    if (rc == 0 && host->terminal)
        rc = rg_strv_add(argv, "--tty");
    return rc < 0 ? rc : rg_strv_add_all(argv, (char *const *) bash);
}
