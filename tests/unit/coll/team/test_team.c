/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include "coll/boot/find/find.h"
#include "coll/net/sock.h"
#include "coll/team/team.h"
#include "coll/team/team_parts.h"
#include "coll/ranks.h"

static struct rg_boots boots; /* of this process */

static size_t segment_nbytes(const void *arg, int node_size)
{
    (void) arg;
    return (size_t) node_size * 10000;
}

static struct rg_team_needs needs = { .segment_nbytes = segment_nbytes, .shares_memory = true };

static int make_team(struct rank *rank, struct rg_boot **ret_boot, struct rg_team **ret_team)
{
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_boot_open(&boots, &rank->config, ranks_deadline(), ret_boot, &err);

    if (r == 0) {
        r = rg_team_create(*ret_boot, &rank->config, &needs, ranks_deadline(), ret_team,
                           &err);
        if (r < 0)
            rg_boot_close(*ret_boot, false);
    }
    if (r < 0)
        fprintf(stderr, "rank %d: %s\n", rank->me, err.text);
    return r;
}

static int fence(struct rg_boot *boot, int n)
{
    struct rg_blob blobs[RANKS_MAX];
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_boot_fence(boot, "", 0, ranks_deadline(), blobs, &err);

    if (r == 0)
        free(blobs[0].data);
    return n > 0 ? r : -EINVAL;
}

static int check_one_node(struct rank *rank)
{
    struct rg_boot *boot;
    struct rg_team *team;
    int bad = ranks_check(rank, make_team(rank, &boot, &team) == 0);

    if (bad)
        return bad;
    _Atomic uint32_t *words = (void *) ((char *) team->segment + team->segment_start);

    bad |= ranks_check(rank, team->nnodes == 1 && team->node == 0);
    bad |= ranks_check(rank, team->node_size == rank->n && team->node_rank == rank->me);
    bad |= ranks_check(rank, team->local_rank == rank->me && team->local_size == rank->n);
    bad |= ranks_check(rank, team->cross_rank == 0 && team->cross_size == 1);
    bad |= ranks_check(rank, team->homogeneous && team->leaders[0] == 0 && !team->listener);
    bad |= ranks_check(rank, team->segment_start % 4096 == 0);
    bad |= ranks_check(rank, team->segment_nbytes >=
                                 team->segment_start + segment_nbytes(NULL, rank->n));
    for (int i = 0; i < rank->n; i++)
        bad |= ranks_check(rank, words[i] == 0);
    bad |= ranks_check(rank, fence(boot, rank->n) == 0);
    words[rank->me] = (uint32_t) rank->me + 1;
    bad |= ranks_check(rank, fence(boot, rank->n) == 0);
    for (int i = 0; i < rank->n; i++) {
        bad |= ranks_check(rank, words[i] == (uint32_t) i + 1);
        bad |= ranks_check(rank, team->peers[i].pid > 0);
        bad |= ranks_check(rank, (team->peers[i].pidfd >= 0) == (i != rank->me));
    }
    /* Each rings its right neighbour's event descriptor. */
    uint64_t one = 1, got = 0;
    int right = team->bells.event_fd[(rank->me + 1) % rank->n];

    bad |= ranks_check(rank, write(right, &one, sizeof(one)) == sizeof(one));
    bad |= ranks_check(rank, fence(boot, rank->n) == 0);
    bad |= ranks_check(rank, read(team->bells.event_fd[rank->me], &got, sizeof(got)) ==
                                 sizeof(got) && got == 1);
    rg_team_destroy(team);
    rg_boot_close(boot, true);
    return bad;
}

static void ranks_of_one_host_share_a_segment(void **state)
{
    (void) state;
    for (int n = 1; n <= 5; n++)
        assert_int_equal(ranks_run(n, ranks_port(), check_one_node, NULL), 0);
}

static int check_again(struct rank *rank)
{
    int bad = 0;

    for (int i = 0; i < 5 && !bad; i++)
        bad = check_one_node(rank);
    return bad;
}

static void teams_can_be_made_again_and_again(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_again, NULL), 0);
}

static int count_fds(void)
{
    int count = 0;

    for (int fd = 3; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static int check_fds(struct rank *rank)
{
    int before = count_fds();
    int bad = check_one_node(rank);

    return bad | ranks_check(rank, count_fds() == before);
}

static void nothing_stays_open_after_destruction(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_fds, NULL), 0);
}

static int check_without_shm(struct rank *rank)
{
    struct rg_boot *boot;
    struct rg_team *team;
    int bad;

    needs.shares_memory = false;
    bad = ranks_check(rank, make_team(rank, &boot, &team) == 0);
    if (bad)
        return bad;
    bad |= ranks_check(rank, team->nnodes == rank->n && team->node == rank->me);
    bad |= ranks_check(rank, team->node_size == 1 && team->node_rank == 0);
    bad |= ranks_check(rank, team->listener && team->address && team->addresses);
    bad |= ranks_check(rank, strncmp(team->address, "127.0.0.1:", 10) == 0);
    bad |= ranks_check(rank, strcmp(team->addresses[rank->me], team->address) == 0);
    /* Users still see one host. */
    bad |= ranks_check(rank, team->local_rank == rank->me && team->local_size == rank->n);
    rg_team_destroy(team);
    rg_boot_close(boot, true);
    return bad;
}

static void without_shared_memory_every_rank_is_a_node(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_without_shm, NULL), 0);
}

/* Rank 2 is told otherwise than the others, who are told what they have anyhow, or nothing. */
static int check_degree(struct rank *rank)
{
    const bool *share = rank->arg;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot;
    struct rg_team *team;
    int bad, r;

    needs.shares_memory = *share;
    rank->config.tree_degree = rank->me == 2 ? 4 : rank->me ? RG_TREE_DEGREE : 0;
    if (*share) {
        bad = ranks_check(rank, make_team(rank, &boot, &team) == 0);
        if (bad)
            return bad;
        rg_team_destroy(team);
        rg_boot_close(boot, true);
        return 0;
    }
    if (rg_boot_open(&boots, &rank->config, ranks_deadline(), &boot, &err) < 0)
        return 1;
    r = rg_team_create(boot, &rank->config, &needs, ranks_deadline(), &team, &err);
    bad = ranks_check(rank, r == -EINVAL);
    bad |= ranks_check(rank, strcmp(err.text, "rank 0 has REIGEN_TREE_DEGREE 16, and rank 2 has 4; "
                                              "give all ranks the same, or none (16)") == 0);
    rg_boot_close(boot, false);
    return bad;
}

static void nodes_whose_trees_would_differ_are_refused(void **state)
{
    static bool share[] = { false, true };

    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_degree, &share[0]), 0);
    assert_int_equal(ranks_run(3, ranks_port(), check_degree, &share[1]), 0);
}

/* Odd ranks may not share memory. */
static int check_mixed(struct rank *rank)
{
    struct rg_boot *boot;
    struct rg_team *team;
    int bad;

    if (rank->me % 2)
        needs.shares_memory = false;
    bad = ranks_check(rank, make_team(rank, &boot, &team) == 0);
    if (bad)
        return bad;
    bad |= ranks_check(rank, team->nnodes == 3 && team->leaders[0] == 0);
    bad |= ranks_check(rank, team->leaders[1] == 1 && team->leaders[2] == 3);
    bad |= ranks_check(rank, team->peers[2].node == 0 && team->peers[2].node_rank == 1);
    bad |= ranks_check(rank, team->peers[4].node == 0 && team->peers[4].node_rank == 2);
    bad |= ranks_check(rank, team->node_size == (rank->me % 2 ? 1 : 3));
    rg_team_destroy(team);
    rg_boot_close(boot, true);
    return bad;
}

static void nodes_are_numbered_by_their_leaders(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(5, ranks_port(), check_mixed, NULL), 0);
}

static int check_death(struct rank *rank)
{
    struct rg_boot *boot;
    struct rg_team *team;
    int bad = ranks_check(rank, make_team(rank, &boot, &team) == 0);

    if (bad)
        return bad;
    if (rank->me == 1)
        _exit(0);
    struct pollfd pfd = { team->peers[1].pidfd, POLLIN, 0 };

    bad |= ranks_check(rank, poll(&pfd, 1, 10000) == 1);
    rg_team_destroy(team);
    rg_boot_close(boot, false);
    return bad;
}

static void every_rank_sees_the_death_of_every_other(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(4, ranks_port(), check_death, NULL), 0);
}

static int check_fork(struct rank *rank)
{
    struct rg_boot *boot;
    struct rg_team *team;
    int before = count_fds(), status = 0;
    int bad = ranks_check(rank, make_team(rank, &boot, &team) == 0);

    if (bad)
        return bad;
    pid_t pid = fork();

    if (pid == 0) {
        rg_team_after_fork(team);
        rg_boot_after_fork(boot);
        _exit(count_fds() == before ? 0 : 1);
    }
    bad |= ranks_check(rank, waitpid(pid, &status, 0) == pid && status == 0);
    bad |= ranks_check(rank, fence(boot, rank->n) == 0);
    rg_team_destroy(team);
    rg_boot_close(boot, true);
    return bad;
}

static void a_forked_child_keeps_no_descriptor(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_fork, NULL), 0);
}

static int check_interface(struct rank *rank)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_boot *boot;
    struct rg_team *team;
    int r = rg_boot_open(&boots, &rank->config, ranks_deadline(), &boot, &err);
    int bad = ranks_check(rank, r == 0);

    if (bad)
        return bad;
    /* Only rank 1 is misled; all must hear of it. */
    if (rank->me == 1)
        strcpy(rank->config.interface, "nosuch0");
    r = rg_team_create(boot, &rank->config, &needs, ranks_deadline(), &team, &err);
    bad |= ranks_check(rank, r == -EINVAL);
    bad |= ranks_check(rank, strstr(err.text, "REIGEN_NETWORK_INTERFACE=nosuch0") != NULL);
    bad |= ranks_check(rank, rank->me == 1 || strstr(err.text, "rank 1: ") != NULL);
    rg_boot_close(boot, false);
    return bad;
}

static void a_rank_that_fails_tells_all_others_why(void **state)
{
    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_interface, NULL), 0);
}

/* --- a rank that is not as it should be ------------------------------------------------------- */

#define LEADER_AT 12 /* in the blob of fence 2: behind magic, errnum and the empty text */

/* A boot in front of the real one, with which rank 1 names a leader that there cannot be. */
static struct {
    struct rg_boot *boot;
    int me, fences;
    bool was_cut_off;
} liar;

/* What rank 1 says wrongly: four bytes of a fence, and what that comes to. */
struct lie {
    int fence;
    size_t at;
    int r;
    const char *text;
};

static int lying_fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                       struct rg_blob *ret_blobs, struct rg_error *err)
{
    const struct lie *lie = state;
    uint8_t told[4096];

    if (++liar.fences != lie->fence || liar.me != 1 || nbytes > sizeof(told) ||
        nbytes < lie->at + 4)
        return rg_boot_fence(liar.boot, blob, nbytes, deadline_ns, ret_blobs, err);
    memcpy(told, blob, nbytes);
    memset(told + lie->at, 0x7f, 4);
    return rg_boot_fence(liar.boot, told, nbytes, deadline_ns, ret_blobs, err);
}

static void note_cut_off(void *state, int rank)
{
    (void) state;
    (void) rank;
    liar.was_cut_off = true;
}

static void close_nothing(void *state, bool goodbye)
{
    (void) state;
    (void) goodbye;
}

static int check_liar(struct rank *rank)
{
    static const struct rg_boot_ops lying = { .name = "lying", .fence = lying_fence,
                                              .cut_off = note_cut_off, .close = close_nothing };
    const struct lie *lie = rank->arg;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_team *team = NULL;
    struct rg_boot *boot = NULL;

    if (rg_boot_open(&boots, &rank->config, ranks_deadline(), &liar.boot, &err) < 0 ||
        rg_boot_make(&lying, rank->arg, rg_boot_identity(liar.boot), &boot) < 0)
        return 1;
    liar.me = rank->me;
    int r = rg_team_create(boot, &rank->config, &needs, ranks_deadline(), &team, &err);
    int bad = ranks_check(rank, r == lie->r);

    bad |= ranks_check(rank, strstr(err.text, lie->text) != NULL);
    bad |= ranks_check(rank, !liar.was_cut_off);
    rg_boot_close(boot, false);
    rg_boot_close(liar.boot, false);
    return bad;
}

static void a_leader_that_there_cannot_be_is_refused(void **state)
{
    struct lie lie = { 2, LEADER_AT, -EBADMSG, "rank 1 said what cannot be read" };

    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_liar, &lie), 0);
}

/* Each is in another step than the other: nobody is cut off by anybody. */
static void for_a_rank_of_another_version_no_rank_is_to_blame(void **state)
{
    struct lie lie = { 1, 0, -EPROTO, "rank 1 is in another step of its start" };

    (void) state;
    assert_int_equal(ranks_run(3, ranks_port(), check_liar, &lie), 0);
}

/* Three ranks, two of which are in one place; who has which address in four further networks. */
static void networks_that_cannot_connect_hosts_are_found(void **unused)
{
    static char *addresses[3][4] = {
        { "127.0.0.1:4", "172.17.0.1:4", "10.1.0.1:4", "10.2.0.1:4" },
        { "127.0.0.1:5", "172.17.0.1:5", "10.1.0.1:5", "10.2.0.1:5" },
        { "127.0.0.1:4", "172.17.0.1:6", "10.1.0.2:4", "[fd00::2]:4" },
    };
    struct rg_rank_info facts[3] = { { .boot_id = "a" }, { .boot_id = "a" }, { .boot_id = "b" } };
    struct rg_strv rails[3];
    struct rg_team team = { .size = 3, .nrails = 5, .rails = rails };

    (void) unused;
    for (int i = 0; i < 3; i++)
        rails[i] = (struct rg_strv) { .v = addresses[i], .count = 4 };
    for (team.rank = 0; team.rank < 3; team.rank++)
        assert_int_equal(rg_net_unfit_rails(facts, &team), 1u << 1 | 1u << 2 | 1u << 4);
    /* Of one kernel, but in name spaces of their own. */
    facts[2].boot_id = "a";
    team.rank = 0;
    assert_int_equal(rg_net_unfit_rails(facts, &team), 0);
    facts[2].netns = 7;
    assert_int_equal(rg_net_unfit_rails(facts, &team), 1u << 1 | 1u << 2 | 1u << 4);
    /* Whoever has none at all has none for those beside it either. */
    facts[2].netns = 0;
    addresses[1][2] = "";
    assert_int_equal(rg_net_unfit_rails(facts, &team), 1u << 3);
    team.nrails = 1;
    assert_int_equal(rg_net_unfit_rails(facts, &team), 0);
}

/* Nodes 0 to 2 are one machine, where their leaders share a core; node 3 is another one. */
static void leaders_of_one_machine_are_counted(void **unused)
{
    cpu_set_t one, two;
    struct rg_span shared = { (uint8_t *) &one, sizeof(one) };
    struct rg_span other = { (uint8_t *) &two, sizeof(two) };
    struct rg_rank_info facts[] = { { .boot_id = "a", .cpus = shared },
                                    { .boot_id = "a", .cpus = shared },
                                    { .boot_id = "a", .cpus = shared },
                                    { .boot_id = "b", .cpus = shared } };
    int leaders[] = { 0, 1, 2, 3 };
    struct rg_team team = { .size = 4, .nnodes = 4, .leaders = leaders };

    (void) unused;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    CPU_ZERO(&two);
    CPU_SET(1, &two);
    assert_int_equal(rg_rank_info_crowding(facts, &team), 300);
    facts[2].cpus = other;
    assert_int_equal(rg_rank_info_crowding(facts, &team), 150);
    team.rank = 3;
    assert_int_equal(rg_rank_info_crowding(facts, &team), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_that_cannot_connect_hosts_are_found),
        cmocka_unit_test(ranks_of_one_host_share_a_segment),
        cmocka_unit_test(teams_can_be_made_again_and_again),
        cmocka_unit_test(nothing_stays_open_after_destruction),
        cmocka_unit_test(without_shared_memory_every_rank_is_a_node),
        cmocka_unit_test(nodes_whose_trees_would_differ_are_refused),
        cmocka_unit_test(nodes_are_numbered_by_their_leaders),
        cmocka_unit_test(every_rank_sees_the_death_of_every_other),
        cmocka_unit_test(a_forked_child_keeps_no_descriptor),
        cmocka_unit_test(a_rank_that_fails_tells_all_others_why),
        cmocka_unit_test(a_leader_that_there_cannot_be_is_refused),
        cmocka_unit_test(leaders_of_one_machine_are_counted),
        cmocka_unit_test(for_a_rank_of_another_version_no_rank_is_to_blame),
    };

    ranks_clearenv();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
