/* SPDX-License-Identifier: Apache-2.0 */
/* Is there a GPU? Prints which, or why none can be used and ends with 69. Needs no library of ours,
 * so that `make check-gpu` can say so before it builds anything. */
#include "device.h"

#include <stdio.h>

int main(void)
{
    const char *missing = device_open(0);

    if (missing) {
        fprintf(stderr, "no GPU can be used here: %s\n", missing);
        return 69;
    }
    printf("%d GPU%s; the first one: %s\n", device_count(), device_count() > 1 ? "s" : "",
           device_name());
    return 0;
}
