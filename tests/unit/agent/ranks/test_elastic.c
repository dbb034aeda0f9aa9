/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real agent in an elastic job. This program is its launcher, and at the same time the runtime
 * of each of its ranks: those only print where their agent is and by which token it knows them.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "unit.h"
#include "wire/conn.h"
#include "wire/msg.h"

#define PLACES_MAX 4
#define GOT_MAX 256

struct got {
    uint16_t type;
    union rg_msg msg;
};

/* A launcher, its only agent, and what that has said. */
struct world {
    struct rg_loop *loop;
    struct rg_channel *channel;
    struct rg_timer watchdog;
    pid_t agent;
    struct got got[GOT_MAX];
    size_t count, read; /* those that came, those that the test has looked at */
    struct rg_buf out[PLACES_MAX];
    uint64_t owed; /* bytes of output for which the agent has no credit */
    bool stingy;   /* it gets none */
    bool closed;
};

static const uint8_t key[RG_KEY_NBYTES];

/* --- the launcher's side ---------------------------------------------------------------------- */

static void on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct world *w = arg;
    struct got *got = &w->got[w->count];
    uint32_t host;

    assert_true(w->count < GOT_MAX);
    got->type = type;
    assert_int_equal(rg_msg_decode(true, type, payload, nbytes, &host, &got->msg), 0);
    w->count++;
    rg_loop_stop(w->loop);
}

static void on_close(void *arg, const struct rg_error *err)
{
    struct world *w = arg;

    (void) err;
    w->closed = true;
    rg_loop_stop(w->loop);
}

static void too_late(void *arg)
{
    (void) arg;
    fail_msg("the agent says nothing more");
}

static void tell(struct world *w, enum rg_msg_type type, const void *object)
{
    assert_int_equal(rg_msg_send(w->channel, RG_MSG_ANY_HOST, type, object), 0);
}

/* An agent that ends the link may have done so since it wrote what this is for: next() sees it. */
static void grant(struct world *w)
{
    if (w->stingy || !w->owed || w->closed)
        return;
    rg_msg_send(w->channel, RG_MSG_ANY_HOST, RG_MSG_CREDIT, &(struct rg_msg_bytes){ w->owed });
    w->owed = 0;
}

static void take_output(struct world *w, const struct rg_msg_output *msg)
{
    assert_true(msg->rank < PLACES_MAX);
    if (msg->data.nbytes)
        rg_buf_put(&w->out[msg->rank], msg->data.data, msg->data.nbytes);
    else
        rg_buf_put(&w->out[msg->rank], ".", 1); /* the end of a stream */
    w->owed += msg->data.nbytes;
    grant(w);
}

/* The next message but for heartbeats; output is collected, too, and returned. NULL: the link is
 * closed. */
static struct got *next(struct world *w)
{
    while (w->read == w->count && !w->closed)
        rg_loop_run(w->loop);
    if (w->read == w->count)
        return NULL;
    struct got *got = &w->got[w->read++];
    if (got->type == RG_MSG_OUTPUT)
        take_output(w, &got->msg.output);
    return got;
}

/* The next message but for output, which must be this one. */
static union rg_msg *await(struct world *w, enum rg_msg_type type)
{
    struct got *got;

    do {
        got = next(w);
        assert_non_null(got);
    } while ((got->type == RG_MSG_OUTPUT || got->type == RG_MSG_INPUT_CLOSED) && got->type != type);
    assert_int_equal(got->type, type);
    return &got->msg;
}

static void start_agent(struct world *w)
{
    char path[4096];
    char boot[128];
    int ends[2], lines[2];

    snprintf(path, sizeof(path), "%s/src/programs/agent/reigen-agent", getenv("REIGEN_TEST_BUILD"));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(pipe(lines), 0);
    snprintf(boot, sizeof(boot), "reigen-agent %d\njob j-1\nkey %064d\nlink fd 3\n\n",
             RG_PROTOCOL_VERSION, 0);
    assert_int_equal(rg_write_all(lines[1], boot, strlen(boot)), 0);
    close(lines[1]);
    w->agent = fork();
    if (w->agent == 0) {
        dup2(lines[0], 0);
        dup2(ends[1], 3);
        execl(path, path, "agent", NULL);
        _exit(127);
    }
    close(lines[0]);
    close(ends[1]);
    struct rg_channel_options options = {
        .loop = w->loop, .read_fd = ends[0], .write_fd = ends[0], .on_close = on_close,
        .link = { .key = key, .job_id = "j-1", .role = "agent", .on_frame = on_frame, .arg = w },
    };
    assert_int_equal(rg_channel_create(&options, &w->channel), 0);
}

/* An agent that has SETUP. Every rank runs what its variable SCRIPT says. */
static struct world *make_world(bool elastic, uint32_t output_window)
{
    struct world *w = calloc(1, sizeof(*w));
    struct rg_msg_setup setup = { .host = "a", .size = PLACES_MAX, .cwd = "", .inherit_env = 1,
                                  .lease_ms = 600000, .output_window = output_window,
                                  .engine = "native", .network = "", .interface = "",
                                  .resident = elastic, .bundle = "", .bundle_error = "",
                                  .elastic = elastic };

    assert_non_null(w);
    assert_int_equal(rg_loop_create(&w->loop), 0);
    rg_timer_start(&w->watchdog, w->loop, 1000 * (uint64_t) unit_limit_s(20), 0, too_late, w);
    start_agent(w);
    await(w, RG_MSG_HELLO);
    rg_strv_add(&setup.command, "/bin/sh");
    rg_strv_add(&setup.command, "-c");
    rg_strv_add(&setup.command, "echo $REIGEN_AGENT_SOCKET $REIGEN_RANK_TOKEN; eval \"$SCRIPT\"");
    rg_strv_add(&setup.hosts, "a:2");
    tell(w, RG_MSG_SETUP, &setup);
    rg_strv_fini(&setup.command);
    rg_strv_fini(&setup.hosts);
    return w;
}

/* Its exit code; the link is closed by us, where the agent has not done so. */
static int end_world(struct world *w)
{
    int status = 0;

    rg_timer_stop(&w->watchdog);
    rg_channel_destroy(w->channel);
    assert_int_equal(waitpid(w->agent, &status, 0), w->agent);
    for (size_t i = 0; i < w->count; i++)
        rg_msg_clear(w->got[i].type, &w->got[i].msg);
    for (int i = 0; i < PLACES_MAX; i++)
        rg_buf_fini(&w->out[i]);
    rg_loop_destroy(w->loop);
    free(w);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void add_rank(struct world *w, uint32_t place, const char *script)
{
    char env[512];
    struct rg_msg_rank rank = { .rank = place };

    snprintf(env, sizeof(env), "SCRIPT=%s", script);
    rg_strv_add(&rank.env, env);
    tell(w, RG_MSG_RANK, &rank);
    rg_strv_fini(&rank.env);
}

static void start_rank(struct world *w, uint32_t place, const char *script)
{
    add_rank(w, place, script);
    tell(w, RG_MSG_START, NULL);
    assert_int_equal(await(w, RG_MSG_STARTED)->started.rank, place);
}

/* Seats are six numbers each. */
static void tell_epoch(struct world *w, uint32_t epoch, uint32_t size, const uint32_t *seats,
                       size_t nseats)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    for (size_t i = 0; i < 6 * nseats; i++)
        rg_buf_put_u32(&buf, seats[i]);
    tell(w, RG_MSG_EPOCH,
         &(struct rg_msg_epoch){ .epoch = epoch, .size = size, .sync = 1,
                                 .seats = { (uint8_t *) rg_buf_bytes(&buf),
                                            rg_buf_nbytes(&buf) } });
}

static const char *output_of(struct world *w, uint32_t place)
{
    rg_buf_put(&w->out[place], "", 1);
    w->out[place].end--;
    return (const char *) rg_buf_bytes(&w->out[place]);
}

/* --- the ranks' side -------------------------------------------------------------------------- */

static void say(int fd, uint16_t type, const struct rg_field *fields, const void *object)
{
    rg_autobuf struct rg_buf payload = RG_BUF_INIT, frame = RG_BUF_INIT;

    if (fields)
        rg_codec_encode(fields, object, &payload);
    rg_frame_put(&frame, type, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
    assert_int_equal(rg_write_all(fd, rg_buf_bytes(&frame), rg_buf_nbytes(&frame)), 0);
}

/* The next frame, which must be of this type. */
static void hear(int fd, int type, const struct rg_field *fields, void *object)
{
    uint8_t head[RG_FRAME_HEAD_NBYTES];

    assert_int_equal(rg_read_all(fd, head, sizeof(head)), 0);
    struct rg_reader reader = rg_reader_make(head, sizeof(head));
    size_t nbytes = rg_reader_u32(&reader);
    assert_int_equal(rg_reader_u16(&reader), type);
    rg_autofree uint8_t *payload = malloc(nbytes + 1);
    assert_non_null(payload);
    assert_int_equal(rg_read_all(fd, payload, nbytes), 0);
    assert_int_equal(rg_codec_decode(fields, payload, nbytes, object), 0);
}

static void hear_end(int fd)
{
    char byte;

    assert_true(read(fd, &byte, 1) <= 0);
    close(fd);
}

/* Where the newest process of the place is to call, and its token. */
static void read_line(struct world *w, uint32_t place, char *ret_name, char *ret_token)
{
    const char *line;

    while (!(line = strrchr(output_of(w, place), '@')) || !strchr(line, '\n'))
        next(w);
    assert_int_equal(sscanf(line, "%63s %63s", ret_name, ret_token), 2);
}

static int dial(const char *name, uint32_t place, const char *text)
{
    struct timeval limit = { .tv_sec = unit_limit_s(10) };
    struct sockaddr_un address;
    socklen_t nbytes = rg_unix_address(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint8_t token[RG_RANK_TOKEN_NBYTES];

    assert_int_equal(connect(fd, (struct sockaddr *) &address, nbytes), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    assert_int_equal(rg_rank_token_parse(text, token), 0);
    say(fd, RG_RANKMSG_HELLO, rg_rankmsg_hello_fields,
        &(struct rg_rankmsg_hello){ RG_PROTOCOL_VERSION, place, (uint32_t) getpid(),
                                    { token, sizeof(token) } });
    return fd;
}

/* As the runtime of the place's newest process. */
static int join(struct world *w, uint32_t place)
{
    struct rg_rankmsg_welcome welcome = { 0 };
    char name[64], token[64];

    read_line(w, place, name, token);
    int fd = dial(name, place, token);
    hear(fd, RG_RANKMSG_WELCOME, rg_rankmsg_welcome_fields, &welcome);
    assert_int_equal(welcome.elastic, 1);
    assert_int_equal(welcome.size, 0);
    rg_codec_clear(rg_rankmsg_welcome_fields, &welcome);
    return fd;
}

static void meet(int fd, uint32_t epoch, bool failed)
{
    say(fd, RG_RANKMSG_MEET, rg_rankmsg_meet_fields, &(struct rg_rankmsg_meet){ epoch, failed });
}

static void hear_epoch(int fd, uint32_t epoch, uint32_t rank, uint32_t size)
{
    uint8_t data[RG_KEY_NBYTES], expected[RG_KEY_NBYTES];
    struct rg_rankmsg_epoch msg = { 0 };
    char purpose[32];

    hear(fd, RG_RANKMSG_EPOCH, rg_rankmsg_epoch_fields, &msg);
    assert_int_equal(msg.epoch, epoch);
    assert_int_equal(msg.rank, rank);
    assert_int_equal(msg.size, size);
    assert_int_equal(msg.local_size, 2);
    assert_int_equal(msg.sync, 1);
    snprintf(purpose, sizeof(purpose), "epoch %u", epoch);
    rg_key_derive(key, "data", data);
    rg_key_derive(data, purpose, expected);
    assert_int_equal(msg.key.nbytes, RG_KEY_NBYTES);
    assert_memory_equal(msg.key.data, expected, RG_KEY_NBYTES);
    rg_codec_clear(rg_rankmsg_epoch_fields, &msg);
}

static void say_fence(int fd, uint32_t generation, uint32_t epoch)
{
    say(fd, RG_RANKMSG_FENCE, rg_rankmsg_fence_fields,
        &(struct rg_rankmsg_fence){ generation, 1000, { (uint8_t *) "blob", 4 }, epoch });
}

/* --- tests ------------------------------------------------------------------------------------ */

#define WAITS "exec sleep 1000"

/* Places 0 and 2 are ranks 1 and 0 of three. */
static const uint32_t seats[12] = { 0, 1, 1, 2, 0, 2, 2, 0, 0, 2, 0, 2 };
/* And two of two, in order. */
static const uint32_t seats_of_two[12] = { 0, 0, 0, 2, 0, 1, 2, 1, 1, 2, 0, 1 };

static struct world *two_ranks(int ret_fds[2])
{
    struct world *w = make_world(true, RG_MSG_OUTPUT_WINDOW);

    start_rank(w, 0, WAITS);
    start_rank(w, 2, "echo first 2; " WAITS);
    for (uint32_t i = 0; i < 2; i++) {
        ret_fds[i] = join(w, 2 * i);
        meet(ret_fds[i], 0, false);
        assert_int_equal(await(w, RG_MSG_MEET)->meet.rank, 2 * i);
    }
    tell_epoch(w, 1, 3, seats, 2);
    hear_epoch(ret_fds[0], 1, 1, 3);
    hear_epoch(ret_fds[1], 1, 0, 3);
    return w;
}

static void end_ranks(struct world *w)
{
    tell(w, RG_MSG_RELEASE, NULL);
    tell(w, RG_MSG_SIGNAL, &(struct rg_msg_signal){ SIGTERM });
    assert_int_equal(await(w, RG_MSG_EXITED)->exited.signalled, SIGTERM);
    assert_int_equal(await(w, RG_MSG_EXITED)->exited.signalled, SIGTERM);
    assert_int_equal(await(w, RG_MSG_BYE)->bye.nleft, 0);
    assert_int_equal(end_world(w), 0);
}

static void place_is_started_anew_and_all_meet_in_the_next_epoch(void **state)
{
    struct rg_rankmsg_peer_died died = { 0 };
    char name[64], token[64];
    int fds[2];
    struct world *w = two_ranks(fds);

    (void) state;
    read_line(w, 2, name, token);
    while (!strstr(output_of(w, 2), "first 2\n"))
        next(w);
    tell(w, RG_MSG_SIGNAL_RANK, &(struct rg_msg_signal_rank){ 2, SIGKILL });
    union rg_msg *msg = await(w, RG_MSG_EXITED);
    assert_int_equal(msg->exited.rank, 2);
    assert_int_equal(msg->exited.signalled, SIGKILL);
    hear(fds[0], RG_RANKMSG_PEER_DIED, rg_rankmsg_peer_died_fields, &died);
    assert_int_equal(died.rank, 0); /* its number in that epoch */
    assert_int_equal(died.value, SIGKILL);
    rg_codec_clear(rg_rankmsg_peer_died_fields, &died);
    close(fds[1]);

    int fresh = join(w, 0); /* the same process, as its runtime starts again */
    hear_end(fds[0]);
    meet(fresh, 1, true);
    msg = await(w, RG_MSG_MEET);
    assert_int_equal(msg->meet.epoch, 1);
    assert_int_equal(msg->meet.failed, 1);
    start_rank(w, 2, "echo second 2; " WAITS);
    while (!strstr(output_of(w, 2), "..@"))
        next(w);
    hear_end(dial(name, 2, token)); /* as a child of the dead process might */
    await(w, RG_MSG_NOTE);
    fds[1] = join(w, 2);
    meet(fds[1], 0, false); /* its place had a seat: that of another process */
    assert_int_equal(await(w, RG_MSG_MEET)->meet.rank, 2);
    tell_epoch(w, 2, 2, seats_of_two, 2);
    hear_epoch(fresh, 2, 0, 2);
    hear_epoch(fds[1], 2, 1, 2);
    while (!strstr(output_of(w, 2), "second 2\n"))
        next(w);
    assert_contains(output_of(w, 2), "first 2\n..@");
    close(fresh);
    close(fds[1]);
    end_ranks(w);
}

static void fences_belong_to_an_epoch(void **state)
{
    struct rg_rankmsg_fence_done done = { 0 };
    struct rg_rankmsg_fence_failed failed = { 0 };
    int fds[2];
    struct world *w = two_ranks(fds);

    (void) state;
    say_fence(fds[0], 1, 1);
    union rg_msg *msg = await(w, RG_MSG_FENCE);
    assert_int_equal(msg->fence.epoch, 1);
    assert_int_equal(msg->fence.generation, 1);
    tell(w, RG_MSG_FENCE_DONE,
         &(struct rg_rankmsg_fence_done){ 1, 0, { (uint8_t *) "old", 3 }, 9 });
    tell(w, RG_MSG_FENCE_FAILED, &(struct rg_rankmsg_fence_failed){ 0, EIO, "", 9 });
    tell(w, RG_MSG_PEER_DIED, &(struct rg_msg_peer_died){ .rank = 2, .epoch = 9 });
    tell(w, RG_MSG_PEER_DIED, &(struct rg_msg_peer_died){ .rank = 2 });
    tell(w, RG_MSG_FENCE_DONE,
         &(struct rg_rankmsg_fence_done){ 1, 0, { (uint8_t *) "new", 3 }, 1 });
    hear(fds[0], RG_RANKMSG_FENCE_DONE, rg_rankmsg_fence_done_fields, &done);
    assert_int_equal(done.epoch, 1);
    assert_memory_equal(done.blobs.data, "new", 3);
    rg_codec_clear(rg_rankmsg_fence_done_fields, &done);

    /* Place 2 meets in the next one, while place 0 is late. */
    close(fds[1]);
    fds[1] = join(w, 2);
    meet(fds[1], 1, true);
    await(w, RG_MSG_MEET);
    tell_epoch(w, 2, 2, seats_of_two, 2);
    hear_epoch(fds[1], 2, 1, 2);
    say_fence(fds[0], 2, 1);
    say_fence(fds[1], 1, 2);
    assert_int_equal(await(w, RG_MSG_FENCE)->fence.epoch, 2); /* the other one's is dropped */
    tell(w, RG_MSG_FENCE_FAILED, &(struct rg_rankmsg_fence_failed){ 1, EIO, "", 2 });
    hear(fds[1], RG_RANKMSG_FENCE_FAILED, rg_rankmsg_fence_failed_fields, &failed);
    assert_int_equal(failed.epoch, 2);
    rg_codec_clear(rg_rankmsg_fence_failed_fields, &failed);
    close(fds[0]);
    close(fds[1]);
    end_ranks(w);
}

static void updates_reach_those_who_are_in_the_epoch_or_come_to_it(void **state)
{
    struct rg_rankmsg_update update = { 0 };
    struct world *w = make_world(true, RG_MSG_OUTPUT_WINDOW);
    int fds[2];

    (void) state;
    tell_epoch(w, 1, 3, seats, 2); /* it may come before the ranks */
    start_rank(w, 0, WAITS);
    start_rank(w, 2, WAITS);
    fds[0] = join(w, 0);
    fds[1] = join(w, 2);
    meet(fds[0], 0, false);
    hear_epoch(fds[0], 1, 1, 3);
    say(fds[0], RG_RANKMSG_ELASTIC, NULL, NULL);
    assert_int_equal(await(w, RG_MSG_ELASTIC)->rank_id.rank, 0);
    tell(w, RG_MSG_UPDATE, &(struct rg_rankmsg_update){ 77, 2 });
    hear(fds[0], RG_RANKMSG_UPDATE, rg_rankmsg_update_fields, &update);
    assert_int_equal(update.stamp, 77);
    assert_int_equal(update.result, 2);
    meet(fds[1], 0, false);
    hear_epoch(fds[1], 1, 0, 3);
    hear(fds[1], RG_RANKMSG_UPDATE, rg_rankmsg_update_fields, &update);
    assert_int_equal(update.stamp, 77);

    /* A program that is not elastic only starts its runtime anew; the other one waits. */
    close(fds[1]);
    fds[1] = join(w, 2);
    meet(fds[1], 1, false);
    hear_epoch(fds[1], 1, 0, 3);
    close(fds[0]);
    fds[0] = join(w, 0);
    meet(fds[0], 1, false);
    assert_int_equal(await(w, RG_MSG_MEET)->meet.rank, 0);
    close(fds[0]);
    close(fds[1]);
    end_ranks(w);
}

static void what_a_place_has_written_goes_before_its_next_process(void **state)
{
    struct world *w = make_world(true, 8);
    struct got *got;

    (void) state;
    start_rank(w, 0, "sleep 1000 & echo and this");
    assert_int_equal(await(w, RG_MSG_EXITED)->exited.status, 0);
    add_rank(w, 0, WAITS);
    tell(w, RG_MSG_START, NULL);
    do
        got = next(w);
    while (got->type != RG_MSG_STARTED);
    assert_contains(output_of(w, 0), "\nand this\n..");

    w->stingy = true;
    while (next(w)->type != RG_MSG_OUTPUT)
        ;
    tell(w, RG_MSG_SIGNAL_RANK, &(struct rg_msg_signal_rank){ 0, SIGTERM });
    while ((got = next(w))->type != RG_MSG_EXITED)
        ;
    add_rank(w, 0, WAITS); /* there is no credit for what the second one has said */
    tell(w, RG_MSG_START, NULL);
    tell(w, RG_MSG_SIGNAL_RANK, &(struct rg_msg_signal_rank){ 0, SIGTERM });
    while ((got = next(w))->type != RG_MSG_NOT_STARTED)
        assert_int_not_equal(got->type, RG_MSG_STARTED);
    assert_int_equal(got->msg.not_started.errnum, ECANCELED);
    tell(w, RG_MSG_RELEASE, NULL);
    w->stingy = false;
    grant(w);
    while ((got = next(w))->type != RG_MSG_BYE)
        assert_true(got->type == RG_MSG_OUTPUT || got->type == RG_MSG_INPUT_CLOSED);
    assert_int_equal(end_world(w), 0);
}

static void ranks_that_break_the_rules_are_refused(void **state)
{
    int fds[2];
    struct world *w = two_ranks(fds);

    (void) state;
    meet(fds[0], 1, false); /* a second time */
    hear_end(fds[0]);
    fds[0] = join(w, 0);
    meet(fds[0], 2, false); /* of an epoch that never was */
    hear_end(fds[0]);
    fds[0] = join(w, 0);
    say_fence(fds[0], 1, 1); /* without having met */
    hear_end(fds[0]);
    fds[0] = join(w, 0);
    say_fence(fds[0], 1, 0);
    hear_end(fds[0]);
    say_fence(fds[1], 1, 2);
    hear_end(fds[1]);
    fds[0] = join(w, 0);
    say(fds[0], RG_RANKMSG_MEET, NULL, NULL); /* empty */
    hear_end(fds[0]);
    end_ranks(w);
}

static void expect_bad_end(struct world *w)
{
    struct got *got;

    while ((got = next(w)))
        assert_true(got->type == RG_MSG_OUTPUT || got->type == RG_MSG_INPUT_CLOSED);
    assert_int_equal(end_world(w), 70);
}

/* What ends the link, said to an agent whose place 0 lives and whose epoch is 1. */
static void expect_end(const char *what, bool elastic, enum rg_msg_type type, const void *object)
{
    struct world *w = make_world(elastic, RG_MSG_OUTPUT_WINDOW);

    print_message("%s\n", what);
    start_rank(w, 0, WAITS);
    if (elastic)
        tell_epoch(w, 1, 3, seats, 2);
    tell(w, type, object);
    expect_bad_end(w);
}

static void expect_epoch_end(const char *what, uint32_t epoch, uint32_t size,
                             const uint32_t seat[6], size_t nbytes)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    for (size_t i = 0; i < 6; i++)
        rg_buf_put_u32(&buf, seat[i]);
    expect_end(what, true, RG_MSG_EPOCH,
               &(struct rg_msg_epoch){ .epoch = epoch, .size = size,
                                       .seats = { (uint8_t *) rg_buf_bytes(&buf), nbytes } });
}

static void launcher_that_breaks_the_rules_loses_its_link(void **state)
{
    (void) state;
    expect_epoch_end("a piece of a seat", 2, 3, (uint32_t[]){ 0, 0, 0, 1, 0, 1 }, 23);
    expect_epoch_end("no such place", 2, 3, (uint32_t[]){ 4, 0, 0, 1, 0, 1 }, 24);
    expect_epoch_end("no such rank", 2, 3, (uint32_t[]){ 0, 3, 0, 1, 0, 1 }, 24);
    expect_epoch_end("no such local rank", 2, 3, (uint32_t[]){ 0, 0, 1, 1, 0, 1 }, 24);
    expect_epoch_end("no such host", 2, 3, (uint32_t[]){ 0, 0, 0, 1, 1, 1 }, 24);
    expect_epoch_end("more here than there are", 2, 3, (uint32_t[]){ 0, 0, 0, 4, 0, 1 }, 24);
    expect_epoch_end("the same epoch", 1, 3, (uint32_t[]){ 0, 0, 0, 1, 0, 1 }, 24);
    expect_end("an epoch of a fixed job", false, RG_MSG_EPOCH,
               &(struct rg_msg_epoch){ .epoch = 1, .size = 1 });
    expect_end("a living place", true, RG_MSG_RANK, &(struct rg_msg_rank){ .rank = 0 });
    expect_end("a place beyond all", true, RG_MSG_RANK, &(struct rg_msg_rank){ .rank = 4 });
    expect_end("a late rank of a fixed job", false, RG_MSG_RANK,
               &(struct rg_msg_rank){ .rank = 1 });
    expect_end("no such rank to signal", true, RG_MSG_SIGNAL_RANK,
               &(struct rg_msg_signal_rank){ 1, SIGTERM });
    expect_end("no such signal", true, RG_MSG_SIGNAL_RANK, &(struct rg_msg_signal_rank){ 0, 99 });
    expect_end("a second START of a fixed job", false, RG_MSG_START, NULL);
}

static void released_agent_takes_no_more_ranks(void **state)
{
    struct world *w = make_world(true, RG_MSG_OUTPUT_WINDOW);

    (void) state;
    start_rank(w, 0, WAITS);
    tell(w, RG_MSG_RELEASE, NULL);
    add_rank(w, 1, WAITS);
    expect_bad_end(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place_is_started_anew_and_all_meet_in_the_next_epoch),
        cmocka_unit_test(fences_belong_to_an_epoch),
        cmocka_unit_test(updates_reach_those_who_are_in_the_epoch_or_come_to_it),
        cmocka_unit_test(what_a_place_has_written_goes_before_its_next_process),
        cmocka_unit_test(ranks_that_break_the_rules_are_refused),
        cmocka_unit_test(launcher_that_breaks_the_rules_loses_its_link),
        cmocka_unit_test(released_agent_takes_no_more_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
