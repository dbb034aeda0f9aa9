/* SPDX-License-Identifier: Apache-2.0 */
/* Starting hosts may take minutes, and people want to see which one is waited for. */
#include "head/show/status.h"

#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "base/time.h"
#include "head/show/events.h"
#include "head/console/terminal.h"
#include "head/console/words.h"

#define TTY_DELAY_MS 300
#define TTY_REPEAT_MS 250
#define OTHER_LINES 2 /* of a terminal: the heading, and where the cursor stands */
#define LOG_DELAY_MS 2000
#define LOG_REPEAT_MS 10000
#define NAMED_MAX 3 /* hosts named in one line */
#define WIPE "\r\033[K"
#define UP "\r\033[%dA"
#define NAME_WIDTH_MAX 32

/* What is wider than a terminal takes several of its lines, of which only the last can be wiped.
 * Who hands a reason on puts words in front of it, so that the cause stands at its end. */
static void put_fitting(const struct rg_status *status, struct rg_buf *text, struct rg_buf *line)
{
    int width = rg_terminal_columns(status->fd) - 1;

    rg_put_cut(text, rg_buf_text(line), width, width / 2);
}

static bool is_ready(const struct rg_status_host *host)
{
    return host->phase >= RG_PHASE_READY && host->phase != RG_PHASE_LOST;
}

static void put_heading(const struct rg_status *status, struct rg_buf *line)
{
    int ready = 0, nhosts = status->plan->nhosts;

    for (int h = 0; h < nhosts; h++)
        ready += is_ready(&status->hosts[h]);
    rg_shown_printf(line, "reigen: %d of %d host%s %s after %.0f s", ready, nhosts,
                    nhosts == 1 ? "" : "s", status->word,
                    (double) (rg_now_ns() - status->since_ns) / 1e9);
}

/* "ready in 1.2 s", "up in 1.2 s", "pulling base: 40 %", "sending the agent" */
static void put_state(const struct rg_status *status, const struct rg_status_host *host,
                      struct rg_buf *line)
{
    bool pulling = host->phase == RG_PHASE_PULLING;

    if (host->phase == RG_PHASE_LOST)
        rg_shown_printf(line, "lost%s%s", *host->reason ? ": " : "", host->reason);
    else if (is_ready(host))
        rg_shown_printf(line, "%s in %.1f s", status->word, (double) host->ready_ns / 1e9);
    else if (*host->reason)
        rg_shown_printf(line, "%s%s", pulling ? "pulling " : "", host->reason);
    else
        rg_shown_printf(line, "%s", pulling ? "pulling the image" : rg_phase_name(host->phase));
}

static void put_row(const struct rg_status *status, int h, int width, struct rg_buf *text)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;

    rg_shown_printf(&line, "  %-*s  ", width, status->plan->hosts[h].name);
    put_state(status, &status->hosts[h], &line);
    rg_buf_printf(text, "\033[K");
    put_fitting(status, text, &line);
    rg_buf_printf(text, "\n");
}

/* Where not all fit, those that are not ready come first. Returns how many rows there are. */
static int put_rows(const struct rg_status *status, struct rg_buf *text)
{
    int rows = 24, columns, width = 0, shown = 0, nhosts = status->plan->nhosts;

    rg_terminal_size(status->fd, &rows, &columns);
    int room = rows - OTHER_LINES > 1 ? rows - OTHER_LINES : 1;
    bool all = nhosts <= room;

    for (int h = 0; h < nhosts; h++) {
        int n = (int) strlen(status->plan->hosts[h].name);
        width = n > width ? n : width;
    }
    width = width > NAME_WIDTH_MAX ? NAME_WIDTH_MAX : width;
    for (int h = 0; h < nhosts && shown < (all ? room : room - 1); h++) {
        if (!all && is_ready(&status->hosts[h]))
            continue;
        put_row(status, h, width, text);
        shown++;
    }
    if (all)
        return shown;
    rg_buf_printf(text, "\033[K  and %d more\n", nhosts - shown);
    return shown + 1;
}

/* Over what stands there already. */
static void show_rows(struct rg_status *status)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    if (status->nlines)
        rg_buf_printf(&text, UP, status->nlines);
    put_heading(status, &line);
    rg_buf_printf(&text, "\033[K");
    put_fitting(status, &text, &line);
    rg_buf_printf(&text, "\n");
    status->nlines = 1 + put_rows(status, &text);
    rg_buf_printf(&text, "\033[J");
    status->shown = true;
    status->say(status->arg, rg_buf_text(&text));
}

static void show_line(struct rg_status *status)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int named = 0;

    put_heading(status, &line);
    for (int h = 0; h < status->plan->nhosts && named < NAMED_MAX; h++) {
        const struct rg_status_host *host = &status->hosts[h];
        if (is_ready(host))
            continue;
        rg_shown_printf(&line, "%s %s %s%s%s%s", named++ ? "," : ";", status->plan->hosts[h].name,
                        rg_phase_name(host->phase), *host->reason ? " (" : "", host->reason,
                        *host->reason ? ")" : "");
    }
    if (status->tty) {
        rg_buf_printf(&text, WIPE);
        put_fitting(status, &text, &line);
    } else {
        rg_shown_line(&text, rg_buf_text(&line));
        rg_buf_printf(&text, "\n");
    }
    status->shown = true;
    status->say(status->arg, rg_buf_text(&text));
}

static void show(void *arg)
{
    struct rg_status *status = arg;
    uint64_t now_ns = rg_now_ns();

    /* A loop that was held up makes up for what it has missed. */
    if (!status->tty && status->told_ns && now_ns - status->told_ns < LOG_DELAY_MS * RG_NS_PER_MS)
        return;
    status->told_ns = now_ns;
    if (status->tty && status->plan->nhosts > 1)
        show_rows(status);
    else
        show_line(status);
}

int rg_status_start(struct rg_status *status, struct rg_loop *loop, const struct rg_plan *plan,
                    bool tty, void (*say)(void *arg, const char *text), void *arg)
{
    tty = tty && rg_terminal_smart();
    *status = (struct rg_status){ .plan = plan, .tty = tty, .word = "ready", .say = say,
                                  .arg = arg, .fd = 2 };
    status->nhosts = plan->nhosts;
    status->hosts = calloc((size_t) plan->nhosts + 1, sizeof *status->hosts);
    if (!status->hosts)
        return -ENOMEM;
    status->since_ns = rg_now_ns();
    rg_timer_start(&status->timer, loop, tty ? TTY_DELAY_MS : LOG_DELAY_MS,
                   tty ? TTY_REPEAT_MS : LOG_REPEAT_MS, show, status);
    return 0;
}

int rg_status_grow(struct rg_status *status)
{
    if (!status->plan)
        return 0;
    int nhosts = status->plan->nhosts;
    struct rg_status_host *hosts =
        realloc(status->hosts, ((size_t) nhosts + 1) * sizeof *status->hosts);

    if (!hosts)
        return -ENOMEM;
    status->hosts = hosts;
    for (; status->nhosts < nhosts; status->nhosts++)
        hosts[status->nhosts] = (struct rg_status_host){ .phase = RG_PHASE_PENDING };
    return 0;
}

void rg_status_phase(struct rg_status *status, int host, enum rg_host_phase phase,
                     const char *reason)
{
    struct rg_status_host *h = &status->hosts[host];

    h->phase = phase;
    snprintf(h->reason, sizeof h->reason, "%s", reason ? reason : "");
    if (is_ready(h) && !h->ready_ns)
        h->ready_ns = rg_now_ns() - status->since_ns;
}

void rg_status_seen(struct rg_status *status, int host, enum rg_host_phase phase,
                    const char *reason)
{
    bool up = phase == RG_PHASE_CONNECTING && !*reason;

    status->word = "up";
    rg_status_phase(status, host, up ? RG_PHASE_READY : phase, reason);
}

void rg_status_wipe(struct rg_status *status)
{
    char up[32] = WIPE;

    if (status->nlines)
        snprintf(up, sizeof up, UP "\033[J", status->nlines);
    if (status->tty && status->shown && !status->over)
        status->say(status->arg, up);
    status->shown = false;
    status->nlines = 0;
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
