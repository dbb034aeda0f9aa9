/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the lines that agent/look/doctor.h describes. Internal to launch/doctor. The text is
 * from outside: what is not of the form expected is "not there". Pure functions.
 */
#ifndef RG_LAUNCH_DOCTOR_DOCTOR_FACTS_H
#define RG_LAUNCH_DOCTOR_DOCTOR_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launch/doctor/doctor.h"
#include "job/require.h"

/* In the fact caps; linux/capability.h has the numbers. */
#define RG_CAP_IPC_LOCK (UINT64_C(1) << 14)
#define RG_CAP_SYS_ADMIN (UINT64_C(1) << 21)

#define RG_FACT_MAX 256 /* bytes of a value that are kept */

/* The value of the index-th line of this fact, control characters replaced. */
bool rg_fact_find(const char *facts, const char *name, int index, char ret_value[RG_FACT_MAX]);
/* Whether such a line is there. */
bool rg_fact_has(const char *facts, const char *name);
/* The first count numbers of the value; false when there are fewer. "unlimited" is UINT64_MAX. */
bool rg_fact_numbers(const char *facts, const char *name, int count, uint64_t *ret_numbers);
/* The version of a package; false: it is not there. */
bool rg_fact_package(const char *facts, const char *package, char ret_version[RG_FACT_MAX]);

/* Cores that can be used: those that the process may be on, less by the limit of its group. */
double rg_fact_cpus(const char *facts);

/* What Intel MPI should be told on a host. */
struct rg_impi_advice {
    char version[RG_FACT_MAX]; /* "2021.19" */
    char device[64];           /* the RDMA device that is meant; "": none is up */
    bool lacks_dapl;           /* this version would use the device by DAPL, which is not set up */
    struct rg_strv settings;   /* NAME=VALUE; the caller's */
};
/* False: the host has no Intel MPI in PATH, or not known which; ret_advice is untouched. Whether
 * memory sufficed, rg_strv_status of the settings tells. */
bool rg_doctor_impi(const char *facts, struct rg_impi_advice *ret_advice);

/* Take a finding: check and remedy are static, value is a line that is copied. Of what is well the
 * remedy means nothing. */
typedef void rg_finding_fn(void *arg, const char *check, enum rg_finding_level level,
                           const char *remedy, const char *value);
/* What is to be said of a host's GPUs, their driver, links and network, and of NCCL; absent: where
 * nothing of them is known. 0 or -ENOMEM. */
int rg_doctor_gpus(const char *facts, const char *absent, rg_finding_fn *add, void *arg);

/* The version of NCCL that a process there finds as a rule, and whose it is; NULL: none. */
const char *rg_doctor_nccl(const char *facts, char ret_version[RG_FACT_MAX]);

/* 0.25 ms, 12.5 s, "3 min 7 s", "1 h 0 min", "2 d 5 h". Returns buf. */
const char *rg_time_text(uint64_t ns, char *buf, size_t room);

/* What to do about a check: an option of reigen where a container hides what the host has. "" for a
 * check without a remedy of its own. Static. */
const char *rg_doctor_remedy(const char *check, bool contained);
/* Whether a host has less than this: what it has, and what to do. */
bool rg_doctor_lacks(const struct rg_doctor_input *input, int host,
                     const struct rg_requirement *wanted, char ret_has[RG_FACT_MAX],
                     const char **ret_remedy);

#endif
