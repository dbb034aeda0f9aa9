/* SPDX-License-Identifier: Apache-2.0 */
/* PMI's messages, and ranks that meet over a process manager which the test plays. */
#include "unit.h"

#include "base/time.h"
#include "coll/boot/pm/pmi.h"
#include "coll/boot/manager.h"
#include "wire/rankmsg.h"

#define WAIT_MS 20000

static uint64_t soon(void)
{
    return rg_now_ns() + WAIT_MS * RG_NS_PER_MS;
}

static int parse(enum rg_pmi_version version, const char *text, struct rg_pmi_message *message)
{
    static char copy[RG_PMI_MESSAGE_MAX + 1];
    size_t nbytes = strlen(text);

    memcpy(copy, text, nbytes);
    return rg_pmi_parse(version, copy, nbytes, message);
}

static void test_a_line_is_taken_apart(void **state)
{
    struct rg_pmi_message message;

    (void) state;
    assert_int_equal(parse(RG_PMI_1, "cmd=get_result rc=0 msg=success value=a=b \n", &message), 0);
    assert_int_equal(message.npairs, 4);
    assert_string_equal(rg_pmi_value(&message, "value"), "a=b");
    assert_string_equal(rg_pmi_value(&message, "msg"), "success");
    assert_null(rg_pmi_value(&message, "key"));
    assert_true(rg_pmi_succeeded(&message, "get_result"));
    assert_false(rg_pmi_succeeded(&message, "put_result"));
}

static void test_pairs_before_semicolons_are_taken_apart(void **state)
{
    struct rg_pmi_message message;

    (void) state;
    assert_int_equal(parse(RG_PMI_2, "cmd=kvs-get-response;rc=0;value=a;;b c;found=TRUE;",
                           &message), 0);
    assert_string_equal(rg_pmi_value(&message, "value"), "a;b c");
    assert_true(rg_pmi_succeeded(&message, "kvs-get-response"));
    assert_int_equal(parse(RG_PMI_2, "cmd=kvs-get-response;rc=0;found=FALSE;", &message), 0);
    assert_false(rg_pmi_succeeded(&message, "kvs-get-response"));
    assert_int_equal(parse(RG_PMI_2, "cmd=x;rc=14;", &message), 0);
    assert_false(rg_pmi_succeeded(&message, "x"));
}

static void test_what_is_no_message_is_refused(void **state)
{
    struct rg_pmi_message message;
    char many[RG_PMI_PAIRS_MAX * 4 + 64] = "cmd=x", nul[] = "cmd=a\0b\n";

    (void) state;
    assert_int_equal(parse(RG_PMI_1, "", &message), -EBADMSG);
    assert_int_equal(parse(RG_PMI_1, "\n", &message), -EBADMSG);
    assert_int_equal(parse(RG_PMI_1, "rc=0 cmd=x\n", &message), -EBADMSG);
    assert_int_equal(parse(RG_PMI_1, "cmd=x alone\n", &message), -EBADMSG);
    assert_int_equal(rg_pmi_parse(RG_PMI_1, nul, sizeof(nul) - 1, &message), -EBADMSG);
    for (int i = 1; i < RG_PMI_PAIRS_MAX; i++)
        strcat(many, " a=b");
    assert_int_equal(parse(RG_PMI_1, many, &message), 0);
    strcat(many, " a=b");
    assert_int_equal(parse(RG_PMI_1, many, &message), -EBADMSG);
}

static void test_a_message_is_whole_or_not_or_never(void **state)
{
    static char longest[RG_PMI_MESSAGE_MAX + 2];
    size_t begin, total;

    (void) state;
    assert_int_equal(rg_pmi_scan(RG_PMI_1, "cmd=a", 5, &begin, &total), 0);
    assert_int_equal(rg_pmi_scan(RG_PMI_1, "cmd=a\nc", 7, &begin, &total), 1);
    assert_int_equal(begin, 0);
    assert_int_equal(total, 6);
    assert_int_equal(rg_pmi_scan(RG_PMI_2, "     6cmd=a;more", 16, &begin, &total), 1);
    assert_int_equal(begin, 6);
    assert_int_equal(total, 12);
    assert_int_equal(rg_pmi_scan(RG_PMI_2, "6     cmd=a", 11, &begin, &total), 0);
    assert_int_equal(rg_pmi_scan(RG_PMI_2, "6    ", 5, &begin, &total), 0);
    assert_int_equal(rg_pmi_scan(RG_PMI_2, "6 6   cmd=a;", 12, &begin, &total), -EBADMSG);
    assert_int_equal(rg_pmi_scan(RG_PMI_2, "      cmd=a;", 12, &begin, &total), -EBADMSG);
    assert_int_equal(rg_pmi_scan(RG_PMI_2, "999999cmd=a;", 12, &begin, &total), -EBADMSG);
    memset(longest, 'x', sizeof(longest));
    assert_int_equal(rg_pmi_scan(RG_PMI_1, longest, sizeof(longest), &begin, &total), -EBADMSG);
}

/* ---- ranks */

struct rank {
    struct manager *manager;
    int number, fences;
    size_t nbytes;    /* of a blob, and its number */
    uint8_t key[RG_KEY_NBYTES];
    int result;
    struct rg_error err;
};

static void fill(uint8_t *blob, size_t nbytes, int rank, int fence)
{
    for (size_t i = 0; i < nbytes; i++)
        blob[i] = (uint8_t) (i * 7 + (size_t) (rank * 31 + fence));
}

static int fence_once(struct rank *rank, struct rg_kvs *kvs, int fence)
{
    int n = rank->manager->nclients;
    uint8_t *mine = malloc(rank->nbytes + 64), *theirs = malloc(rank->nbytes + 64);
    struct rg_blob blobs[MANAGER_CLIENTS_MAX] = { 0 };
    int r;

    fill(mine, rank->nbytes + (size_t) rank->number, rank->number, fence);
    r = rg_kvs_fence(kvs, mine, rank->nbytes + (size_t) rank->number, soon(), blobs, &rank->err);
    for (int i = 0; i < n && r == 0; i++) {
        fill(theirs, rank->nbytes + (size_t) i, i, fence);
        if (blobs[i].nbytes != rank->nbytes + (size_t) i ||
            (blobs[i].nbytes > 0 && memcmp(blobs[i].data, theirs, blobs[i].nbytes) != 0))
            r = -EILSEQ;
    }
    free(blobs[0].data);
    free(mine);
    free(theirs);
    return r;
}

static void *live(void *arg)
{
    struct rank *rank = arg;
    struct rg_pmi *pmi = calloc(1, sizeof(*pmi));
    struct rg_kvs kvs = { .ops = &rg_pmi_kvs, .state = pmi, .rank = rank->number,
                          .size = rank->manager->nclients };

    rank->result = rg_pmi_open(pmi, rank->manager->fds[rank->number], rank->number, soon(),
                               &rank->err);
    if (rank->result == 0) {
        kvs.value_max = rg_pmi_value_nbytes(pmi->value_chars);
        struct rg_boot_identity identity = { .rank = kvs.rank, .size = kvs.size };

        rank->result = rg_kvs_meet(&kvs, &identity, soon(), &rank->err);
        memcpy(rank->key, identity.key, sizeof(rank->key));
        for (int i = 0; i < rank->fences && rank->result == 0; i++)
            rank->result = fence_once(rank, &kvs, i);
        rg_pmi_finalize(pmi, soon());
        rg_pmi_fini(pmi);
    }
    free(pmi);
    return NULL;
}

static void run_ranks(struct manager *manager, size_t nbytes)
{
    struct rank ranks[MANAGER_CLIENTS_MAX] = { 0 };
    pthread_t threads[MANAGER_CLIENTS_MAX];
    int n = manager->nclients, nfinalized;

    manager_start(manager);
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank) { .manager = manager, .number = i, .fences = 3,
                                   .nbytes = nbytes };
        assert_int_equal(pthread_create(&threads[i], NULL, live, &ranks[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    manager_stop(manager);
    nfinalized = manager->nfinalized;
    for (int i = 0; i < n; i++) {
        if (ranks[i].result < 0)
            print_error("rank %d: %d %s\n", i, ranks[i].result, ranks[i].err.text);
        assert_int_equal(ranks[i].result, 0);
        assert_memory_equal(ranks[i].key, ranks[0].key, RG_KEY_NBYTES);
    }
    assert_int_equal(nfinalized, n);
}

static void test_ranks_meet_by_pmi_1(void **state)
{
    struct manager manager = { .version = RG_PMI_1, .nclients = 4, .value_max = 1024 };

    (void) state;
    run_ranks(&manager, 400);
    assert_true(manager.longest_value < 700);
}

static void test_ranks_meet_by_pmi_2(void **state)
{
    struct manager manager = { .version = RG_PMI_2, .nclients = 3, .dribble = true };

    (void) state;
    run_ranks(&manager, 400);
}

static void test_long_blobs_pass_through_short_values(void **state)
{
    struct manager manager = { .version = RG_PMI_1, .nclients = 2, .value_max = 64,
                               .dribble = true };

    (void) state;
    run_ranks(&manager, 2000);
    assert_in_range(manager.longest_value, 40, 63);
}

static void test_empty_blobs_pass(void **state)
{
    struct manager manager = { .version = RG_PMI_1, .nclients = 2, .value_max = 1024 };

    (void) state;
    run_ranks(&manager, 0);
}

/* One client whose manager does as the test says. */
static int open_only(struct manager *manager, struct rg_error *err)
{
    static struct rg_pmi pmi;
    int r;

    manager->nclients = 1;
    manager_start(manager);
    r = rg_pmi_open(&pmi, manager->fds[0], 0, soon(), err);
    if (r == 0)
        rg_pmi_fini(&pmi);
    manager_stop(manager);
    return r;
}

static void test_a_manager_that_answers_wrongly_is_named(void **state)
{
    static const struct { const char *answer, *cause; int r; } cases[] = {
        { "nonsense\n", "no PMI message", -EPROTO },
        { "cmd=maxes rc=-1 msg=not_today vallen_max=1024\n", "not_today", -EPROTO },
        { "cmd=other\n", "get_maxes", -EPROTO },
        { "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=12\n", "vallen_max", -ERANGE },
        { "cmd=maxes vallen_max=many\n", "vallen_max", -EINVAL },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct manager manager = { .version = RG_PMI_1, .instead = cases[i].answer };
        struct rg_error err = RG_ERROR_INIT;

        assert_int_equal(open_only(&manager, &err), cases[i].r);
        assert_contains(err.text, cases[i].cause);
    }
}

static void test_a_manager_of_no_known_version_is_refused(void **state)
{
    struct manager manager = { .version = (enum rg_pmi_version) 3 };
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    assert_int_equal(open_only(&manager, &err), -EPROTO);
    assert_contains(err.text, "neither PMI-1 nor PMI-2");
}

static void test_a_rank_that_does_not_come_ends_the_wait(void **state)
{
    struct manager manager = { .version = RG_PMI_1, .nclients = 2, .value_max = 1024 };
    static struct rg_pmi pmi;
    struct rg_kvs kvs = { .ops = &rg_pmi_kvs, .state = &pmi, .rank = 0, .size = 2 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_blob blobs[2];
    struct rg_boot_identity identity = { .size = 2 };

    (void) state;
    manager_start(&manager);
    assert_int_equal(rg_pmi_open(&pmi, manager.fds[0], 0, soon(), &err), 0);
    kvs.value_max = rg_pmi_value_nbytes(pmi.value_chars);
    assert_int_equal(rg_kvs_meet(&kvs, &identity, rg_now_ns() + 100 * RG_NS_PER_MS, &err),
                     -ETIMEDOUT);
    assert_int_equal(err.exit_code, 124);
    /* Its answer may come at any time now: the connection is of no more use. */
    assert_int_equal(rg_kvs_fence(&kvs, "x", 1, soon(), blobs, &err), -ECONNRESET);
    rg_pmi_fini(&pmi);
    manager_stop(&manager);
}

static void test_a_blob_may_not_be_too_long(void **state)
{
    struct rg_kvs kvs = { .size = 1 };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_blob blob;

    (void) state;
    assert_int_equal(rg_kvs_fence(&kvs, "", RG_RANKMSG_BLOB_MAX + 1, soon(), &blob, &err),
                     -EMSGSIZE);
    assert_false(kvs.broken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_is_taken_apart),
        cmocka_unit_test(test_pairs_before_semicolons_are_taken_apart),
        cmocka_unit_test(test_what_is_no_message_is_refused),
        cmocka_unit_test(test_a_message_is_whole_or_not_or_never),
        cmocka_unit_test(test_ranks_meet_by_pmi_1),
        cmocka_unit_test(test_ranks_meet_by_pmi_2),
        cmocka_unit_test(test_long_blobs_pass_through_short_values),
        cmocka_unit_test(test_empty_blobs_pass),
        cmocka_unit_test(test_a_manager_that_answers_wrongly_is_named),
        cmocka_unit_test(test_a_manager_of_no_known_version_is_refused),
        cmocka_unit_test(test_a_rank_that_does_not_come_ends_the_wait),
        cmocka_unit_test(test_a_blob_may_not_be_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
