/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doctor's judgement: from what agents found on their hosts (agent/look/doctor.h has the lines)
 * and who reached whom, to findings of ok, warn or fail, each with its value and one remedy. All
 * thresholds and remedies are here, so that the agent only measures. `reigen doctor` prints the
 * findings; `reigen run --require` wants some of them to be good.
 *
 * What agents say is text from outside: unknown or broken lines are skipped, a fact that is missing
 * is "not known".
 *
 * Ownership: findings own their texts. Thread rule: pure functions, any thread; nothing blocks.
 */
#ifndef RG_LAUNCH_DOCTOR_DOCTOR_H
#define RG_LAUNCH_DOCTOR_DOCTOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "launch/net/network.h"

struct rg_doctor_host {
    const char *name;
    const char *facts;                /* lines, as agent/look/doctor.h describes them */
    const struct rg_strv *addresses;  /* "ADDRESS/PREFIX INTERFACE" */
    int nranks;                       /* that are to run there */
    int64_t clock_ns;                 /* the host's clock minus the launcher's, */
    uint64_t clock_bound_ns;          /* give or take */
};

/* A host that could not be started. */
struct rg_doctor_unstarted {
    char *name;
    char *cause; /* with its remedy */
};

/* All of it borrowed. */
struct rg_doctor_input {
    const struct rg_doctor_host *hosts;
    int nhosts;
    bool contained;                     /* the ranks run in containers: remedies name options */
    const struct rg_network *network;   /* all outcomes are known; NULL: was not looked at */
    const struct rg_error *network_err; /* errnum 0: a network connects the hosts */
    const struct rg_doctor_unstarted *unstarted; /* those that are not among hosts */
    int nunstarted;
    const struct rg_strv *required;     /* what of it is missing is a finding; NULL: nothing */
};

enum rg_finding_level { RG_FINDING_OK, RG_FINDING_WARN, RG_FINDING_FAIL };

struct rg_finding {
    int host;             /* index; from nhosts on: of those not started; -1: of the job */
    enum rg_finding_level level;
    char check[32];       /* "shm": one word, stable */
    char *value;          /* "64.0 MiB": one line */
    char *remedy;         /* "" when ok */
    struct rg_strv settings; /* NAME=VALUE: variables by which a job uses what was found */
};

struct rg_findings {
    struct rg_finding *v;
    size_t count;
};

/* Judge everything, host by host. 0 or -ENOMEM. */
int rg_doctor_judge(const struct rg_doctor_input *input, struct rg_findings *ret_findings);
void rg_findings_fini(struct rg_findings *findings);

/* Whether every host has what is required (words as job/require.h takes them). 0; or
 * -EOPNOTSUPP, err names the first host that has not, what it has, and the remedy; exit code 69. */
int rg_doctor_require(const struct rg_doctor_input *input, struct rg_error *err);

/* "ok", "warn", "fail". */
const char *rg_finding_level_name(enum rg_finding_level level);

#endif
