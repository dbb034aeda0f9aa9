/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranks' side of the agent, over its real socket: this program is its own command, and plays
 * the part that its arguments name.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/time.h"
#include "launch/session/harness.h"
#include "wire/link.h"
#include "wire/rankmsg.h"

/* --- in the rank ------------------------------------------------------------------------------ */

static int my_rank;
static struct rg_rankmsg_welcome my_welcome;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "rank %d: %s\n", my_rank, what);
    exit(99);
}

static int dial(void)
{
    const char *name = getenv("REIGEN_AGENT_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t length = strlen(name);

    must(name[0] == '@', "the socket's name");
    memcpy(address.sun_path + 1, name + 1, length - 1);
    must(connect(fd, (struct sockaddr *) &address,
                 (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length)) == 0,
         "connect");
    return fd;
}

static void send_frame(int fd, uint16_t type, const struct rg_field *fields, const void *object)
{
    rg_autobuf struct rg_buf payload = RG_BUF_INIT, frame = RG_BUF_INIT;

    if (fields)
        rg_codec_encode(fields, object, &payload);
    rg_buf_put_u32(&frame, (uint32_t) rg_buf_nbytes(&payload));
    rg_buf_put_u16(&frame, type);
    rg_buf_put(&frame, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
    must(rg_write_all(fd, rg_buf_bytes(&frame), rg_buf_nbytes(&frame)) == 0, "write");
}

/* The next frame's type, decoded into object; 0 at the end of the connection. */
static int next_frame(int fd, uint8_t **ret_payload, size_t *ret_nbytes)
{
    uint8_t header[6];

    if (rg_read_all(fd, header, sizeof(header)) < 0)
        return 0;
    struct rg_reader reader = rg_reader_make(header, sizeof(header));
    size_t nbytes = rg_reader_u32(&reader);
    int type = rg_reader_u16(&reader);
    *ret_payload = malloc(nbytes + 1);
    must(rg_read_all(fd, *ret_payload, nbytes) == 0, "payload");
    *ret_nbytes = nbytes;
    return type;
}

static void expect(int fd, int type, const struct rg_field *fields, void *object)
{
    rg_autofree uint8_t *payload = NULL;
    size_t nbytes = 0;
    int got = next_frame(fd, &payload, &nbytes);

    if (got != type)
        fprintf(stderr, "rank %d: frame %d instead of %d\n", my_rank, got, type);
    must(got == type, "the type of a frame");
    must(!fields || rg_codec_decode(fields, payload, nbytes, object) == 0, "a frame's payload");
}

static void send_hello_of(int fd, int rank, const char *hex, uint32_t version)
{
    uint8_t token[RG_RANK_TOKEN_NBYTES];
    struct rg_rankmsg_hello hello = {
        .version = version,
        .rank = (uint32_t) rank,
        .pid = (uint32_t) getpid(),
        .token = { token, sizeof(token) },
    };

    for (size_t i = 0; i < sizeof(token); i++) {
        unsigned byte = 0;
        must(sscanf(hex + 2 * i, "%2x", &byte) == 1, "the token");
        token[i] = (uint8_t) byte;
    }
    send_frame(fd, RG_RANKMSG_HELLO, rg_rankmsg_hello_fields, &hello);
}

static void send_hello(int fd, int rank, const char *hex)
{
    send_hello_of(fd, rank, hex, RG_PROTOCOL_VERSION);
}

static int join_job(void)
{
    int fd = dial();

    send_hello(fd, my_rank, getenv("REIGEN_RANK_TOKEN"));
    expect(fd, RG_RANKMSG_WELCOME, rg_rankmsg_welcome_fields, &my_welcome);
    return fd;
}

static void send_fence(int fd, uint32_t generation, uint32_t timeout_ms)
{
    char blob[64];
    struct rg_rankmsg_fence fence = { generation, timeout_ms, { (uint8_t *) blob, 0 }, 0 };

    fence.blob.nbytes =
        (size_t) snprintf(blob, sizeof(blob), "rank %d fence %u", my_rank, generation);
    send_frame(fd, RG_RANKMSG_FENCE, rg_rankmsg_fence_fields, &fence);
}

static void pass_fence(int fd, uint32_t generation)
{
    struct rg_rankmsg_fence_done done = { 0 };
    char expected[64];
    size_t nbytes;

    send_fence(fd, generation, 10000);
    expect(fd, RG_RANKMSG_FENCE_DONE, rg_rankmsg_fence_done_fields, &done);
    must(done.generation == generation, "the fence's generation");
    struct rg_reader reader = rg_reader_make(done.blobs.data, done.blobs.nbytes);
    for (uint32_t i = 0; i < my_welcome.size; i++) {
        const uint8_t *blob = rg_reader_span(&reader, RG_RANKMSG_BLOB_MAX, &nbytes);
        int n = snprintf(expected, sizeof(expected), "rank %u fence %u", i, generation);
        must(nbytes == (size_t) n && memcmp(blob, expected, nbytes) == 0, "a rank's blob");
    }
    must(rg_reader_done(&reader) == 0, "nothing after the blobs");
    rg_codec_clear(rg_rankmsg_fence_done_fields, &done);
}

static void send_note(int fd, uint32_t level, const char *text)
{
    struct rg_rankmsg_note note = { level, (char *) text };

    send_frame(fd, RG_RANKMSG_NOTE, rg_rankmsg_note_fields, &note);
}

static int play_fences(void)
{
    int fd = join_job();

    must(my_welcome.key.nbytes == RG_KEY_NBYTES, "the data key");
    for (uint32_t g = 1; g <= 20; g++)
        pass_fence(fd, g);
    send_frame(fd, RG_RANKMSG_GOODBYE, NULL, NULL);
    return 0;
}

/* Where the late rank meets those whose fence has failed. */
static int late_socket(struct sockaddr_un *ret_address, socklen_t *ret_length)
{
    const char *name = getenv("REIGEN_AGENT_SOCKET");

    *ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1, "%s.late", name + 1);
    *ret_length = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 +
                               strlen(ret_address->sun_path + 1));
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* Nobody ends before all others have failed: if one did, that would be why. */
static void be_late(int nothers)
{
    struct sockaddr_un address;
    socklen_t length;
    int fd = late_socket(&address, &length);

    must(bind(fd, (struct sockaddr *) &address, length) == 0 && listen(fd, nothers) == 0, "listen");
    for (int i = 0; i < nothers; i++)
        must(accept(fd, NULL, NULL) >= 0, "accept");
}

static void wait_for_others(void)
{
    struct sockaddr_un address;
    socklen_t length;
    int fd = late_socket(&address, &length);
    char byte;

    must(unit_until(connect(fd, (struct sockaddr *) &address, length) == 0, "the late rank"),
         "connect");
    must(read(fd, &byte, 1) <= 0, "the late rank speaks");
}

static int play_missing(void)
{
    struct rg_rankmsg_fence_failed failed = { 0 };

    if (my_rank == 1) {
        rg_sleep_ms(100); /* patient: the other one most often waits by now */
        return 0;         /* never came, and ended well */
    }
    int fd = join_job();
    send_fence(fd, 1, 10000);
    expect(fd, RG_RANKMSG_FENCE_FAILED, rg_rankmsg_fence_failed_fields, &failed);
    must(failed.errnum == ECONNRESET, "ECONNRESET");
    must(strstr(failed.text, "rank 1 has ended (exit code 0)") != NULL, failed.text);
    if (my_rank == 0)
        be_late(1);
    else
        wait_for_others();
    send_frame(fd, RG_RANKMSG_GOODBYE, NULL, NULL);
    return 0;
}

static int play_late(void)
{
    struct rg_rankmsg_fence_failed failed = { 0 };

    if (my_rank == 2) {
        be_late(3);
        return 0;
    }
    int fd = join_job();
    send_fence(fd, 1, 200);
    expect(fd, RG_RANKMSG_FENCE_FAILED, rg_rankmsg_fence_failed_fields, &failed);
    must(failed.errnum == ETIMEDOUT, failed.text);
    /* On a busy machine others may be late, too: "ranks 0, 2". */
    must(strstr(failed.text, "did not come") && strpbrk(strstr(failed.text, ": rank"), "2"),
         failed.text);
    wait_for_others();
    send_frame(fd, RG_RANKMSG_GOODBYE, NULL, NULL);
    return 0;
}

/* Rank 1 dies; the others hear of it, say so, and fail of it. */
static int play_death(void)
{
    struct rg_rankmsg_peer_died died = { 0 };
    char note[256];

    int fd = join_job();
    pass_fence(fd, 1);
    if (my_rank == 1)
        raise(SIGKILL);
    expect(fd, RG_RANKMSG_PEER_DIED, rg_rankmsg_peer_died_fields, &died);
    must(died.rank == 1 && died.end == RG_DEATH_SIGNAL && died.value == SIGKILL, "who died");
    must(strcmp(died.host, "localhost") == 0, "where");
    snprintf(note, sizeof(note), "rank 1 on somewhere died: signal %d", died.value);
    send_note(fd, 0, note);
    rg_sleep_ms(300); /* patient: saves what can be saved */
    puts("saved");
    return 5;
}

/* Rank 0 fails, rank 1 takes no notice. */
static int play_deaf(void)
{
    int fd = join_job();

    pass_fence(fd, 1);
    if (my_rank == 0)
        return 6;
    for (;;)
        pause();
}

/* Rank 2 leaves without a word though all is well: its peers must not wait for it. */
static int play_silent_leave(void)
{
    struct rg_rankmsg_peer_died died = { 0 };
    int fd = join_job();

    pass_fence(fd, 1);
    if (my_rank == 2)
        return 0;
    expect(fd, RG_RANKMSG_PEER_DIED, rg_rankmsg_peer_died_fields, &died);
    must(died.rank == 2 && died.end == RG_DEATH_EXIT && died.value == 0, "who left");
    send_frame(fd, RG_RANKMSG_GOODBYE, NULL, NULL);
    return 0;
}

static void expect_refusal(int fd)
{
    char byte;

    must(read(fd, &byte, 1) <= 0, "a stranger was answered");
    close(fd);
}

static int play_strangers(void)
{
    static const char zeros[2 * RG_RANK_TOKEN_NBYTES + 1] = "00000000000000000000000000000000";
    char garbage[3000];
    int fd = dial();

    send_hello(fd, my_rank, zeros); /* wrong token */
    expect_refusal(fd);
    fd = dial();
    send_hello(fd, 1 - my_rank, getenv("REIGEN_RANK_TOKEN")); /* another rank's place */
    expect_refusal(fd);
    fd = dial();
    send_fence(fd, 1, 0); /* no HELLO */
    expect_refusal(fd);
    fd = dial();
    memset(garbage, 0xa5, sizeof(garbage));
    ssize_t ignored = write(fd, garbage, sizeof(garbage));
    (void) ignored;
    expect_refusal(fd);
    for (int i = 0; i < 200; i++)
        close(dial());
    fd = join_job(); /* and the honest are served as before */
    pass_fence(fd, 1);
    send_frame(fd, RG_RANKMSG_GOODBYE, NULL, NULL);
    return 0;
}

/* After fork and exec the socket is closed by one process while another serves the rank. */
static int play_again(void)
{
    close(join_job());
    int fd = join_job();

    pass_fence(fd, 1);
    int fresh = join_job();
    expect_refusal(fd); /* the old one is closed */
    pass_fence(fresh, 1);
    send_frame(fresh, RG_RANKMSG_GOODBYE, NULL, NULL);
    return 0;
}

static int play_notes(void)
{
    int fd = join_job();

    send_note(fd, 1, "stalled");
    send_note(fd, 0, "mismatched shapes");
    return my_rank == 0 ? 3 : 0;
}

/* Its Python has a Reigen of another day. */
static int play_other_version(void)
{
    int fd = dial();
    char byte;

    send_hello_of(fd, my_rank, getenv("REIGEN_RANK_TOKEN"), RG_PROTOCOL_VERSION + 1);
    must(read(fd, &byte, 1) == 0, "no answer");
    return 0;
}

static const struct {
    const char *name;
    int (*play)(void);
} parts[] = {
    { "fences", play_fences }, { "missing", play_missing },     { "late", play_late },
    { "death", play_death },   { "silent", play_silent_leave }, { "strangers", play_strangers },
    { "again", play_again },   { "notes", play_notes },         { "deaf", play_deaf },
    { "other", play_other_version },
};

static int play(const char *name)
{
    my_rank = atoi(getenv("REIGEN_RANK"));
    alarm(unit_limit_s(15));
    for (size_t i = 0; i < rg_array_len(parts); i++) {
        if (strcmp(parts[i].name, name) == 0)
            return parts[i].play();
    }
    return 98;
}

/* --- in the test ------------------------------------------------------------------------------ */

static struct harness *run_part(int np, const char *name)
{
    struct harness *h = harness_make(np, NULL);

    rg_strv_add(&h->job.command, "/proc/self/exe");
    free(h->job.command.v[0]);
    h->job.command.v[0] = realpath("/proc/self/exe", NULL);
    rg_strv_add(&h->job.command, name);
    run_job(h);
    for (int i = 0; i < np; i++)
        print_message("%s", output_of(h, i, 2));
    return h;
}

static void assert_part_ends_well(int np, const char *name)
{
    struct harness *h = run_part(np, name);

    assert_string_equal(h->cause, "");
    assert_true(h->verdict.ok);
    harness_free(h);
}

static void fences_bring_every_blob_to_every_rank(void **state)
{
    (void) state;
    assert_part_ends_well(5, "fences");
}

static void end_before_the_fence_is_told_to_those_who_wait(void **state)
{
    (void) state;
    assert_part_ends_well(3, "missing");
}

static void fence_has_a_deadline(void **state)
{
    (void) state;
    assert_part_ends_well(4, "late");
}

static void leaving_without_goodbye_is_told_to_the_others(void **state)
{
    (void) state;
    assert_part_ends_well(3, "silent");
}

static void strangers_are_refused_and_the_honest_served(void **state)
{
    struct harness *h = run_part(2, "strangers");

    (void) state;
    assert_true(h->verdict.ok);
    assert_contains(h->notes, "-1:refused an unauthenticated connection");
    harness_free(h);
}

static void rank_of_another_version_is_told_both_and_what_to_do(void **state)
{
    char says[200];
    struct harness *h = run_part(1, "other");

    (void) state;
    snprintf(says, sizeof(says), "-1:refused a rank: its Reigen has version %d of the protocol, "
             "this job's %d; install the launcher's Reigen for it", RG_PROTOCOL_VERSION + 1,
             RG_PROTOCOL_VERSION);
    assert_contains(h->notes, says);
    harness_free(h);
}

static void fresh_connection_replaces_the_old_one(void **state)
{
    (void) state;
    assert_part_ends_well(1, "again");
}

static void death_is_told_to_peers_and_theirs_is_a_consequence(void **state)
{
    struct harness *h = run_part(4, "death");

    (void) state;
    assert_int_equal(h->verdict.exit_code, 128 + SIGKILL);
    assert_int_equal(h->first, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(h->ends[i].consequence, i != 1);
        if (i != 1)
            assert_int_equal(h->ends[i].value, 5);
        if (i != 1)
            assert_string_equal(output_of(h, i, 1), "saved\n");
    }
    harness_free(h);
}

static void rank_that_takes_no_notice_is_stopped_after_a_while(void **state)
{
    struct harness *h = run_part(2, "deaf");

    (void) state;
    assert_int_equal(h->verdict.exit_code, 6);
    assert_int_equal(h->first, 0);
    assert_int_equal(h->ends[1].end, RG_END_SIGNAL);
    assert_int_equal(h->ends[1].value, SIGTERM);
    assert_true(h->ends[1].consequence);
    assert_true(h->verdict.elapsed_ns > 1900 * RG_NS_PER_MS);
    assert_true(h->verdict.elapsed_ns < 4000 * RG_NS_PER_MS);
    harness_free(h);
}

static void death_is_told_to_peers_on_other_hosts(void **state)
{
    struct harness *h = harness_make(0, NULL);

    (void) state;
    rg_job_add_host(&h->job, "localhost", 2, NULL);
    rg_job_add_host(&h->job, "127.0.0.1", 1, NULL);
    rg_strv_add(&h->job.command, "");
    free(h->job.command.v[0]);
    h->job.command.v[0] = realpath("/proc/self/exe", NULL);
    rg_strv_add(&h->job.command, "death");
    run_job(h);
    assert_int_equal(h->verdict.exit_code, 128 + SIGKILL);
    assert_int_equal(h->first, 1);
    assert_int_equal(h->ends[2].value, 5);
    harness_free(h);
}

static void notes_reach_the_user_and_the_verdict(void **state)
{
    struct harness *h = run_part(2, "notes");

    (void) state;
    assert_int_equal(h->verdict.exit_code, 3);
    assert_contains(h->notes, "0:stalled\n");
    assert_false(h->ends[0].consequence);
    harness_free(h);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fences_bring_every_blob_to_every_rank),
        cmocka_unit_test(end_before_the_fence_is_told_to_those_who_wait),
        cmocka_unit_test(fence_has_a_deadline),
        cmocka_unit_test(leaving_without_goodbye_is_told_to_the_others),
        cmocka_unit_test(strangers_are_refused_and_the_honest_served),
        cmocka_unit_test(rank_of_another_version_is_told_both_and_what_to_do),
        cmocka_unit_test(fresh_connection_replaces_the_old_one),
        cmocka_unit_test(death_is_told_to_peers_and_theirs_is_a_consequence),
        cmocka_unit_test(rank_that_takes_no_notice_is_stopped_after_a_while),
        cmocka_unit_test(death_is_told_to_peers_on_other_hosts),
        cmocka_unit_test(notes_reach_the_user_and_the_verdict),
    };

    if (argc == 2) {
        int code = play(argv[1]);
        fflush(NULL);
        _exit(code); /* what a rank has not freed is nobody's concern */
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
