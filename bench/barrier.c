/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of bench/hosts.py: joins the job, meets the others once, and says so; with an argument
 * it says when, in nanoseconds since 1970. */
#include <reigen/reigen.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char **argv)
{
    struct timespec now;

    (void) argv;
    if (reigen_init(NULL) < 0 || reigen_barrier() < 0) {
        fprintf(stderr, "%s\n", reigen_last_error());
        return 1;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    if (argc > 1)
        printf("met %lld%09ld\n", (long long) now.tv_sec, now.tv_nsec);
    else
        puts("met");
    fflush(stdout);
    return reigen_shutdown() < 0;
}
