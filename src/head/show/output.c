/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks write goes to the terminal, to files, or into events, each at its own pace. */
#include "head/show/output.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/say.h"
#include "base/time.h"
#include "head/show/lines.h"
#include "head/show/outfiles.h"
#include "head/console/rows.h"
#include "head/show/sink.h"
#include "head/console/terminal.h"
#include "head/show/tracebacks.h"
#include "launch/verdict/tail.h"

#define LOOK_AT_HELD_MS 250

/* How often a line that is being redrawn is shown where it does not move: so many milliseconds
 * after the last time at the least (rg_lines_due), that a log of all ranks stays readable. */
#define ROW_MS 1000
#define ROW_OF_EACH_RANK_MS 125

#define SHOWN_LINES 30 /* less than a screen */
#define OWN (-1)       /* in the place of a rank: a line of reigen's own */

/* What stands above reigen's own words on the terminal: the last lines that went to the same place,
 * so that the verdict does not repeat them. They are cut as rg_tail cuts them, since that is what
 * they are compared with. */
struct shown {
    struct { int rank; size_t nbytes; char text[RG_TAIL_LINE_MAX]; } lines[SHOWN_LINES];
    unsigned next, count;
    struct rg_tail raw; /* of the one rank whose bytes pass as they are */
    int raw_rank;
};

struct rg_output {
    struct rg_output_options o;
    struct rg_sink sinks[2];
    struct rg_sink echo;    /* while o.echoes */
    struct rg_lines *lines; /* 2 * rank + (stream - 1) */
    int *numbers;           /* by rank, what it is called; NULL: it is called by its number */
    struct rg_outfiles files;
    struct rg_tracebacks tracebacks;
    struct rg_timer held_timer; /* while tracebacks are held */
    struct rg_timer row_timer;  /* while a line is being redrawn */
    struct rg_rows rows[2];     /* of each sink */
    struct rg_bar *bars;        /* what is to stand there, while it is composed */
    size_t nbars, bars_room;
    struct rg_timer mark_timer; /* until nothing has followed for a while */
    struct shown shown;
    bool one_place;         /* standard output goes where standard error goes, */
    bool one_sink;          /* and in order, by the first sink */
    struct rg_buf text;     /* what one call composes */
    bool has_files, tagged, paused, undrained;
    bool lost[2];           /* on_lost was called for this sink */
};

/* The place of a line, for the line function. */
struct place {
    struct rg_output *output;
    int rank, stream;
};

static void report_lost(struct rg_output *output, int i)
{
    static const char *const names[] = { "standard output", "standard error" };
    int e = output->sinks[i].errnum;
    bool closed = e == EPIPE || e == EIO || e == ECONNRESET;
    char cause[160];

    if (!e || output->lost[i])
        return;
    output->lost[i] = true;
    if (closed)
        snprintf(cause, sizeof cause, "the reader of %s went away", names[i]);
    else if (e == EBADF)
        snprintf(cause, sizeof cause, "cannot write to %s: it is closed", names[i]);
    else
        snprintf(cause, sizeof cause, "cannot write to %s: %s", names[i], strerror(e));
    output->o.on_lost(output->o.arg, cause, closed && i == 0);
}

static void on_change(void *arg)
{
    struct rg_output *output = arg;
    size_t pending = rg_sink_pending(&output->sinks[0]) + rg_sink_pending(&output->sinks[1]) +
                     rg_sink_pending(&output->echo);

    report_lost(output, 0);
    report_lost(output, 1);
    if (output->paused ? pending < RG_OUTPUT_LOW_NBYTES : pending > RG_OUTPUT_HIGH_NBYTES) {
        output->paused = !output->paused;
        output->o.on_pause(output->o.arg, output->paused);
    }
    if (pending)
        output->undrained = true;
    else if (output->undrained) {
        output->undrained = false;
        output->o.on_drained(output->o.arg);
    }
}

static bool same_place(int a, int b)
{
    struct stat one, other;

    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

static void show_error_line(void *arg, int rank, const struct rg_line *line);

int rg_output_create(const struct rg_output_options *options, struct rg_output **ret_output,
                     struct rg_error *err)
{
    const struct rg_job *job = options->job;
    struct rg_output *output = calloc(1, sizeof *output);

    if (!output)
        return rg_error_memory(err);
    output->o = *options;
    output->tagged = job->tag == RG_TAG_ON || job->tag == RG_TAG_HOROVOD ||
                     (job->tag == RG_TAG_AUTO && (options->nranks > 1 || job->elastic.on));
    output->lines = calloc(2 * (size_t) options->nranks + 1, sizeof *output->lines);
    rg_sink_init(&output->sinks[0], options->loop, options->out_fd, on_change, output);
    rg_sink_init(&output->sinks[1], options->loop, options->err_fd, on_change, output);
    if (options->echoes)
        rg_sink_init(&output->echo, options->loop, options->echo_fd, on_change, output);
    output->one_place = options->mark || same_place(options->out_fd, options->err_fd);
    output->one_sink = options->mark || (output->one_place && isatty(options->out_fd));
    output->rows[0].fd = options->out_fd;
    output->rows[1].fd = options->err_fd;
    for (int i = 0; output->lines && i < 2 * options->nranks; i++)
        output->lines[i].redraws = !options->encode;
    int rc = output->lines ? 0 : -ENOMEM;

    if (rc == 0 && !options->all_tracebacks && !(options->mark && options->nranks == 1))
        rc = rg_tracebacks_init(&output->tracebacks, options->nranks, show_error_line, output);
    if (rc < 0)
        rg_error_memory(err);
    if (rc == 0 && job->output_dir) {
        rc = rg_outfiles_open(&output->files, job->output_dir, options->nranks, options->append,
                              err);
        output->has_files = rc == 0;
    }
    if (rc < 0) {
        rg_output_destroy(output);
        return rc;
    }
    *ret_output = output;
    return 0;
}

int rg_output_grow(struct rg_output *output, int nranks, struct rg_error *err)
{
    struct rg_lines *lines = realloc(output->lines, (2 * (size_t) nranks + 1) * sizeof *lines);

    if (lines)
        output->lines = lines;
    int *numbers = realloc(output->numbers, ((size_t) nranks + 1) * sizeof *numbers);
    if (numbers)
        output->numbers = numbers;
    if (!lines || !numbers || rg_tracebacks_grow(&output->tracebacks, nranks) < 0)
        return rg_error_memory(err);
    for (; output->o.nranks < nranks; output->o.nranks++) {
        int rank = output->o.nranks;
        numbers[rank] = rank;
        for (int i = 0; i < 2; i++)
            lines[2 * rank + i] = (struct rg_lines){ .redraws = !output->o.job->json };
    }
    return output->has_files ? rg_outfiles_grow(&output->files, nranks, err) : 0;
}

void rg_output_call(struct rg_output *output, int rank, int number)
{
    if (output->numbers)
        output->numbers[rank] = number;
}

void rg_output_again(struct rg_output *output, int rank)
{
    struct rg_error err = RG_ERROR_INIT;

    if (output->has_files && rg_outfiles_reopen(&output->files, rank, &err) < 0)
        output->o.on_lost(output->o.arg, err.text, false);
}

/* What it is called. */
static int number_of(const struct rg_output *output, int rank)
{
    return output->numbers ? output->numbers[rank] : rank;
}

void rg_output_destroy(struct rg_output *output)
{
    if (!output)
        return;
    for (int i = 0; output->lines && i < 2 * output->o.nranks; i++)
        rg_lines_fini(&output->lines[i]);
    free(output->lines);
    free(output->numbers);
    if (output->has_files)
        rg_outfiles_fini(&output->files);
    rg_timer_stop(&output->held_timer);
    rg_timer_stop(&output->row_timer);
    rg_timer_stop(&output->mark_timer);
    rg_tracebacks_fini(&output->tracebacks);
    rg_tail_fini(&output->shown.raw);
    rg_sink_fini(&output->sinks[0]);
    rg_sink_fini(&output->sinks[1]);
    rg_sink_fini(&output->echo);
    rg_buf_fini(&output->text);
    rg_rows_fini(&output->rows[0]);
    rg_rows_fini(&output->rows[1]);
    free(output->bars);
    free(output);
}

static void put_mark(struct rg_output *output, bool idle)
{
    char text[64];

    if (output->o.mark && rg_mark_is_due(output->o.mark, idle))
        rg_sink_write(&output->sinks[0], text,
                      rg_mark_write(output->o.mark, text, sizeof(text)));
}

static void on_mark_timer(void *arg)
{
    put_mark(arg, true);
    on_change(arg);
}

/* Which sink a stream goes to, and which rows stand below it. */
static int sink_of(const struct rg_output *output, int stream)
{
    return output->one_sink ? 0 : stream - 1;
}

/* Bars move there: the rank of --pty has the terminal for itself. */
static bool has_rows(const struct rg_output *output, int sink)
{
    return !output->o.job->pty && rg_rows_can_draw(&output->rows[sink]);
}

static void draw_rows(struct rg_output *output, int sink, bool moves, struct rg_buf *text);

/* Lines above the rows, which are drawn again at once. New ones wait unless the last are old. */
static void send_above(struct rg_output *output, int sink, bool moves, const void *data,
                       size_t nbytes)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    bool stood = rg_rows_stand(&output->rows[sink]);

    rg_rows_wipe(&output->rows[sink], &text);
    rg_buf_put(&text, data, nbytes);
    if (stood || rg_rows_due(&output->rows[sink]))
        draw_rows(output, sink, moves, &text);
    if (rg_buf_status(&text) < 0)
        rg_sink_write(&output->sinks[sink], data, nbytes);
    else
        rg_sink_write(&output->sinks[sink], rg_buf_bytes(&text), rg_buf_nbytes(&text));
}

static void send(struct rg_output *output, int stream, const void *data, size_t nbytes)
{
    struct rg_logmark *mark = output->o.mark;
    int sink = sink_of(output, stream);
    struct rg_rows *rows = &output->rows[sink];
    bool moves = rg_timer_active(&output->row_timer) && has_rows(output, sink);

    if (nbytes)
        rows->open = ((const uint8_t *) data)[nbytes - 1] != '\n';
    if (nbytes && (moves || rg_rows_stand(rows)))
        send_above(output, sink, moves, data, nbytes);
    else
        rg_sink_write(&output->sinks[sink], data, nbytes);
    if (output->o.echoes && (stream == 2 || !output->o.encode))
        rg_sink_write(&output->echo, data, nbytes);
    if (mark) { /* its timer begins anew with each write */
        rg_mark_count(mark, data, nbytes);
        put_mark(output, false);
        rg_timer_start(&output->mark_timer, output->o.loop, RG_LOGMARK_IDLE_MS, 0, on_mark_timer,
                       output);
    }
    on_change(output);
}

/* What is said of a sink that fails while this sends is composed anew: places must not mix. */
static void send_text(struct rg_output *output, int stream)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    if (rg_buf_status(&output->text) == 0 && !rg_buf_nbytes(&output->text))
        return;
    text = output->text;
    output->text = (struct rg_buf) RG_BUF_INIT;
    if (rg_buf_status(&text) < 0)
        output->o.on_lost(output->o.arg, "out of memory for output", false);
    else
        send(output, stream, rg_buf_bytes(&text), rg_buf_nbytes(&text));
    /* Sticky errors and memory that one huge burst needed go together. */
    if (rg_buf_status(&text) < 0 || text.capacity > (4u << 20) || output->text.capacity)
        return;
    rg_buf_clear(&text);
    output->text = text;
    text = (struct rg_buf) RG_BUF_INIT;
}

/* A line of this rank has been printed, maybe for others too, whose prefix differs. */
static void note_shown(struct shown *shown, int rank, const void *data, size_t nbytes)
{
    size_t n = nbytes < RG_TAIL_LINE_MAX ? nbytes : RG_TAIL_LINE_MAX;
    size_t skip = rg_tail_prefix(data, n);
    char *text = shown->lines[shown->next].text;

    n -= skip;
    if (n)
        memcpy(text, (const char *) data + skip, n);
    while (n && text[n - 1] == '\r')
        n--;
    shown->lines[shown->next].rank = rank;
    shown->lines[shown->next].nbytes = n;
    shown->next = (shown->next + 1) % SHOWN_LINES;
    shown->count += shown->count < SHOWN_LINES;
}

/* The user's clock. An agent that is a head may be in another zone, and knows none. */
static int zone_of(const struct rg_job *job, uint64_t wall_ns)
{
#ifdef RG_AGENT
    (void) wall_ns;
    return job->zone_min ? job->zone_min - RG_JOB_DAY_MIN : 0;
#else
    (void) job;
    return rg_zone_min((time_t) (wall_ns / RG_NS_PER_S));
#endif
}

static struct tm local_time(uint64_t wall_ns, int zone_min)
{
    time_t seconds = (time_t) (wall_ns / RG_NS_PER_S) + 60 * zone_min;
    struct tm tm = { 0 };

    gmtime_r(&seconds, &tm);
    return tm;
}

/* horovodrun's form of the time: asctime's. */
static void put_horovod_time(struct rg_output *output)
{
    uint64_t now_ns = rg_wall_ns();
    struct tm tm = local_time(now_ns, zone_of(output->o.job, now_ns));

    rg_shown_printf(&output->text, "%.3s %.3s %02d %02d:%02d:%02d %d",
                    &"SunMonTueWedThuFriSat"[3 * tm.tm_wday],
                    &"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * tm.tm_mon], tm.tm_mday, tm.tm_hour,
                    tm.tm_min, tm.tm_sec, tm.tm_year + 1900);
}

/* "2026-01-31T23:59:59.123+01:00 ", as ISO 8601 and RFC 3339 have it. */
static void put_time(struct rg_output *output)
{
    uint64_t now_ns = rg_wall_ns();
    int east_min = zone_of(output->o.job, now_ns);
    struct tm tm = local_time(now_ns, east_min);

    rg_shown_printf(&output->text, "%04d-%02d-%02dT%02d:%02d:%02d.%03d%c%02d:%02d ",
                    tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                    (int) (now_ns / RG_NS_PER_MS % 1000), east_min < 0 ? '-' : '+',
                    abs(east_min) / 60, abs(east_min) % 60);
}

/* Neighbouring ranks differ; standard error is bold. Tasks of roles have names. horovodrun's
 * "[0]<stdout>:" is without a blank: programs that read it cut it off. */
static void put_tag(const struct rg_output *output, const struct place *at, bool continued,
                    struct rg_buf *text)
{
    static const int colours[] = { 36, 33, 32, 35, 34, 31 };
    bool colour = at->stream == 1 ? output->o.out_colour : output->o.err_colour;
    const char *plus = continued ? "+" : "";
    int number = number_of(output, at->rank), index = number;
    const struct rg_role *role = rg_job_role_of(output->o.job, at->rank, &index);
    const char *name = role ? role->name : "", *dash = role ? "-" : "";

    if (output->o.job->tag == RG_TAG_HOROVOD) {
        rg_shown_printf(text, "[%d]<%s>:", number, at->stream == 1 ? "stdout" : "stderr");
        return;
    }
    if (colour)
        rg_buf_printf(text, at->stream == 2 ? "\033[1;%dm" : "\033[%dm",
                      colours[number % (int) rg_array_len(colours)]);
    rg_shown_printf(text, "[%s%s%d]%s", name, dash, index, plus);
    rg_buf_printf(text, colour ? "\033[0m " : " ");
}

/* A line with what stands in front of it. */
static void put_line(struct rg_output *output, const struct place *at, const struct rg_line *line)
{
    if (output->o.job->timestamps)
        (output->o.job->tag == RG_TAG_HOROVOD ? put_horovod_time : put_time)(output);
    if (output->tagged)
        put_tag(output, at, line->continued, &output->text);
    rg_buf_put(&output->text, line->data, line->nbytes);
}

static void on_plain_line(void *arg, const struct rg_line *line)
{
    const struct place *at = arg;
    struct rg_output *output = at->output;
    bool decorated = output->tagged || output->o.job->timestamps;

    if (at->stream == 2 || output->one_place)
        note_shown(&output->shown, at->rank, line->data, line->nbytes);
    put_line(output, at, line);
    if (!line->newline && !decorated)
        return;
    if (rg_terminal_is_raw())
        rg_buf_put(&output->text, "\r", 1);
    rg_buf_put(&output->text, "\n", 1);
}

static void show_error_line(void *arg, int rank, const struct rg_line *line)
{
    struct place at = { arg, rank, 2 };

    on_plain_line(&at, line);
}

static void on_error_line(void *arg, const struct rg_line *line)
{
    const struct place *at = arg;

    rg_tracebacks_line(&at->output->tracebacks, at->rank, line, rg_now_ns());
}

/* A rank that goes on living after its traceback is heard, if a little later. */
static void on_held_timer(void *arg)
{
    struct rg_output *output = arg;

    rg_tracebacks_expire(&output->tracebacks, rg_now_ns());
    if (!output->tracebacks.nheld)
        rg_timer_stop(&output->held_timer);
    send_text(output, 2);
}

static void watch_held(struct rg_output *output)
{
    if (output->tracebacks.nheld && !rg_timer_active(&output->held_timer))
        rg_timer_start(&output->held_timer, output->o.loop, LOOK_AT_HELD_MS, LOOK_AT_HELD_MS,
                       on_held_timer, output);
}

static void on_encoded_line(void *arg, const struct rg_line *line)
{
    const struct place *at = arg;
    struct rg_output *output = at->output;

    output->o.encode(&output->text, number_of(output, at->rank), at->stream, line);
}

/* --- lines that are being redrawn ------------------------------------------------------------- */

static void put_bar_tag(void *arg, const struct rg_bar *bar, struct rg_buf *text)
{
    struct rg_output *output = arg;
    const struct place at = { output, bar->place, bar->stream };

    if (output->tagged)
        put_tag(output, &at, false, text);
}

/* Without memory it is left out. */
static void add_bar(struct rg_output *output, const struct rg_bar *bar)
{
    size_t room = 2 * output->bars_room + 16;

    if (output->nbars == output->bars_room) {
        struct rg_bar *bars = realloc(output->bars, room * sizeof(*bars));
        if (!bars)
            return;
        output->bars = bars;
        output->bars_room = room;
    }
    output->bars[output->nbars++] = *bar;
}

/* moves: has_rows. While the terminal has not taken what it got before, all that is there stays. */
static void draw_rows(struct rg_output *output, int sink, bool moves, struct rg_buf *text)
{
    struct rg_rows *rows = &output->rows[sink];
    struct rg_line row;
    bool news;

    output->nbars = 0;
    for (int l = 0; l < 2 * output->o.nranks && moves; l++) {
        const struct rg_lines *lines = &output->lines[l];
        int n = sink_of(output, l % 2 + 1) == sink ? rg_lines_nrows(lines) : 0;

        for (int i = 0; i < n; i++) {
            if (rg_lines_row(lines, i, &row, &news))
                add_bar(output, &(struct rg_bar){ l / 2, l % 2 + 1, number_of(output, l / 2),
                                                  row.data, row.nbytes });
        }
    }
    if (!output->nbars || rows->stopped || !rg_sink_pending(&output->sinks[sink]))
        rg_rows_draw(rows, output->bars, output->nbars, put_bar_tag, output, text);
}

static void send_rows(struct rg_output *output, int sink, bool moves)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    draw_rows(output, sink, moves, &text);
    if (rg_buf_status(&text) == 0)
        rg_sink_write(&output->sinks[sink], rg_buf_bytes(&text), rg_buf_nbytes(&text));
    on_change(output);
}

static rg_line_fn *emit_of(const struct rg_output *output, int stream)
{
    if (output->o.encode)
        return on_encoded_line;
    return stream == 2 && output->tracebacks.ranks ? on_error_line : on_plain_line;
}

static unsigned row_pause_ms(const struct rg_output *output)
{
    unsigned all_ms = (unsigned) output->o.nranks * ROW_OF_EACH_RANK_MS;

    return all_ms > ROW_MS ? all_ms : ROW_MS;
}

/* As lines, where it is time for it. False: no row has anything in it. */
static bool show_states(struct rg_output *output, int l, bool moves, uint64_t now_ns)
{
    struct rg_lines *lines = &output->lines[l];
    struct place at = { output, l / 2, l % 2 + 1 };
    int n = rg_lines_nrows(lines);
    bool due = !moves && rg_lines_due(lines, row_pause_ms(output) * RG_NS_PER_MS, now_ns);
    bool any = n > 1, news;
    struct rg_line row;

    for (int i = 0; i < n; i++) {
        if (!rg_lines_row(lines, i, &row, &news))
            continue;
        any = true;
        if (!due || !news)
            continue;
        emit_of(output, at.stream)(&at, &row);
        rg_lines_row_shown(lines, i, now_ns);
    }
    return any;
}

/* False: no line is being redrawn. */
static bool show_rows(struct rg_output *output)
{
    bool out_moves = has_rows(output, 0), err_moves = has_rows(output, 1);
    uint64_t now_ns = rg_now_ns();
    bool any = false;

    for (int l = 0; l < 2 * output->o.nranks; l++) {
        int stream = l % 2 + 1;
        struct place at = { output, l / 2, stream };

        if (!rg_lines_nrows(&output->lines[l]))
            continue;
        rg_lines_settle(&output->lines[l], now_ns, emit_of(output, stream), &at);
        any |= show_states(output, l, sink_of(output, stream) ? err_moves : out_moves, now_ns);
        send_text(output, stream);
    }
    send_rows(output, 0, out_moves);
    send_rows(output, 1, err_moves);
    return any;
}

static void on_row_timer(void *arg)
{
    struct rg_output *output = arg;

    if (!show_rows(output))
        rg_timer_stop(&output->row_timer);
}

/* The first time at once, and then as the clock says. */
static void watch_rows(struct rg_output *output, const struct rg_lines *lines)
{
    if (!rg_lines_nrows(lines) || rg_timer_active(&output->row_timer))
        return;
    if (show_rows(output))
        rg_timer_start(&output->row_timer, output->o.loop, RG_ROWS_PAUSE_MS, RG_ROWS_PAUSE_MS,
                       on_row_timer, output);
}

void rg_output_stopping(struct rg_output *output, bool stopping)
{
    for (int i = 0; i < 2; i++) {
        struct rg_rows *rows = &output->rows[i];

        /* Who was stopped without a word finds others' lines below its rows. */
        if (!stopping && !rows->stopped)
            rows->standing = 0;
        rows->stopped = stopping;
        if (stopping)
            send_rows(output, i, false);
    }
}

static bool passes_raw(const struct rg_output *output, int rank)
{
    const struct rg_job *job = output->o.job;

    if (output->o.encode)
        return false;
    if (job->pty && rank == job->stdin_rank)
        return true;
    return output->o.nranks == 1 && !output->tagged && !job->timestamps && !output->o.mark;
}

static void show(struct rg_output *output, int rank, int stream, const uint8_t *data,
                 size_t nbytes)
{
    struct rg_lines *lines = &output->lines[2 * rank + stream - 1];
    struct place at = { output, rank, stream };
    bool encoded = output->o.encode;
    rg_line_fn *emit = emit_of(output, stream);
    int rc = 0;

    if (passes_raw(output, rank)) {
        if (stream == 2 || output->one_place) {
            output->shown.raw_rank = rank;
            rg_tail_put(&output->shown.raw, stream, data, nbytes);
        }
        send(output, stream, data, nbytes);
        return;
    }
    if (nbytes)
        rc = rg_lines_feed(lines, data, nbytes, emit, &at);
    else
        rg_lines_finish(lines, emit, &at);
    if (encoded)
        rg_lines_flush_row(lines, emit, &at);
    if (emit == on_error_line && !nbytes)
        rg_tracebacks_end(&output->tracebacks, rank);
    watch_held(output);
    if (rc < 0)
        output->o.on_lost(output->o.arg, "out of memory for output", false);
    send_text(output, encoded ? 1 : stream);
    watch_rows(output, lines);
}

static void keep(struct rg_output *output, int rank, int stream, const uint8_t *data,
                 size_t nbytes)
{
    struct rg_error err = RG_ERROR_INIT;
    int rc = nbytes ? rg_outfiles_write(&output->files, rank, stream, data, nbytes, &err)
                    : rg_outfiles_close(&output->files, rank, stream, &err);

    if (rc < 0)
        output->o.on_lost(output->o.arg, err.text, false);
}

void rg_output_data(struct rg_output *output, int rank, int stream, const uint8_t *data,
                    size_t nbytes)
{
    if (output->has_files)
        keep(output, rank, stream, data, nbytes);
    if (rg_ranks_has(&output->o.job->show, number_of(output, rank)))
        show(output, rank, stream, data, nbytes);
}

void rg_output_event(struct rg_output *output, const void *line, size_t nbytes)
{
    send(output, 1, line, nbytes);
}

void rg_output_say(struct rg_output *output, const char *text)
{
    bool raw = rg_terminal_is_raw();
    const struct rg_rows *rows = &output->rows[sink_of(output, 2)];

    if (rows->open && isatty(rows->fd)) /* behind a bar that passes as it is */
        rg_buf_put(&output->text, raw ? "\r\n" : "\n", raw ? 2 : 1);
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        note_shown(&output->shown, OWN, p, n);
        rg_buf_put(&output->text, p, n);
        if (p[n])
            rg_buf_put(&output->text, raw ? "\r\n" : "\n", raw ? 2 : 1);
        p += n + (p[n] == '\n');
    }
    send_text(output, 2);
}

void rg_output_status(struct rg_output *output, const char *text)
{
    rg_sink_write(output->o.echoes ? &output->echo : &output->sinks[sink_of(output, 2)], text,
                  strlen(text));
    on_change(output);
}

void rg_output_echo_end(struct rg_output *output)
{
    rg_sink_fini(&output->echo);
    output->o.echoes = false;
    on_change(output); /* ranks may have stood still for it alone */
}

void rg_output_finish(struct rg_output *output)
{
    for (int r = 0; r < output->o.nranks; r++) {
        for (int stream = 1; stream <= 2; stream++)
            rg_output_data(output, r, stream, NULL, 0);
    }
    rg_tracebacks_expire(&output->tracebacks, UINT64_MAX);
    rg_timer_stop(&output->held_timer);
    rg_timer_stop(&output->row_timer);
    send_text(output, 2);
    send_rows(output, 0, false);
    send_rows(output, 1, false);
}

void rg_output_seal(struct rg_output *output)
{
    on_mark_timer(output);
}

void rg_output_tell_same(const struct rg_output *output, struct rg_buf *text)
{
    rg_tracebacks_tell(&output->tracebacks, text);
}

static bool has(const struct shown *shown, int rank, const char *line)
{
    size_t n = strlen(line), nraw = 0, skip = rg_tail_prefix(line, n);
    const char *raw[RG_TAIL_LINES];

    for (unsigned i = 0; i < shown->count; i++) {
        if (shown->lines[i].rank == rank && shown->lines[i].nbytes == n - skip &&
            memcmp(shown->lines[i].text, line + skip, n - skip) == 0)
            return true;
    }
    if (rank == shown->raw_rank)
        nraw = rg_tail_lines(&shown->raw, raw);
    for (size_t i = 0; i < nraw; i++) {
        if (strcmp(raw[i], line) == 0)
            return true;
    }
    return false;
}

size_t rg_output_shown(const struct rg_output *output, int rank, const char *const *lines,
                       size_t nlines)
{
    int by = rg_tracebacks_shown_by(&output->tracebacks, rank);
    size_t seen, written = nlines;

    while (written && !*lines[written - 1])
        written--;
    /* An empty line is no evidence: there may be many. */
    for (seen = written; seen && (!*lines[seen - 1] || !has(&output->shown, by, lines[seen - 1]));)
        seen--;
    return seen == written ? nlines : seen;
}

void rg_output_note(const struct rg_output *output, const char *note, struct rg_buf *text)
{
    rg_autobuf struct rg_buf rest = RG_BUF_INIT, shown = RG_BUF_INIT;
    bool known = false;

    rg_shown_put(&shown, note, strlen(note)); /* as it stands there */
    note = rg_buf_text(&shown);
    size_t n = strcspn(note, "\n");

    rg_buf_put(text, note, n);
    for (const char *at = note + n; *at; at += n) {
        rg_autobuf struct rg_buf line = RG_BUF_INIT;

        n = strcspn(++at, "\n");
        rg_shown_printf(&line, "  %.*s", (int) n, at);
        if (has(&output->shown, OWN, rg_buf_text(&line)))
            known = true;
        else
            rg_shown_printf(&rest, "\n%.*s", (int) n, at);
    }
    rg_shown_printf(text, "%s%s", known ? " The report above has the rest." : "",
                    rg_buf_text(&rest));
}

bool rg_output_drained(const struct rg_output *output)
{
    return !rg_sink_pending(&output->sinks[0]) && !rg_sink_pending(&output->sinks[1]) &&
           !rg_sink_pending(&output->echo);
}
