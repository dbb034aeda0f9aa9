/* SPDX-License-Identifier: Apache-2.0 */
/* Columns have one width whatever is in them, so that a table that is drawn anew each second stands
 * still; the names of hosts have what is left of the line. */
#include "cmd/top/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "head/console/words.h"

#define HOST_MIN 8
#define HOST_MAX 40
#define WIDE 120
#define PLAIN "\033[0m"
#define BOLD "\033[1m"
#define REVERSE "\033[7m"
#define RED "\033[31m"

/* --- amounts ---------------------------------------------------------------------------------- */

const char *rg_top_number(double value, bool known, char cell[RG_TOP_CELL])
{
    if (!known)
        snprintf(cell, RG_TOP_CELL, "-");
    else if (value >= 999999.5)
        snprintf(cell, RG_TOP_CELL, "%.1e", value);
    else
        snprintf(cell, RG_TOP_CELL, "%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
    return cell;
}

const char *rg_top_percent(double share, bool known, char cell[RG_TOP_CELL])
{
    if (known)
        snprintf(cell, RG_TOP_CELL, "%.0f%%", share * 100);
    else
        snprintf(cell, RG_TOP_CELL, "-");
    return cell;
}

const char *rg_top_amount(double nbytes, bool known, char cell[RG_TOP_CELL])
{
    static const char units[] = " KMGTPE";
    size_t unit = 0;

    for (; nbytes >= 999.5 && unit + 2 < sizeof(units); unit++)
        nbytes /= 1024;
    if (!known)
        snprintf(cell, RG_TOP_CELL, "-");
    else if (unit == 0)
        snprintf(cell, RG_TOP_CELL, "%.0f", nbytes);
    else
        snprintf(cell, RG_TOP_CELL, "%.*f%c", nbytes < 9.95 ? 1 : 0, nbytes, units[unit]);
    return cell;
}

/* --- lines ------------------------------------------------------------------------------------ */

void rg_top_put_line(const char *words, const char *style, const struct rg_top_look *look,
                     struct rg_buf *text)
{
    bool styled = look->colour && *style;

    if (styled)
        rg_buf_put(text, style, strlen(style));
    rg_put_cut(text, words, look->columns > 4 ? look->columns : 4, 0);
    rg_buf_printf(text, styled ? PLAIN "\n" : "\n");
}

void rg_top_put_culprit(const struct rg_top_reading *reading, struct rg_buf *text)
{
    bool rank = reading->late_rank >= 0, host = reading->late_host >= 0;

    if (!rank && !host)
        return;
    if (rank)
        rg_shown_printf(text, "rank %d", reading->ranks[reading->late_rank].rank);
    if (host) {
        rg_shown_printf(text, rank ? " on " : "host ");
        rg_shown_line(text, reading->hosts[reading->late_host].name);
    }
    rg_shown_printf(text, ", %.0f %% of all waiting",
                    100 * fmin(reading->late_causing / reading->all.causing, 1));
}

void rg_top_put_late(const struct rg_top_reading *reading, const struct rg_top_look *look,
                     struct rg_buf *text)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    bool any = reading->late_rank >= 0 || reading->late_host >= 0;

    rg_shown_printf(&line, "waited for: ");
    if (any)
        rg_top_put_culprit(reading, &line);
    else
        rg_shown_printf(&line, "nobody in particular");
    if (any)
        rg_shown_printf(&line, ": %.2f s in a second", reading->late_causing);
    rg_top_put_line(rg_buf_text(&line), any ? RED : "", look, text);
}

void rg_top_put_why(const struct rg_top_reading *reading, const struct rg_top_look *look,
                    struct rg_buf *text)
{
    const struct rg_top_why *why = &reading->why;
    rg_autobuf struct rg_buf line = RG_BUF_INIT, words = RG_BUF_INIT;

    if (!why->diagnosis.cause)
        return;
    rg_lateness_put(&why->diagnosis, why->host ? why->host : "?", why->to ? why->to : "?",
                     &words);
    rg_shown_printf(&line, "why: ");
    rg_shown_line(&line, rg_buf_text(&words));
    rg_top_put_line(rg_buf_text(&line), RED, look, text);
}

void rg_top_put_sums(const struct rg_top_reading *reading, const struct rg_top_look *look,
                     struct rg_buf *text)
{
    const struct rg_top_numbers *all = &reading->all;
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    char cell[RG_TOP_CELL];
    bool known = all->rated;

    if (!reading->nranks) {
        rg_top_put_line("no rank has called init yet: there are no numbers", "", look, text);
        return;
    }
    rg_shown_printf(&line, "step %.0f, %s steps/s", all->steps,
                    rg_top_number(all->steps_per_s, known, cell));
    rg_shown_printf(&line, ", communication %s", rg_top_percent(all->communication, known, cell));
    rg_shown_printf(&line, ", %s bytes/s", rg_top_amount(all->bytes_per_s, known, cell));
    rg_shown_printf(&line, ", CPU %s", rg_top_number(all->cpu, known, cell));
    rg_shown_printf(&line, ", memory %s", rg_top_amount(all->resident, all->resident > 0, cell));
    if (all->age_s >= RG_TOP_SILENT_S)
        rg_shown_printf(&line, "; some were not heard for %.0f s", all->age_s);
    rg_top_put_line(rg_buf_text(&line), "", look, text);
}

/* --- the table -------------------------------------------------------------------------------- */

struct column {
    const char *title;
    int width;
    const char *(*put)(const struct rg_top_numbers *n, char cell[RG_TOP_CELL]);
};

static const char *put_steps(const struct rg_top_numbers *n, char cell[RG_TOP_CELL])
{
    snprintf(cell, RG_TOP_CELL, "%.0f", n->steps);
    return cell;
}

static const char *put_rate(const struct rg_top_numbers *n, char cell[RG_TOP_CELL])
{
    return rg_top_number(n->steps_per_s, n->rated, cell);
}

static const char *put_communication(const struct rg_top_numbers *n, char cell[RG_TOP_CELL])
{
    return rg_top_percent(n->communication, n->rated, cell);
}

static const char *put_waiting(const struct rg_top_numbers *n, char cell[RG_TOP_CELL])
{
    return rg_top_percent(n->waiting, n->rated, cell);
}

static const char *put_causing(const struct rg_top_numbers *n, char cell[RG_TOP_CELL])
{
    return rg_top_number(n->causing, n->rated, cell);
}

static const char *put_bytes(const struct rg_top_numbers *n, char cell[RG_TOP_CELL])
{
    return rg_top_amount(n->bytes_per_s, n->rated, cell);
}

static const char *put_cpu(const struct rg_top_numbers *n, char cell[RG_TOP_CELL])
{
    return rg_top_number(n->cpu, n->rated, cell);
}

static const char *put_memory(const struct rg_top_numbers *n, char cell[RG_TOP_CELL])
{
    return rg_top_amount(n->resident, n->resident > 0, cell);
}

static const struct column columns[] = {
    { "STEPS", 8, put_steps },    { "STEP/S", 6, put_rate },    { "COMM", 5, put_communication },
    { "WAITS", 5, put_waiting },  { "CAUSES", 6, put_causing }, { "BYTES/S", 7, put_bytes },
    { "CPU", 6, put_cpu },        { "MEMORY", 6, put_memory },
};

/* Behind the ranks' or hosts' own two. */
static void put_cells(struct rg_buf *line, const struct rg_top_numbers *n)
{
    char cell[RG_TOP_CELL];

    for (size_t c = 0; c < rg_array_len(columns); c++)
        rg_shown_printf(line, " %*s", columns[c].width,
                        n ? columns[c].put(n, cell) : columns[c].title);
}

/* What the names of hosts may take. */
static int host_width(const struct rg_top_reading *reading, const struct rg_top_look *look)
{
    int width = HOST_MIN, left = look->columns - (look->cursor ? 2 : 0) - 7;

    for (size_t c = 0; c < rg_array_len(columns); c++)
        left -= columns[c].width + 1;
    for (size_t h = 0; h < reading->nhosts; h++) {
        int n = rg_width(reading->hosts[h].name);
        width = n > width ? n : width;
    }
    width = width > HOST_MAX ? HOST_MAX : width;
    return width > left ? left > HOST_MIN ? left : HOST_MIN : width;
}

static void put_host(struct rg_buf *line, const char *name, int width)
{
    rg_autobuf struct rg_buf cell = RG_BUF_INIT;

    rg_put_cut(&cell, name, width, 0);
    rg_shown_printf(line, " %s%*s", rg_buf_text(&cell), width - rg_width(rg_buf_text(&cell)), "");
}

/* Of a host: which of its ranks causes most. There is room for it on wide terminals. */
static void put_worst(const struct rg_top_reading *reading, const struct rg_top_host *host,
                      const struct rg_top_look *look, struct rg_buf *line)
{
    if (look->columns < WIDE)
        return;
    if (!host)
        rg_shown_printf(line, "  WORST RANK");
    else if (host->worst >= 0 && host->n.rated)
        rg_shown_printf(line, "  %10d", reading->ranks[host->worst].rank);
}

static void put_row(const struct rg_top_reading *reading, const struct rg_top_rows *rows, size_t i,
                    int width, const struct rg_top_look *look, struct rg_buf *line)
{
    int at = rows->index[i];
    const struct rg_top_rank *rank = rows->hosts ? NULL : &reading->ranks[at];
    const struct rg_top_host *host = rows->hosts ? &reading->hosts[at]
                                     : rank->host < 0 ? NULL : &reading->hosts[rank->host];

    rg_shown_printf(line, "%6d", rank ? rank->rank : (int) host->nranks);
    put_host(line, host ? host->name : "-", width);
    put_cells(line, rank ? &rank->n : &host->n);
    if (!rank)
        put_worst(reading, host, look, line);
}

static bool is_late(const struct rg_top_reading *reading, const struct rg_top_rows *rows, size_t i)
{
    int at = rows->index[i];

    if (rows->hosts)
        return at == reading->late_host;
    return reading->late_rank >= 0 ? at == reading->late_rank
                                   : reading->late_host >= 0 &&
                                         reading->ranks[at].host == reading->late_host;
}

void rg_top_put_table(const struct rg_top_reading *reading, const struct rg_top_rows *rows,
                      const struct rg_top_part *part, const struct rg_top_look *look,
                      struct rg_buf *text)
{
    rg_autobuf struct rg_buf heading = RG_BUF_INIT;
    int width = host_width(reading, look);

    rg_shown_printf(&heading, "%s%6s", look->cursor ? "  " : "", rows->hosts ? "RANKS" : "RANK");
    put_host(&heading, "HOST", width);
    put_cells(&heading, NULL);
    if (rows->hosts)
        put_worst(reading, NULL, look, &heading);
    rg_top_put_line(rg_buf_text(&heading), BOLD, look, text);
    for (size_t i = part->first; i < rows->count && i < part->first + part->count; i++) {
        rg_autobuf struct rg_buf line = RG_BUF_INIT;
        bool chosen = look->cursor && i == part->chosen;
        if (look->cursor)
            rg_shown_printf(&line, chosen ? "> " : "  ");
        put_row(reading, rows, i, width, look, &line);
        rg_top_put_line(rg_buf_text(&line), chosen ? REVERSE : is_late(reading, rows, i) ? RED : "",
                        look, text);
    }
}
