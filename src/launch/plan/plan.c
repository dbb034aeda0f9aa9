/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank runs where is decided once, before anything starts: all are told the same. */
#include "launch/plan/plan.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/process/cpus.h"
#include "base/time.h"
#include "base/exitcode.h"
#include "base/str.h"
#include "job/engine.h"
#include "job/hostlist.h"
#include "job/platform.h"

static void make_job_id(char *id, size_t nbytes)
{
    uint32_t random = 0;
    time_t now = time(NULL);
    struct tm tm;

    if (getrandom(&random, sizeof random, 0) < 0)
        random = (uint32_t) getpid();
    gmtime_r(&now, &tm);
    snprintf(id, nbytes, "r-%04d%02d%02d-%02d%02d%02d-%08x", tm.tm_year + 1900, tm.tm_mon + 1,
             tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, random);
}

/* --ranks-per-host is said for all hosts. */
static int slots_of(const struct rg_job *job, size_t host)
{
    return job->ranks_per_host ? job->ranks_per_host : job->hosts[host].nslots;
}

/* Each job rank's index into job->hosts, by slot or dealt round; surplus ranks go on from the
 * front. */
static void deal(const struct rg_job *job, int nranks, int *host_of)
{
    rg_autofree int *used = calloc(job->nhosts, sizeof *used);
    int rank = 0;
    bool over = false;

    while (used && rank < nranks) {
        int before = rank;
        for (size_t h = 0; h < job->nhosts && rank < nranks; h++) {
            int room = over ? slots_of(job, h) : slots_of(job, h) - used[h];
            int take = job->map == RG_MAP_NODE ? (room > 0) : room;
            for (; take > 0 && rank < nranks; take--, used[h]++)
                host_of[rank++] = (int) h;
        }
        if (rank == before && over)
            return;
        over = over || rank == before;
    }
}

/* -H names all hosts of a job, so that it serves as a remedy only where there is one. */
static int refuse_more(const struct rg_job *job, int64_t slots, struct rg_error *err)
{
    const struct rg_host *first = &job->hosts[0];
    int hosts = (int) job->nhosts;
    rg_autofree char *more = hosts == 1 ? rg_strf("-H %s:%d", first->name, job->np)
                                        : rg_strf("--ranks-per-host %d",
                                                  (job->np + hosts - 1) / hosts);

    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                             "-np %d: there %s only %lld slot%s on %d host%s (%s:%d%s); run fewer "
                             "ranks, give more slots (%s), or say --oversubscribe", job->np,
                             slots == 1 ? "is" : "are", (long long)slots, slots == 1 ? "" : "s",
                             hosts, hosts == 1 ? "" : "s", first->name, first->nslots,
                             hosts > 1 ? ", ..." : "", more ? more : "-H");
}

static int count_slots(const struct rg_job *job, int *ret_nranks, struct rg_error *err)
{
    int64_t slots = 0;

    for (size_t i = 0; i < job->nhosts; i++)
        slots += slots_of(job, i);
    if (slots <= 0)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "no slots on any host; give some, such as "
                                 "-H localhost:4");
    /* An elastic job uses what there is, and -np of it are enough to begin. */
    int max_np = job->elastic.max_np;
    int64_t nranks = job->elastic.on ? (max_np && max_np < slots ? max_np : slots)
                     : job->np       ? job->np
                                     : slots;

    if (nranks > RG_JOB_RANKS_MAX)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "%lld slots; say with -np how many ranks to run, at "
                                 "most %d",
                                 (long long)slots, RG_JOB_RANKS_MAX);
    if (nranks > slots && !job->oversubscribe && job->ranks_per_host)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "-np %d: --ranks-per-host %d on %zu host%s leaves room for only "
                                 "%lld; run fewer ranks, or give --ranks-per-host %d",
                                 job->np, job->ranks_per_host, job->nhosts,
                                 job->nhosts == 1 ? "" : "s", (long long)slots,
                                 (job->np + (int)job->nhosts - 1) / (int)job->nhosts);
    if (nranks > slots && !job->oversubscribe)
        return refuse_more(job, slots, err);
    *ret_nranks = (int) nranks;
    return 0;
}

/* Keep the hosts that have ranks, in order, and sort the ranks by host. */
static int fill_hosts(const struct rg_job *job, const int *host_of, struct rg_plan *plan)
{
    int index = 0;

    for (size_t h = 0; h < job->nhosts; h++) {
        struct rg_plan_host *host = &plan->hosts[plan->nhosts];
        int first = index;
        for (int r = 0; r < plan->nranks; r++) {
            if (host_of[r] == (int) h) {
                plan->ranks[r] = (struct rg_plan_rank){ .rank = r, .host = plan->nhosts,
                                                        .local_rank = index - first };
                plan->by_host[index++] = r;
            }
        }
        if (index == first)
            continue;
        *host = (struct rg_plan_host){
            .name = strdup(job->hosts[h].name),
            .user = job->hosts[h].user ? strdup(job->hosts[h].user) : NULL,
            .nslots = slots_of(job, h),
            .first_rank_index = first,
            .nranks = index - first,
            .nplanned = index - first,
        };
        plan->nhosts++;
        if (!host->name || (job->hosts[h].user && !host->user))
            return -ENOMEM;
    }
    return 0;
}

/* Our part of an engine's job is the engine. */
static void reduce_to_engine(struct rg_plan *plan)
{
    plan->nranks = 1;
    plan->ranks[0] = (struct rg_plan_rank){ 0 };
    plan->by_host[0] = 0;
    for (int h = 0; h < plan->nhosts; h++) {
        plan->hosts[h].first_rank_index = h > 0;
        plan->hosts[h].nranks = h == 0;
    }
}

static int name_tasks(const struct rg_job *job, struct rg_plan *plan)
{
    int index;

    for (int r = 0; r < plan->nranks; r++) {
        const struct rg_role *role = rg_job_role_of(job, r, &index);
        plan->ranks[r].task = role ? rg_strf("%s-%d", role->name, index) : NULL;
        if (role && !plan->ranks[r].task)
            return -ENOMEM;
    }
    return 0;
}

static void fill_coordinates(struct rg_plan *plan)
{
    for (int r = 0; r < plan->nranks; r++) {
        struct rg_plan_rank *rank = &plan->ranks[r];
        rank->local_size = plan->hosts[rank->host].nranks;
        for (int h = 0; h < plan->nhosts; h++) {
            bool has = plan->hosts[h].nranks > rank->local_rank;
            rank->cross_size += has;
            rank->cross_rank += has && h < rank->host;
        }
    }
}

bool rg_plan_knows_cpus(const struct rg_plan *plan, const struct rg_job *job, int host)
{
    return rg_host_is_local(plan->hosts[host].name) && !job->container.image &&
           !rg_platform_of(job)->own_cpus;
}

/* What our agent on this computer will come to: so that it can be told, and refused, before the
 * start. It alone binds, as on other hosts. */
static int bind_ranks(const struct rg_job *job, struct rg_plan *plan, int host,
                      const struct rg_cpus *cpus, struct rg_error *err)
{
    const struct rg_plan_host *h = &plan->hosts[host];

    if (!rg_plan_knows_cpus(plan, job, host))
        return 0;
    if (job->bind == RG_BIND_CORE && h->nplanned > cpus->ncores && !job->oversubscribe)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--bind-to core: %d ranks on %s, which has %d core%s; "
                                 "run fewer ranks there, or say --bind-to none",
                                 h->nranks, h->name, cpus->ncores, cpus->ncores == 1 ? "" : "s");
    /* More ranks than cores were asked for: bound ones would fight for the first few. */
    if (job->bind == RG_BIND_NONE || rg_job_has_engine(job) ||
        (job->bind == RG_BIND_CORE && h->nranks > cpus->ncores))
        return 0;
    for (int i = 0; i < h->nranks; i++) {
        struct rg_plan_rank *rank = &plan->ranks[plan->by_host[h->first_rank_index + i]];
        rg_autofree int *picked =
            rg_cpus_pick(cpus, job->bind == RG_BIND_SOCKET, i, &rank->ncpus);
        rank->cpus = picked ? rg_cpus_text(picked, rank->ncpus) : NULL;
        if (!rank->cpus)
            return rg_error_memory(err);
    }
    return 0;
}

static int fill_cpus(const struct rg_job *job, struct rg_plan *plan, struct rg_error *err)
{
    struct rg_cpus cpus;
    int rc = 0;

    if (rg_cpus_read(RG_CPUS_ROOT, &cpus) < 0)
        return 0;
    for (int h = 0; rc == 0 && h < plan->nhosts; h++) {
        if (!rg_host_is_local(plan->hosts[h].name))
            continue;
        plan->hosts[h].ncores = cpus.count;
        rc = bind_ranks(job, plan, h, &cpus, err);
    }
    rg_cpus_fini(&cpus);
    return rc;
}

/* A socket that listens there, or -errno. A connection that has ended occupies its port for a
 * minute, but not for who listens so, as those do who will use the port. */
static int listen_at(int port)
{
    const struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port) };
    rg_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (const struct sockaddr *) &addr, sizeof addr) < 0 || listen(fd, 1) < 0)
        return -errno;
    return rg_steal_fd(&fd);
}

/* Open sockets keep their ports from being found twice; they close when all are known. */
static int find_port(const struct rg_ports *ports, int *ret_fd)
{
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;
    unsigned start = (unsigned) (rg_now_ns() / 1000);
    int fd = -EADDRINUSE;

    for (int i = 0; i < rg_ports_count(ports) && fd == -EADDRINUSE; i++)
        fd = listen_at(rg_ports_nth(ports, start, i));
    *ret_fd = fd < 0 ? -1 : fd;
    if (fd < 0 || getsockname(fd, (struct sockaddr *) &addr, &len) < 0)
        return fd < 0 ? fd : -errno;
    return ntohs(addr.sin_port);
}

static int no_port(const struct rg_ports *ports, int errnum, struct rg_error *err)
{
    if (ports->first && errnum == EADDRINUSE)
        return rg_error_set_exit(err, EADDRINUSE, RG_EXIT_UNAVAILABLE,
                                 "--port-range %d-%d: all of these ports are in use here; give "
                                 "more of them", ports->first, ports->last);
    return rg_error_set(err, errnum, "cannot find a free port for MASTER_PORT: %s",
                        strerror(errnum));
}

static int find_ports(const struct rg_job *job, struct rg_plan *plan, struct rg_error *err)
{
    int count = job->tf_config ? plan->nranks : 0;
    rg_autofree int *fds = calloc((size_t) count + 1, sizeof *fds);
    bool here = plan->nhosts && rg_host_is_local(plan->hosts[0].name);
    int opened = 0, rc = 0;

    plan->tf_ports = count ? calloc((size_t) count, sizeof *plan->tf_ports) : NULL;
    if (!fds || (count && !plan->tf_ports))
        return rg_error_memory(err);
    for (; rc >= 0 && opened <= count; opened++) {
        rc = find_port(&job->ports, &fds[opened]);
        if (rc < 0 && job->ports.first && !here)
            rc = rg_ports_nth(&job->ports, 0, opened); /* what is in use here says nothing there */
        if (rc >= 0)
            *(opened ? &plan->tf_ports[opened - 1] : &plan->master_port) = rc;
    }
    for (int i = 0; i < opened; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return rc < 0 ? no_port(&job->ports, -rc, err) : 0;
}

static int make(const struct rg_job *job, struct rg_plan *plan, struct rg_error *err)
{
    int rc = count_slots(job, &plan->nranks, err);

    if (rc < 0)
        return rc;
    size_t n = (size_t) plan->nranks;
    rg_autofree int *host_of = calloc(n, sizeof *host_of);

    plan->ranks = calloc(n, sizeof *plan->ranks);
    plan->by_host = calloc(n, sizeof *plan->by_host);
    plan->hosts = calloc(job->nhosts, sizeof *plan->hosts);
    if (!host_of || !plan->ranks || !plan->by_host || !plan->hosts)
        return rg_error_memory(err);
    deal(job, plan->nranks, host_of);
    if (fill_hosts(job, host_of, plan) < 0)
        return rg_error_memory(err);
    plan->np = plan->nranks;
    if (job->nroles && name_tasks(job, plan) < 0)
        return rg_error_memory(err);
    if (rg_job_has_engine(job) && !job->nroles) {
        reduce_to_engine(plan);
        plan->engine = strdup(rg_job_engine_program(job));
        if (!plan->engine)
            return rg_error_memory(err);
    }
    fill_coordinates(plan);
    plan->room_hosts = plan->nhosts;
    plan->room_ranks = plan->nranks;
    make_job_id(plan->job_id, sizeof plan->job_id);
    rc = fill_cpus(job, plan, err);
    return rc < 0 ? rc : find_ports(job, plan, err);
}

int rg_plan_make(const struct rg_job *job, struct rg_plan *ret_plan, struct rg_error *err)
{
    struct rg_plan plan = { 0 };
    int rc = make(job, &plan, err);

    if (rc < 0)
        rg_plan_fini(&plan);
    else
        *ret_plan = plan;
    return rc;
}

static void clear(struct rg_plan *plan)
{
    for (int i = 0; plan->ranks && i < plan->nranks; i++) {
        free(plan->ranks[i].cpus);
        free(plan->ranks[i].task);
    }
    for (int i = 0; plan->hosts && i < plan->nhosts; i++) {
        free(plan->hosts[i].name);
        free(plan->hosts[i].user);
        free(plan->hosts[i].address);
    }
    free(rg_steal_ptr(&plan->ranks));
    free(rg_steal_ptr(&plan->by_host));
    free(rg_steal_ptr(&plan->hosts));
    plan->nhosts = plan->nranks = 0;
}

void rg_plan_fini(struct rg_plan *plan)
{
    clear(plan);
    free(plan->tf_ports);
    free(plan->task_ports);
    free(plan->engine);
    *plan = (struct rg_plan){ 0 };
}

/* --- hosts that come and go --------------------------------------------------------------------
 * Numbers are never used twice, so that whatever is said of a host or a place is said of that one,
 * however late it is heard. */

int rg_plan_open(struct rg_plan *plan, int room_hosts, int room_ranks)
{
    struct rg_plan_rank *ranks = calloc((size_t) room_ranks, sizeof(*ranks));
    int *by_host = calloc((size_t) room_ranks, sizeof(*by_host));
    struct rg_plan_host *hosts = calloc((size_t) room_hosts, sizeof(*hosts));

    if (!ranks || !by_host || !hosts) {
        free(ranks);
        free(by_host);
        free(hosts);
        return -ENOMEM;
    }
    clear(plan);
    plan->ranks = ranks;
    plan->by_host = by_host;
    plan->hosts = hosts;
    plan->room_hosts = room_hosts;
    plan->room_ranks = room_ranks;
    return 0;
}

int rg_plan_add_host(struct rg_plan *plan, const char *name, const char *user, int nslots)
{
    struct rg_plan_host *host = &plan->hosts[plan->nhosts];

    if (plan->nhosts == plan->room_hosts || nslots > plan->room_ranks - plan->nranks)
        return -ENOSPC;
    *host = (struct rg_plan_host){
        .name = strdup(name), .user = user ? strdup(user) : NULL, .nslots = nslots,
        .first_rank_index = plan->nranks, .nranks = nslots, .nplanned = nslots,
    };
    if (!host->name || (user && !host->user)) {
        free(host->name);
        free(host->user);
        return -ENOMEM;
    }
    for (int i = 0; i < nslots; i++) {
        int place = plan->nranks++;
        plan->by_host[place] = place;
        plan->ranks[place] = (struct rg_plan_rank){ .rank = place, .host = plan->nhosts,
                                                    .local_rank = i, .local_size = nslots };
    }
    plan->nhosts++;
    return 0;
}
