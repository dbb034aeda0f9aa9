/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two wire protocols that process managers speak over the descriptor PMI_FD: PMI-1 (MPICH's
 * Hydra, Intel's; Slurm's pmi2 plug-in too) and PMI-2 (Slurm). Facts: P. Balaji et al., "PMI: A
 * Scalable Parallel Process-Management Interface for Extreme-Scale Systems" (EuroMPI 2010), the
 * PMI-2 API's wire protocol in MPICH's documentation, and what Hydra and Slurm answer.
 *
 *      PMI-1   cmd=get kvsname=kvs_1_0 key=k\n           one line, pairs between blanks
 *      PMI-2   "    34" cmd=kvs-get;jobid=1.0;key=k;     six characters of length, pairs before
 *                                                        semicolons; ";;" is one in a value
 *
 * Both begin with one PMI-1 line in which the client names the version it wants.
 *
 * The connection is this process's own: there is one per process and it is said goodbye to once, so
 * it outlives reigen_shutdown and ends when the process does.
 *
 * Thread rule: one thread at a time. rg_pmi_open, rg_pmi_finalize and the functions of rg_pmi_kvs
 * block until their deadline; the others keep nothing and allocate nothing.
 */
#ifndef RG_COLL_BOOT_PM_PMI_H
#define RG_COLL_BOOT_PM_PMI_H

#include <sys/types.h>

#include "coll/boot/pm/kvs.h"

#define RG_PMI_MESSAGE_MAX 16384 /* bytes of one message */
#define RG_PMI_PAIRS_MAX 64      /* pairs of one message */
#define RG_PMI_LENGTH_NBYTES 6   /* in front of PMI-2's messages */

enum rg_pmi_version { RG_PMI_1 = 1, RG_PMI_2 = 2 };

/* A message taken apart; all strings lie in the text it was parsed from. The first key is "cmd". */
struct rg_pmi_message {
    int npairs;
    struct {
        const char *key, *value;
    } pairs[RG_PMI_PAIRS_MAX];
};

/* Whether the first nbytes of a stream hold a whole message. 1: it takes *ret_total bytes, of which
 * the last *ret_total - *ret_begin are to be parsed; 0: more is needed; -EBADMSG: it never will be
 * one (no number in front, or longer than RG_PMI_MESSAGE_MAX). */
int rg_pmi_scan(enum rg_pmi_version version, const char *bytes, size_t nbytes, size_t *ret_begin,
                size_t *ret_total);
/* Take apart text[0] ... text[nbytes - 1], writing NULs into it; text[nbytes] is written too. 0, or
 * -EBADMSG: a NUL inside, a pair without "=", a first key other than "cmd", or too many pairs. */
int rg_pmi_parse(enum rg_pmi_version version, char *text, size_t nbytes,
                 struct rg_pmi_message *ret_message);
/* The first value of key, or NULL. */
const char *rg_pmi_value(const struct rg_pmi_message *message, const char *key);
/* Whether it is this command, and says neither rc other than 0 nor found=FALSE. */
bool rg_pmi_succeeded(const struct rg_pmi_message *message, const char *command);

/* ---- a conversation */

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
