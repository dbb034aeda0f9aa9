/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of ssh, made by its own ssh-keygen, and the files that hold one line per key: what `reigen
 * sshd` and `reigen sshconfig` share.
 *
 * `what` is the command's name, which begins every error text. Passphrases are empty: these keys
 * are used by programs.
 *
 * Thread rule: main thread. All but rg_keys_look_up block: on files, and until the program ends.
 */
#ifndef RG_CMD_COMPAT_KEYS_H
#define RG_CMD_COMPAT_KEYS_H

#include "base/error.h"

/* The path of a program in PATH or in the directories of the system's own programs, which are not
 * in everyone's PATH. The caller's; NULL: not found, or no memory. */
char *rg_keys_look_up(const char *name);

/* Run a program of OpenSSH's to its end, without input; what it says goes to standard error. 0;
 * -EIO with err when it ended badly, or what rg_spawn returns. */
int rg_keys_run(const char *what, char *const *argv, struct rg_error *err);

/* Make a key of a type (ed25519, ecdsa, rsa) in path, for the user alone, and path.pub beside it.
 * bits: "4096", or NULL for ssh-keygen's default. keygen: ssh-keygen's path. Both appear
 * whole, path last, or neither. 0 or -errno; -EIO: ssh-keygen said why; -EINVAL: one of the two is
 * a link, or no file, and nothing is made. */
int rg_keys_make(const char *what, const char *keygen, const char *type, const char *bits,
                 const char *path, struct rg_error *err);

/* The public half of a private key's file, "TYPE BASE64" without the comment; the caller's. 0 or
 * -errno (-ENOENT where there is no path.pub, -EINVAL where it is no key). */
int rg_keys_public(const char *what, const char *path, char **ret_text, struct rg_error *err);

/* Add a line to a file, with the comment " reigen", unless the file has it. A file that is not
 * there is made for the user alone. 1: added; 0: it was there; or -errno. */
int rg_keys_add_line(const char *what, const char *path, const char *line, struct rg_error *err);

/* Hosts that share a directory may all come at once: hold the lock of this name in it until the
 * descriptor is closed. -1: without a lock (the directory is read-only and complete, an old NFS)
 * it goes on. */
int rg_keys_lock(const char *dir, const char *name);

#endif
