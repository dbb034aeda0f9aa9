/* SPDX-License-Identifier: Apache-2.0 */
/* A job that requires something of its hosts fails before it starts, and with all that is missing.
 * */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "launch/doctor/doctor.h"
#include "launch/doctor/doctor_facts.h"
#include "base/exitcode.h"

const char *rg_doctor_remedy(const char *check, bool contained)
{
    static const struct {
        const char *check, *in_container, *on_host;
    } table[] = {
        { "shm", "start the containers with --shm-size 1g, or more",
          "as root on that host: mount -o remount,size=50% /dev/shm" },
        { "memlock", "start the containers with --ibdevices, or --container-option "
          "--ulimit=memlock=-1",
          "raise memlock in /etc/security/limits.conf and log in again" },
        { "memory", "run fewer ranks there, or raise the container's limit: --container-option "
          "--memory=SIZE",
          "run fewer ranks there, such as -H HOST:1" },
        { "cpus", "run fewer ranks there, or raise the container's limit: --container-option "
          "--cpus=N",
          "run fewer ranks there, such as -H HOST:1" },
        { "nofile", "start the containers with --container-option --ulimit=nofile=65536",
          "raise nofile in /etc/security/limits.conf and log in again" },
        { "nproc", "start the containers with --container-option --ulimit=nproc=65536",
          "raise nproc in /etc/security/limits.conf and log in again" },
        { "vmem", "lift it (ulimit -v unlimited) for what makes the containers, or take another "
          "--container-runtime",
          "lift it: ulimit -v unlimited in that host's login files, or as in "
          "/etc/security/limits.conf" },
        { "fsize", "start the containers with --container-option --ulimit=fsize=-1",
          "raise fsize in /etc/security/limits.conf and log in again" },
        { "disk", "make room on that host, or mount a larger directory with --mount",
          "make room on that host" },
        { "rdma", "start the containers with --ibdevices, on hosts that have RDMA devices",
          "load the drivers of the RDMA device on that host, or leave the host out" },
        { "gpu", "start the containers with --gpus all, on hosts with NVIDIA's container toolkit",
          "install NVIDIA's driver on that host, or leave the host out" },
        { "mpi", "use an image that has an MPI, or run without: --engine native",
          "install an MPI there (Debian: apt-get install openmpi-bin), or run without" },
        { "python", "use an image that has Python", "install python3 on that host" },
        { "package", "use an image that has this package",
          "install it for the Python that is first in PATH there" },
        { "clock", "let chrony or NTP set that host's clock",
          "let chrony or NTP set that host's clock" },
        { "cma", "allow it: --container-option --cap-add=SYS_PTRACE",
          "allow it: sysctl kernel.yama.ptrace_scope=0" },
    };

    for (size_t i = 0; i < rg_array_len(table); i++) {
        if (strcmp(table[i].check, check) == 0)
            return contained ? table[i].in_container : table[i].on_host;
    }
    return "";
}

/* How much of it the host has; 0: none. value: what to say of it. */
static uint64_t measure(const struct rg_doctor_host *host, const char *name,
                        char value[RG_FACT_MAX])
{
    static const struct {
        const char *fact;
        int at; /* which of its numbers */
    } sizes[] = { { "shm", 0 }, { "memlock", 0 }, { "memory", 0 }, { "disk", 1 } };
    const char *facts = host->facts ? host->facts : "";
    uint64_t n[4] = { 0 };

    strcpy(value, "none");
    for (size_t i = 0; i < rg_array_len(sizes); i++) {
        if (strcmp(name, sizes[i].fact) != 0)
            continue;
        rg_fact_numbers(facts, name, sizes[i].at + 1, n);
        rg_size_text(n[sizes[i].at], value, RG_FACT_MAX);
        return n[sizes[i].at];
    }
    if (strcmp(name, "cma") == 0) {
        bool known = rg_fact_numbers(facts, name, 4, n);
        snprintf(value, RG_FACT_MAX, "%s", known ? strerror((int) n[0]) : "not known");
        return known && n[0] == 0;
    }
    if (strcmp(name, "cpus") == 0) {
        double cpus = rg_fact_cpus(facts);
        snprintf(value, RG_FACT_MAX, "%.3g", cpus);
        return (uint64_t) cpus;
    }
    if (strcmp(name, "gpu") == 0 || strcmp(name, "nofile") == 0) {
        rg_fact_numbers(facts, name, 1, n);
        snprintf(value, RG_FACT_MAX, "%llu", (unsigned long long) n[0]);
        return n[0];
    }
    if (strcmp(name, "rdma") == 0) {
        bool active = false;
        for (int i = 0; !active && rg_fact_find(facts, name, i, value); i++)
            active = strstr(value, "ACTIVE") != NULL;
        return active && rg_fact_numbers(facts, "rdma-devices", 1, n) && n[0];
    }
    if (strcmp(name, "mpi") == 0 || strcmp(name, "python") == 0)
        return rg_fact_find(facts, name, 0, value);
    return rg_fact_package(facts, name, value);
}

static bool clock_holds(const struct rg_doctor_host *host, uint64_t limit_ms,
                        char value[RG_FACT_MAX])
{
    int64_t off = host->clock_ns < 0 ? -host->clock_ns : host->clock_ns;

    char by[64], bound[64];

    snprintf(value, RG_FACT_MAX, "%s %s, give or take %s",
             rg_time_text((uint64_t) off, by, sizeof(by)), host->clock_ns < 0 ? "behind" : "ahead",
             rg_time_text(host->clock_bound_ns, bound, sizeof(bound)));
    return (uint64_t) off + host->clock_bound_ns <= limit_ms * RG_NS_PER_MS;
}

bool rg_doctor_lacks(const struct rg_doctor_input *input, int host,
                     const struct rg_requirement *wanted, char ret_has[RG_FACT_MAX],
                     const char **ret_remedy)
{
    const struct rg_doctor_host *h = &input->hosts[host];
    const char *remedy = rg_doctor_remedy(wanted->name, input->contained);
    bool holds = strcmp(wanted->name, "clock") == 0
                     ? clock_holds(h, wanted->amount, ret_has)
                     : measure(h, wanted->name, ret_has) >= wanted->amount;

    *ret_remedy = *remedy ? remedy : rg_doctor_remedy("package", input->contained);
    return !holds;
}

static int require_one(const struct rg_doctor_input *input, const char *word, struct rg_error *err)
{
    struct rg_requirement wanted;
    const char *remedy;
    char has[RG_FACT_MAX];
    int r = rg_requirement_parse("--require", word, &wanted, err);

    for (int i = 0; r == 0 && i < input->nhosts; i++) {
        if (rg_doctor_lacks(input, i, &wanted, has, &remedy))
            return rg_error_set_exit(err, EOPNOTSUPP, RG_EXIT_UNAVAILABLE,
                                     "host %s: --require %s: it has %s; %s", input->hosts[i].name,
                                     word, has, remedy);
    }
    return r;
}

int rg_doctor_require(const struct rg_doctor_input *input, const struct rg_strv *required,
                      struct rg_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < required->count; i++)
        r = require_one(input, required->v[i], err);
    return r;
}
