/* SPDX-License-Identifier: Apache-2.0 */
/* The headings of --help and of the man page. An option of a platform stands below that platform's,
 * so that who has no Slurm need not read of it. */
#include <string.h>

#include "job/options/options.h"
#include "job/platform.h"

static const struct rg_option_topic groups[] = {
    { "ranks", "How many ranks, and where", RG_GROUP_WHERE, NULL },
    { "network", "The way to hosts, and between them", RG_GROUP_NETWORK, NULL },
    { "elastic", "Elastic jobs", RG_GROUP_ELASTIC, NULL },
    { "containers", "Containers", RG_GROUP_CONTAINER, NULL },
    { "environment", "What the ranks find", RG_GROUP_ENV, NULL },
    { "output", "Output", RG_GROUP_OUTPUT, NULL },
    { "input", "Input", RG_GROUP_INPUT, NULL },
    { "time", "Time", RG_GROUP_TIME, NULL },
    { "reigen", "Reigen itself", RG_GROUP_REIGEN, NULL },
    { "mpirun", "Accepted from mpirun", RG_GROUP_MPIRUN, NULL },
};

size_t rg_option_topics(struct rg_option_topic ret_topics[RG_TOPICS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < rg_array_len(groups); i++) {
        ret_topics[n++] = groups[i];
        const struct rg_platform *const *p = rg_platforms();
        for (; i == RG_GROUP_NETWORK && *p && n + rg_array_len(groups) < RG_TOPICS_MAX; p++) {
            if ((*p)->options)
                ret_topics[n++] = (struct rg_option_topic){ (*p)->name, (*p)->title,
                                                            RG_GROUP_WHERE, *p };
        }
    }
    ret_topics[n] = (struct rg_option_topic){ .name = NULL };
    return n;
}

bool rg_option_topic_find(const char *name, struct rg_option_topic *ret_topic)
{
    struct rg_option_topic topics[RG_TOPICS_MAX];

    rg_option_topics(topics);
    for (const struct rg_option_topic *t = topics; t->name; t++) {
        if (strcmp(t->name, name) != 0)
            continue;
        *ret_topic = *t;
        return true;
    }
    return false;
}

/* The first platform that takes the option, or NULL. */
static const struct rg_platform *owner_of(const struct rg_option *option)
{
    for (const struct rg_platform *const *p = rg_platforms(); *p; p++)
        if (rg_option_of(*p, option->name))
            return *p;
    return NULL;
}

bool rg_option_is_in(const struct rg_option *option, const struct rg_option_topic *topic)
{
    const struct rg_platform *owner = owner_of(option);

    return owner ? owner == topic->platform
                 : !topic->platform && topic->group == option->group;
}
