/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen run-dock-asuser, also by the name run_dock_asuser.sh: one container of Docker's, in which
 * the caller is the user he is outside.
 *
 *     docker create   with the user's numbers, home, directory and network
 *     docker cp       /etc/passwd and /etc/group: the image's own, with the host's users added
 *     docker start    and, for a session, docker exec; then docker rm
 *
 * The files are made in a temporary directory and go into the container, so that nothing of them is
 * left on the host, and nothing is written where the user stands.
 *
 * Thread rule: main thread. Only rg_rundock_users blocks (it asks the system for all users).
 */
#ifndef RG_CMD_COMPAT_RUNDOCK_H
#define RG_CMD_COMPAT_RUNDOCK_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"
#include "job/options/member.h"

#define RG_RUNDOCK_SOCKET "/var/run/docker.sock"

/* What the user asked for. Strings of argv are borrowed. */
struct rg_rundock {
    const char *container;  /* the image */
    const char *dockname;   /* NULL: USER_dock */
    const char *entrypoint; /* NULL: the image's */
    const char *workdir;    /* NULL: where the caller is; "default": the image's */
    const char *bashinit;
    const char *net;
    struct rg_strv envlist, datamnts, dockopts;
    struct rg_strv devices; /* --ibdevices=THESE */
    struct rg_strv command; /* --dockcmd's words, then the arguments that are no options of ours */
    bool keepalive, daemon, dockindock, privileged, noninteractive, dry_run, help;
    bool ibdevices;      /* all InfiniBand devices, or these */
    bool userdefault;    /* the image's user, and no home */
    bool nvidia_runtime; /* GPUs by docker's --runtime=nvidia */
};

/* The caller and his computer. All borrowed. */
struct rg_rundock_host {
    uid_t uid;
    gid_t gid;
    const gid_t *groups; /* all supplementary ones */
    size_t ngroups;
    const char *user;
    const char *home;    /* NULL: there is none to mount */
    const char *cwd;     /* NULL: nowhere that can be mounted */
    const char *gpus;    /* "all", "0,1"; "void": none, whatever the image wants; NULL: none */
    const char *cpus;    /* that the caller may use, "0-3,8", where those are not all; or NULL */
    int64_t socket_gid;  /* whose group RG_RUNDOCK_SOCKET is; -1: there is none */
    bool terminal;       /* standard input and output are one */
    bool infiniband;     /* /dev/infiniband is here */
};

void rg_rundock_fini(struct rg_rundock *dock);

/* The command's table. */
extern const struct rg_script_option rg_rundock_options[];

/* argv[0] is skipped. "--name=value" and "--name value"; the last one of a name counts. 0; -EINVAL
 * with err; -ENOMEM. */
int rg_rundock_parse(struct rg_rundock *dock, int argc, char *const *argv, struct rg_error *err);

/* docker create's command line. 0 or -ENOMEM. */
int rg_rundock_create(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                      struct rg_strv *argv);
/* docker exec's, for a session in the container of this id. 0 or -ENOMEM. */
int rg_rundock_session(const struct rg_rundock *dock, const struct rg_rundock_host *host,
                       const char *id, struct rg_strv *argv);

/* The texts of /etc/passwd and /etc/group: the caller, then the image's (NULL: it has none) without
 * those of the caller's names, then those of the host whose names the image does not know. The
 * caller owns both. 0 or -ENOMEM; outputs are untouched on failure. */
int rg_rundock_users(const struct rg_rundock_host *host, const char *image_passwd,
                     const char *image_group, char **ret_passwd, char **ret_group);

#endif
