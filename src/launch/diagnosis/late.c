/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts that are equally late look like none is: their ranks spend as much in operations. */
#include "launch/diagnosis/diagnosis.h"

#include <math.h>
#include <stdlib.h>

#define MOSTLY 0.6 /* share of its host's part that makes a rank the one that is late */

static void add_link(struct rg_load_host *host, const struct rg_load *load)
{
    if (load->sent <= 0)
        return;
    if (host->to < 0 || load->sending > host->longest) {
        host->to = load->sent_to;
        host->longest = load->sending;
    }
    host->sending += load->sending;
    host->sent += load->sent;
}

/* What a host's ranks spend in operations without waits for each other, and what they cause. */
static void sum_up(const struct rg_load *loads, size_t n, struct rg_load_host *hosts,
                   size_t nhosts)
{
    for (size_t h = 0; h <= nhosts; h++)
        hosts[h] = (struct rg_load_host){ .worst = -1, .to = -1 };
    for (size_t i = 0; i < n; i++) {
        if (loads[i].host < 0 || !loads[i].rated)
            continue;
        struct rg_load_host *host = &hosts[loads[i].host];
        host->nrated++;
        host->apart += loads[i].blocked - loads[i].waiting;
        host->within += loads[i].causing;
        add_link(host, &loads[i]);
    }
    for (size_t h = 0; h < nhosts; h++)
        hosts[h].apart /= hosts[h].nrated ? (double) hosts[h].nrated : 1;
}

static int by_apart(const void *a, const void *b)
{
    double x = ((const struct rg_load_host *) a)->apart;
    double y = ((const struct rg_load_host *) b)->apart;

    return (x < y) - (x > y);
}

static int by_index(const void *a, const void *b)
{
    return ((const struct rg_load_host *) a)->index - ((const struct rg_load_host *) b)->index;
}

/* Sorted by what they spend, as there may be thousands of them: those that spend more than a host
 * come before it, and are summed up as they come. */
static void compare(struct rg_load_host *hosts, size_t nhosts)
{
    double apart = 0, nranks = 0; /* of all ranks of those that spend more */
    size_t o = 0;

    for (size_t h = 0; h < nhosts; h++)
        hosts[h].index = (int) h;
    qsort(hosts, nhosts, sizeof(*hosts), by_apart);
    for (size_t h = 0; h < nhosts; h++) {
        for (; hosts[o].apart - hosts[h].apart > RG_LATE_NOISE; o++) {
            apart += hosts[o].apart * (double) hosts[o].nrated;
            nranks += (double) hosts[o].nrated;
        }
        if (hosts[h].nrated)
            hosts[h].between = fmax(apart - nranks * hosts[h].apart, 0);
    }
    qsort(hosts, nhosts, sizeof(*hosts), by_index);
}

/* What its host causes beyond the host, by the rank's part in what is caused within. */
static double share_of(const struct rg_load *load, const struct rg_load_host *host)
{
    bool alike = host->within < RG_LATE_NOISE * (double) host->nrated;

    return host->between * (alike ? 1 / (double) host->nrated : load->causing / host->within);
}

static void blame(struct rg_load *loads, size_t n, size_t nrated, struct rg_load_host *hosts)
{
    double most = (double) nrated - 1;

    for (size_t i = 0; i < n; i++) {
        struct rg_load *load = &loads[i];
        if (load->host >= 0 && load->rated)
            load->causing += share_of(load, &hosts[load->host]);
        load->causing = fmax(fmin(load->causing, most), 0);
    }
    for (size_t i = 0; i < n; i++) {
        struct rg_load_host *host = loads[i].host >= 0 ? &hosts[loads[i].host] : NULL;
        if (!host)
            continue;
        host->causing += loads[i].causing;
        if (host->worst < 0 || loads[i].causing > loads[host->worst].causing)
            host->worst = (int) i;
    }
}

/* The host that causes most; -1: none is known. */
static int find_host(const struct rg_load_host *hosts, size_t nhosts, int *ret_nhosts)
{
    double most = -1;
    int found = -1;

    for (size_t h = 0; h < nhosts; h++) {
        *ret_nhosts += hosts[h].worst >= 0;
        if (hosts[h].worst >= 0 && hosts[h].causing > most) {
            most = hosts[h].causing;
            found = (int) h;
        }
    }
    return found;
}

/* The host that causes most, and the rank of it that does; or the rank, where hosts are unknown. On
 * one host alone it is always a rank. */
void rg_late_find(struct rg_load *loads, size_t n, struct rg_load_host *hosts, size_t nhosts,
                  struct rg_late *ret_late)
{
    int rank = -1, several = 0;
    size_t nrated = 0;

    *ret_late = (struct rg_late){ .rank = -1, .host = -1 };
    sum_up(loads, n, hosts, nhosts);
    compare(hosts, nhosts);
    for (size_t i = 0; i < n; i++)
        nrated += loads[i].rated;
    blame(loads, n, nrated, hosts);
    int host = find_host(hosts, nhosts, &several);
    for (size_t i = 0; i < n; i++) {
        if (loads[i].host == host && (rank < 0 || loads[i].causing > loads[rank].causing))
            rank = (int) i;
    }
    if (rank < 0)
        return;
    double together = several < 2 ? loads[rank].causing : hosts[host].causing;
    bool alike = loads[rank].causing < MOSTLY * together;
    double late = alike ? together : loads[rank].causing;
    if (late < RG_LATE_NOTABLE * (double) nrated)
        return;
    *ret_late = (struct rg_late){ alike ? -1 : rank, host, late };
}
