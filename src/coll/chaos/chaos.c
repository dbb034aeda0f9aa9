/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher is asked over the agent's socket, as reigen rsh asks it for a remote command: only
 * the question is another one. */
#include "coll/chaos/chaos.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "coll/net/sock.h"
#include "wire/conn.h"
#include "wire/rankmsg.h"

#define PLANNED_MAX 64
#define ASK_MS 10000 /* for the launcher's answer; without one nothing happens */

/* Of this process. */
static struct {
    pthread_mutex_t lock;
    bool read;
    size_t count;
    struct rg_chaos_planned planned[PLANNED_MAX];
    unsigned step;
    uint64_t slow_until_ns;
    unsigned slow_ms;
} own = { .lock = PTHREAD_MUTEX_INITIALIZER };

int rg_chaos_read(const char *text, struct rg_chaos_planned *ret_planned)
{
    struct rg_chaos_planned planned = { .event = 0 };
    unsigned long long for_ms;
    int end = 0;

    if (sscanf(text, "%9u:%7[a-z]:%9u:%10u:%18llu:%9u%n", &planned.event, planned.verb,
               &planned.rank, &planned.step, &for_ms, &planned.value, &end) != 6 ||
        (text[end] && text[end] != ','))
        return -EINVAL;
    planned.for_ms = for_ms;
    *ret_planned = planned;
    return end;
}

static void read_planned(void)
{
    const char *at = getenv("REIGEN_CHAOS");
    int n = 0;

    own.read = true;
    while (at && *at && own.count < PLANNED_MAX) {
        n = rg_chaos_read(at, &own.planned[own.count]);
        if (n < 0)
            return;
        own.count++;
        at += n + (at[n] == ',');
    }
}

/* --- the question ----------------------------------------------------------------------------- */

struct question {
    bool answered, yes;
};

static int on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct question *question = arg;
    struct rg_rankmsg_exit answer = { 0 };

    if (type != RG_RANKMSG_EXIT)
        return 0;
    int r = rg_codec_decode(rg_rankmsg_exit_fields, payload, nbytes, &answer);

    if (r < 0)
        return r;
    question->answered = true;
    question->yes = answer.status == 0;
    rg_codec_clear(rg_rankmsg_exit_fields, &answer);
    return 0;
}

static const struct rg_conn_ops conn_ops = { on_frame, rg_rankmsg_frame_max, .secret = false };

static void hear(struct rg_conn *conn, struct question *question)
{
    uint64_t deadline_ns = rg_now_ns() + ASK_MS * RG_NS_PER_MS;

    while (!question->answered && rg_conn_pump(conn, NULL) == 0 && !question->answered) {
        if (rg_fd_wait(conn->fd, rg_conn_events(conn), deadline_ns) < 0)
            return;
    }
}

/* Is this to happen, and now? */
static bool ask(unsigned event, int rank)
{
    const char *name = getenv("REIGEN_AGENT_SOCKET");
    uint8_t token[RG_RANK_TOKEN_NBYTES];
    char text[32];
    struct question question = { false, false };
    struct rg_conn conn;
    int fd;

    if (!name || rg_rank_token_parse(getenv("REIGEN_AGENT_TOKEN"), token) < 0 ||
        rg_sock_connect_unix(name, &fd) < 0)
        return false;
    if (rg_conn_init(&conn, fd, &conn_ops, &question, NULL) < 0)
        return false;
    snprintf(text, sizeof(text), "%u %d", event, rank);
    struct rg_rankmsg_remote msg = { RG_PROTOCOL_VERSION, { token, sizeof(token) },
                                     (char *) RG_RANKMSG_CHAOS, text };

    if (rg_conn_send(&conn, RG_RANKMSG_REMOTE, rg_rankmsg_remote_fields, &msg) == 0)
        hear(&conn, &question);
    rg_conn_fini(&conn);
    return question.yes;
}

/* --- what happens ----------------------------------------------------------------------------- */

/* All processes of this rank, as the agent has started it in a session of its own; else this one
 * alone. As kill takes it. */
static pid_t whole_rank(void)
{
    return getpgrp() == getsid(0) ? -getpgrp() : getpid();
}

static void sleep_ms(uint64_t ms)
{
    struct timespec left = { (time_t) (ms / 1000), (long) (ms % 1000) * 1000000 };

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

/* Somebody in another session has to let this rank go on: a child of a child, whose end nobody here
 * has to wait for. It calls nothing that a lock could hold up. */
static void go_on_later(pid_t whom, uint64_t for_ms)
{
    pid_t child = fork();

    if (child < 0)
        return;
    if (child > 0) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
        return;
    }
    if (setsid() < 0 || fork() != 0)
        _exit(0);
    /* Whoever reads what the rank writes is not to wait for this process, too. */
    rg_fd_close_above(-1);
    sleep_ms(for_ms);
    kill(whom, SIGCONT);
    _exit(0);
}

static void happen(const struct rg_chaos_planned *planned)
{
    pid_t whom = whole_rank();

    if (strcmp(planned->verb, "kill") == 0) {
        kill(whom, SIGKILL);
    } else if (strcmp(planned->verb, "stop") == 0) {
        if (planned->for_ms)
            go_on_later(whom, planned->for_ms);
        kill(whom, SIGSTOP);
    } else if (strcmp(planned->verb, "exit") == 0) {
        fflush(NULL);
        _exit((int) planned->value);
    } else if (strcmp(planned->verb, "slow") == 0) {
        own.slow_ms = planned->value;
        own.slow_until_ns = planned->for_ms ? rg_now_ns() + planned->for_ms * RG_NS_PER_MS
                                            : RG_NEVER_NS;
    }
}

void rg_chaos_step(int rank)
{
    unsigned slow_ms = 0;

    pthread_mutex_lock(&own.lock);
    if (!own.read)
        read_planned();
    own.step++;
    for (size_t i = 0; i < own.count; i++) {
        const struct rg_chaos_planned *planned = &own.planned[i];
        if (planned->step == own.step && planned->rank == (unsigned) rank &&
            ask(planned->event, rank))
            happen(planned);
    }
    if (own.slow_until_ns > rg_now_ns())
        slow_ms = own.slow_ms;
    pthread_mutex_unlock(&own.lock);
    if (slow_ms)
        sleep_ms(slow_ms);
}
