/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of bench/hosts.py: joins the job, meets the others once, and says so. */
#include <reigen/reigen.h>
#include <stdio.h>

int main(void)
{
    if (reigen_init(NULL) < 0 || reigen_barrier() < 0) {
        fprintf(stderr, "%s\n", reigen_last_error());
        return 1;
    }
    puts("met");
    fflush(stdout);
    return reigen_shutdown() < 0;
}
