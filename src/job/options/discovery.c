/* SPDX-License-Identifier: Apache-2.0 */
/* A command that names hosts is asked as often as somebody would look by hand. */
#include "job/options/discovery.h"

#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/str.h"
#include "base/time.h"
#include "job/hostlist.h"
#include "job/options/apply.h"
#include "job/platform.h"

#define OPTION "--host-discovery-script"
#define PAUSE_MS 500
#define BLANKS " \t\r\n"

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
static void count(const struct rg_request *request, int nslots, struct answer *answer)
{
    int most = request->job.ranks_per_host;

    for (size_t i = 0; i < answer->hosts.nhosts; i++) {
        struct rg_host *host = &answer->hosts.hosts[i];
        if (!host->nslots)
            host->nslots = nslots;
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

/* How much of a line names the host: "a" of "a:2", "a slots=2" and "a", and all of "::1". */
static size_t name_nbytes(const char *line)
{
    size_t n = strcspn(line, BLANKS), digits = n;

    while (digits > 0 && line[digits - 1] >= '0' && line[digits - 1] <= '9')
        digits--;
    if (digits == n || digits < 2 || line[digits - 1] != ':')
        return n;
    return line[digits - 2] == ']' || !memchr(line, ':', digits - 1) ? digits - 1 : n;
}

/* As in Horovod a host that is named again is one host still. In a host file it would have the
 * slots of all its lines. */
static int forget_earlier(struct rg_request *request, struct rg_strv *lines, const char *line)
{
    size_t n = name_nbytes(line);
    int r = 0;

    for (size_t i = 0; *line && r == 0 && i < lines->count; i++) {
        char *old = lines->v[i];
        if (name_nbytes(old) != n || strncmp(old, line, n) != 0)
            continue;
        if (strcmp(old, line) != 0)
            r = rg_request_note(request, OPTION " %s: host %.*s is named twice: \"%.80s\" and then "
                                "\"%.80s\", which counts", request->discovery, (int) n, line, old,
                                line);
        *old = '\0';
    }
    return r;
}

/* What was printed, without what a host file may not have or means otherwise; each line keeps its
 * number. *ret_any: there is a host. */
static int tidy(struct rg_request *request, char *said, struct rg_buf *text, bool *ret_any)
{
    rg_autostrv struct rg_strv lines = RG_STRV_INIT;
    char *rest = rg_skip_byte_order_mark(said), *line;
    int r = 0;

    while (r == 0 && (line = strsep(&rest, "\n"))) {
        line[strcspn(line, "#")] = '\0';
        line += strspn(line, BLANKS);
        for (size_t n = strlen(line); n > 0 && strchr(BLANKS, line[n - 1]); n--)
            line[n - 1] = '\0';
        r = forget_earlier(request, &lines, line);
        r = r < 0 ? r : rg_strv_add(&lines, line);
        *ret_any |= *line != '\0';
    }
    for (size_t i = 0; i < lines.count; i++)
        rg_buf_printf(text, "%s\n", lines.v[i]);
    return r < 0 ? r : rg_buf_status(text);
}

static int take_hosts(struct rg_request *request, int nslots, char *said, struct answer *answer,
                      struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    bool any = false;

    if (tidy(request, said, &text, &any) < 0)
        return rg_error_memory(err);
    if (!any)
        return 0;
    int r = rg_hostfile_parse(&answer->hosts, request->discovery, rg_buf_text(&text),
                              rg_buf_nbytes(&text), err);
    count(request, nslots, answer);
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

static int wait_for(struct rg_request *request, int nslots, struct answer *ret_answer,
                    struct rg_error *err)
{
    const struct rg_job *job = &request->job;
    uint64_t end_ns = rg_now_ns() + job->start_timeout_ms * RG_NS_PER_MS, now;
    rg_autofree char *said = NULL;

    while ((now = rg_now_ns()) < end_ns) {
        rg_cleanup(answer_fini) struct answer answer = { .code = 0 };
        uint64_t left_ms = (end_ns - now) / RG_NS_PER_MS + 1;
        unsigned timeout_ms = left_ms < INT32_MAX ? (unsigned) left_ms : INT32_MAX;
        int r = ask(request, nslots, timeout_ms, &answer, err);
        if (r < 0)
            return r;
        if (answer.room >= (job->oversubscribe ? 1 : job->np)) {
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

int rg_discovery_settle(struct rg_request *request, int nslots, struct rg_error *err)
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
    job->hosts_come = true;
    return 0;
}
