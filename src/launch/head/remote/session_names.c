/* SPDX-License-Identifier: Apache-2.0 */
/* Which host of the job a remote command's caller means: engines use names and addresses that they
 * have learnt from each other, not only those that the job was given. */
#include "launch/head/remote/session_names.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* "a" and "a.example.org" may be one host; two full names are one when they are equal. */
static bool short_names_match(const char *a, const char *b)
{
    size_t na = strcspn(a, "."), nb = strcspn(b, ".");

    return na && na == nb && strncasecmp(a, b, na) == 0 && (!a[na] || !b[nb]) &&
           strspn(a, "0123456789") != na;
}

/* Of "ADDRESS/PREFIX INTERFACE". A zone ("%eth0") in what was asked for says nothing to others. */
static bool has_address(const struct session_host *host, const char *name)
{
    size_t length = strcspn(name, "%");

    for (size_t i = 0; i < host->addresses.count; i++) {
        const char *address = host->addresses.v[i];
        if (strcspn(address, "/ %") == length && strncasecmp(address, name, length) == 0)
            return true;
    }
    return false;
}

static bool is_plan_name(const struct session_host *host, const char *name)
{
    return strcasecmp(session_host_name(host), name) == 0;
}

static bool is_host_name(const struct session_host *host, const char *name)
{
    return host->hostname && (strcasecmp(host->hostname, name) == 0 ||
                              short_names_match(host->hostname, name));
}

static bool is_short_plan_name(const struct session_host *host, const char *name)
{
    return short_names_match(session_host_name(host), name);
}

static bool is_alias(const struct session_host *host, const char *name)
{
    char alias[sizeof(RG_MSG_HOST_ALIAS) + 12];

    snprintf(alias, sizeof(alias), RG_MSG_HOST_ALIAS "%d", host->index);
    return strcasecmp(alias, name) == 0;
}

static bool is_loopback(const char *name)
{
    return strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0 ||
           strcmp(name, "::1") == 0;
}

struct session_host *session_find_host(struct session_host *from, const char *name)
{
    struct rg_session *session = from->session;
    bool (*const rules[])(const struct session_host *, const char *) = {
        is_plan_name, is_alias, is_short_plan_name, is_host_name, has_address,
    };

    for (size_t r = 0; r < rg_array_len(rules); r++) {
        struct session_host *found = NULL;
        int nfound = 0;
        for (int i = 0; i < session->o.plan->nhosts; i++) {
            if (!rules[r](&session->hosts[i], name))
                continue;
            nfound++;
            if (!found || &session->hosts[i] == from)
                found = &session->hosts[i];
        }
        /* Of several, the caller means itself. An address that several others have, as docker0
         * has one, leads nowhere. */
        if (nfound == 1 || found == from)
            return found;
        if (nfound > 1 && rules[r] != has_address)
            return found;
        if (r == 1 && is_loopback(name))
            return from;
    }
    return NULL;
}
