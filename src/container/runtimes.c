/* SPDX-License-Identifier: Apache-2.0 */
/* This has the table of runtimes, and knows what their complaints mean. */
#include "container/runtime.h"

#include <string.h>

#include "base/exitcode.h"

#define SAID_MAX 400

const struct rg_container_ops *const rg_container_runtimes[] = {
    &rg_container_docker,
    &rg_container_podman,
    &rg_container_apptainer,
    &rg_container_enroot,
    NULL,
};

const struct rg_container_ops *rg_container_find(const char *name)
{
    for (size_t i = 0; rg_container_runtimes[i]; i++) {
        if (rg_str_has_word(rg_container_runtimes[i]->programs, name))
            return rg_container_runtimes[i];
    }
    return NULL;
}

/* --- what its complaints mean ----------------------------------------------------------------- */

/* A pointer to the help, or what the runtime's own log says of the failure's consequences; both may
 * stand behind the cause. */
static bool is_aside(const char *line)
{
    static const char *const asides[] = { "See 'docker", "Run 'docker", "See 'podman", "Usage:",
                                          "time=\"", "WARNING:" };

    for (size_t i = 0; i < rg_array_len(asides); i++) {
        if (rg_str_starts(line, asides[i]))
            return true;
    }
    return false;
}

/* The last line that is not empty, and rather none of these. */
static const char *last_line(const char *said, size_t *ret_length)
{
    const char *line = said;
    size_t length = 0;

    while (*said) {
        size_t n = strcspn(said, "\n");
        if (n > 0 && (!is_aside(said) || length == 0 || is_aside(line))) {
            line = said;
            length = n;
        }
        said += n + (said[n] == '\n');
    }
    *ret_length = length < SAID_MAX ? length : SAID_MAX;
    return line;
}

int rg_container_explain(const struct rg_container_ops *ops, const char *said,
                         struct rg_error *err)
{
    size_t length;
    const char *line = last_line(said, &length);

    for (const struct rg_container_symptom *s = ops->symptoms; s->needle; s++) {
        if (strcasestr(said, s->needle))
            return rg_error_set_exit(err, EIO, s->exit_code, "%s (%s: %.*s)", s->text, ops->name,
                                     (int) length, line);
    }
    if (length == 0 || is_aside(line))
        return rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER,
                                 "%s ended before the agent in the container called, and said "
                                 "%s%.*s; does a --container-option replace the first process?",
                                 ops->name, length ? "no more than: " : "nothing", (int) length,
                                 line);
    return rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER, "%s could not start the container: %.*s",
                             ops->name, (int) length, line);
}
