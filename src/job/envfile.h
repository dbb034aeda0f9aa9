/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of variables, as docker run --env-file reads them: NAME=VALUE on each line, with the value
 * as it stands (no quotes, no escapes, nothing is expanded); NAME alone is the caller's value.
 * Blank lines and those that begin with '#' are skipped, and so are blanks in front of a name.
 *
 * Thread rule: any thread. Only rg_envfile_read blocks (it reads the file).
 */
#ifndef RG_JOB_ENVFILE_H
#define RG_JOB_ENVFILE_H

#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

#define RG_ENVFILE_NBYTES_MAX (4u << 20)

/* Whether text begins with a variable's name that ends at '=' or at the end. what names the option,
 * or the file and line, in the error. 0 or -EINVAL. */
int rg_env_check_name(const char *what, const char *text, struct rg_error *err);

/* Append each entry, in the file's order. path names the file in errors, which tell the line. 0,
 * -EINVAL (no name, or a NUL byte), -ENOMEM; after an error some may have been appended. */
int rg_envfile_parse(const char *path, const char *text, size_t nbytes,
                     struct rg_strv *ret_entries, struct rg_error *err);

/* Read the file first. Also -ENOENT, -EACCES, -EFBIG, ...: all with exit_code 2. */
int rg_envfile_read(const char *path, struct rg_strv *ret_entries, struct rg_error *err);

#endif
