/* SPDX-License-Identifier: Apache-2.0 */
/* The codes' names. They stand by themselves, since the agent says them and explains nothing. */
#include "base/exitcode.h"

#include "base/cleanup.h"

static const struct {
    int code;
    const char *name;
} names[] = {
    { RG_EXIT_OK, "ok" }, { 1, "rank" }, { RG_EXIT_USAGE, "usage" },
    { RG_EXIT_UNAVAILABLE, "unavailable" }, { RG_EXIT_INTERNAL, "internal" },
    { RG_EXIT_OUTPUT_LOST, "output-lost" }, { RG_EXIT_PREEMPTED, "ended-outside" },
    { RG_EXIT_HOST_LOST, "host-lost" }, { RG_EXIT_NO_PERMISSION, "no-permission" },
    { RG_EXIT_TIMEOUT, "timeout" }, { RG_EXIT_CONTAINER, "container" },
    { RG_EXIT_NOT_EXECUTABLE, "not-executable" }, { RG_EXIT_NOT_FOUND, "not-found" },
    { RG_EXIT_SIGNAL, "signal" },
};

const char *rg_exit_name(int code)
{
    if (code > RG_EXIT_SIGNAL && code <= RG_EXIT_SIGNAL + 64)
        code = RG_EXIT_SIGNAL;
    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (names[i].code == code)
            return names[i].name;
    }
    return names[1].name;
}
