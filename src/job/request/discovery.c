/* SPDX-License-Identifier: Apache-2.0 */
/* A command that names hosts is asked as often as somebody would look by hand. */
#include "job/request/discovery.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/str.h"
#include "base/time.h"
#include "job/discovered.h"
#include "job/engine.h"
#include "job/hostlist.h"
#include "job/options/apply.h"
#include "job/platform.h"

#define OPTION "--host-discovery-script"
#define PAUSE_MS 500
#define PERIOD "REIGEN_DISCOVERY_MS" /* from one call to the next, of an elastic job */
#define PERIOD_MAX_MS 3600000
#define ASK_MS 30000 /* for one call, as while an elastic job runs */

/* What the program has said. */
struct answer {
    struct rg_job hosts; /* these of it alone are used */
    int64_t room;        /* for so many ranks */
    int code;            /* its exit code; -1: it did not end in time */
};

static void answer_fini(struct answer *answer)
{
    rg_job_fini(&answer->hosts);
}

static int check(const struct rg_request *request, struct rg_error *err)
{
    const struct rg_job *job = &request->job;
    const struct rg_platform *own = rg_platform_of(job);

    if (job->on && !own->any_host)
        return rg_error_set(err, EINVAL, OPTION " %s: hosts are not named by others for %s; leave "
                            "it out, or --on %s", request->discovery, own->title, job->on);
    if (job->nhosts)
        return rg_error_set(err, EINVAL, OPTION " %s: other hosts are named, too; leave it out, or "
                            "-H and --hostfile", request->discovery);
    if (!job->np)
        return rg_error_set(err, EINVAL, OPTION " %s: -np is missing; say for how many ranks hosts "
                            "are waited for", request->discovery);
    return 0;
}

/* --ranks-per-host bounds what a host has room for, as in the plan. */
static void count(const struct rg_request *request, struct answer *answer)
{
    int most = request->job.ranks_per_host;

    for (size_t i = 0; i < answer->hosts.nhosts; i++) {
        const struct rg_host *host = &answer->hosts.hosts[i];
        answer->room += most && most < host->nslots ? most : host->nslots;
    }
}

/* A word in quotes, for a shell. NULL: no memory. */
static char *quote(const char *prefix, const char *word)
{
    char *text = malloc(4 * strlen(word) + strlen(prefix) + 3), *p = text;

    if (!p)
        return NULL;
    *p++ = '\'';
    p = stpcpy(p, prefix);
    for (; *word; word++)
        p = *word == '\'' ? stpcpy(p, "'\\''") : (*p = *word, p + 1);
    stpcpy(p, "'");
    return text;
}

/* What the shell is to run: a file of this name is meant itself, whatever is in its name. */
static char *command_of(const char *discovery)
{
    if (access(discovery, F_OK) < 0)
        return strdup(discovery);
    return quote(strchr(discovery, '/') ? "" : "./", discovery);
}

static int take_hosts(struct rg_request *request, int nslots, char *said, struct answer *answer,
                      struct rg_error *err)
{
    rg_autofree char *what = rg_strf(OPTION " %s", request->discovery);
    int r = what ? rg_discovered_parse(what, said, nslots, &answer->hosts, &request->notes, err)
                 : rg_error_memory(err);

    count(request, answer);
    return r;
}

static int ask(struct rg_request *request, int nslots, unsigned timeout_ms,
               struct answer *answer, struct rg_error *err)
{
    rg_autofree char *command = command_of(request->discovery);
    char *argv[] = { (char *) "/bin/sh", (char *) "-c", command, NULL };
    rg_autofree char *text = NULL;
    int r = command ? rg_spawn_ask(argv, timeout_ms, RG_HOSTFILE_NBYTES_MAX, &text) : -ENOMEM;

    answer->code = r < 0 ? -1 : r;
    if (r == -EFBIG)
        return rg_error_set_exit(err, EFBIG, RG_EXIT_USAGE, OPTION " %s: it prints more than %u "
                                 "bytes; give one host per line, and nothing else",
                                 request->discovery, RG_HOSTFILE_NBYTES_MAX);
    if (r < 0 && r != -ETIMEDOUT)
        return rg_error_set_exit(err, -r, r == -ENOENT ? RG_EXIT_NOT_FOUND : RG_EXIT_NOT_EXECUTABLE,
                                 OPTION " %s: cannot run /bin/sh for it: %s", request->discovery,
                                 strerror(-r));
    if (r == RG_EXIT_NOT_FOUND || r == RG_EXIT_NOT_EXECUTABLE)
        return rg_error_set_exit(err, ENOENT, r, OPTION " %s: cannot run it: the shell ends with "
                                 "exit code %d; give a script's path, or a command that prints the "
                                 "hosts", request->discovery, r);
    return r ? 0 : take_hosts(request, nslots, text, answer, err);
}

/* "discover_hosts.sh names 1 host with room for 2 ranks", or that it has failed. */
static char *describe(const struct rg_request *request, const struct answer *answer)
{
    size_t n = answer->hosts.nhosts;

    if (answer->code < 0)
        return rg_strf("%s does not end", request->discovery);
    if (answer->code)
        return rg_strf("%s ends with exit code %d", request->discovery, answer->code);
    if (!n)
        return rg_strf("%s names no host", request->discovery);
    return rg_strf("%s names %zu host%s with room for %lld rank%s", request->discovery, n,
                   n == 1 ? "" : "s", (long long) answer->room, answer->room == 1 ? "" : "s");
}

/* Once for each thing there is to say. */
static void tell(const struct rg_request *request, const char *words, char **said)
{
    if (!words || (*said && strcmp(*said, words) == 0))
        return;
    rg_autofree char *sentence = rg_strf("waiting for hosts: %s, and -np is %d", words,
                                         request->job.np);
    if (sentence && request->tell && !request->quiet)
        request->tell(sentence);
    free(*said);
    *said = strdup(words);
}

/* As in Horovod: a script that cannot be asked at the start of an elastic job is broken. In a job
 * of fixed size one that fails may not be ready, but one that hangs is broken there as well. */
static int refuse_first(const struct rg_request *request, const struct answer *answer,
                        struct rg_error *err)
{
    rg_autofree char *words = describe(request, answer);

    return rg_error_set_exit(err, EINVAL, RG_EXIT_UNAVAILABLE, OPTION ": %s; the job needs the "
                             "hosts that it prints", words ? words : request->discovery);
}

/* How long one call may take: who waits for hosts is told soon of a program that hangs. */
static unsigned ask_ms(const struct rg_job *job, uint64_t left_ms)
{
    uint64_t ms = left_ms < ASK_MS ? left_ms : ASK_MS;

    if (job->elastic.on && job->elastic.timeout_ms && ms > job->elastic.timeout_ms)
        ms = job->elastic.timeout_ms;
    return (unsigned) ms;
}

static int wait_for(struct rg_request *request, int nslots, struct answer *ret_answer,
                    struct rg_error *err)
{
    const struct rg_job *job = &request->job;
    uint64_t end_ns = rg_now_ns() + job->start_timeout_ms * RG_NS_PER_MS, now;
    rg_autofree char *said = NULL;

    while ((now = rg_now_ns()) < end_ns) {
        rg_cleanup(answer_fini) struct answer answer = { .code = 0 };
        uint64_t left_ms = (end_ns - now) / RG_NS_PER_MS + 1;
        int r = ask(request, nslots, ask_ms(job, left_ms), &answer, err);
        if (r < 0)
            return r;
        bool hangs = answer.code < 0 && left_ms > ASK_MS; /* else the time to start is over */
        if (hangs || (job->elastic.on && answer.code))
            return refuse_first(request, &answer, err);
        if (answer.room >= (job->oversubscribe || job->elastic.on ? 1 : job->np)) {
            *ret_answer = answer;
            answer = (struct answer){ .code = 0 };
            return 0;
        }
        rg_autofree char *words = describe(request, &answer);
        tell(request, words, &said);
        rg_sleep_ms(left_ms < PAUSE_MS ? (unsigned) left_ms : PAUSE_MS);
    }
    return rg_error_set_exit(err, ETIMEDOUT, RG_EXIT_TIMEOUT, OPTION ": %s, and -np is %d; gave up "
                             "after %llu s (--start-timeout)",
                             said ? said : "out of memory", job->np,
                             (unsigned long long) job->start_timeout_ms / 1000);
}

static int take_period(struct rg_job *job, struct rg_error *err)
{
    const char *text = getenv(PERIOD);
    int64_t ms = 0;
    int r = text ? rg_parse_int(PERIOD, text, 1, PERIOD_MAX_MS, &ms, err) : 0;

    job->elastic.discovery_ms = (uint64_t) ms;
    return r;
}

static int settle_hosts(struct rg_request *request, int nslots, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    rg_cleanup(answer_fini) struct answer answer = { .code = 0 };
    int usual = request->discovery_slots ? request->discovery_slots : nslots ? nslots : 1;
    int r = request->discovery ? check(request, err) : 0;

    if (r < 0 || !request->discovery)
        return r;
    r = wait_for(request, usual, &answer, err);
    if (r < 0)
        return r;
    free(job->hosts);
    job->hosts = answer.hosts.hosts;
    job->nhosts = answer.hosts.nhosts;
    answer.hosts = (struct rg_job){ 0 };
    job->hosts_come = RG_HOSTS_COME;
    if (!job->elastic.on)
        return 0;
    job->elastic.discovery = command_of(request->discovery);
    job->elastic.slots_per_host = usual;
    r = take_period(job, err);
    if (r < 0)
        return r;
    return job->elastic.discovery ? 0 : rg_error_memory(err);
}

/* --- elastic jobs: their numbers of ranks may differ ------------------------------------------ */

static int check_numbers(const struct rg_job *job, struct rg_error *err)
{
    const struct rg_elastic *e = &job->elastic;

    if (e->min_np && job->np && e->min_np > job->np)
        return rg_error_set(err, EINVAL, "--min-np %d: more than -np %d; give at most that",
                            e->min_np, job->np);
    if (e->max_np && e->max_np < job->np)
        return rg_error_set(err, EINVAL, "--max-np %d: less than -np %d; give at least that",
                            e->max_np, job->np);
    if (e->max_np && e->max_np < e->min_np)
        return rg_error_set(err, EINVAL, "--max-np %d: less than --min-np %d; give at least that",
                            e->max_np, e->min_np);
    if (e->spares && !e->max_np && !e->min_np && !job->np)
        return rg_error_set(err, EINVAL, "--spares %d: -np is missing; say how many ranks there "
                            "are besides", e->spares);
    if (!e->min_np && !job->np)
        return rg_error_set(err, EINVAL, "--max-np %d: -np is missing; say how many ranks the job "
                            "begins with, or by --min-np how many it takes", e->max_np);
    return 0;
}

static int check_kind(const struct rg_request *request, struct rg_error *err)
{
    const struct rg_job *job = &request->job;
    const struct rg_platform *platform = rg_platform_of(job);
    const char *option = job->elastic.min_np ? "--min-np" : job->elastic.max_np
                             ? "--max-np" : job->elastic.spares
                             ? "--spares" : "--host-discovery-script";

    if (rg_job_has_engine(job))
        return rg_error_set(err, EINVAL, "%s: %s starts the ranks, and cannot start more of them "
                            "later; leave it out, or let Reigen start them (--engine native)",
                            option, rg_job_engine_program(job));
    if (request->several || request->programs)
        return rg_error_set(err, EINVAL, "%s: each of several programs has a fixed number of "
                            "ranks; leave it out", option);
    if (job->nroles)
        return rg_error_set(err, EINVAL, "%s: a job with roles has as many tasks as they say; "
                            "leave it out", option);
    if (job->on && !platform->elastic)
        return rg_error_set(err, EINVAL, "%s: on %s a job keeps the hosts that it begins with; "
                            "leave it out, or name hosts by -H, --hostfile or "
                            "--host-discovery-script", option, platform->title);
    if (request->discovery && platform && platform->away)
        return rg_error_set(err, EINVAL, "--host-discovery-script: on %s the hosts are those that "
                            "it gives the job; leave it out", platform->title);
    /* A script is on this computer. */
    bool leaves = request->discovery && (request->write_plan || job->submit);

    if (job->pty || job->tf_config || job->max_restarts || leaves)
        return rg_error_set(err, EINVAL, "%s: not together with %s; leave one of them out", option,
                            job->pty         ? "--pty"
                            : job->tf_config ? "--tf-config"
                            : !leaves        ? "--max-restarts, as ranks that fail are replaced"
                            : job->submit    ? "--submit"
                                             : "--write-plan");
    return 0;
}

static int note_idle(struct rg_request *request)
{
    const struct rg_elastic *e = &request->job.elastic;
    bool idle = (e->max_np && e->max_np != request->job.np) || e->cooldown_max_ms ||
                e->reset_limit != RG_ELASTIC_NO_LIMIT ||
                (request->discovery_slots && !request->discovery);

    return idle ? rg_request_note(request, "this job has a fixed number of ranks, so its elastic "
                                  "flags do nothing") : 0;
}

int rg_discovery_settle(struct rg_request *request, int nslots, bool script, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    struct rg_elastic *e = &job->elastic;

    bool fixed = job->np && e->min_np == job->np && e->max_np == job->np && !e->spares;
    bool more = script ? request->discovery != NULL : e->max_np > job->np;

    e->on = !fixed && (e->min_np || more || e->spares);
    int r = e->min_np || e->max_np || e->spares ? check_numbers(job, err) : 0;

    if (r == 0 && !e->on && note_idle(request) < 0)
        r = rg_error_memory(err);
    if (r < 0 || !e->on)
        return r < 0 ? r : settle_hosts(request, nslots, err);
    r = check_kind(request, err);
    if (r < 0)
        return r;
    if (!request->lease)
        job->lease_ms = RG_ELASTIC_LEASE_MS;
    if (!job->np)
        job->np = e->min_np;
    if (!e->min_np)
        e->min_np = job->np;
    if (e->spares && !e->max_np)
        e->max_np = job->np;
    return settle_hosts(request, nslots, err);
}
