/* SPDX-License-Identifier: Apache-2.0 */
/* The even ranks and the odd ones sum up their numbers apart from each other. */
#include <reigen/reigen.h>
#include <stdio.h>
#include <stdlib.h>

/* Every rank makes every set, also those that it is not in. */
static int make_set(int first, int *ret_set)
{
    int size = reigen_size(), n = 0;
    int *ranks = calloc((size_t) size, sizeof(*ranks));

    for (int rank = first; ranks && rank < size; rank += 2)
        ranks[n++] = rank;
    int r = n ? reigen_process_set_add(ranks, n, ret_set) : -1;

    free(ranks);
    return r;
}

int main(void)
{
    int sets[2];

    if (reigen_init(NULL) < 0 || make_set(0, &sets[0]) < 0 || make_set(1, &sets[1]) < 0) {
        fprintf(stderr, "it needs two ranks or more: %s\n", reigen_last_error());
        return 1;
    }
    int rank = reigen_rank();
    int32_t sum = rank;
    struct reigen_options options = REIGEN_OPTIONS_INIT;

    options.process_set = sets[rank % 2];
    if (reigen_allreduce("sum", &sum, &sum, REIGEN_INT32, NULL, 0, &options) < 0) {
        fprintf(stderr, "%s\n", reigen_last_error());
        return 1;
    }
    printf("rank %d: the %s ranks' sum is %d\n", rank, rank % 2 ? "odd" : "even", (int) sum);
    return reigen_shutdown() < 0;
}
