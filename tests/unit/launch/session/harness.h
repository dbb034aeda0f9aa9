/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job run by a real session, the local driver and the real agent, with all that the session
 * reports collected. A test fills in job and hooks, calls run_job, and looks at the fields.
 */
#ifndef RG_TESTS_UNIT_LAUNCH_HEAD_HARNESS_H
#define RG_TESTS_UNIT_LAUNCH_HEAD_HARNESS_H

#include "launch/host/driver.h"
#include "launch/session/session.h"
#include "unit.h"

#define HARNESS_RANKS_MAX 16

struct harness {
    struct rg_job job;
    struct rg_plan plan;
    struct rg_loop *loop;
    struct rg_session *session;
    struct rg_timer timer, watchdog;
    /* hooks, may be NULL */
    void (*on_running)(struct harness *h);
    void (*on_output)(struct harness *h, int rank, int stream, size_t nbytes);
    void (*on_started)(struct harness *h, int rank);
    void (*on_input_ready)(struct harness *h);
    bool discard; /* count output, do not keep it */
    /* what was reported */
    struct rg_buf out[HARNESS_RANKS_MAX][2];
    uint64_t nbytes_out;
    int nends[HARNESS_RANKS_MAX][2]; /* stream ends */
    int pids[HARNESS_RANKS_MAX];
    char notes[4096], phases[1024];
    struct rg_rank_end ends[HARNESS_RANKS_MAX];
    struct rg_verdict verdict; /* its cause is copied, its ends are those above */
    char cause[1024], lines[10][1024];
    size_t nlines;
    int first; /* rank, or -1 */
    int create_result;
    struct rg_error create_err;
    bool ended;
};

/* A fresh harness for np ranks of sh -c script (NULL: no command yet). */
struct harness *harness_make(int np, const char *script);
void harness_free(struct harness *h);
/* Until on_ended; fails the test after 20 s. */
void run_job(struct harness *h);
/* Output of a rank's stream as text. */
const char *output_of(struct harness *h, int rank, int stream);
/* True once no process has this text in its command line; waits for that (unit_until). */
bool all_gone(const char *text);
/* How many processes have it now. */
int count_with(const char *text);
/* A text no other process has: for command lines to be found by all_gone. */
const char *unique_text(void);

#endif
