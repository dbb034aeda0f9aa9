/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record that --record has written (head/record/record.h), read. It may come from another
 * computer, be cut off in its middle, or be no record at all: each value is looked at before it is
 * used, a line that is none is passed over and counted, and sizes are bounded.
 *
 * Thread rule: pure functions on one thread's objects, but that reading waits for files.
 */
#ifndef RG_CMD_REPORT_READER_H
#define RG_CMD_REPORT_READER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "launch/host/driver.h"

#define RG_RECORDED_PHASES (RG_PHASE_LOST + 1)

/* All times are seconds since 1970; 0: it has not happened. Strings are borrowed from the record's
 * lines. */
struct rg_recorded_host {
    const char *name;
    int nranks;                    /* as planned */
    double at[RG_RECORDED_PHASES]; /* when it came to each phase, of the last start */
    const char *reason;            /* the last one that is not "" */
};

struct rg_recorded_rank {
    int host;         /* index into hosts; -1: nothing is known of this rank */
    int pid;
    const char *cpus; /* or NULL */
    double started_s, ended_s;
    const json_t *end; /* the event; NULL: it has not ended */
};

/* One start of the job; there are more with --max-restarts. */
struct rg_recorded_start {
    double at_s, running_s; /* all agents were ready */
    const char *job;
    const json_t *failure;  /* the event "restart" that followed; NULL: none did */
};

/* Sums since the rank called init, or its epoch began, and at what time they were so. */
struct rg_recorded_row {
    int rank, host; /* host: -1: not known */
    double at_s;
    double operations, nbytes, steps;
    double step_s, blocked_s, waited_s, caused_s, cpu_s;
    double resident;
    bool ended;
};

struct rg_recorded_sample {
    double at_s;
    int start;
    uint32_t epoch;
    struct rg_recorded_row *rows; /* by rank, in their order */
    size_t nrows;
};

struct rg_recorded {
    json_t *events, *tails; /* arrays of the lines; own all strings but the command */
    const char *version, *platform, *cwd, *image, *timeline;
    char *command;          /* in one line */
    bool elastic;
    double began_s, last_s; /* of the first and the last line */
    int np;
    struct rg_recorded_start *starts;
    size_t nstarts, starts_room;
    struct rg_recorded_host *hosts;
    size_t nhosts, hosts_room;
    struct rg_recorded_rank *ranks; /* by number; of an elastic job by place */
    size_t nranks, ranks_room;
    struct rg_recorded_sample *samples;
    size_t nsamples, samples_room; /* at most 4096: of more, every second one is dropped */
    size_t nrows;           /* of all of them, at most 500,000 where there are two or more */
    const json_t *verdict;  /* the event; NULL: there was none */
    bool ended;             /* the last line is there */
    int exit_code;          /* ... and says this */
    size_t nskipped;        /* lines that are none */
    double nlost;           /* events that could not be written */
};

/* From the texts of its three files. 0; -EBADMSG: it is no record, or a newer one, with err;
 * -ENOMEM. */
int rg_recorded_parse(const char *events, const char *samples, const char *tails,
                      struct rg_recorded *ret_record, struct rg_error *err);
/* From a folder. Also -errno of what could not be read; exit_code is 2 or 77. */
int rg_recorded_read(const char *dir, struct rg_recorded *ret_record, struct rg_error *err);
void rg_recorded_fini(struct rg_recorded *record); /* of a zeroed one, too */

/* Whether it is a copy that was made while the job ran. */
bool rg_recorded_is_copy(const struct rg_recorded *record);

/* A member of an event: text ("" where it is none), and a number that is finite and no less than 0
 * (0 where it is none). */
const char *rg_recorded_text(const json_t *event, const char *name);
double rg_recorded_number(const json_t *event, const char *name);

#endif
