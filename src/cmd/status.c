/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/status.h"

#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cmd/events.h"
#include "cmd/terminal.h"

#define TTY_DELAY_MS 300
#define TTY_REPEAT_MS 500
#define LOG_DELAY_MS 2000
#define LOG_REPEAT_MS 10000
#define NAMED_MAX 3 /* hosts named in one line */
#define WIPE "\r\033[K"
#define MORE "..."

/* What is wider than a terminal takes several of its lines, of which only the last can be wiped. */
static void put_fitting(struct rg_buf *text, const char *line, int columns)
{
    int width = columns - 1, at = 0;
    size_t nbytes = 0, short_nbytes = 0;

    /* A character of UTF-8 is taken for one column. */
    for (; line[nbytes] && at <= width; nbytes++) {
        if ((line[nbytes] & 0xc0) == 0x80)
            continue;
        if (at++ == width - (int) strlen(MORE))
            short_nbytes = nbytes;
    }
    if (at <= width)
        rg_buf_printf(text, "%s", line);
    else
        rg_buf_printf(text, "%.*s" MORE, (int) short_nbytes, line);
}

static bool is_ready(const struct rg_status_host *host)
{
    return host->phase >= RG_PHASE_READY && host->phase != RG_PHASE_LOST;
}

static void show(void *arg)
{
    struct rg_status *status = arg;
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int ready = 0, named = 0;

    for (int h = 0; h < status->plan->nhosts; h++)
        ready += is_ready(&status->hosts[h]);
    rg_buf_printf(&line, "reigen: %d of %d host%s ready after %.0f s", ready,
                  status->plan->nhosts, status->plan->nhosts == 1 ? "" : "s",
                  (double)(rg_now_ns() - status->since_ns) / 1e9);
    for (int h = 0; h < status->plan->nhosts && named < NAMED_MAX; h++) {
        const struct rg_status_host *host = &status->hosts[h];
        if (is_ready(host))
            continue;
        rg_buf_printf(&line, "%s %s %s%s%s%s", named++ ? "," : ";", status->plan->hosts[h].name,
                      rg_phase_name(host->phase), *host->reason ? " (" : "", host->reason,
                      *host->reason ? ")" : "");
    }
    if (status->tty) {
        rg_buf_printf(&text, WIPE);
        put_fitting(&text, rg_buf_text(&line), rg_terminal_columns(2));
    } else {
        rg_buf_printf(&text, "%s\n", rg_buf_text(&line));
    }
    status->shown = true;
    status->say(status->arg, rg_buf_text(&text));
}

int rg_status_start(struct rg_status *status, struct rg_loop *loop, const struct rg_plan *plan,
                    bool tty, void (*say)(void *arg, const char *text), void *arg)
{
    *status = (struct rg_status){ .plan = plan, .tty = tty, .say = say, .arg = arg };
    status->hosts = calloc((size_t) plan->nhosts + 1, sizeof *status->hosts);
    if (!status->hosts)
        return -ENOMEM;
    status->since_ns = rg_now_ns();
    rg_timer_start(&status->timer, loop, tty ? TTY_DELAY_MS : LOG_DELAY_MS,
                   tty ? TTY_REPEAT_MS : LOG_REPEAT_MS, show, status);
    return 0;
}

void rg_status_phase(struct rg_status *status, int host, enum rg_host_phase phase,
                     const char *reason)
{
    status->hosts[host].phase = phase;
    snprintf(status->hosts[host].reason, sizeof status->hosts[host].reason, "%s",
             reason ? reason : "");
}

void rg_status_wipe(struct rg_status *status)
{
    if (status->tty && status->shown && !status->over)
        status->say(status->arg, WIPE);
    status->shown = false;
}

void rg_status_stop(struct rg_status *status)
{
    rg_timer_stop(&status->timer);
    rg_status_wipe(status);
    status->over = true;
}

void rg_status_fini(struct rg_status *status)
{
    rg_timer_stop(&status->timer);
    free(status->hosts);
    status->hosts = NULL;
}
