/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a process manager over PMI_FD (pmi_wire.h), spoken by this process itself: there
 * is one per process and it is said goodbye to once, so it outlives reigen_shutdown and ends when
 * the process does.
 *
 * Thread rule: one thread at a time. Functions block until their deadline.
 */
#ifndef RG_COLL_BOOT_PM_PMI_H
#define RG_COLL_BOOT_PM_PMI_H

#include <sys/types.h>

#include "coll/boot/pm/kvs.h"
#include "coll/boot/pm/pmi_wire.h"

#define RG_PMI_NAME_MAX 256       /* of a key-value space or a job */
#define RG_PMI_VALUE_CHARS_MAX 680 /* of a value: Slurm reads lines of up to 1024 bytes */
#define RG_PMI_VALUE_CHARS_MIN 64  /* a manager that allows less is of no use */
#define RG_PMI_GOODBYE_MS 2000

struct rg_pmi {
    int fd;                      /* borrowed from the environment */
    enum rg_pmi_version version;
    size_t value_chars;          /* of a value, without the NUL */
    char name[RG_PMI_NAME_MAX];  /* of the key-value space (PMI-1) or of the job (PMI-2) */
    struct rg_buf input;         /* what has been read and not yet used */
    char reply[RG_PMI_MESSAGE_MAX + 1]; /* the last one, taken apart */
};

/* Greet the manager, with PMI-1 or, where it does not have that, PMI-2. fd stays the caller's.
 * 0; -ETIMEDOUT, -ECONNRESET (it has gone), -EPROTO (it refused, or speaks another language). */
int rg_pmi_open(struct rg_pmi *pmi, int fd, int rank, uint64_t deadline_ns, struct rg_error *err);
/* Say that this process will end well, if nobody has said so. */
void rg_pmi_finalize(struct rg_pmi *pmi, uint64_t deadline_ns);
void rg_pmi_fini(struct rg_pmi *pmi);
/* As rg_kvs_ops; state is a struct rg_pmi. Values are written in base64. */
extern const struct rg_kvs_ops rg_pmi_kvs;
/* Bytes that fit into a value of so many characters. */
size_t rg_pmi_value_nbytes(size_t value_chars);

#endif
