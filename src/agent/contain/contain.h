/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reigen-agent contain`: on a host, as the user, it starts the agent within a container, and sees
 * to it that the container goes again.
 *
 *      STARTING --the agent inside has called--> LINKED --it, or the launcher, is gone--> ENDING
 *
 * Its standard input brings the agent's own lines (agent/start/lines.h) and lines "container FIELD
 * VALUE" (container/container.h). On its standard output it speaks as launch/host/preamble.h says.
 * The agent inside, the container's first process, calls over a unix socket in the job's directory,
 * which is mounted, and is given the descriptors 0, 1 and 2, the lock of that directory, and its
 * lines. So the link runs on ssh's own descriptors; nobody stands between. Key and environment are
 * in no argument list and in nothing that `docker inspect` shows.
 *
 * The lock tells whether a directory is in use: both processes hold it. Who finds one without an
 * owner, at the next start, removes the container that it names, and the directory.
 *
 * This header is internal to src/agent/contain*.c and inside.c. Thread rule: one thread; everything
 * may block.
 */
#ifndef RG_AGENT_CONTAIN_CONTAIN_H
#define RG_AGENT_CONTAIN_CONTAIN_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "agent/start/lines.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "container/runtime.h"
#include "wire/link.h"

#define RG_CONTAIN_GROUPS_MAX 256
#define RG_CONTAIN_SAID_MAX 4096
#define RG_CONTAIN_ID_MAX 64
#define RG_CONTAIN_GPUS_MAX 1024
#define RG_CONTAIN_PLACE_MAX 20 /* of it, the end: paths of sockets are short */

/* What is known on this host about one start. */
struct rg_contain {
    struct rg_container container;
    struct rg_buf lines; /* the inner agent's; the key is among them */
    char job_id[RG_JOB_ID_MAX + 1];
    /* With `link dial` we make the connection, and the agent inside gets it as a socket. */
    char dial[RG_AGENT_LINES_DIAL_MAX + 1];
    char place[RG_AUTH_PLACE_MAX + 1];
    bool announced;      /* others on this host wait for our end: boot.h */
    uint8_t key[RG_KEY_NBYTES];
    char asking[RG_AGENT_LINES_ANNOUNCE_MAX + 1]; /* "reigen-slurm-JOB-STEP": who asked for ours */
    char name[RG_JOB_ID_MAX + 24 + RG_CONTAIN_PLACE_MAX];
    char base[PATH_MAX / 2]; /* where directories of jobs and bundles lie */
    char dir[PATH_MAX / 2 + 160]; /* the job's: lock, runtime, bin/, run/, passwd, group */
    int lock_fd;
    int listen_fd;
    struct rg_container_host host;
    gid_t groups[RG_CONTAIN_GROUPS_MAX];
    char user_name[64];
    char home[PATH_MAX / 2];
    char images[PATH_MAX / 2]; /* host.image_dir */
    char *paths[5];      /* owned: what host points to within dir, and the bundle */
    char *own_gpus;      /* owned: container.gpus, numbered as this process sees them; or NULL */
    char *cpus;          /* owned: for host */
};

/* A program that was started, and the end of what it said on its standard error. */
struct rg_contain_child {
    pid_t pid; /* 0: none, or ended */
    int fd;    /* reads what it says; -1: at its end */
    char said[RG_CONTAIN_SAID_MAX + 1];
    size_t nsaid;
};

/* --- contain_dir.c: directories -------------------------------------------------------------- */

/* Find the base directory, the first of $XDG_RUNTIME_DIR/reigen, /var/tmp/reigen-UID,
 * /tmp/reigen-UID and ~/.cache/reigen that is ours alone and lets programs run. 0 or -errno. */
int rg_contain_find_base(struct rg_contain *contain, struct rg_error *err);
/* Where images lie that are fetched as files, made if missing: in $ENROOT_CACHE_PATH, else in
 * /var/tmp/reigen-UID, else in the base directory. */
void rg_contain_find_images(struct rg_contain *contain);
/* Make the job's directory, with our own program in bin/, and listen in run/. 0 or -errno. */
int rg_contain_make_dir(struct rg_contain *contain, struct rg_error *err);
/* What to remove a container by whose job has this directory: its id if the user named it, else
 * name, which was made for it. Into buf, or name. */
const char *rg_contain_id(const char *dir, const char *name, char *buf, size_t nbytes);
/* rg_store_write into the job's directory, or one below it. */
int rg_contain_write(const char *dir, const char *name, const void *data, size_t nbytes,
                     mode_t mode);
/* The path of the socket on which the agent inside calls, into buf, which is returned. */
const char *rg_contain_socket(const struct rg_contain *contain, char *buf, size_t nbytes);
void rg_contain_remove_dir(struct rg_contain *contain);
/* Remove what jobs of this user have left behind here: containers and directories. */
void rg_contain_sweep(struct rg_contain *contain);
/* The same wherever it may be on this host's own disks. Returns how many jobs had left some. */
int rg_contain_sweep_all(void);

/* --- contain_host.c: facts about the host ---------------------------------------------------- */

/* Who the caller is, what is mounted, and which devices there are. 0 or -errno. */
int rg_contain_find_host(struct rg_contain *contain, struct rg_error *err);
/* Tell the launcher: "phase creating ...", "note ...". */
void rg_contain_say(const char *fmt, ...) rg_printf(1, 2);
/* Our packages for Python: find or fetch them. Without them the job goes on, with a note. */
void rg_contain_find_bundle(struct rg_contain *contain);
/* The runtime has said that container.name is in use: tell whose container has it and what to do.
 * program is the runtime's. Blocks for 5 s at most. -EEXIST with err; -ENOENT, and err
 * untouched, where there is none (any more) or it cannot be asked. */
int rg_contain_explain_name(const struct rg_contain *contain, const char *program,
                            struct rg_error *err);

/* --- contain_gpus.c -------------------------------------------------------------------------- */

/* Where Slurm says which GPUs are ours, the container gets those and no others: of them what --gpus
 * asks for, else all. Where Slurm says that it counts no GPUs, the container gets what --gpus
 * asks for, else all of the node's. Where Slurm confines its jobs to their GPUs, processes count
 * them from 0 on: own_gpus is for runtimes whose containers are our own processes. Waits for the
 * asking step's tasks here, a few seconds at most. 0 or -errno. */
int rg_contain_limit_gpus(struct rg_contain *contain, struct rg_error *err);

/* --- contain_child.c ------------------------------------------------------------------------- */

/* Start argv in a session of its own; it is told to end (SIGTERM) when we die. all: hear its
 * standard output too, where Docker tells how a pull goes. 0 or -errno. */
int rg_contain_spawn(struct rg_contain_child *child, const struct rg_strv *argv, bool all,
                     struct rg_error *err);
/* Take in what it says. False at the end. */
bool rg_contain_listen(struct rg_contain_child *child);
/* Wait for its end for at most timeout_ms, then kill it. Returns the wait status. */
int rg_contain_wait(struct rg_contain_child *child, unsigned timeout_ms);
/* Start argv and wait. The exit code, or -errno. An empty argv does nothing. */
int rg_contain_do(const struct rg_strv *argv, unsigned timeout_ms);

/* --- contain.c, inside.c --------------------------------------------------------------------- */

/* The whole of `contain`. Returns the exit code. */
int rg_contain_main(void);

/* Within the container: call the socket at path. Puts what it was given in the place of 0, 1 and 2,
 * keeps the connection and the lock open for the life of this process at numbers from first_fd
 * up, and finds our Python packages a place in PYTHONPATH. *ret_fd brings the agent's lines. The
 * number of the last descriptor to keep, or -errno. */
int rg_inside_enter(const char *path, int first_fd, int *ret_fd, struct rg_error *err);

#endif
