/* SPDX-License-Identifier: Apache-2.0 */
/* What a person would find by looking at each host in turn, found at once: rules over the facts
 * that agents have collected. */
#include "launch/doctor/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "launch/doctor/doctor_facts.h"
#include "launch/net/network_address.h"

#define SHM_WANTED (UINT64_C(1) << 30)
#define SHM_PER_RANK (UINT64_C(64) << 20)
#define MEMORY_PER_RANK (UINT64_C(512) << 20)
#define MEMLOCK_WANTED (UINT64_C(1) << 30)
#define DISK_WANTED (UINT64_C(1) << 30)
#define NOFILE_WANTED 1024
#define NPROC_WANTED 4096 /* threads count */
#define FSIZE_WANTED (UINT64_C(16) << 30)
#define CLOCK_WANTED_NS 100000000 /* beyond what the measurement leaves open */
#define SECCOMP_FILTER 2
#define PAIRS_MAX 64 /* that are named one by one */
#define WORD_MAX 64

const char *rg_finding_level_name(enum rg_finding_level level)
{
    static const char *const names[] = { "ok", "warn", "fail" };

    return names[level];
}

void rg_findings_fini(struct rg_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->v[i].value);
        free(findings->v[i].remedy);
        rg_strv_fini(&findings->v[i].settings);
    }
    free(findings->v);
    *findings = (struct rg_findings){ NULL, 0 };
}

/* --- making findings -------------------------------------------------------------------------- */

/* What one host's checks work on. */
struct judge {
    const struct rg_doctor_input *input;
    struct rg_findings findings;
    int host;                /* -1: the job */
    const struct rg_doctor_host *h;
    const char *facts;
    int reach_errnum;        /* of the pairs that do not reach each other: EMSGSIZE, or the last */
    int nfailed, nclosed;    /* such pairs; networks that are closed though another one is open */
    uint32_t least_us, most_us; /* of the tries that reached a host */
    bool failed;             /* out of memory */
};

static rg_printf(5, 6) void add(struct judge *j, const char *check, enum rg_finding_level level,
                                const char *remedy, const char *fmt, ...)
{
    struct rg_findings *list = &j->findings;
    struct rg_finding *more = reallocarray(list->v, list->count + 1, sizeof(*more));
    char *value = NULL, *copy = strdup(level == RG_FINDING_OK || !remedy ? "" : remedy);
    va_list args;

    if (more)
        list->v = more;
    va_start(args, fmt);
    if (vasprintf(&value, fmt, args) < 0)
        value = NULL;
    va_end(args);
    if (!more || !copy || !value) {
        free(copy);
        free(value);
        j->failed = true;
        return;
    }
    struct rg_finding *f = &list->v[list->count++];
    *f = (struct rg_finding){ .host = j->host, .level = level, .value = value, .remedy = copy,
                              .settings = RG_STRV_INIT };
    snprintf(f->check, sizeof(f->check), "%s", check);
}

static enum rg_finding_level warn_if(bool bad)
{
    return bad ? RG_FINDING_WARN : RG_FINDING_OK;
}

static const char *remedy(const struct judge *j, const char *check)
{
    return rg_doctor_remedy(check, j->input->contained);
}

/* --- one host --------------------------------------------------------------------------------- */

static void judge_system(struct judge *j)
{
    char kernel[RG_FACT_MAX] = "unknown kernel", libc[RG_FACT_MAX] = "unknown C library";
    char value[RG_FACT_MAX];

    if (rg_fact_find(j->facts, "error", 0, value))
        add(j, "doctor", RG_FINDING_FAIL, "see whether the container has /proc and allows programs "
            "to start", "the host could not be looked at: %s", value);
    else if (!rg_fact_has(j->facts, "end"))
        add(j, "doctor", RG_FINDING_WARN, "run reigen doctor again; a program on that host, such "
            "as nvidia-smi or python3, does not come to its end", "not all could be looked at");
    rg_fact_find(j->facts, "kernel", 0, kernel);
    rg_fact_find(j->facts, "libc", 0, libc);
    add(j, "system", RG_FINDING_OK, "", "Linux %s, %s", kernel,
        strcmp(libc, "none") == 0 ? "no C library" : libc);
}

static void judge_cpus(struct judge *j)
{
    double usable = rg_fact_cpus(j->facts);
    char limited[64] = "";
    uint64_t cpus;

    if (!rg_fact_numbers(j->facts, "cpus", 1, &cpus))
        return;
    if (usable < (double) cpus)
        snprintf(limited, sizeof(limited), ", limited to %.3g of them", usable);
    bool few = j->h->nranks > usable;
    add(j, "cpus", warn_if(few), remedy(j, "cpus"), "%llu core%s%s, for %d rank%s",
        (unsigned long long) cpus, cpus == 1 ? "" : "s", limited, j->h->nranks,
        j->h->nranks == 1 ? "" : "s");
}

static void judge_memory(struct judge *j)
{
    uint64_t memory[2];
    char a[WORD_MAX], b[WORD_MAX];

    if (rg_fact_numbers(j->facts, "memory", 2, memory))
        add(j, "memory", warn_if(memory[1] < MEMORY_PER_RANK * (uint64_t) j->h->nranks),
            remedy(j, "memory"), "%s, %s free, for %d rank%s",
            rg_size_text(memory[0], a, sizeof(a)), rg_size_text(memory[1], b, sizeof(b)),
            j->h->nranks, j->h->nranks == 1 ? "" : "s");
}

static void judge_shm(struct judge *j)
{
    uint64_t shm[2];
    char a[WORD_MAX], b[WORD_MAX];

    if (!rg_fact_numbers(j->facts, "shm", 2, shm))
        return;
    uint64_t per_rank = SHM_PER_RANK * (uint64_t) j->h->nranks;
    if (!shm[0])
        add(j, "shm", RG_FINDING_WARN, remedy(j, "shm"),
            "there is no /dev/shm: Reigen needs none, NCCL and PyTorch's DataLoader do");
    else
        add(j, "shm", warn_if(shm[0] < SHM_WANTED || shm[1] < per_rank), remedy(j, "shm"),
            "/dev/shm has %s, %s free%s", rg_size_text(shm[0], a, sizeof(a)),
            rg_size_text(shm[1], b, sizeof(b)),
            shm[0] < SHM_WANTED || shm[1] < per_rank
                ? ": NCCL, and PyTorch's DataLoader with workers, run out of it (bus error)" : "");
}

/* For whoever has IPC_LOCK there is no limit. A container that was given it, among few others,
 * hands it on to root's processes only. */
static void judge_memlock(struct judge *j)
{
    uint64_t memlock, caps[2] = { 0, 0 };
    char a[WORD_MAX];
    bool rdma = rg_fact_has(j->facts, "rdma");

    if (!rg_fact_numbers(j->facts, "memlock", 1, &memlock))
        return;
    rg_fact_numbers(j->facts, "caps", 2, caps);
    bool little = memlock < MEMLOCK_WANTED;
    rg_size_text(memlock, a, sizeof(a));
    if (little && caps[0] & RG_CAP_IPC_LOCK)
        add(j, "memlock", RG_FINDING_OK, "", "any amount can be locked, by IPC_LOCK");
    else if (little && caps[1] & RG_CAP_IPC_LOCK && !(caps[1] & RG_CAP_SYS_ADMIN))
        add(j, "memlock", RG_FINDING_WARN, "let the ranks be root, or have the nodes' container "
            "runtime raise the limit (containerd.service: LimitMEMLOCK=infinity)",
            "%s can be locked: the container was given IPC_LOCK, which does nothing for an "
            "ordinary user's processes", a);
    else
        add(j, "memlock", warn_if(rdma && little), remedy(j, "memlock"), "%s can be locked%s", a,
            rdma ? "" : "; only RDMA needs much");
}

static void judge_limits(struct judge *j)
{
    uint64_t nofile[2];

    judge_memlock(j);
    if (rg_fact_numbers(j->facts, "nofile", 2, nofile))
        add(j, "nofile", warn_if(nofile[0] < NOFILE_WANTED), remedy(j, "nofile"),
            "%llu open files, %llu at most", (unsigned long long) nofile[0],
            (unsigned long long) nofile[1]);
}

/* Those that are unlimited nearly everywhere, and break a job in ways that tell nothing. */
static void judge_rare_limits(struct judge *j)
{
    uint64_t nproc, vmem, fsize, memory[2] = { 0 };
    char a[WORD_MAX];

    rg_fact_numbers(j->facts, "memory", 2, memory);
    if (rg_fact_numbers(j->facts, "nproc", 1, &nproc) && nproc == UINT64_MAX)
        add(j, "nproc", RG_FINDING_OK, "", "unlimited processes and threads");
    else if (rg_fact_numbers(j->facts, "nproc", 1, &nproc))
        add(j, "nproc", warn_if(nproc < NPROC_WANTED), remedy(j, "nproc"),
            "%llu processes and threads of this user", (unsigned long long) nproc);
    if (rg_fact_numbers(j->facts, "vmem", 1, &vmem))
        add(j, "vmem", warn_if(vmem != UINT64_MAX && vmem < 2 * memory[0]), remedy(j, "vmem"),
            "%s of address space%s", rg_size_text(vmem, a, sizeof(a)),
            vmem == UINT64_MAX ? "" : " for a process; frameworks reserve far more than they use");
    if (rg_fact_numbers(j->facts, "fsize", 1, &fsize))
        add(j, "fsize", warn_if(fsize < FSIZE_WANTED), remedy(j, "fsize"), "%s for a file%s",
            rg_size_text(fsize, a, sizeof(a)),
            fsize == UINT64_MAX ? "" : ", in /dev/shm too: a longer one ends its writer (SIGXFSZ)");
}

/* Two things forbid it to siblings, and each has a remedy of its own. */
static void judge_cma(struct judge *j)
{
    uint64_t cma[4];

    if (!rg_fact_numbers(j->facts, "cma", 4, cma))
        return;
    bool yama = cma[2] >= 1 && !cma[3], filter = cma[1] == SECCOMP_FILTER;
    const char *slower = "ranks of this host copy through shared memory instead";
    if (cma[0] == 0)
        add(j, "cma", RG_FINDING_OK, "", "processes can read each other's memory");
    else if (cma[0] == ENOSYS)
        add(j, "cma", RG_FINDING_WARN, filter ? "allow it: --container-option "
            "--security-opt=seccomp=unconfined" : "use a kernel with CONFIG_CROSS_MEMORY_ATTACH",
            "process_vm_readv does not exist here%s; %s",
            filter ? " (a seccomp filter hides it)" : "", slower);
    else if (yama && filter)
        add(j, "cma", RG_FINDING_WARN, "allow it: --container-option --cap-add=SYS_PTRACE, which "
            "lifts both; or sysctl kernel.yama.ptrace_scope=0 on the host and --container-option "
            "--security-opt=seccomp=unconfined",
            "forbidden by yama (kernel.yama.ptrace_scope=%llu), and perhaps by the seccomp "
            "filter; %s", (unsigned long long) cma[2], slower);
    else if (yama)
        add(j, "cma", RG_FINDING_WARN, j->input->contained
            ? "allow it: --container-option --cap-add=SYS_PTRACE, or on the host: sysctl "
              "kernel.yama.ptrace_scope=0" : "as root on that host: sysctl "
              "kernel.yama.ptrace_scope=0",
            "forbidden by yama (kernel.yama.ptrace_scope=%llu); %s", (unsigned long long) cma[2],
            slower);
    else if (filter)
        add(j, "cma", RG_FINDING_WARN, "allow it: --container-option --cap-add=SYS_PTRACE, or "
            "--container-option --security-opt=seccomp=unconfined",
            "forbidden by the container's seccomp filter; %s", slower);
    else
        add(j, "cma", RG_FINDING_WARN, remedy(j, "cma"), "process_vm_readv: %s; %s",
            strerror((int) cma[0]), slower);
}

static void judge_rdma(struct judge *j)
{
    char value[RG_FACT_MAX];
    uint64_t ndevices = 0;

    rg_fact_numbers(j->facts, "rdma-devices", 1, &ndevices);
    for (int i = 0; rg_fact_find(j->facts, "rdma", i, value); i++) {
        bool active = strstr(value, "ACTIVE") != NULL;
        if (!ndevices)
            add(j, "rdma", RG_FINDING_WARN, remedy(j, "rdma"),
                "%s, but nothing in /dev/infiniband", value);
        else
            add(j, "rdma", warn_if(!active), "see ibstat on that host: is the cable in, does a "
                "subnet manager run?", "%s", value);
    }
    if (!rg_fact_has(j->facts, "rdma"))
        add(j, "rdma", RG_FINDING_OK, "", "none");
}

/* For what has no line: the programs that would tell of it may not have come to their turn. */
static const char *absent(const struct judge *j)
{
    return rg_fact_has(j->facts, "end") ? "none" : "not known";
}

static void add_text(void *judge, const char *check, enum rg_finding_level level,
                     const char *remedy, const char *value)
{
    add(judge, check, level, remedy, "%s", value);
}

static void judge_gpus(struct judge *j)
{
    if (rg_doctor_gpus(j->facts, absent(j), add_text, j) < 0)
        j->failed = true;
}

static void judge_impi(struct judge *j)
{
    struct rg_impi_advice advice;
    size_t before = j->findings.count;

    if (!rg_doctor_impi(j->facts, &advice))
        return;
    rg_autobuf struct rg_buf words = RG_BUF_INIT;

    for (size_t i = 0; i < advice.settings.count; i++)
        rg_buf_printf(&words, "%s%s", i ? " " : "", advice.settings.v[i]);
    add(j, "impi", warn_if(advice.lacks_dapl), "mount the host's /etc/dat.conf and install its "
        "DAPL libraries, or use Intel MPI 2019 or later, which needs none",
        "Intel MPI %s: %s, %s%s%s", advice.version, rg_buf_text(&words),
        *advice.device ? "for " : "as no RDMA device is up", advice.device,
        advice.lacks_dapl ? " would be used by DAPL, and /etc/dat.conf lists no provider" : "");
    j->failed |= rg_buf_status(&words) < 0 || rg_strv_status(&advice.settings) < 0;
    if (j->findings.count > before)
        j->findings.v[before].settings = advice.settings;
    else
        rg_strv_fini(&advice.settings);
}

static void judge_software(struct judge *j)
{
    static const char *const packages[] = { "numpy", "torch", "tensorflow", "jax", "horovod",
                                            "mpi4py" };
    char value[RG_FACT_MAX], version[RG_FACT_MAX];
    rg_autobuf struct rg_buf list = RG_BUF_INIT;

    add(j, "mpi", RG_FINDING_OK, "", "%s",
        rg_fact_find(j->facts, "mpi", 0, value) ? value : absent(j));
    if (!rg_fact_find(j->facts, "python", 0, value)) {
        add(j, "python", RG_FINDING_OK, "", "%s", absent(j));
        return;
    }
    for (size_t i = 0; i < rg_array_len(packages); i++) {
        if (rg_fact_package(j->facts, packages[i], version))
            rg_buf_printf(&list, ", %s%s%s", packages[i], *version == '?' ? "" : " ",
                          *version == '?' ? "" : version);
    }
    bool broken = rg_fact_find(j->facts, "no-horovod", 0, version);
    add(j, "python", warn_if(broken), "scripts that import it fail: install Reigen for that Python "
        "(pip install), or use another host or image; without Horovod nothing is wrong", "%s%s%s%s",
        value, rg_buf_text(&list), broken ? ". No horovod: " : "", broken ? version : "");
}

static void judge_disks(struct judge *j)
{
    char value[RG_FACT_MAX], a[WORD_MAX];
    unsigned long long total, room;
    int at = 0;

    for (int i = 0; rg_fact_find(j->facts, "disk", i, value); i++) {
        if (sscanf(value, "%llu %llu %n", &total, &room, &at) != 2 || !value[at])
            continue;
        add(j, "disk", warn_if(room < DISK_WANTED), remedy(j, "disk"), "%s free at %s",
            rg_size_text(room, a, sizeof(a)), value + at);
    }
}

static bool has_address(const struct rg_doctor_host *host, const char *address)
{
    size_t n = strlen(address);

    for (size_t i = 0; i < host->addresses->count; i++) {
        if (strncmp(host->addresses->v[i], address, n) == 0 && host->addresses->v[i][n] == '/')
            return true;
    }
    return false;
}

/* Where a name of the job's leads that leads elsewhere: appended to wrong. */
static void judge_name(const struct judge *j, const char *name, const char *address,
                       struct rg_buf *wrong)
{
    const struct rg_doctor_input *input = j->input;
    const char *before = rg_buf_nbytes(wrong) ? "; " : "";
    struct rg_net_address numeric;
    int host = 0, other = 0;

    while (host < input->nhosts && strcmp(input->hosts[host].name, name) != 0)
        host++;
    /* Everywhere localhost is the computer itself, and has to be. */
    if (host == input->nhosts || rg_net_address_parse(name, &numeric) == 0 ||
        strcasecmp(name, "localhost") == 0)
        return;
    if (rg_str_starts(address, "127.") || strcmp(address, "::1") == 0) {
        rg_buf_printf(wrong, "%s%s is %s, %s", before, name, address, host == j->host
                      ? "by which no other host reaches this one" : "which is this host itself");
        return;
    }
    if (has_address(&input->hosts[host], address))
        return;
    while (other < input->nhosts && !has_address(&input->hosts[other], address))
        other++;
    rg_buf_printf(wrong, "%s%s is %s, which is %s", before, name, address,
                  other < input->nhosts ? input->hosts[other].name : "no address of that host");
}

#define NAMES_REMEDY                                                                              \
    "in DNS or /etc/hosts (containers: --container-option --add-host=NAME:ADDRESS): Reigen needs " \
    "no names, but some programs resolve them"

static void judge_names(struct judge *j)
{
    rg_autobuf struct rg_buf unknown = RG_BUF_INIT, wrong = RG_BUF_INIT;
    bool several = j->input->nhosts > 1 &&
                   !(j->input->network && rg_network_is_one_place(j->input->network));
    char value[RG_FACT_MAX];
    int count = 0;

    for (; rg_fact_find(j->facts, "resolve", count, value); count++) {
        char *blank = strchr(value, ' ');
        if (!blank)
            continue;
        *blank = '\0';
        if (strcmp(blank + 1, "-") == 0)
            rg_buf_printf(&unknown, "%s%s", rg_buf_nbytes(&unknown) ? ", " : "", value);
        else if (several)
            judge_name(j, value, blank + 1, &wrong);
    }
    if (rg_buf_nbytes(&unknown))
        add(j, "names", RG_FINDING_WARN, "give the hosts entries " NAMES_REMEDY,
            "cannot be resolved: %s", rg_buf_text(&unknown));
    if (rg_buf_nbytes(&wrong))
        add(j, "names", RG_FINDING_WARN, "correct their entries " NAMES_REMEDY, "%s",
            rg_buf_text(&wrong));
    if (count && !rg_buf_nbytes(&unknown) && !rg_buf_nbytes(&wrong))
        add(j, "names", RG_FINDING_OK, "", "%d host name%s can be resolved", count,
            count == 1 ? "" : "s");
}

static void judge_interfaces(struct judge *j)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;

    for (size_t i = 0; i < j->h->addresses->count; i++) {
        const char *entry = j->h->addresses->v[i], *blank = strchr(entry, ' ');
        /* Link-local ones are on every interface and lead nowhere. */
        if (blank && strcmp(blank, " lo") != 0 && !rg_str_starts(entry, "fe80:"))
            rg_buf_printf(&list, "%s%s %.*s", rg_buf_nbytes(&list) ? ", " : "", blank + 1,
                          (int) (blank - entry), entry);
    }
    add(j, "interfaces", RG_FINDING_OK, "", "%s",
        rg_buf_nbytes(&list) ? rg_buf_text(&list) : "loopback only");
}

static void judge_routes(struct judge *j)
{
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    char value[RG_FACT_MAX], net[64], name[32], via[64];

    for (int i = 0; rg_fact_find(j->facts, "route", i, value); i++) {
        if (sscanf(value, "%63s %31s %63s", net, name, via) != 3)
            continue;
        rg_buf_printf(&list, "%s%s by %s", rg_buf_nbytes(&list) ? ", " : "",
                      strcmp(net, "0.0.0.0/0") == 0 ? "default" : net, name);
        if (strcmp(via, "-") != 0)
            rg_buf_printf(&list, " via %s", via);
    }
    add(j, "routes", RG_FINDING_OK, "", "%s", rg_buf_nbytes(&list) ? rg_buf_text(&list) : "none");
}

static void judge_clock(struct judge *j)
{
    int64_t off = j->h->clock_ns < 0 ? -j->h->clock_ns : j->h->clock_ns;

    char by[WORD_MAX], bound[WORD_MAX];

    add(j, "clock", warn_if(off > (int64_t) j->h->clock_bound_ns + CLOCK_WANTED_NS),
        remedy(j, "clock"), "%s %s this computer's, give or take %s",
        rg_time_text((uint64_t) off, by, sizeof(by)), j->h->clock_ns < 0 ? "behind" : "ahead of",
        rg_time_text(j->h->clock_bound_ns, bound, sizeof(bound)));
}

/* What was demanded and is not there. */
static void judge_required(struct judge *j)
{
    const struct rg_strv *required = j->input->required;
    struct rg_requirement wanted;
    char has[RG_FACT_MAX];
    const char *what_to_do;

    for (size_t i = 0; required && i < required->count; i++) {
        if (rg_requirement_parse("--require", required->v[i], &wanted, NULL) == 0 &&
            rg_doctor_lacks(j->input, j->host, &wanted, has, &what_to_do))
            add(j, "require", RG_FINDING_FAIL, what_to_do, "--require %s: it has %s",
                required->v[i], has);
    }
}

static void judge_leftovers(struct judge *j)
{
    uint64_t count;

    if (rg_fact_numbers(j->facts, "cleaned", 1, &count))
        add(j, "leftovers", RG_FINDING_OK, "", "what %llu killed job%s had left was removed",
            (unsigned long long) count, count == 1 ? "" : "s");
}

static void judge_host(struct judge *j, int host)
{
    j->host = host;
    j->h = &j->input->hosts[host];
    j->facts = j->h->facts ? j->h->facts : "";
    judge_system(j);
    judge_cpus(j);
    judge_memory(j);
    judge_shm(j);
    judge_limits(j);
    judge_rare_limits(j);
    judge_cma(j);
    judge_interfaces(j);
    judge_routes(j);
    judge_names(j);
    judge_rdma(j);
    judge_gpus(j);
    judge_software(j);
    judge_impi(j);
    judge_disks(j);
    judge_clock(j);
    judge_leftovers(j);
    judge_required(j);
}

/* --- the hosts together ----------------------------------------------------------------------- */

/* The length of a version's first numbers: so many, with dots between. */
static size_t begin_of(const char *version, int nparts)
{
    size_t n = strcspn(version, ".");

    while (--nparts > 0 && version[n])
        n += 1 + strcspn(version + n + 1, ".");
    return n;
}

/* The last word of PATH VERSION. */
static const char *version_of(const char *python)
{
    const char *blank = strrchr(python, ' ');

    return blank ? blank + 1 : python;
}

/* Their versions have the same first numbers, so many; 0: both are the same in all. */
static bool is_alike(const char *a, const char *b, int nparts)
{
    if (!nparts)
        return strcmp(a, b) == 0;
    a = version_of(a);
    b = version_of(b);
    size_t n = begin_of(a, nparts);
    return n == begin_of(b, nparts) && strncmp(a, b, n) == 0;
}

/* The first host whose package, or whose fact (package: NULL), is not like the first host's: that
 * makes jobs fail in odd ways. */
static void judge_alike(struct judge *j, const char *fact, const char *package, int nparts)
{
    char first[RG_FACT_MAX], other[RG_FACT_MAX];

    for (int h = 0; h < j->input->nhosts; h++) {
        const struct rg_doctor_host *host = &j->input->hosts[h];
        char *value = h ? other : first;
        if (!rg_fact_has(host->facts, "end") || (package && !rg_fact_has(host->facts, fact))) {
            if (h)
                continue;
            return;
        }
        strcpy(value, "none");
        if (package)
            rg_fact_package(host->facts, package, value);
        else
            rg_fact_find(host->facts, fact, 0, value);
        bool unknown = package && (*first == '?' || *value == '?');
        if (unknown || is_alike(first, value, nparts))
            continue;
        add(j, fact, RG_FINDING_WARN, "use the same image, or the same installation, on all "
            "hosts", "hosts differ: %s has %s%s%s; %s has %s%s%s", j->input->hosts[0].name,
            package ? package : "", package ? " " : "", first, host->name,
            package ? package : "", package ? " " : "", value);
        return;
    }
}

/* Of Pythons paths may differ, as those of a virtual environment and of the system do, and releases
 * that understand each other. NumPy's pickled arrays do not pass from 2 to 1. */
static void judge_software_alike(struct judge *j)
{
    judge_alike(j, "mpi", NULL, 0);
    judge_alike(j, "python", NULL, 2);
    judge_alike(j, "python", "torch", 2);
    judge_alike(j, "python", "tensorflow", 2);
    judge_alike(j, "python", "jax", 2);
    judge_alike(j, "python", "numpy", 1);
}

/* Ranks with different versions of it cannot work together. Where none is, its host is told. */
static void judge_nccl_alike(struct judge *j)
{
    char first[RG_FACT_MAX], other[RG_FACT_MAX];
    int with = -1;

    for (int h = 0; h < j->input->nhosts; h++) {
        const char *facts = j->input->hosts[h].facts;
        if (!facts || !rg_fact_has(facts, "gpu-name") ||
            !rg_doctor_nccl(facts, with < 0 ? first : other))
            continue;
        if (with >= 0 && strcmp(first, other) != 0) {
            add(j, "nccl", RG_FINDING_WARN, "use the same image, or the same installation, on all "
                "hosts", "hosts differ: %s has %s; %s has %s", j->input->hosts[with].name, first,
                j->input->hosts[h].name, other);
            return;
        }
        with = with < 0 ? h : with;
    }
}

#define REACH_REMEDY                                                                             \
    "open TCP between the hosts, ports from 1024 on (the kernel chooses them); or take another " \
    "network: --network-interface; containers: --network host"

static const char *reach_remedy(int errnum)
{
    return errnum == EMSGSIZE ? RG_NETWORK_MTU_REMEDY : REACH_REMEDY;
}

/* Whether the host has an address in the network of an address of another host. */
static bool shares_net(const struct rg_doctor_host *host, const struct rg_net_address *address)
{
    struct rg_net_address own;

    for (size_t i = 0; i < host->addresses->count; i++) {
        if (rg_net_address_parse(host->addresses->v[i], &own) == 0 && !own.bridge &&
            rg_net_address_is_in(address, &own))
            return true;
    }
    return false;
}

/* A network that both hosts are in and that is closed, where another one is open. */
static void judge_closed(struct judge *j, const struct rg_network_probe *probe)
{
    struct rg_net_address address;

    if (rg_net_address_parse(probe->address, &address) < 0 ||
        !shares_net(&j->input->hosts[probe->from], &address))
        return;
    add(j, "reach", RG_FINDING_WARN, reach_remedy(probe->errnum),
        "%s cannot reach %s at %s (%s): %s; another network is open",
        j->input->hosts[probe->from].name, j->input->hosts[probe->to].name, probe->address,
        probe->interface, rg_network_explain(probe->errnum));
}

/* Tries of one pair stand together. Returns where the next pair begins. */
static size_t judge_pair(struct judge *j, const struct rg_network_probe *all, size_t count,
                         size_t first)
{
    rg_autobuf struct rg_buf tried = RG_BUF_INIT;
    bool reached = false;
    size_t i = first;
    int errnum = 0;

    for (; i < count && all[i].from == all[first].from && all[i].to == all[first].to; i++) {
        if (all[i].state == RG_PROBE_REACHED) {
            reached = true;
            j->least_us = all[i].rtt_us < j->least_us ? all[i].rtt_us : j->least_us;
            j->most_us = all[i].rtt_us > j->most_us ? all[i].rtt_us : j->most_us;
            continue;
        }
        if (errnum != EMSGSIZE)
            errnum = all[i].errnum;
        rg_buf_printf(&tried, "%s%s (%s): %s", rg_buf_nbytes(&tried) ? "; " : "", all[i].address,
                      all[i].interface, rg_network_explain(all[i].errnum));
    }
    if (!reached && j->reach_errnum != EMSGSIZE)
        j->reach_errnum = errnum;
    if (!reached && j->nfailed++ < PAIRS_MAX)
        add(j, "reach", RG_FINDING_FAIL, reach_remedy(errnum), "%s cannot reach %s: %s",
            j->input->hosts[all[first].from].name, j->input->hosts[all[first].to].name,
            rg_buf_text(&tried));
    for (size_t k = first; reached && k < i; k++)
        if (all[k].state == RG_PROBE_FAILED && j->nclosed++ < PAIRS_MAX)
            judge_closed(j, &all[k]);
    return i;
}

static void judge_reach(struct judge *j)
{
    size_t count = 0;
    int npairs = 0;
    const struct rg_network_probe *all =
        j->input->network ? rg_network_all(j->input->network, &count) : NULL;

    for (size_t i = 0; i < count; npairs++)
        i = judge_pair(j, all, count, i);
    if (j->nfailed > PAIRS_MAX)
        add(j, "reach", RG_FINDING_FAIL, REACH_REMEDY, "and %d pairs more", j->nfailed - PAIRS_MAX);
    if (npairs && !j->nfailed)
        add(j, "reach", RG_FINDING_OK, "", "all %d pairs reach each other, in %.3f to %.3f ms",
            npairs, j->least_us / 1e3, j->most_us / 1e3);
}

/* Two names that lead to one machine: it gets the ranks of both, and the other one none. */
static void judge_places(struct judge *j)
{
    const struct rg_network *network = j->input->network;

    for (int h = 0; h < j->input->nhosts; h++) {
        int first = rg_network_place(network, h);
        if (first != h)
            add(j, "names", RG_FINDING_WARN, "do both names lead where they should (ssh HOST "
                "hostname)? The machine gets the ranks of both", "%s and %s are one machine",
                j->input->hosts[first].name, j->input->hosts[h].name);
    }
}

static void judge_network(struct judge *j)
{
    const struct rg_network *network = j->input->network;

    judge_reach(j);
    if (j->input->nhosts == 1 || !network)
        return;
    if (!rg_network_is_one_place(network))
        judge_places(j);
    if (j->input->network_err && j->input->network_err->errnum)
        add(j, "network", RG_FINDING_FAIL, reach_remedy(j->reach_errnum), "%s",
            j->nfailed ? "none connects all hosts" : j->input->network_err->text);
    else if (rg_network_is_one_place(network))
        add(j, "network", RG_FINDING_OK, "", "all hosts are this one machine");
    else
        add(j, "network", RG_FINDING_OK, "", "%s, on %s's %s", rg_network_cidr(network),
            j->input->hosts[0].name, rg_network_interface(network, 0));
}

int rg_doctor_judge(const struct rg_doctor_input *input, struct rg_findings *ret_findings)
{
    struct judge j = { .input = input, .least_us = UINT32_MAX };

    for (int i = 0; i < input->nhosts; i++)
        judge_host(&j, i);
    for (int i = 0; i < input->nunstarted; i++) {
        j.host = input->nhosts + i;
        add(&j, "start", RG_FINDING_FAIL, "repair it, or leave the host out", "%s",
            input->unstarted[i].cause);
    }
    j.host = -1;
    judge_network(&j);
    judge_software_alike(&j);
    judge_nccl_alike(&j);
    if (j.failed) {
        rg_findings_fini(&j.findings);
        return -ENOMEM;
    }
    *ret_findings = j.findings;
    return 0;
}
