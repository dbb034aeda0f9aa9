/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recorded step in a file: what --save writes and --model reads. docs/simulate.md has its fields.
 *
 * Thread rule: main thread; blocks for the disk.
 */
#ifndef RG_CMD_SIMULATE_MODELFILE_H
#define RG_CMD_SIMULATE_MODELFILE_H

#include "base/buf.h"
#include "base/error.h"
#include "simulate/profile.h"

#define RG_MODELFILE_NAME 80
#define RG_MODELFILE_MAX (16u << 20) /* bytes */

/* What was recorded, and of what. */
struct rg_modelfile {
    char name[RG_MODELFILE_NAME]; /* of the program */
    int nranks;                   /* that took the steps */
    struct rg_profile profile;
};

/* Append it as JSON; the buffer has the error. */
void rg_modelfile_put(struct rg_buf *text, const struct rg_modelfile *file);
/* 0; -EINVAL with err, which says what is wrong with the text; -ENOMEM. */
int rg_modelfile_parse(const char *text, struct rg_modelfile *ret_file, struct rg_error *err);
/* The same of a file, which err names; -ENOENT and the like as well. */
int rg_modelfile_read(const char *path, struct rg_modelfile *ret_file, struct rg_error *err);
void rg_modelfile_fini(struct rg_modelfile *file); /* of a zeroed one, too */

#endif
