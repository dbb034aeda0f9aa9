/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directories of a user on a host that outlive a job: where they are, whether one may be
 * trusted, our Python packages in it (container/bundle.h), whether a Python has its own, and the
 * removal of trees.
 *
 * Thread rule: any thread; blocks for file system calls.
 */
#ifndef RG_AGENT_STORE_STORE_H
#define RG_AGENT_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum rg_store_place { RG_STORE_RUNTIME, RG_STORE_VAR_TMP, RG_STORE_TMP, RG_STORE_HOME,
                      RG_STORE_PLACES };

/* $XDG_RUNTIME_DIR/reigen, /var/tmp/reigen-UID, /tmp/reigen-UID or ~/.cache/reigen into path; of
 * the last ~/.cache is made. False where a variable is not set, or there is no room. */
bool rg_store_place(enum rg_store_place place, char *path, size_t room);

/* A directory that is there, this user's, and that no other may write to. */
bool rg_store_is_private(const char *path);
/* A directory, made if it is missing, that is this user's alone and can be written: others could
 * change keys and programs in any other. */
bool rg_store_is_ours(const char *path);
/* And programs in it may run. */
bool rg_store_is_good(const char *path);
/* Open a directory that is in this one, and neither a link nor a mount, nor on another file system:
 * what is removed or written below never leads out. A descriptor, or -EXDEV, -ELOOP, -errno. */
int rg_store_open_below(int dir_fd, const char *name);
/* As rm -rf, without following links or mounts; what may not be removed stays. */
void rg_store_remove_tree(const char *path);
/* The same for what is in the directory that take_fd is open on. */
void rg_store_empty(int take_fd);

/* A bundle's name, MACHINE-DIGEST, begins with the machine that its libraries are for: is it this
 * one? */
bool rg_store_bundle_fits(const char *name);
/* Why the libraries of a bundle cannot be loaded by the programs of this system, whose root is root
 * ("": /): a clause about what it has in the place of glibc 2.28 or later. NULL: they can, or it
 * cannot be told. Reads the C library, so it blocks for some milliseconds. */
const char *rg_store_bundle_misfit(const char *root);
/* Write a file in this directory (or AT_FDCWD) in the place of an older one; what somebody has put
 * there meanwhile is not followed. 0 or -errno. */
int rg_store_write(int dir_fd, const char *name, const void *data, size_t nbytes, mode_t mode);
/* Unpack a bundle under another name, then give it its own, path; it is no error when that one is
 * there by then, as two jobs may do this at once. 0 or -errno; nothing stays under the first
 * name. */
int rg_store_keep_bundle(const uint8_t *data, size_t nbytes, const char *path,
                         struct rg_error *err);
/* Remove bundles in this directory that nobody has used for long, and half-made ones. */
void rg_store_sweep_bundles(const char *base);

/* Has this directory of packages (length bytes of site) one named horovod or reigen? */
bool rg_python_site_has(const char *site, size_t length);
/* Has the Python whose program lies in bin (length bytes of it)? Its directories are
 * ../lib/python3*\/{site,dist}-packages beside it. */
bool rg_python_prefix_has(const char *bin, size_t length);

#endif
