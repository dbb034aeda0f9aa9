/* SPDX-License-Identifier: Apache-2.0 */
/* What the user sees while the head waits: on a terminal one line for each host, which changes,
 * else a line for each that is ready, and now and then who is missing. */
#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "base/time.h"
#include "agent/wait/internal.h"

#define LINES_MAX 20 /* of hosts on a terminal; more have one line together */
#define TOLD_MAX 5

static double seconds(const struct rg_wait *wait)
{
    return (double) ((rg_now_ns() - wait->begin_ns) / RG_NS_PER_MS) / 1000.0;
}

static void draw(struct rg_wait *wait)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    if (wait->ndrawn)
        rg_buf_printf(&text, "\033[%zuA", wait->ndrawn);
    wait->ndrawn = wait->nhosts > LINES_MAX ? 1 : wait->nhosts;
    for (size_t i = 0; wait->nhosts <= LINES_MAX && i < wait->nhosts; i++) {
        const struct rg_wait_host *host = &wait->hosts[i];
        rg_buf_printf(&text, "\r\033[K");
        rg_shown_printf(&text, "  %s: %.60s\n", host->name, host->ready ? "ready" : host->why);
    }
    if (wait->nhosts > LINES_MAX)
        rg_buf_printf(&text, "\r\033[K  %zu of %zu workers are ready\n", wait->nready,
                      wait->nhosts);
    rg_say_exact(rg_buf_text(&text));
}

void rg_wait_show(struct rg_wait *wait, const struct rg_wait_host *changed)
{
    if (wait->quiet)
        return;
    if (wait->live)
        draw(wait);
    else if (changed && changed->ready)
        rg_say("%s is ready, %zu of %zu after %.1f s", changed->name, wait->nready, wait->nhosts,
               seconds(wait));
}

void rg_wait_show_news(void *arg)
{
    struct rg_wait *wait = arg;
    size_t told = 0;

    if (wait->quiet || wait->live)
        return;
    for (size_t i = 0; i < wait->nhosts && told < TOLD_MAX; i++) {
        if (!wait->hosts[i].ready && ++told)
            rg_say("waits for %s: %s", wait->hosts[i].name, wait->hosts[i].why);
    }
}

void rg_wait_ready(struct rg_wait_host *host)
{
    struct rg_wait *wait = host->wait;

    if (host->ready)
        return;
    host->ready = true;
    wait->nready++;
    rg_wait_show(wait, host);
    if (wait->nready == wait->nhosts)
        rg_loop_stop(wait->loop);
}

void rg_wait_not_ready(struct rg_wait_host *host, const char *why)
{
    bool changed = host->ready || strcmp(host->why, why) != 0;

    host->wait->nready -= host->ready;
    host->ready = false;
    snprintf(host->why, sizeof(host->why), "%s", why);
    if (changed)
        rg_wait_show(host->wait, host);
}
