/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a command is a host, by its looks. */
#include "job/request/comma.h"

#include <ctype.h>
#include <limits.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/process/spawn.h"
#include "job/hostlist.h"

static bool is_program(const char *word)
{
    char found[PATH_MAX];

    return strchr(word, '/') || rg_path_find(getenv("PATH"), word, strlen(word), found);
}

/* "node2" is alike to "node11", and not to "train". */
static bool is_alike(const char *a, const char *b)
{
    bool number = false;

    while (*a && *b) {
        if (isdigit((unsigned char) *a) && isdigit((unsigned char) *b)) {
            a += strspn(a, "0123456789");
            b += strspn(b, "0123456789");
            number = true;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return number && !*a && !*b;
}

static bool has_slots(const char *word)
{
    const char *colon = strrchr(word, ':');

    return colon && colon > word && colon[1] && !colon[1 + strspn(colon + 1, "0123456789")];
}

static bool resolves(const char *name)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int r = getaddrinfo(name, NULL, &hints, &found);

    if (r == 0)
        freeaddrinfo(found);
    return r == 0;
}

static bool is_host(const struct rg_job *job, const char *word)
{
    const char *at = strchr(word, '@');

    if (has_slots(word) || (at && at > word && at[1]) || rg_host_is_local(word))
        return true;
    for (size_t i = 0; i < job->nhosts; i++) {
        if (strcmp(job->hosts[i].name, word) == 0 || is_alike(job->hosts[i].name, word))
            return true;
    }
    return resolves(word);
}

int rg_comma_check(const struct rg_job *job, const struct rg_walk *walk, struct rg_error *err)
{
    const char *word = walk->next < walk->argc ? walk->argv[walk->next] : NULL;
    bool behind = walk->option && strcmp(walk->option->name, "H") == 0;

    if (!word || !behind || walk->exact || !walk->value || is_program(word) || !is_host(job, word))
        return 0;
    return rg_error_set(err, EINVAL, "%s %.200s %.80s: %.80s would be the command, and is no "
                        "program here. If it is a host, write a comma: %s %.200s,%.80s; if it is a "
                        "program of the hosts, put -- in front of it",
                        walk->what, walk->value, word, word, walk->what, walk->value, word);
}
