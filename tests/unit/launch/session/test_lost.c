/* SPDX-License-Identifier: Apache-2.0 */
/* Agents that are killed at a given moment, under a driver that hears of it late, as one does that
 * waits for ssh or for a container: what the session says of it. */
#include <signal.h>

#include "base/fd.h"
#include "launch/host/driver.h"
#include "base/exitcode.h"
#include "launch/session/session.h"
#include "unit.h"
#include "wire/msg.h"
#include "wire/rankmsg.h"

#define NHOSTS 2
#define LIMIT_S unit_limit_s(20)
#define LATE_MS 200 /* for the driver to hear of an end */

static const char killed[] = "its agent (process 7) ended: signal 9 (Killed)";

struct fake;

struct fake_agent {
    struct fake *fake;
    int index;
    struct rg_channel *channel;
    int raw_fd;
    bool gone;
    struct rg_timer timer;
    struct rg_buf answer; /* to a fence, so far */
};

struct fake {
    struct rg_loop *loop;
    struct rg_job job;
    struct rg_plan plan;
    struct rg_session *session;
    struct rg_driver_options driver;
    uint8_t key[RG_KEY_NBYTES];
    struct fake_agent agents[NHOSTS];
    struct rg_timer timer, watchdog;
    bool one_place;
    const char *ending;           /* the platform's word for the end; NULL: it has none */
    const char *refusals[NHOSTS]; /* why an agent never comes; NULL: it does */
    /* what they do, by test */
    void (*on_open)(struct fake_agent *agent);
    void (*on_frame)(struct fake_agent *agent, uint16_t type, const union rg_msg *msg);
    int status; /* with which rank 1 ends before it meets rank 0 */
    char cause[1024];
    int exit_code, nconsequences;
};

static struct fake *the_fake;

/* --- agents ----------------------------------------------------------------------------------- */

static void say_hello(struct fake_agent *agent)
{
    bool one = agent->fake->one_place;
    struct rg_msg_hello hello = {
        .version = (char *) "0", .ncores = 2, .hostname = (char *) (agent->index ? "b" : "a"),
        .boot_id = (char *) (one || !agent->index ? "kernel-a" : "kernel-b"),
        .netns = one ? 1 : 1 + (uint64_t) agent->index, .instance = 10 + (uint64_t) agent->index,
        .free_port = 5000,
    };

    rg_strv_addf(&hello.addresses, "10.0.0.%d/24 eth0", 1 + agent->index);
    rg_strv_add(&hello.addresses, "127.0.0.1/8 lo");
    assert_int_equal(rg_msg_send(agent->channel, RG_MSG_ANY_HOST, RG_MSG_HELLO, &hello), 0);
    rg_strv_fini(&hello.addresses);
}

static void tell_gone(void *arg)
{
    struct fake_agent *agent = arg;
    const struct rg_driver_options *o = &agent->fake->driver;
    struct rg_error err = RG_ERROR_INIT;

    if (agent->gone)
        return;
    agent->gone = true;
    rg_error_set(&err, ECHILD, "%s", killed);
    o->events->on_gone(o->arg, agent->index, &err);
}

/* The link's end comes first; raw: a byte of a message that nobody will finish. */
static void die(struct fake_agent *agent, bool raw)
{
    if (raw)
        assert_int_equal(write(agent->raw_fd, "x", 1), 1);
    rg_channel_destroy(rg_steal_ptr(&agent->channel));
    close(rg_steal_fd(&agent->raw_fd));
    rg_timer_start(&agent->timer, agent->fake->loop, LATE_MS, 0, tell_gone, agent);
}

static void opened(void *arg)
{
    struct fake_agent *agent = arg;

    if (agent->fake->on_open)
        agent->fake->on_open(agent);
    else
        say_hello(agent);
}

static void frame_came(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct fake_agent *agent = arg;
    union rg_msg msg;
    uint32_t host;

    assert_int_equal(rg_msg_decode(false, type, payload, nbytes, &host, &msg), 0);
    if (type == RG_MSG_KILL) {
        rg_msg_send(agent->channel, RG_MSG_ANY_HOST, RG_MSG_BYE, &(struct rg_msg_bye){ 0 });
        rg_timer_start(&agent->timer, agent->fake->loop, 0, 0, tell_gone, agent);
    } else if (type == RG_MSG_LISTEN) {
        rg_msg_send(agent->channel, RG_MSG_ANY_HOST, RG_MSG_LISTENING,
                    &(struct rg_msg_listening){ .port = 4000 });
    } else if (agent->fake->on_frame) {
        agent->fake->on_frame(agent, type, &msg);
    }
    rg_msg_clear(type, &msg);
}

static void closed(void *arg, const struct rg_error *err)
{
    (void) arg, (void) err;
}

static void never_comes(void *arg)
{
    struct fake_agent *agent = arg;
    struct rg_error err = RG_ERROR_INIT;

    agent->gone = true;
    rg_error_set_exit(&err, EHOSTUNREACH, 69, "%s", agent->fake->refusals[agent->index]);
    agent->fake->driver.events->on_gone(agent->fake->driver.arg, agent->index, &err);
}

/* --- the driver ------------------------------------------------------------------------------- */

static int start(const struct rg_driver_options *options, void **ret_state, struct rg_error *err)
{
    struct fake *fake = the_fake;

    (void) err;
    fake->driver = *options;
    memcpy(fake->key, options->key, sizeof(fake->key));
    *ret_state = fake;
    for (int i = 0; i < NHOSTS; i++) {
        struct fake_agent *agent = &fake->agents[i];
        int fds[2];
        *agent = (struct fake_agent){ .fake = fake, .index = i, .raw_fd = -1 };
        if (fake->refusals[i]) { /* one after the other */
            rg_timer_start(&agent->timer, fake->loop, 1 + LATE_MS * (uint64_t) i, 0, never_comes,
                           agent);
            continue;
        }
        assert_int_equal(rg_socketpair(fds), 0);
        agent->raw_fd = dup(fds[1]);
        struct rg_channel_options channel = {
            .loop = fake->loop, .read_fd = fds[1], .write_fd = fds[1],
            .link = { .key = fake->key, .job_id = options->plan->job_id, .role = "agent",
                      .initiator = true, .on_open = opened, .on_frame = frame_came, .arg = agent },
            .on_close = closed,
        };
        assert_int_equal(rg_channel_create(&channel, &agent->channel), 0);
        options->events->on_connected(options->arg, i, fds[0], fds[0]);
    }
    return 0;
}

static const char *ending(void *state, int *ret_exit_code)
{
    *ret_exit_code = RG_EXIT_PREEMPTED;
    return ((struct fake *) state)->ending;
}

static void stop(void *state, int host)
{
    tell_gone(&((struct fake *) state)->agents[host]);
}

static void destroy(void *state)
{
    struct fake *fake = state;

    for (int i = 0; i < NHOSTS; i++) {
        rg_timer_stop(&fake->agents[i].timer);
        rg_channel_destroy(rg_steal_ptr(&fake->agents[i].channel));
        if (fake->agents[i].raw_fd >= 0)
            close(fake->agents[i].raw_fd);
    }
}

static const struct rg_driver_ops driver = { .platform.name = "fake", .start = start, .stop = stop,
                                             .ending = ending, .destroy = destroy };

/* --- the job ---------------------------------------------------------------------------------- */

static void on_ended(void *arg, const struct rg_verdict *verdict)
{
    struct fake *fake = arg;

    snprintf(fake->cause, sizeof(fake->cause), "%s", verdict->cause);
    fake->exit_code = verdict->exit_code;
    for (int i = 0; i < verdict->nends; i++)
        fake->nconsequences += verdict->ends[i].consequence;
    rg_loop_stop(fake->loop);
}

static void too_late(void *arg)
{
    (void) arg;
    fail_msg("the job did not end within %u s", LIMIT_S);
}

static int set_up(void **state)
{
    struct fake *fake = calloc(1, sizeof(*fake));

    assert_non_null(fake);
    *state = the_fake = fake;
    rg_job_init(&fake->job);
    fake->job.np = NHOSTS;
    fake->job.stdin_mode = RG_STDIN_NONE;
    assert_int_equal(rg_strv_add(&fake->job.command, "true"), 0);
    assert_int_equal(rg_job_add_host(&fake->job, "a", 1, NULL), 0);
    assert_int_equal(rg_job_add_host(&fake->job, "b", 1, NULL), 0);
    assert_int_equal(rg_loop_create(&fake->loop), 0);
    return 0;
}

static void run(struct fake *fake)
{
    static const struct rg_session_ops ops = { .on_ended = on_ended };
    struct rg_error err = RG_ERROR_INIT;

    assert_int_equal(rg_plan_make(&fake->job, &fake->plan, &err), 0);
    struct rg_session_options options = { .loop = fake->loop, .job = &fake->job,
                                          .plan = &fake->plan, .driver = &driver, .ops = &ops,
                                          .arg = fake };
    assert_int_equal(rg_session_create(&options, &fake->session, &err), 0);
    rg_timer_start(&fake->watchdog, fake->loop, LIMIT_S * 1000, 0, too_late, NULL);
    rg_loop_run(fake->loop);
    rg_timer_stop(&fake->watchdog);
    rg_timer_stop(&fake->timer);
    rg_session_destroy(fake->session);
}

static int tear_down(void **state)
{
    struct fake *fake = *state;

    rg_loop_destroy(fake->loop);
    rg_plan_fini(&fake->plan);
    rg_job_fini(&fake->job);
    free(fake);
    return 0;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* --- messages --------------------------------------------------------------------------------- */

#define MANY 300 /* ranks, whose blobs of 64 KiB are more than a frame may have */

static void send_as(struct fake_agent *agent, enum rg_msg_type type, const void *object)
{
    assert_int_equal(rg_msg_send(agent->channel, (uint32_t) agent->index, type, object), 0);
}

static void come_to_the_fence(struct fake_agent *agent)
{
    static uint8_t blob[RG_RANKMSG_BLOB_MAX];

    for (uint32_t i = 0; i < MANY / NHOSTS; i++) {
        uint32_t rank = (uint32_t) agent->index * (MANY / NHOSTS) + i;
        send_as(agent, RG_MSG_STARTED, &(struct rg_msg_started){ .rank = rank, .pid = 2 + i });
        memset(blob, (int) (rank % 251), sizeof(blob));
        send_as(agent, RG_MSG_FENCE,
                &(struct rg_msg_fence){ rank, 1, unit_limit_s(10) * 1000,
                                         { blob, sizeof(blob) }, 0 });
    }
}

static void check_answer(struct fake_agent *agent)
{
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&agent->answer),
                                             rg_buf_nbytes(&agent->answer));
    size_t nbytes;

    for (uint32_t rank = 0; rank < MANY; rank++) {
        const uint8_t *blob = rg_reader_span(&reader, RG_RANKMSG_BLOB_MAX, &nbytes);
        assert_int_equal(nbytes, RG_RANKMSG_BLOB_MAX);
        assert_int_equal(blob[nbytes - 1], rank % 251);
    }
    assert_int_equal(rg_reader_done(&reader), 0);
}

static void leave_after_the_fence(struct fake_agent *agent, uint16_t type, const union rg_msg *msg)
{
    if (type == RG_MSG_PROBE) {
        for (uint32_t i = 0; i < msg->probe.targets.count; i++)
            send_as(agent, RG_MSG_PROBED, &(struct rg_msg_probed){ i, 0, 100 });
    } else if (type == RG_MSG_START) {
        come_to_the_fence(agent);
    } else if (type == RG_MSG_FENCE_DONE) {
        rg_buf_put(&agent->answer, msg->fence_done.blobs.data, msg->fence_done.blobs.nbytes);
        assert_in_range(msg->fence_done.blobs.nbytes, 1, RG_FENCE_PART_MAX);
        if (msg->fence_done.left)
            return;
        check_answer(agent);
        rg_buf_fini(&agent->answer);
        for (uint32_t i = 0; i < MANY / NHOSTS; i++)
            send_as(agent, RG_MSG_EXITED,
                    &(struct rg_msg_exited){ .rank = (uint32_t) agent->index * (MANY / NHOSTS) + i,
                                             .cut_by = RG_MSG_NO_RANK });
        send_as(agent, RG_MSG_BYE, &(struct rg_msg_bye){ 0 });
        rg_timer_start(&agent->timer, agent->fake->loop, 0, 0, tell_gone, agent);
    }
}

static void a_fence_may_be_larger_than_a_frame(void **state)
{
    struct fake *fake = *state;

    fake->job.np = MANY;
    for (int i = 0; i < NHOSTS; i++)
        fake->job.hosts[i].nslots = MANY / NHOSTS;
    fake->on_frame = leave_after_the_fence;
    run(fake);
    assert_string_equal(fake->cause, "");
    assert_int_equal(fake->exit_code, 0);
}

static void send_end(struct fake_agent *agent, int status)
{
    send_as(agent, RG_MSG_EXITED,
            &(struct rg_msg_exited){ .rank = (uint32_t) agent->index, .status = (uint32_t) status,
                                     .cut_by = RG_MSG_NO_RANK });
    send_as(agent, RG_MSG_BYE, &(struct rg_msg_bye){ 0 });
    rg_timer_start(&agent->timer, agent->fake->loop, 0, 0, tell_gone, agent);
}

/* Rank 0 fails as soon as it hears that the ranks cannot meet. */
static void never_meet(struct fake_agent *agent, uint16_t type, const union rg_msg *msg)
{
    uint32_t rank = (uint32_t) agent->index;
    struct rg_msg_fence fence = { rank, 1, unit_limit_s(10) * 1000, { (uint8_t *) "b", 1 }, 0 };

    if (type == RG_MSG_PROBE)
        leave_after_the_fence(agent, type, msg);
    if (type == RG_MSG_START)
        send_as(agent, RG_MSG_STARTED, &(struct rg_msg_started){ .rank = rank, .pid = 2 });
    if (type == RG_MSG_START && rank == 0)
        send_as(agent, RG_MSG_FENCE, &fence);
    else if (type == RG_MSG_START)
        send_end(agent, agent->fake->status);
    else if (type == RG_MSG_FENCE_FAILED && rank == 0)
        send_end(agent, 1 << 8);
}

static void who_waits_for_the_others_dies_of_one_that_never_comes(void **state)
{
    struct fake *fake = *state;

    fake->on_frame = never_meet;
    fake->status = 2 << 8;
    run(fake);
    assert_string_equal(fake->cause, "rank 1 on b: exit code 2");
    assert_int_equal(fake->exit_code, 2);
    assert_int_equal(fake->nconsequences, 1);
}

static void one_that_ends_well_and_never_comes_is_the_cause(void **state)
{
    struct fake *fake = *state;

    fake->on_frame = never_meet;
    run(fake);
    assert_string_equal(fake->cause, "rank 1 on b: exit code 0, while others waited for it");
    assert_int_equal(fake->exit_code, 1);
}

static void speak_for_another(struct fake_agent *agent, uint16_t type, const union rg_msg *msg)
{
    leave_after_the_fence(agent, type == RG_MSG_PROBE ? type : RG_MSG_PONG, msg);
    if (type == RG_MSG_START && agent->index == 1)
        rg_msg_send(agent->channel, 0, RG_MSG_PONG, NULL);
}

static void nobody_speaks_for_another_host(void **state)
{
    struct fake *fake = *state;

    fake->on_frame = speak_for_another;
    run(fake);
    assert_int_equal(fake->exit_code, RG_EXIT_HOST_LOST);
    assert_non_null(strstr(fake->cause, "host b: its agent sent a broken message: PONG"));
}

/* --- hosts that die --------------------------------------------------------------------------- */

static void refuse_all(struct fake_agent *agent, const struct rg_msg_probe *probe)
{
    for (uint32_t i = 0; i < probe->targets.count; i++)
        rg_msg_send(agent->channel, RG_MSG_ANY_HOST, RG_MSG_PROBED,
                    &(struct rg_msg_probed){ i, ECONNREFUSED, 0 });
}

static void die_of_it(void *arg)
{
    die(arg, false);
}

/* b is dead once it has been asked, so that its port refuses a; its link tells that later. */
static void b_dies_while_probed(struct fake_agent *agent, uint16_t type, const union rg_msg *msg)
{
    if (agent->index == 0 && type == RG_MSG_PROBE)
        refuse_all(agent, &msg->probe);
    else if (agent->index == 1 && type == RG_MSG_PROBE)
        rg_timer_start(&agent->timer, agent->fake->loop, LATE_MS, 0, die_of_it, agent);
    else if (agent->index == 0 && type == RG_MSG_PING)
        rg_msg_send(agent->channel, RG_MSG_ANY_HOST, RG_MSG_PONG, NULL);
}

static void an_agent_that_is_killed_while_probed_is_the_cause_and_no_firewall(void **state)
{
    struct fake *fake = *state;

    fake->on_frame = b_dies_while_probed;
    run(fake);
    assert_string_equal(fake->cause, "host b: its agent (process 7) ended: signal 9 (Killed)");
    assert_int_equal(fake->exit_code, RG_EXIT_UNAVAILABLE);
}

static void all_live(struct fake_agent *agent, uint16_t type, const union rg_msg *msg)
{
    if (type == RG_MSG_PROBE)
        refuse_all(agent, &msg->probe);
    else if (type == RG_MSG_PING)
        rg_msg_send(agent->channel, RG_MSG_ANY_HOST, RG_MSG_PONG, NULL);
}

static void hosts_that_live_and_refuse_each_other_are_named(void **state)
{
    struct fake *fake = *state;

    fake->on_frame = all_live;
    run(fake);
    assert_contains(fake->cause, "cannot reach host");
    assert_contains(fake->cause, "firewall");
    assert_int_equal(fake->exit_code, RG_EXIT_UNAVAILABLE);
}

static void a_says_hello(void *arg)
{
    say_hello(&((struct fake *) arg)->agents[0]);
}

/* The last HELLO comes when b's link is closed already. */
static void b_dies_before_its_setup(struct fake_agent *agent)
{
    if (agent->index == 0)
        return;
    say_hello(agent);
    rg_timer_start(&agent->timer, agent->fake->loop, 10, 0, die_of_it, agent);
    rg_timer_start(&agent->fake->timer, agent->fake->loop, LATE_MS / 2, 0, a_says_hello,
                   agent->fake);
}

static void an_agent_that_is_killed_before_its_setup_is_the_cause(void **state)
{
    struct fake *fake = *state;

    fake->one_place = true;
    fake->on_open = b_dies_before_its_setup;
    run(fake);
    assert_string_equal(fake->cause, "host b: its agent (process 7) ended: signal 9 (Killed)");
    assert_int_equal(fake->exit_code, RG_EXIT_UNAVAILABLE);
}

/* At once: what is sent then fails, before any end is read. */
static void b_dies_with_its_hello(struct fake_agent *agent)
{
    say_hello(agent);
    if (agent->index == 1)
        rg_timer_start(&agent->timer, agent->fake->loop, 0, 0, die_of_it, agent);
}

static void an_agent_that_is_killed_while_it_is_sent_its_setup_is_the_cause(void **state)
{
    struct fake *fake = *state;

    fake->one_place = true;
    fake->on_open = b_dies_with_its_hello;
    run(fake);
    assert_string_equal(fake->cause, "host b: its agent (process 7) ended: signal 9 (Killed)");
    assert_true(fake->exit_code == RG_EXIT_UNAVAILABLE || fake->exit_code == RG_EXIT_HOST_LOST);
}

static void b_dies_in_a_message(struct fake_agent *agent, uint16_t type, const union rg_msg *msg)
{
    (void) msg;
    if (agent->index == 1 && type == RG_MSG_START)
        die(agent, true);
}

static void an_agent_that_is_killed_in_the_middle_of_a_message_is_the_cause(void **state)
{
    struct fake *fake = *state;

    fake->one_place = true;
    fake->on_frame = b_dies_in_a_message;
    run(fake);
    assert_string_equal(fake->cause, "host b: its agent (process 7) ended: signal 9 (Killed)");
    assert_int_equal(fake->exit_code, RG_EXIT_HOST_LOST);
}

static void the_platforms_word_counts_when_no_rank_has_started(void **state)
{
    struct fake *fake = *state;

    fake->one_place = true;
    fake->on_frame = b_dies_in_a_message;
    fake->ending = "the platform ends it";
    run(fake);
    assert_string_equal(fake->cause, fake->ending);
    assert_int_equal(fake->exit_code, RG_EXIT_PREEMPTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static void all_hosts_that_cannot_be_started_are_told_at_once(void **state)
{
    struct fake *fake = *state;

    fake->refusals[0] = "no sshd";
    fake->refusals[1] = "no such name";
    run(fake);
    assert_string_equal(fake->cause, "host a: no sshd\n  host b: no such name");
    assert_int_equal(fake->exit_code, RG_EXIT_UNAVAILABLE);
}

static void hosts_that_fail_alike_have_one_line(void **state)
{
    struct fake *fake = *state;

    fake->refusals[0] = "ssh a says no to a";
    fake->refusals[1] = "ssh b says no to b";
    run(fake);
    assert_string_equal(fake->cause, "hosts a, b: ssh a says no to a");
}

static void a_host_that_cannot_be_started_does_not_hide_the_healthy_ones(void **state)
{
    struct fake *fake = *state;

    fake->refusals[0] = "no sshd";
    run(fake);
    assert_string_equal(fake->cause, "host a: no sshd\n  reached: b");
    assert_int_equal(fake->exit_code, RG_EXIT_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_agent_that_is_killed_while_probed_is_the_cause_and_no_firewall),
        TEST(hosts_that_live_and_refuse_each_other_are_named),
        TEST(an_agent_that_is_killed_before_its_setup_is_the_cause),
        TEST(an_agent_that_is_killed_while_it_is_sent_its_setup_is_the_cause),
        TEST(an_agent_that_is_killed_in_the_middle_of_a_message_is_the_cause),
        TEST(the_platforms_word_counts_when_no_rank_has_started),
        TEST(all_hosts_that_cannot_be_started_are_told_at_once),
        TEST(hosts_that_fail_alike_have_one_line),
        TEST(a_fence_may_be_larger_than_a_frame),
        TEST(who_waits_for_the_others_dies_of_one_that_never_comes),
        TEST(one_that_ends_well_and_never_comes_is_the_cause),
        TEST(nobody_speaks_for_another_host),
        TEST(a_host_that_cannot_be_started_does_not_hide_the_healthy_ones),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
