/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files for a real sshd that an ordinary user runs in containers, and for the ssh that calls it.
 *
 * The server's directory, which all nodes see, holds host keys (rsa, ecdsa, ed25519), sshd_config,
 * ssh_config, moduli where the system has them, and known_hosts with one line per host key for
 * every host on the port: so clients can be strict without having seen a host before. The user's
 * part is a key id_rsa_mpi that may log in, and a block of ~/.ssh/config between two marks.
 *
 * What is there stays: keys are never replaced, and a second call with the same values changes
 * nothing. Two calls at once, from two nodes, agree by a lock in the directory.
 *
 * Thread rule: main thread. All functions block: on files and on ssh-keygen.
 */
#ifndef RG_CMD_COMPAT_SSHCONFIG_H
#define RG_CMD_COMPAT_SSHCONFIG_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "job/options/member.h"

#define RG_SSHCONFIG_PORT 12345
#define RG_SSHCONFIG_FILE_MAX (1 << 20) /* of the user's ~/.ssh/config, in bytes */

struct rg_sshconfig {
    const char *dir;     /* of the server, absolute: no quotes, no '%', no control characters */
    const char *ssh_dir; /* of the user, absolute, likewise: ~/.ssh */
    int port;            /* 1 to 65535, not 22: known_hosts holds keys for all hosts on it */
    const char *hosts;   /* patterns of ~/.ssh/config, separated by blanks; NULL: no block */
    bool dry_run;        /* change nothing */
    struct rg_buf *said; /* gets one line for each file; borrowed */
};

/* The command's table. */
extern const struct rg_script_option rg_sshconfig_options[];

/* The server's directory. 0; -ENOENT (exit code 69) when ssh-keygen is not here; -EINVAL for a path
 * that cannot be written into such a file; what a file operation or ssh-keygen failed with. What
 * was made before a failure stays. */
int rg_sshconfig_server(const struct rg_sshconfig *config, struct rg_error *err);

/* Make the host keys of a server's directory that rg_sshconfig_server made known for config->port
 * too; nothing happens to a directory of somebody else's making. 0 or -errno with err. */
int rg_sshconfig_port(const struct rg_sshconfig *config, struct rg_error *err);

/* The user's key, authorized_keys and block; errors as above, and -EFBIG for a ~/.ssh/config above
 * RG_SSHCONFIG_FILE_MAX. */
int rg_sshconfig_user(const struct rg_sshconfig *config, struct rg_error *err);

/* The text of ~/.ssh/config with the block in it: in the place of one that is there, else in front
 * of all, since ssh takes the first value it finds. old may be "". The caller's. 0; -EINVAL when
 * old has the first mark and not the second; -ENOMEM. */
int rg_sshconfig_block(const struct rg_sshconfig *config, const char *old, char **ret_text,
                       struct rg_error *err);

#endif
