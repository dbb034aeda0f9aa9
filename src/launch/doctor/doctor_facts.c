/* SPDX-License-Identifier: Apache-2.0 */
/* Facts come from hosts as lines of words; here is the one place that takes them apart, and that
 * measures them by what a job requires. */
#include "launch/doctor/doctor_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"

/* --- lines ------------------------------------------------------------------------------------ */

bool rg_fact_find(const char *facts, const char *name, int index, char ret_value[RG_FACT_MAX])
{
    size_t length = strlen(name);

    for (const char *line = facts; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t n = strcspn(line, "\n");
        bool named = strncmp(line, name, length) == 0 && (line[length] == ' ' || n == length);
        if (!named || index-- > 0)
            continue;
        const char *value = n == length ? "" : line + length + 1;
        snprintf(ret_value, RG_FACT_MAX, "%.*s", (int) strcspn(value, "\n"), value);
        for (char *p = ret_value; *p; p++)
            *p = (unsigned char) *p < ' ' || *p == 127 ? '?' : *p;
        return true;
    }
    return false;
}

bool rg_fact_has(const char *facts, const char *name)
{
    char value[RG_FACT_MAX];

    return rg_fact_find(facts, name, 0, value);
}

bool rg_fact_numbers(const char *facts, const char *name, int count, uint64_t *ret_numbers)
{
    char value[RG_FACT_MAX], *p = value, *end;

    if (!rg_fact_find(facts, name, 0, value))
        return false;
    for (int i = 0; i < count; i++, p = end) {
        p += strspn(p, " ");
        if (strcmp(p, "unlimited") == 0) {
            ret_numbers[i] = UINT64_MAX;
            end = p + strlen(p);
            continue;
        }
        if (*p < '0' || *p > '9')
            return false;
        ret_numbers[i] = strtoull(p, &end, 10);
    }
    return true;
}

double rg_fact_cpus(const char *facts)
{
    uint64_t cpus, quota[2];

    if (!rg_fact_numbers(facts, "cpus", 1, &cpus))
        return 0;
    if (rg_fact_numbers(facts, "quota", 2, quota) && quota[1] &&
        (double) quota[0] / (double) quota[1] < (double) cpus)
        return (double) quota[0] / (double) quota[1];
    return (double) cpus;
}

bool rg_fact_package(const char *facts, const char *package, char ret_version[RG_FACT_MAX])
{
    char value[RG_FACT_MAX];
    size_t n = strlen(package);

    for (int i = 0; rg_fact_find(facts, "package", i, value); i++) {
        if (strncmp(value, package, n) == 0 && value[n] == ' ') {
            memmove(ret_version, value + n + 1, strlen(value + n + 1) + 1);
            return true;
        }
    }
    return false;
}

const char *rg_time_text(uint64_t ns, char *buf, size_t room)
{
    static const struct {
        unsigned long long s, part;
        const char *large, *small;
    } units[] = { { 86400, 3600, "d", "h" }, { 3600, 60, "h", "min" }, { 60, 1, "min", "s" } };
    unsigned long long s = ns / RG_NS_PER_S + (ns % RG_NS_PER_S >= RG_NS_PER_S / 2);

    for (size_t i = 0; i < rg_array_len(units); i++) {
        if (s < units[i].s)
            continue;
        snprintf(buf, room, "%llu %s %llu %s", s / units[i].s, units[i].large,
                 s % units[i].s / units[i].part, units[i].small);
        return buf;
    }
    if (ns >= RG_NS_PER_S)
        snprintf(buf, room, "%.3g s", (double) ns / 1e9);
    else
        snprintf(buf, room, "%.3f ms", (double) ns / 1e6);
    return buf;
}

/* --- what is required ------------------------------------------------------------------------- */

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
    if (strcmp(name, "memlock") == 0 && rg_fact_numbers(facts, "caps", 1, n) &&
        n[0] & RG_CAP_IPC_LOCK) {
        strcpy(value, "no limit");
        return UINT64_MAX;
    }
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

int rg_doctor_require(const struct rg_doctor_input *input, struct rg_error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && input->required && i < input->required->count; i++)
        r = require_one(input, input->required->v[i], err);
    return r;
}
