/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors. Every descriptor of ours is close-on-exec from birth.
 *
 * Thread rule: any thread. The *_all functions block; the others do not.
 */
#ifndef RG_BASE_FD_H
#define RG_BASE_FD_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "base/error.h"

/* 0 or -errno. */
int rg_fd_set_nonblock(int fd, bool on);

/* closedir, for a local; NULL is fine. */
void rg_cleanup_dir(DIR **dir);
#define rg_autodir rg_cleanup(rg_cleanup_dir)

/* Close all from last + 1 on. */
void rg_fd_close_above(int last);

/* Read or write exactly nbytes on a blocking descriptor, through EINTR. rg_read_all returns
 * -EPIPE at an early end of file. 0 or -errno. */
int rg_read_all(int fd, void *data, size_t nbytes);
int rg_write_all(int fd, const void *data, size_t nbytes);

/* Wait until fd has one of events (POLLIN, POLLOUT), or deadline_ns (base/time.h). 0, -ETIMEDOUT or
 * -errno. Hang-ups count as readiness. Blocks. */
int rg_fd_wait(int fd, short events, uint64_t deadline_ns);

/* A pipe or a unix stream pair, close-on-exec. Of a pipe ret_fds[0] reads and ret_fds[1] writes.
 * 0 or -errno. */
int rg_pipe(int ret_fds[2]);
int rg_socketpair(int ret_fds[2]);

/* The address of a unix socket: a path, or with '@' in front a name in the abstract name space. Its
 * length; 0: the name is too long. */
socklen_t rg_unix_address(const char *name, struct sockaddr_un *ret_address);

/* Accepting on one listening socket, with a pause when the process is out of descriptors: the
 * socket stays readable then, and whoever polls it would turn in circles. Zeroed at first. */
struct rg_acceptor {
    uint64_t resume_ns; /* CLOCK_MONOTONIC; 0: no pause */
    bool told;
};
#define RG_ACCEPT_PAUSE_MS 100

/* The next connection, non-blocking and close-on-exec: a descriptor, or -EAGAIN (nobody is there),
 * or -EMFILE (no descriptor or no memory for it, now or less than RG_ACCEPT_PAUSE_MS ago), or
 * -errno. *ret_tell: this is the first time that it was -EMFILE, and worth a line in the log. */
int rg_accept(struct rg_acceptor *acceptor, int listen_fd, bool *ret_tell);
/* True while there is no use in polling listen_fd. */
bool rg_accept_pauses(const struct rg_acceptor *acceptor);

/* Read a whole file, at most max_nbytes (-EFBIG beyond). *ret_data is NUL-terminated and the
 * caller's. ret_nbytes may be NULL. 0 or -errno. Works on /proc files. */
int rg_read_file(const char *path, size_t max_nbytes, char **ret_data, size_t *ret_nbytes);
/* The same of what is open, from where it is. */
int rg_read_fd(int fd, size_t max_nbytes, char **ret_data, size_t *ret_nbytes);
/* The same of a text that the user has named, without a byte order mark in front; what says in the
 * error what it is ("host file"), whose exit_code is 2. */
int rg_read_named(const char *what, const char *path, size_t max_nbytes, char **ret_data,
                  size_t *ret_nbytes, struct rg_error *err);
/* Behind the byte order mark that the text may begin with. */
char *rg_skip_byte_order_mark(char *text);
/* The same for a path where somebody else may have put anything: -EINVAL for what is no regular
 * file, which is not even opened, as a fifo would wait and a device might do something. follow:
 * whether the path itself may be a symbolic link (-EINVAL, -ELOOP). */
int rg_read_regular(const char *path, bool follow, size_t max_nbytes, char **ret_data,
                    size_t *ret_nbytes);

/* True where the file system of this descriptor belongs to this computer alone, so that a lock that
 * is free here is free everywhere. False for a network's, and for one of a kind we do not know. */
bool rg_fd_is_local(int fd);

/* Make a directory and its parents, as mkdir -p. 0 or -errno with the failing part named. */
int rg_mkdir_all(const char *path, mode_t mode, struct rg_error *err);

/* --- files in folders that others can write --------------------------------------------------- */

/* What we obey or keep secret must be ours alone to change, and what we write must not go where
 * somebody else has led us. Root counts as ourselves: it can change anything anyway. Nothing waits
 * for somebody at the other end of a fifo. */
#define RG_TRUST_UNCHANGED 0022 /* others may read it */
#define RG_TRUST_SECRET 0077

/* Read a whole file that is regular, belongs to us, and has none of the bits of forbidden in its
 * mode. *ret_data is NUL-terminated and the caller's; ret_nbytes may be NULL. 0; -EPERM: it is not
 * so; -EINVAL: no regular file; -EFBIG; another -errno. what and path begin err's text. */
int rg_read_trusted(const char *what, const char *path, mode_t forbidden, size_t max_nbytes,
                    char **ret_data, size_t *ret_nbytes, struct rg_error *err);

/* As open, for writing. In a folder that others can write no link and no file of somebody else is
 * used, unless it is the folder's owner's, and no file of ours that has a second name; no link at
 * all where others can exchange it, as no sticky bit keeps them from that. This is what the
 * kernel's fs.protected_symlinks and its like do where they are on. A descriptor or -errno; -EPERM
 * where the above holds, -ENXIO for a fifo that nobody reads. */
int rg_open_to_write(const char *path, int flags, mode_t mode);
/* What a negative number of rg_open_to_write means, for people. */
const char *rg_open_to_write_why(int r);

#endif
