/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "coll/boot/env/server.h"
#include "coll/boot/find/find.h"
#include "coll/net/sock.h"
#include "coll/ranks.h"
#include "wire/link.h"

static struct rg_boots boots; /* of this process */

/* ------------------------------------------------------------ fences */

static size_t blob_of(int rank, int round, uint8_t *blob)
{
    size_t nbytes = (size_t) (rank * 1000 + round * 3) % 5000;

    memset(blob, rank + round, nbytes);
    return nbytes;
}

static int check_fences(struct rank *rank, struct rg_boot *boot, int nrounds)
{
    struct rg_error err = RG_ERROR_INIT;
    uint8_t mine[5000], theirs[5000];
    int bad = 0;

    for (int round = 0; round < nrounds && !bad; round++) {
        struct rg_blob blobs[RANKS_MAX];
        size_t nbytes = blob_of(rank->me, round, mine);
        int r = rg_boot_fence(boot, mine, nbytes, ranks_deadline(), blobs, &err);

        if (r < 0)
            fprintf(stderr, "rank %d: %s\n", rank->me, err.text);
        bad |= ranks_check(rank, r == 0);
        for (int i = 0; i < rank->n && !bad; i++) {
            nbytes = blob_of(i, round, theirs);
            bad |= ranks_check(rank, blobs[i].nbytes == nbytes);
            bad |= ranks_check(rank, memcmp(blobs[i].data, theirs, nbytes) == 0);
        }
        if (r == 0)
            free(blobs[0].data);
    }
    return bad;
}

static int open_boot(struct rank *rank, uint64_t deadline_ns, struct rg_boot **ret_boot,
                     struct rg_error *err)
{
    int r = rg_boot_open(&boots, &rank->config, deadline_ns, ret_boot, err);

    if (r < 0 && !rank->arg)
        fprintf(stderr, "rank %d: %s\n", rank->me, err->text);
    return r;
}

static int meet(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot;
    int bad = ranks_check(rank, open_boot(rank, ranks_deadline(), &boot, &err) == 0);

    if (bad)
        return bad;
    const struct rg_boot_identity *identity = rg_boot_identity(boot);

    bad |= ranks_check(rank, strcmp(rg_boot_way(boot)->name, "env") == 0);
    bad |= ranks_check(rank, identity->rank == rank->me && identity->size == rank->n);
    bad |= ranks_check(rank, identity->has_key == (rank->n > 1));
    bad |= check_fences(rank, boot, 3);
    rg_boot_close(boot, true);
    return bad;
}

static void fences_bring_all_blobs_to_all_ranks(void **state)
{
    (void) state;
    for (int n = 1; n <= 5; n++)
        assert_int_equal(ranks_run(n, ranks_port(), meet, NULL), 0);
}

static int meet_again(struct rank *rank)
{
    int bad = 0;

    for (int i = 0; i < 10 && !bad; i++)
        bad = meet(rank);
    return bad;
}

static void ranks_can_meet_again_and_again(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(4, ranks_port(), meet_again, NULL), 0);
}

static int check_same_key(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_blob blobs[RANKS_MAX];
    struct rg_boot *boot;
    int bad = ranks_check(rank, open_boot(rank, ranks_deadline(), &boot, &err) == 0);

    if (bad)
        return bad;
    const uint8_t *key = rg_boot_identity(boot)->key;

    bad |= ranks_check(rank, rg_boot_fence(boot, key, RG_KEY_NBYTES, ranks_deadline(), blobs,
                                           &err) == 0);
    for (int i = 0; i < rank->n && !bad; i++)
        bad |= ranks_check(rank, memcmp(blobs[i].data, key, RG_KEY_NBYTES) == 0);
    if (!bad)
        free(blobs[0].data);
    rg_boot_close(boot, true);
    return bad;
}

static void all_ranks_get_one_key(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_same_key, NULL), 0);
}

/* ------------------------------------------------------------ ranks that do not come */

static int miss_two(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_blob blobs[RANKS_MAX];
    struct rg_boot *boot;
    uint64_t deadline_ns = rg_now_ns() + 1500 * RG_NS_PER_MS;
    int bad;

    if (rank->me == 2 || rank->me == 4)
        return 0;
    bad = ranks_check(rank, open_boot(rank, deadline_ns, &boot, &err) == 0);
    if (bad)
        return bad;
    bad |= ranks_check(rank, rg_boot_fence(boot, "", 0, deadline_ns, blobs, &err) == -ETIMEDOUT);
    if (!strstr(err.text, "ranks 2, 4 did not come within 1."))
        bad |= ranks_fail(rank, __LINE__, err.text);
    rg_boot_close(boot, false);
    return bad;
}

static void missing_ranks_are_named_to_all(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(5, ranks_port(), miss_two, NULL), 0);
}

static int miss_rank_zero(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot;
    int bad, r;

    if (rank->me == 0)
        return 0;
    r = open_boot(rank, rg_now_ns() + 300 * RG_NS_PER_MS, &boot, &err);
    bad = ranks_check(rank, r == -ETIMEDOUT && err.exit_code == 124);
    bad |= ranks_check(rank, strstr(err.text, "rank 0 did not answer at MASTER_ADDR=127.0.0.1") !=
                                 NULL);
    return bad;
}

static void without_rank_zero_the_place_is_named(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), miss_rank_zero, state), 0);
}

static _Atomic int *count; /* for all ranks and the test */

/* The victim dies when the others are through the fence before. */
static int die_between_fences(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_blob blobs[RANKS_MAX];
    struct rg_boot *boot;
    int bad = ranks_check(rank, open_boot(rank, ranks_deadline(), &boot, &err) == 0);

    bad = bad || check_fences(rank, boot, 1);
    if (bad)
        return bad;
    atomic_fetch_add(count, 1);
    if (rank->me == *(int *) rank->arg)
        return !unit_until(atomic_load(count) % rank->n == 0, "the first fence");
    bad |= ranks_check(rank, rg_boot_fence(boot, "", 0, ranks_deadline(), blobs, &err) ==
                                 -ECONNRESET);
    rg_boot_close(boot, false);
    return bad;
}

static void a_rank_that_dies_ends_the_fence_of_the_others(void **state)
{
    (void) state;
    count = ranks_shared(sizeof(*count));
    for (int victim = 0; victim < 3; victim += 2)
        assert_int_equal(ranks_run(3, ranks_port(), die_between_fences, &victim), 0);
}

struct last_words {
    int victim, cut_by;
    const char *note, *heard;
    bool noted_before; /* the note came before it was cut off */
};

/* All meet once; then the victim says why it fails, and the others hear of it in the fence that
 * they are in. */
static int fail_with_a_note(struct rank *rank)
{
    const struct last_words *words = rank->arg;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_blob blobs[RANKS_MAX];
    struct rg_boot *boot;
    bool victim = rank->me == words->victim;
    int bad = ranks_check(rank, open_boot(rank, ranks_deadline(), &boot, &err) == 0), r = 0;

    if (bad)
        return bad;
    for (int i = 0; r == 0 && i < (victim ? 1 : 2); i++) {
        r = rg_boot_fence(boot, "", 0, ranks_deadline(), blobs, &err);
        if (r == 0)
            free(blobs[0].data);
    }
    if (victim) {
        bad |= ranks_check(rank, r == 0);
        if (words->noted_before)
            rg_boot_note(boot, 0, words->note);
        if (words->cut_by >= 0)
            rg_boot_cut_off(boot, words->cut_by);
        rg_boot_note(boot, 0, words->note);
    } else {
        bad |= ranks_check(rank, r == -ECONNRESET);
        if (strcmp(err.text, words->heard) != 0)
            bad |= ranks_fail(rank, __LINE__, err.text);
    }
    rg_boot_close(boot, false);
    return bad;
}

/* Whom a note is about is a field, whatever its words are. */
static void a_note_names_the_rank_that_failed(void **state)
{
    static const struct last_words cases[] = {
        { 1, -1, "no memory", "rank 1: no memory", false },
        { 1, -1, "rank and file are gone", "rank 1: rank and file are gone", false },
        { 1, 2, "on b, rank 2 has no memory", "on b, rank 2 has no memory", false },
        { 1, 2, "no memory", "rank 1: no memory", true },
        { 0, -1, "rank and file are gone", "rank 0: rank and file are gone", false },
        { 0, 2, "on b, rank 2 has no memory", "on b, rank 2 has no memory", false },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++)
        assert_int_equal(ranks_run(3, ranks_port(), fail_with_a_note,
                                   (void *) (uintptr_t) &cases[i]), 0);
}

/* ------------------------------------------------------------ more than fits */

/* So many ranks of the largest blobs are too many beside rank 0, and one more does not come. */
enum { CROWD = RG_FENCE_NBYTES_MAX / RG_RANKMSG_BLOB_MAX + 1 };

struct crowd {
    char name[64];
    struct rg_env_job job;
    struct rg_conn conns[CROWD]; /* by rank */
    uint32_t errnum;             /* of the FENCE_FAILED that rank 1 got */
};

static int on_answer(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct rg_rankmsg_fence_failed failed = { 0 };

    if (type != RG_RANKMSG_FENCE_FAILED)
        return 0;
    if (rg_codec_decode(rg_rankmsg_fence_failed_fields, payload, nbytes, &failed) == 0)
        *(uint32_t *) arg = failed.errnum;
    rg_codec_clear(rg_rankmsg_fence_failed_fields, &failed);
    return 0;
}

static size_t answer_max(void *arg, uint16_t type)
{
    (void) arg;
    (void) type;
    return RG_RANKMSG_PAYLOAD_MAX;
}

static const struct rg_conn_ops answer_ops = { on_answer, answer_max, .secret = false };

/* All but the last rank come, in groups that the server takes in at a time. */
static void *be_a_crowd(void *arg)
{
    static uint8_t blob[RG_RANKMSG_BLOB_MAX];
    struct crowd *crowd = arg;
    struct rg_rankmsg_fence fence = { 1, 60000, { blob, sizeof(blob) }, 0 };

    for (int rank = 1; rank < CROWD - 1; rank++) {
        struct rg_rankmsg_hello hello = { RG_PROTOCOL_VERSION, (uint32_t) rank, 1,
                                          { crowd->job.facts, sizeof(crowd->job.facts) } };
        struct rg_conn *conn = &crowd->conns[rank];
        int fd;

        unit_until(rg_sock_connect_unix(crowd->name, &fd) >= 0, "who listens");
        rg_conn_init(conn, fd, &answer_ops, &crowd->errnum, NULL);
        rg_conn_send(conn, RG_RANKMSG_HELLO, rg_rankmsg_hello_fields, &hello);
        rg_conn_send(conn, RG_RANKMSG_FENCE, rg_rankmsg_fence_fields, &fence);
        rg_conn_drain(conn, ranks_deadline());
        if (rank % (RG_SERVER_PENDING_MAX / 2) == 0)
            rg_fd_wait(fd, POLLIN, ranks_deadline());
    }
    rg_fd_wait(crowd->conns[1].fd, POLLIN, ranks_deadline());
    return NULL;
}

static void blobs_that_are_too_many_bytes_are_not_kept(void **state)
{
    struct rlimit limit, wanted = { 3 * CROWD, 3 * CROWD };
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    struct rg_error err = RG_ERROR_INIT;
    struct rg_server *server;
    struct rg_blob *blobs = calloc(CROWD, sizeof(*blobs));
    pthread_t thread;
    int fd;

    (void) state;
    getrlimit(RLIMIT_NOFILE, &limit);
    wanted.rlim_max = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &wanted) < 0)
        skip();
    snprintf(crowd->name, sizeof(crowd->name), "@reigen-test-crowd-%d", (int) getpid());
    crowd->job = (struct rg_env_job) { .me = { .size = CROWD }, .trust = RG_TRUST_USER };
    assert_int_equal(rg_sock_listen_unix(crowd->name, &fd), 0);
    assert_int_equal(rg_server_create(&crowd->job, fd, &server), 0);
    assert_int_equal(pthread_create(&thread, NULL, be_a_crowd, crowd), 0);
    assert_int_equal(rg_server_fence(server, "", 0, ranks_deadline(), blobs, &err), -EMSGSIZE);
    assert_contains(err.text, "134217728 bytes");
    pthread_join(thread, NULL);
    while (rg_conn_pump(&crowd->conns[1], NULL) == 0 && crowd->errnum == 0)
        rg_fd_wait(crowd->conns[1].fd, POLLIN, ranks_deadline());
    assert_int_equal(crowd->errnum, EMSGSIZE);
    for (int rank = 1; rank < CROWD - 1; rank++)
        rg_conn_fini(&crowd->conns[rank]);
    rg_server_destroy(server);
    setrlimit(RLIMIT_NOFILE, &limit);
    free(blobs);
    free(crowd);
}

/* ------------------------------------------------------------ keys */

static char key_files[2][64];

static void make_key_file(int i, mode_t mode)
{
    uint8_t key[RG_KEY_NBYTES];
    char hex[2 * RG_KEY_NBYTES + 1];

    snprintf(key_files[i], sizeof(key_files[i]), "/tmp/reigen-test-key-XXXXXX");
    int fd = mkstemp(key_files[i]);

    assert_true(fd >= 0);
    rg_key_generate(key);
    rg_key_format(key, hex);
    assert_int_equal(write(fd, hex, 64), 64);
    fchmod(fd, mode);
    close(fd);
}

static int meet_once_with_key(struct rank *rank)
{
    strcpy(rank->config.key_file, key_files[0]);
    return meet(rank);
}

static int meet_with_key(struct rank *rank)
{
    strcpy(rank->config.key_file, key_files[0]);
    return meet_again(rank);
}

static void with_a_key_ranks_meet_over_tcp(void **state)
{
    (void) state;
    make_key_file(0, 0600);
    assert_int_equal(ranks_run(3, ranks_port(), meet_with_key, NULL), 0);
    unlink(key_files[0]);
}

static int wrong_key(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_blob blobs[RANKS_MAX];
    struct rg_boot *boot;
    uint64_t deadline_ns = rg_now_ns() + 1500 * RG_NS_PER_MS;
    int r, bad;

    strcpy(rank->config.key_file, key_files[rank->me == 1]);
    r = open_boot(rank, deadline_ns, &boot, &err);
    if (rank->me == 1)
        return ranks_check(rank, r == -ETIMEDOUT);
    bad = ranks_check(rank, r == 0);
    if (bad)
        return bad;
    bad |= ranks_check(rank, rg_boot_fence(boot, "", 0, deadline_ns, blobs, &err) == -ETIMEDOUT);
    bad |= ranks_check(rank, strstr(err.text, "rank 1 did not come") != NULL);
    bad |= ranks_check(rank, strstr(err.text, "REIGEN_KEY_FILE") != NULL);
    rg_boot_close(boot, false);
    return bad;
}

static void a_wrong_key_keeps_a_rank_out(void **state)
{
    make_key_file(0, 0600);
    make_key_file(1, 0600);
    assert_int_equal(ranks_run(3, ranks_port(), wrong_key, state), 0);
    unlink(key_files[0]);
    unlink(key_files[1]);
}

static int open_to_fail(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot;
    int r;

    strcpy(rank->config.key_file, key_files[0]);
    r = open_boot(rank, ranks_deadline(), &boot, &err);
    if (r < 0 && strstr(err.text, rank->arg))
        return 0;
    fprintf(stderr, "\"%s\" lacks \"%s\"\n", err.text, (const char *) rank->arg);
    return 1;
}

static void key_files_that_others_can_read_are_refused(void **state)
{
    (void) state;
    make_key_file(0, 0640);
    assert_int_equal(ranks_run(2, ranks_port(), open_to_fail, "can be read by others (mode 640): "
                                                              "chmod 600"), 0);
    chmod(key_files[0], 0600);
    assert_int_equal(truncate(key_files[0], 63), 0);
    assert_int_equal(ranks_run(2, ranks_port(), open_to_fail, "64 hexadecimal digits"), 0);
    unlink(key_files[0]);
    assert_int_equal(ranks_run(2, ranks_port(), open_to_fail, "No such file"), 0);
    key_files[0][0] = 0;
}

static int meet_insecurely(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot;
    int bad;

    rank->config.insecure = true;
    bad = ranks_check(rank, open_boot(rank, ranks_deadline(), &boot, &err) == 0);
    if (bad)
        return bad;
    bad |= ranks_check(rank, (rg_boot_identity(boot)->warning[0] != 0) == (rank->me == 0));
    bad |= ranks_check(rank, !rg_boot_identity(boot)->one_host);
    bad |= check_fences(rank, boot, 2);
    rg_boot_close(boot, true);
    return bad;
}

static void reigen_insecure_does_without_a_key_and_warns(void **state)
{
    (void) state;
    ranks_setenv("LOCAL_WORLD_SIZE", "1");
    assert_int_equal(ranks_run(3, ranks_port(), meet_insecurely, NULL), 0);
    ranks_clearenv();
}

/* ------------------------------------------------------------ variables */

static void expect_refusal(const char *name, const char *value, const char *text)
{
    key_files[0][0] = 0;
    ranks_setenv(name, value);
    assert_int_equal(ranks_run(2, 29500, open_to_fail, (void *) (uintptr_t) text), 0);
    ranks_clearenv();
}

static void several_hosts_without_a_key_are_refused(void **state)
{
    (void) state;
    expect_refusal("LOCAL_WORLD_SIZE", "1", "1 of 2 ranks are on this one) and no key: give all "
                                            "ranks one key");
    expect_refusal("MASTER_ADDR", "192.0.2.1", "MASTER_ADDR=192.0.2.1 is not this one");
    expect_refusal("MASTER_ADDR", "192.0.2.1", "REIGEN_KEY_FILE), or set REIGEN_INSECURE=1");
}

static void broken_variables_are_named(void **state)
{
    (void) state;
    expect_refusal("LOCAL_RANK", "two", "LOCAL_RANK");
    expect_refusal("LOCAL_WORLD_SIZE", "0", "LOCAL_WORLD_SIZE");
    expect_refusal("MASTER_ADDR", "no such host", "MASTER_ADDR=no such host");
}

static int open_one_var(struct rank *rank)
{
    unsetenv("RANK");
    return open_to_fail(rank);
}

static int open_rank_too_large(struct rank *rank)
{
    setenv("RANK", "7", 1);
    return open_to_fail(rank);
}

static int open_without_port(struct rank *rank)
{
    unsetenv("MASTER_PORT");
    return open_to_fail(rank);
}

static int open_with_a_long_store(struct rank *rank)
{
    char name[300] = "";

    memset(name, '1', sizeof(name) - 1);
    setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", name, 1);
    setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", "1", 1);
    setenv("HOROVOD_RANK", rank->me ? "1" : "0", 1);
    setenv("HOROVOD_SIZE", "2", 1);
    return open_to_fail(rank);
}

static void incomplete_or_contradicting_variables_are_refused(void **state)
{
    (void) state;
    key_files[0][0] = 0;
    assert_int_equal(ranks_run(2, 1, open_one_var, "WORLD_SIZE is set and RANK is not"), 0);
    assert_int_equal(ranks_run(2, 1, open_rank_too_large, "RANK=7: with WORLD_SIZE=2"), 0);
    assert_int_equal(ranks_run(2, 1, open_without_port, "MASTER_PORT is not set"), 0);
    assert_int_equal(ranks_run(2, 1, open_with_a_long_store,
                               "HOROVOD_GLOO_RENDEZVOUS_ADDR is longer than"), 0);
}

static void without_variables_a_rank_is_alone(void **state)
{
    struct rg_config config = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot;
    struct rg_blob blob;

    (void) state;
    assert_int_equal(rg_boot_open(&boots, &config, RG_NEVER_NS, &boot, &err), 0);
    assert_string_equal(rg_boot_way(boot)->name, "single");
    assert_int_equal(rg_boot_identity(boot)->size, 1);
    assert_int_equal(rg_boot_fence(boot, "abc", 3, RG_NEVER_NS, &blob, &err), 0);
    assert_int_equal(blob.nbytes, 3);
    assert_memory_equal(blob.data, "abc", 3);
    free(blob.data);
    rg_boot_close(boot, true);
}

/* ------------------------------------------------------------ neighbours and strangers */

/* Jobs run side by side from forked test processes. */
static pid_t start_job(const char *id, int n, int master_port)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (id)
            setenv("REIGEN_JOB_ID", id, 1);
        _exit(ranks_run(n, master_port, meet_again, NULL));
    }
    return pid;
}

static void jobs_on_overlapping_ports_do_not_mix(void **state)
{
    int port = ranks_port();
    pid_t pids[4] = { start_job("a", 3, port), start_job("b", 3, port), start_job("c", 2, port),
                      start_job(NULL, 4, port + 1) };

    int status = -1;

    (void) state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

static int strange_port;
static atomic_bool strangers_stop;

/* Garbage, silence, a handshake cut short: on every port, again and again. */
static void *be_strange(void *arg)
{
    int silent[64], nsilent = 0;
    unsigned seed = 1;

    (void) arg;
    while (!strangers_stop) {
        for (int i = 1; i <= 16; i++) {
            struct rg_sockaddr address;
            char text[64], garbage[200];
            int fd;

            snprintf(text, sizeof(text), "127.0.0.1:%d", strange_port + i);
            rg_sock_parse(text, &address);
            if (rg_sock_connect_tcp(NULL, &address, &fd) < 0)
                continue;
            if (rg_fd_wait(fd, POLLOUT, rg_now_ns() + RG_NS_PER_MS) < 0 ||
                rg_sock_error(fd) < 0) {
                close(fd);
                continue;
            }
            for (size_t j = 0; j < sizeof(garbage); j++)
                garbage[j] = (char) rand_r(&seed);
            if (rand_r(&seed) % 3)
                send(fd, garbage, 1 + (size_t) rand_r(&seed) % 199, MSG_NOSIGNAL);
            if (nsilent < 64)
                silent[nsilent++] = fd;
            else
                close(fd);
        }
        atomic_fetch_add(count, 1);
        rg_sleep_ms(1); /* patient: strangers leave something of the machine to the ranks */
    }
    for (int i = 0; i < nsilent; i++)
        close(silent[i]);
    return NULL;
}

static int meet_among_strangers(struct rank *rank)
{
    strcpy(rank->config.key_file, key_files[0]);
    if (rank->me == 1 && !unit_until(atomic_load(count) > 50, "strangers"))
        return 1;
    return meet(rank);
}

static void strangers_and_garbage_do_not_disturb(void **state)
{
    pthread_t thread;

    (void) state;
    make_key_file(0, 0600);
    strange_port = ranks_port();
    strangers_stop = false;
    count = ranks_shared(sizeof(*count));
    pthread_create(&thread, NULL, be_strange, NULL);
    int result = ranks_run(3, strange_port, meet_among_strangers, NULL);

    strangers_stop = true;
    pthread_join(thread, NULL);
    unlink(key_files[0]);
    assert_int_equal(result, 0);
}

static void another_service_on_the_first_port_is_passed_over(void **state)
{
    struct rg_sockaddr address;
    uint16_t bound;
    char text[64];
    int fd, port = ranks_port();

    (void) state;
    snprintf(text, sizeof(text), "127.0.0.1:%d", port + 1);
    rg_sock_parse(text, &address);
    /* It accepts (the kernel does) and never says a word. */
    assert_int_equal(rg_sock_listen_tcp(&address, &fd, &bound), 0);
    make_key_file(0, 0600);
    int result = ranks_run(2, port, meet_once_with_key, NULL);

    close(fd);
    unlink(key_files[0]);
    assert_int_equal(result, 0);
}

/* Another user holds the name where ranks meet: needs root, as only root can become another
 * user. */
static void a_name_held_by_another_user_is_passed_over(void **state)
{
    char name[64];
    int port = ranks_port(), ready[2];
    char byte;

    (void) state;
    if (geteuid() != 0)
        skip();
    snprintf(name, sizeof(name), "@reigen-0-%d", port + 1);
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();

    if (pid == 0) {
        int fd;

        alarm(unit_limit_s(RANKS_LIMIT_S));
        if (setuid(65534) < 0 || rg_sock_listen_unix(name, &fd) < 0)
            _exit(1);
        byte = 1;
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    int result = ranks_run(3, port, meet, NULL);

    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(result, 0);
}

static void ranks_are_listed_in_runs(void **state)
{
    static const struct { const char *map, *text; } list[] = {
        { "0100", "rank 1" }, { "0011", "ranks 2-3" }, { "00100111", "ranks 2, 5-7" },
        { "10101010101010101010", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 2 more" } };

    (void) state;
    for (size_t i = 0; i < rg_array_len(list); i++) {
        rg_autobuf struct rg_buf text = RG_BUF_INIT;
        bool missing[32];
        int n = (int) strlen(list[i].map);

        for (int j = 0; j < n; j++)
            missing[j] = list[i].map[j] == '1';
        rg_ranks_format(missing, n, &text);
        assert_string_equal(rg_buf_text(&text), list[i].text);
    }
}

/* ------------------------------------------------------------ communicators */

/* What a way of being started says of itself holds for some of its ranks, too. */
static void a_communicator_has_the_traits_of_its_job(void **state)
{
    static const struct rg_boot_ops of_mpi = { .name = "mpi", .of_mpi = true };
    static const struct rg_boot_ops shows_notes = { .name = "agent", .shows_notes = true };
    const struct rg_boot_ops *const ways[] = { &of_mpi, &shows_notes };
    struct rg_boot_identity identity = RG_BOOT_IDENTITY_INIT;

    (void) state;
    identity.size = 1;
    for (int i = 0; i < 2; i++) {
        struct rg_boot *boot;

        assert_int_equal(rg_boot_make(ways[i], NULL, &identity, &boot), 0);
        assert_int_equal(rg_boot_comm(&boot, (int[]){ 0 }, 1, ranks_deadline(), NULL), 0);
        assert_string_equal(rg_boot_way(boot)->name, ways[i]->name);
        assert_int_equal(rg_boot_way(boot)->of_mpi, ways[i]->of_mpi);
        assert_int_equal(rg_boot_way(boot)->shows_notes, ways[i]->shows_notes);
        rg_boot_close(boot, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_variables_a_rank_is_alone),
        cmocka_unit_test(ranks_are_listed_in_runs),
        cmocka_unit_test(fences_bring_all_blobs_to_all_ranks),
        cmocka_unit_test(ranks_can_meet_again_and_again),
        cmocka_unit_test(all_ranks_get_one_key),
        cmocka_unit_test(missing_ranks_are_named_to_all),
        cmocka_unit_test(without_rank_zero_the_place_is_named),
        cmocka_unit_test(a_rank_that_dies_ends_the_fence_of_the_others),
        cmocka_unit_test(a_note_names_the_rank_that_failed),
        cmocka_unit_test(with_a_key_ranks_meet_over_tcp),
        cmocka_unit_test(a_wrong_key_keeps_a_rank_out),
        cmocka_unit_test(key_files_that_others_can_read_are_refused),
        cmocka_unit_test(reigen_insecure_does_without_a_key_and_warns),
        cmocka_unit_test(several_hosts_without_a_key_are_refused),
        cmocka_unit_test(broken_variables_are_named),
        cmocka_unit_test(incomplete_or_contradicting_variables_are_refused),
        cmocka_unit_test(jobs_on_overlapping_ports_do_not_mix),
        cmocka_unit_test(strangers_and_garbage_do_not_disturb),
        cmocka_unit_test(another_service_on_the_first_port_is_passed_over),
        cmocka_unit_test(a_name_held_by_another_user_is_passed_over),
        cmocka_unit_test(a_communicator_has_the_traits_of_its_job),
        cmocka_unit_test(blobs_that_are_too_many_bytes_are_not_kept),
    };

    ranks_clearenv();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
