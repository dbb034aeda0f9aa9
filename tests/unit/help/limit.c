/* SPDX-License-Identifier: Apache-2.0 */
#include "help/limit.h"

#include <stdlib.h>
#include <unistd.h>

/* What even a quiet machine grants, and what no machine is granted. */
#define LEAST 3
#define MOST 20
/* What the sanitizers make slower. */
#if defined(__SANITIZE_THREAD__)
#define SLOWER 3
#elif defined(__SANITIZE_ADDRESS__)
#define SLOWER 2
#else
#define SLOWER 1
#endif

static double patience(void)
{
    const char *asked = getenv("REIGEN_TEST_PATIENCE");
    double load = 0, factor;

    if (asked)
        return strtod(asked, NULL);
    if (getloadavg(&load, 1) != 1)
        load = 0;
    factor = LEAST * load / (double) sysconf(_SC_NPROCESSORS_ONLN);
    factor = factor < LEAST ? LEAST : factor;
    return SLOWER * (factor > MOST ? MOST : factor);
}

unsigned unit_limit_s(unsigned quiet_s)
{
    return (unsigned) (quiet_s * patience() + 0.5);
}
