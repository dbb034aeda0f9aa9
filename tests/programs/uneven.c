/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: uneven SLOW_MS ALL_MS
 * Steps until it is ended: each is a pause of ALL_MS, and of SLOW_MS more at rank 1, and then an
 * allreduce of all ranks.
 */
#include "program.h"

int main(int argc, char **argv)
{
    int slow_ms = argc == 3 ? atoi(argv[1]) : -1, all_ms = argc == 3 ? atoi(argv[2]) : -1;
    float x = 1;

    if (slow_ms < 0 || all_ms < 0)
        return 2;
    begin();
    for (;;) {
        sleep_ms(all_ms + (reigen_rank() == 1 ? slow_ms : 0)); /* patient: the work of a step */
        if (reigen_allreduce("x", &x, &x, REIGEN_FLOAT32, (int64_t[]){ 1 }, 1, NULL) != 0)
            return 3;
        reigen_step();
    }
}
