/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "coll/reduce/doubling.h"

enum { N_MAX = 70 };

/* What a member has: how often each member's part is in it, and a number that differs when parts
 * were added in another order. */
struct sum {
    unsigned char parts[N_MAX];
    uint64_t order;
};

static struct rg_doubling members[N_MAX];
static struct sum sums[N_MAX];

static void begin(int n)
{
    memset(sums, 0, sizeof(sums));
    for (int me = 0; me < n; me++) {
        members[me] = rg_doubling_of(n, me);
        sums[me].parts[me] = 1;
        sums[me].order = (uint64_t) me + 1;
    }
}

static struct sum add(const struct sum *lower, const struct sum *higher)
{
    struct sum sum = { .order = (lower->order * 1000003 + higher->order) * 998244353 };

    for (int i = 0; i < N_MAX; i++)
        sum.parts[i] = (unsigned char) (lower->parts[i] + higher->parts[i]);
    return sum;
}

static void fold(int n)
{
    for (int me = 0; me < n; me++)
        if (members[me].has_folded)
            sums[me] = add(&sums[me], &sums[members[me].neighbour]);
}

static void exchange(int n, int step)
{
    struct sum before[N_MAX];

    memcpy(before, sums, sizeof(before));
    for (int me = 0; me < n; me++) {
        int partner = members[me].is_folded ? me : rg_doubling_partner(&members[me], step);

        if (partner != me)
            sums[me] = me < partner ? add(&before[me], &before[partner])
                                    : add(&before[partner], &before[me]);
    }
}

static void unfold(int n)
{
    for (int me = 0; me < n; me++)
        if (members[me].is_folded)
            sums[me] = sums[members[me].neighbour];
}

static void everybody_has_everybodys_part_once_added_in_one_order(void **unused)
{
    (void) unused;
    for (int n = 1; n <= N_MAX; n++) {
        begin(n);
        fold(n);
        for (int step = 0; step < members[0].nsteps; step++)
            exchange(n, step);
        unfold(n);
        for (int me = 0; me < n; me++) {
            for (int i = 0; i < N_MAX; i++)
                assert_int_equal(sums[me].parts[i], i < n);
            assert_true(sums[me].order == sums[0].order);
        }
    }
}

static void partners_and_neighbours_name_each_other(void **unused)
{
    (void) unused;
    for (int n = 1; n <= N_MAX; n++) {
        begin(n);
        for (int me = 0; me < n; me++) {
            const struct rg_doubling *mine = &members[me];

            assert_int_equal(mine->nsteps, members[0].nsteps);
            assert_int_equal(mine->npairs, members[0].npairs);
            assert_int_equal(mine->is_folded + mine->has_folded, me < 2 * mine->npairs);
            if (mine->neighbour >= 0)
                assert_int_equal(members[mine->neighbour].neighbour, me);
            for (int step = 0; step < mine->nsteps && !mine->is_folded; step++) {
                int partner = rg_doubling_partner(mine, step);

                assert_in_range(partner, 0, n - 1);
                assert_false(members[partner].is_folded);
                assert_int_equal(rg_doubling_partner(&members[partner], step), me);
            }
        }
    }
}

static void of_a_power_of_two_nobody_is_folded(void **unused)
{
    (void) unused;
    for (int n = 1; n <= N_MAX; n *= 2)
        for (int me = 0; me < n; me++) {
            struct rg_doubling doubling = rg_doubling_of(n, me);

            assert_int_equal(1 << doubling.nsteps, n);
            assert_int_equal(doubling.npairs, 0);
            assert_int_equal(doubling.neighbour, -1);
            assert_false(doubling.is_folded || doubling.has_folded);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_has_everybodys_part_once_added_in_one_order),
        cmocka_unit_test(partners_and_neighbours_name_each_other),
        cmocka_unit_test(of_a_power_of_two_nobody_is_folded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
