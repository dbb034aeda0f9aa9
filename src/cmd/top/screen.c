/* SPDX-License-Identifier: Apache-2.0 */
/* Rows change their order while one looks, so what is chosen is a job, a host or a rank, and not
 * the place of a row. */
#include "cmd/top/screen.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/say.h"
#include "cmd/top/keys.h"
#include "cmd/top/page.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"

#define READ_MS 1000       /* between two readings */
#define DRAW_MS 20         /* answers that come together are drawn together */
#define ESCAPE_MS 50       /* after which Esc is a key of its own */
#define KEYS_MAX 256
#define CTRL_C 3
#define CTRL_Z 26
#define ERASE_LINE "\033[K"
#define ERASE_BELOW "\033[J"
#define REVERSE "\033[7m"

static const int deadly[] = { SIGINT, SIGTERM, SIGHUP };

struct screen {
    struct rg_top_jobs *jobs;
    struct rg_loop *loop;
    bool one;
    int64_t left;               /* readings; 0: without end */
    int rows, columns;

    /* Which page: a rank's, one host's, a job's, or that of all jobs. */
    struct rg_top_watch *watch; /* NULL: all jobs */
    struct rg_top_view view;
    char *host;                 /* that is opened; view.host is the same */
    int rank;                   /* that is opened; -1: none */

    struct rg_top_watch *chosen_job; /* NULL: the first */
    char *chosen_host;
    int chosen_rank;            /* -1: the first */

    struct rg_io input;
    struct rg_timer tick, draw, escape;
    struct rg_signal ends[3], stop, cont, resize;
    uint8_t keys[KEYS_MAX];
    size_t nkeys;
    int exit_code;
    bool asking;                /* launchers are being asked */
    bool counted;               /* the reading that was asked for last */
    bool leaving;
    bool last;                  /* what is shown last stays */
};

/* --- what is chosen --------------------------------------------------------------------------- */

static size_t find_job(const struct screen *screen, struct rg_top_watch *const *sorted)
{
    for (size_t i = 0; i < screen->jobs->count; i++) {
        if (sorted[i] == screen->chosen_job)
            return i;
    }
    return 0;
}

static bool is_chosen(const struct screen *screen, const struct rg_top_rows *rows, size_t i)
{
    const struct rg_top_reading *reading = &screen->watch->reading;
    int at = rows->index[i];

    if (rows->hosts)
        return screen->chosen_host && strcmp(reading->hosts[at].name, screen->chosen_host) == 0;
    return reading->ranks[at].rank == screen->chosen_rank;
}

static size_t find_row(const struct screen *screen, const struct rg_top_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (is_chosen(screen, rows, i))
            return i;
    }
    return 0;
}

static void choose_row(struct screen *screen, const struct rg_top_rows *rows, size_t i)
{
    const struct rg_top_reading *reading = &screen->watch->reading;

    if (rows->hosts) {
        free(screen->chosen_host);
        screen->chosen_host = strdup(reading->hosts[rows->index[i]].name);
    } else {
        screen->chosen_rank = reading->ranks[rows->index[i]].rank;
    }
}

/* --- drawing ---------------------------------------------------------------------------------- */

/* Where there would be no room for a row, all that stands above the table is left out. */
static bool has_head(const struct screen *screen)
{
    return screen->rows > RG_TOP_HEAD_LINES + 1;
}

/* Rows that a table has; one row of the screen is the foot's. */
static size_t room_of(const struct screen *screen)
{
    int head = has_head(screen) ? RG_TOP_HEAD_LINES + 1 : 2;

    return screen->rows > head ? (size_t) (screen->rows - head) : 1;
}

static int make_rows(const struct screen *screen, struct rg_top_rows *rows)
{
    return rg_top_rows_make(&screen->watch->reading, &screen->view, room_of(screen), rows);
}

static void put_foot(const struct screen *screen, const struct rg_top_part *part, size_t count,
                     struct rg_buf *text)
{
    size_t last = part->first + part->count < count ? part->first + part->count : count;

    if (count)
        rg_shown_printf(text, "%zu-%zu of %zu | ", part->first + 1, last, count);
    rg_shown_printf(text, "q quit, ");
    if (screen->watch && screen->rank < 0)
        rg_shown_printf(text, "s sort (%s), f fold, ", rg_top_key_name(screen->view.key));
    if (screen->rank < 0)
        rg_shown_printf(text, "arrows and Enter open");
    if (screen->rank >= 0 || screen->host || (screen->watch && !screen->one))
        rg_shown_printf(text, "%sEsc back", screen->rank < 0 ? ", " : "");
}

static void put_table(const struct screen *screen, const struct rg_top_look *look,
                      struct rg_buf *text, struct rg_buf *foot)
{
    rg_cleanup(rg_top_rows_fini) struct rg_top_rows rows = { 0 };
    struct rg_top_part part = { .count = room_of(screen) };

    if (has_head(screen) || !screen->watch->reading.nranks)
        rg_top_put_head(screen->watch, look, text);
    if (!screen->watch->reading.nranks || make_rows(screen, &rows) < 0) {
        put_foot(screen, &part, 0, foot);
        return;
    }
    part.chosen = find_row(screen, &rows);
    part.first = part.chosen >= part.count ? part.chosen - part.count + 1 : 0;
    rg_top_put_table(&screen->watch->reading, &rows, &part, look, text);
    put_foot(screen, &part, rows.count, foot);
}

static void put_page(const struct screen *screen, const struct rg_top_look *look,
                     struct rg_buf *text, struct rg_buf *foot)
{
    const struct rg_top_part none = { 0 };
    size_t room = screen->rows > 3 ? (size_t) screen->rows - 1 : 2;

    if (!screen->watch) {
        rg_autofree struct rg_top_watch **sorted = rg_top_jobs_sorted(screen->jobs);
        if (sorted)
            rg_top_put_jobs(screen->jobs, sorted, find_job(screen, sorted), room, look, text);
        put_foot(screen, &none, 0, foot);
    } else if (screen->rank >= 0) {
        if (has_head(screen))
            rg_top_put_head(screen->watch, look, text);
        rg_top_put_rank(screen->watch, screen->rank, room > RG_TOP_HEAD_LINES
                        ? room - RG_TOP_HEAD_LINES : 1, look, text);
        put_foot(screen, &none, 0, foot);
    } else {
        put_table(screen, look, text, foot);
    }
}

/* The lines of page as far as there are rows for them. Each is erased before it is written: behind
 * a line that fills its row, the cursor stands on the last character. */
static void put_frame(const struct screen *screen, const char *page, struct rg_buf *frame)
{
    int row = 1;

    rg_buf_printf(frame, "\033[H");
    for (size_t n; *page && row < screen->rows; page += n, row++) {
        n = strcspn(page, "\n");
        rg_buf_printf(frame, ERASE_LINE);
        rg_buf_put(frame, page, n);
        rg_buf_printf(frame, "\r\n");
        n += page[n] == '\n';
    }
    rg_buf_printf(frame, ERASE_BELOW "\033[%d;1H", screen->rows);
}

static void draw(void *arg)
{
    struct screen *screen = arg;
    rg_autobuf struct rg_buf page = RG_BUF_INIT, foot = RG_BUF_INIT, frame = RG_BUF_INIT;
    rg_autobuf struct rg_buf cut = RG_BUF_INIT;

    if (!rg_terminal_size(1, &screen->rows, &screen->columns))
        screen->rows = 24, screen->columns = 80;
    const struct rg_top_look look = { .columns = screen->columns, .colour = rg_terminal_colour(1),
                                      .cursor = true };
    put_page(screen, &look, &page, &foot);
    put_frame(screen, rg_buf_text(&page), &frame);
    rg_top_put_line(rg_buf_text(&foot), REVERSE, &look, &cut);
    rg_buf_put(&frame, rg_buf_bytes(&cut), rg_buf_nbytes(&cut) ? rg_buf_nbytes(&cut) - 1 : 0);
    if (rg_buf_status(&frame) == 0)
        rg_print_exact(rg_buf_text(&frame));
}

static void draw_soon(struct screen *screen)
{
    if (!rg_timer_active(&screen->draw))
        rg_timer_start(&screen->draw, screen->loop, DRAW_MS, 0, draw, screen);
}

/* --- its end ---------------------------------------------------------------------------------- */

static void leave(struct screen *screen, int exit_code, bool last)
{
    if (screen->leaving)
        return;
    screen->leaving = true;
    screen->exit_code = exit_code;
    screen->last = last;
    rg_loop_stop(screen->loop);
}

static bool is_all_over(const struct screen *screen)
{
    return rg_top_jobs_are_over(screen->jobs) &&
           (screen->one || rg_top_jobs_others(screen->jobs) == 0);
}

/* What was shown, on the user's own screen. */
static int print_last(const struct screen *screen)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autofree struct rg_top_watch **sorted = rg_top_jobs_sorted(screen->jobs);
    const struct rg_top_look look = { .columns = screen->columns, .colour = rg_terminal_colour(1) };
    struct rg_top_view view = { .key = screen->view.key, .fold = screen->view.fold };

    if (screen->one)
        rg_top_put_job(screen->jobs->watches[0], &view, room_of(screen), &look, &text);
    else if (sorted)
        rg_top_put_jobs(screen->jobs, sorted, 0, (size_t) screen->rows, &look, &text);
    return rg_print_exact(rg_buf_text(&text));
}

static void on_end_signal(void *arg, int signo)
{
    leave(arg, RG_EXIT_SIGNAL + signo, false);
}

static void on_continued(void *arg, int signo)
{
    struct screen *screen = arg;

    (void) signo;
    rg_terminal_restore(); /* the shell has changed the mode meanwhile */
    rg_terminal_page(1);
    draw(screen);
}

static void on_stop(void *arg, int signo)
{
    struct screen *screen = arg;

    rg_terminal_restore();
    rg_signal_stop(&screen->stop);
    rg_signal_stop(&screen->cont); /* kill returns when that has come: once is enough */
    kill(0, SIGTSTP); /* as the terminal does: all of the shell's job stop */
    rg_signal_start(&screen->stop, screen->loop, SIGTSTP, on_stop, screen);
    rg_signal_start(&screen->cont, screen->loop, SIGCONT, on_continued, screen);
    on_continued(screen, signo);
}

static void on_resize(void *arg, int signo)
{
    (void) signo;
    draw(arg);
}

/* --- keys ------------------------------------------------------------------------------------- */

/* By so many rows, and within them. */
static size_t moved(size_t at, size_t count, int64_t by)
{
    int64_t to = (int64_t) at + by;

    return count == 0 || to < 0 ? 0 : to >= (int64_t) count ? count - 1 : (size_t) to;
}

static void move(struct screen *screen, int64_t by)
{
    if (screen->rank >= 0)
        return;
    if (!screen->watch) {
        rg_autofree struct rg_top_watch **sorted = rg_top_jobs_sorted(screen->jobs);
        size_t count = screen->jobs->count;
        if (sorted && count)
            screen->chosen_job = sorted[moved(find_job(screen, sorted), count, by)];
        return;
    }
    rg_cleanup(rg_top_rows_fini) struct rg_top_rows rows = { 0 };
    if (make_rows(screen, &rows) == 0 && rows.count)
        choose_row(screen, &rows, moved(find_row(screen, &rows), rows.count, by));
}

static void open_job(struct screen *screen)
{
    rg_autofree struct rg_top_watch **sorted = rg_top_jobs_sorted(screen->jobs);

    if (sorted && screen->jobs->count)
        screen->watch = screen->chosen_job = sorted[find_job(screen, sorted)];
}

static void open_row(struct screen *screen)
{
    rg_cleanup(rg_top_rows_fini) struct rg_top_rows rows = { 0 };

    if (make_rows(screen, &rows) < 0 || !rows.count)
        return;
    choose_row(screen, &rows, find_row(screen, &rows));
    if (rows.hosts)
        screen->view.host = screen->host = screen->chosen_host ? strdup(screen->chosen_host) : NULL;
    else
        screen->rank = screen->chosen_rank;
}

static void open_chosen(struct screen *screen)
{
    if (!screen->watch)
        open_job(screen);
    else if (screen->rank < 0)
        open_row(screen);
}

static void go_back(struct screen *screen)
{
    if (screen->rank >= 0) {
        screen->rank = -1;
    } else if (screen->host) {
        free(screen->host);
        screen->view.host = screen->host = NULL;
        screen->chosen_rank = -1;
    } else if (!screen->one) {
        screen->watch = NULL;
        screen->chosen_rank = -1;
    }
}

static void fold(struct screen *screen)
{
    rg_cleanup(rg_top_rows_fini) struct rg_top_rows rows = { 0 };

    if (screen->watch && screen->rank < 0 && make_rows(screen, &rows) == 0)
        screen->view.fold = rows.hosts ? RG_TOP_UNFOLD : RG_TOP_FOLD;
}

static void on_key(struct screen *screen, int key)
{
    int64_t page = (int64_t) room_of(screen);

    switch (key) {
    case 'q': leave(screen, 0, false); break;
    case CTRL_C: leave(screen, RG_EXIT_SIGNAL + SIGINT, false); break;
    case CTRL_Z: on_stop(screen, SIGTSTP); break;
    case 's': screen->view.key = (screen->view.key + 1) % RG_TOP_KEYS; break;
    case 'f': fold(screen); break;
    case '\r':
    case '\n': open_chosen(screen); break;
    case 'k':
    case RG_TOP_KEY_UP: move(screen, -1); break;
    case 'j':
    case RG_TOP_KEY_DOWN: move(screen, 1); break;
    case RG_TOP_KEY_PAGE_UP: move(screen, -page); break;
    case ' ':
    case RG_TOP_KEY_PAGE_DOWN: move(screen, page); break;
    case RG_TOP_KEY_HOME: move(screen, INT32_MIN); break;
    case RG_TOP_KEY_END: move(screen, INT32_MAX); break;
    case RG_TOP_KEY_ESCAPE: go_back(screen); break;
    default: break;
    }
}

static void on_escape(void *arg);

/* whole: nothing has come for a moment. */
static void take_keys(struct screen *screen, bool whole)
{
    size_t at = 0, n;
    int key;

    while (!screen->leaving &&
           (n = rg_top_key(screen->keys + at, screen->nkeys - at, whole, &key)) > 0) {
        at += n;
        on_key(screen, key);
    }
    screen->nkeys -= at;
    memmove(screen->keys, screen->keys + at, screen->nkeys);
    rg_timer_stop(&screen->escape);
    if (screen->nkeys)
        rg_timer_start(&screen->escape, screen->loop, ESCAPE_MS, 0, on_escape, screen);
    draw_soon(screen);
}

static void on_escape(void *arg)
{
    take_keys(arg, true);
}

static void on_input(void *arg, int events)
{
    struct screen *screen = arg;
    ssize_t n = read(0, screen->keys + screen->nkeys, KEYS_MAX - screen->nkeys);

    (void) events;
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) { /* the terminal has gone */
        leave(screen, RG_EXIT_SIGNAL + SIGHUP, false);
        return;
    }
    screen->nkeys += (size_t) n;
    take_keys(screen, screen->nkeys == KEYS_MAX);
}

/* --- readings --------------------------------------------------------------------------------- */

static void count(struct screen *screen)
{
    screen->counted = true;
    if (screen->left > 0 && --screen->left == 0)
        leave(screen, 0, true);
}

static void on_changed(void *arg)
{
    struct screen *screen = arg;
    bool whole = true;

    if (screen->asking)
        return;
    for (size_t i = 0; i < screen->jobs->count; i++)
        whole &= screen->jobs->watches[i]->tried || screen->jobs->watches[i]->over;
    if (is_all_over(screen))
        leave(screen, 0, true);
    else if (whole && !screen->counted)
        count(screen);
    draw_soon(screen);
}

static void on_tick(void *arg)
{
    struct screen *screen = arg;

    if (!screen->counted) /* a launcher does not answer, and is not waited for */
        count(screen);
    if (screen->leaving)
        return;
    rg_top_jobs_find(screen->jobs);
    screen->counted = false;
    screen->asking = true;
    rg_top_jobs_ask(screen->jobs);
    screen->asking = false;
    on_changed(screen);
}

/* --- all of it -------------------------------------------------------------------------------- */

static void start(struct screen *screen)
{
    struct rg_loop *loop = screen->loop;

    for (size_t i = 0; i < rg_array_len(deadly); i++)
        rg_signal_start(&screen->ends[i], loop, deadly[i], on_end_signal, screen);
    rg_signal_start(&screen->stop, loop, SIGTSTP, on_stop, screen);
    rg_signal_start(&screen->cont, loop, SIGCONT, on_continued, screen);
    rg_signal_start(&screen->resize, loop, SIGWINCH, on_resize, screen);
    rg_io_start(&screen->input, loop, 0, RG_IO_READ, on_input, screen);
    rg_timer_start(&screen->tick, loop, 0, READ_MS, on_tick, screen);
}

static void finish(struct screen *screen)
{
    for (size_t i = 0; i < rg_array_len(deadly); i++)
        rg_signal_stop(&screen->ends[i]);
    rg_signal_stop(&screen->stop);
    rg_signal_stop(&screen->cont);
    rg_signal_stop(&screen->resize);
    rg_io_stop(&screen->input);
    rg_timer_stop(&screen->tick);
    rg_timer_stop(&screen->draw);
    rg_timer_stop(&screen->escape);
    free(screen->host);
    free(screen->chosen_host);
}

int rg_top_screen(struct rg_top_jobs *jobs, bool one, int64_t readings)
{
    struct screen screen = { .jobs = jobs, .loop = jobs->loop, .one = one, .left = readings,
                             .watch = one ? jobs->watches[0] : NULL, .rank = -1,
                             .chosen_rank = -1, .counted = true };
    int r = rg_terminal_page(1);

    if (r < 0)
        return rg_fail(&(struct rg_error){ -r, 0, "top: the terminal cannot be used" }, "top");
    start(&screen);
    draw(&screen);
    jobs->changed = on_changed;
    jobs->arg = &screen;
    rg_loop_run(jobs->loop);
    jobs->changed = NULL;
    finish(&screen);
    rg_terminal_restore();
    return screen.last ? print_last(&screen) : screen.exit_code;
}
