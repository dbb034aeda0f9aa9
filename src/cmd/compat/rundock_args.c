/* SPDX-License-Identifier: Apache-2.0 */
/* This has run-dock-asuser's options, and makes docker's command lines of them. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cmd/compat/rundock.h"
#include "cmd/common/args.h"
#include "cmd/compat/compat.h"
#include "spec/srundocker/srundocker.h"

#define SOCKET RG_RUNDOCK_SOCKET

/* How a value is kept: as it is (an empty NAME: as if nothing had been said, for scripts that hand
 * on variables which may be empty), as words of a shell, or as a list with commas; DEVICES may have
 * none, which only --name=value gives. */
enum kind { FLAG, TEXT, NAME, WORDS, LIST, DEVICES };

struct option {
    const char *name;
    const char *arg;
    enum kind kind;
    size_t field; /* in struct rg_rundock */
    const char *completes;
    const char *help;
};

#define FIELD(name) offsetof(struct rg_rundock, name)

static const struct option options[] = {
    { "container", "IMAGE", TEXT, FIELD(container), NULL, "The image. Required." },
    { "dockname", "NAME", NAME, FIELD(dockname), NULL,
      "The container's name; default: USER_dock." },
    { "entrypoint", "PROGRAM", NAME, FIELD(entrypoint), NULL,
      "Run this in the place of the image's entry point; default: the image's." },
    { "workdir", "DIR", NAME, FIELD(workdir), "@dir",
      "Where to start: a directory of the container, or default for the image's own. Default: the "
      "directory you are in, which is mounted." },
    { "envlist", "NAME[=VALUE],...", LIST, FIELD(envlist), "@var", "Variables to hand on." },
    { "datamnts", "DIR,...", LIST, FIELD(datamnts), "@dir",
      "Directories to mount at their own paths. Your home is mounted anyway." },
    { "dockopts", "OPTIONS", WORDS, FIELD(dockopts), NULL,
      "More of docker's options, as one word: \"--ipc=host -e NAME=VALUE -v /datasets:/data\"." },
    { "dockcmd", "COMMAND", WORDS, FIELD(command), NULL,
      "The container's command, as one word; arguments that are no options of ours follow it." },
    { "noninteractive", NULL, FLAG, FIELD(noninteractive), NULL,
      "Run the container's command and end with its exit code." },
    { "daemon", NULL, FLAG, FIELD(daemon), NULL,
      "Start the container, and leave it. For a session: docker exec -it NAME bash." },
    { "keepalive", NULL, FLAG, FIELD(keepalive), NULL,
      "Leave the container after the session, or after the command." },
    { "bashinit", "FILE", NAME, FIELD(bashinit), "@file",
      "What the session's bash reads at its start. Default: nothing; the ~/.bashrc there is the "
      "host's." },
    { "ibdevices", "DEVICE,...", DEVICES, FIELD(devices), NULL,
      "Give the container this computer's InfiniBand devices, all or these, and the right to lock "
      "memory." },
    { "dockindock", NULL, FLAG, FIELD(dockindock), NULL,
      "Mount docker's socket, which gives the container all of the host." },
    { "privileged", NULL, FLAG, FIELD(privileged), NULL,
      "Give the container all rights. Then it sees all GPUs whatever NV_GPU says; use "
      "--envlist=CUDA_VISIBLE_DEVICES." },
    { "net", "NETWORK", NAME, FIELD(net), "host bridge none",
      "The container's network. Default: the host's; docker's own where --dockopts publishes "
      "ports." },
    { "userdefault", NULL, FLAG, FIELD(userdefault), NULL,
      "Be the image's user, often root, instead of yourself. Then your home is not mounted." },
    { "nvdock1", NULL, FLAG, FIELD(nvidia_runtime), NULL, "The same as --nvdock2." },
    { "nvdock2", NULL, FLAG, FIELD(nvidia_runtime), NULL,
      "Give GPUs by --runtime=nvidia, for a Docker without --gpus." },
    { "dry-run", NULL, FLAG, FIELD(dry_run), NULL, "Print docker's command lines, and run none." },
    { "help", NULL, FLAG, FIELD(help), NULL, "Print this." },
};

bool rg_rundock_option(size_t i, struct rg_script_option *ret_option)
{
    if (i >= rg_array_len(options))
        return false;
    *ret_option = (struct rg_script_option){ .name = options[i].name, .arg = options[i].arg,
                                             .optional = options[i].kind == DEVICES,
                                             .completes = options[i].completes,
                                             .help = options[i].help };
    return true;
}

void rg_rundock_fini(struct rg_rundock *dock)
{
    rg_strv_fini(&dock->envlist);
    rg_strv_fini(&dock->datamnts);
    rg_strv_fini(&dock->dockopts);
    rg_strv_fini(&dock->devices);
    rg_strv_fini(&dock->command);
}

static int add_list(struct rg_strv *list, const char *value)
{
    rg_autofree char *copy = strdup(value);

    rg_strv_fini(list);
    if (!copy)
        return -ENOMEM;
    for (char *rest = copy, *word; (word = strsep(&rest, ","));)
        if (*word && rg_strv_add(list, word) < 0)
            return -ENOMEM;
    return 0;
}

static int keep_devices(struct rg_rundock *dock, const char *value, struct rg_error *err)
{
    int rc = add_list(&dock->devices, value ? value : "");

    dock->ibdevices = true;
    for (size_t i = 0; rc == 0 && i < dock->devices.count; i++)
        if (!rg_str_starts(dock->devices.v[i], "/dev/"))
            rc = rg_error_set(err, EINVAL,
                              "run-dock-asuser --ibdevices: \"%.200s\" is not a device; give for "
                              "example --ibdevices=/dev/infiniband/uverbs0, or no value for all",
                              dock->devices.v[i]);
    return rc;
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
    if (o->kind == DEVICES)
        return keep_devices(dock, value, err);
    if (o->kind == WORDS) {
        rg_strv_fini(field);
        return rg_srundocker_split(what ? what : o->name, value, field, err);
    }
    if (o->kind == LIST)
        return add_list(field, value);
    if (!*value && o->kind == TEXT)
        return rg_error_set(err, EINVAL, "run-dock-asuser --%s: its value is empty", o->name);
    if (*value == '-')
        return rg_error_set(err, EINVAL, "run-dock-asuser --%s=%.80s: docker would take the value "
                            "for an option", o->name, value);
    *(const char **) field = *value ? value : NULL;
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

/* An argument for the command. What is nearly an option of ours, and nothing of a command stands
 * before it, is a slip. */
static int take_argument(struct rg_rundock *dock, struct rg_strv *args, const char *word,
                         struct rg_error *err)
{
    const char *near = rg_str_starts(word, "--") && !args->count && !dock->command.count
                           ? rg_args_nearest(&rg_script_run_dock_asuser, word) : NULL;

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
    const struct option *o = strcmp(argv[*i], "-h") == 0 ? find("--help", &value)
                                                         : find(argv[*i], &value);

    if (!o)
        return take_argument(dock, args, argv[*i], err);
    if (o->kind == FLAG && value)
        return rg_error_set(err, EINVAL, "run-dock-asuser --%s takes no value", o->name);
    if (o->kind != FLAG && o->kind != DEVICES && !value) {
        value = argv[++*i];
        /* Only docker's options and commands may be what ours look like. */
        if (!value || (o->kind != WORDS && find(value, &other)))
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
    static char *const words[] = { "docker", "exec", "--interactive", NULL };
    int rc = rg_strv_add_all(argv, words);

    if (rc == 0 && host->terminal)
        rc = rg_strv_add(argv, "--tty");
    rc = rc < 0 ? rc : rg_strv_add(argv, id);
    rc = rc < 0 ? rc : rg_strv_add(argv, "bash");
    /* The home's .bashrc sets PATH and more for the host. */
    rc = rc < 0 ? rc : rg_strv_add(argv, "--rcfile");
    return rc < 0 ? rc : rg_strv_add(argv, dock->bashinit ? dock->bashinit : "/dev/null");
}
