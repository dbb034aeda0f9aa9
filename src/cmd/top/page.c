/* SPDX-License-Identifier: Apache-2.0 */
/* The same page stands on the screen, in a pipe, and behind a job that has ended. Output of ranks
 * may be larger than any disk, so only the end of a file is read. */
#include "cmd/top/page.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/say.h"
#include "cmd/jobs/jobs.h"

#define TAIL_NBYTES 32768
#define NUMBER_LINES 5 /* of a rank's page, above its last lines */
#define OF_RANK "its last lines, in "
#define BOLD "\033[1m"
#define YELLOW "\033[33m"

/* --- a job ------------------------------------------------------------------------------------ */

void rg_top_put_head(const struct rg_top_watch *watch, const struct rg_top_look *look,
                     struct rg_buf *text)
{
    rg_autobuf struct rg_buf title = RG_BUF_INIT, trouble = RG_BUF_INIT;

    rg_top_watch_title(watch, &title);
    rg_top_watch_trouble(watch, &trouble);
    rg_top_put_line(rg_buf_text(&title), BOLD, look, text);
    if (rg_buf_nbytes(&trouble))
        rg_top_put_line(rg_buf_text(&trouble), YELLOW, look, text);
    if (!watch->read_ns)
        return;
    rg_top_put_sums(&watch->reading, look, text);
    if (watch->reading.nranks)
        rg_top_put_late(&watch->reading, look, text);
    rg_top_put_why(&watch->reading, look, text);
}

void rg_top_put_job(const struct rg_top_watch *watch, const struct rg_top_view *view, size_t room,
                    const struct rg_top_look *look, struct rg_buf *text)
{
    rg_cleanup(rg_top_rows_fini) struct rg_top_rows rows = { 0 };

    rg_top_put_head(watch, look, text);
    if (!watch->reading.nranks ||
        rg_top_rows_make(&watch->reading, view, room, &rows) < 0)
        return;
    rg_top_put_table(&watch->reading, &rows, &(struct rg_top_part){ .count = room }, look, text);
}

/* --- a rank: its last lines ------------------------------------------------------------------- */

/* Where lines are. */
struct source {
    const char *path;
    off_t skip; /* what another job has written to it before */
    int rank;   /* only lines that have its tag; -1: all lines */
};

/* The end of a regular file, in which lines are whole. 0 or -errno. */
static int read_tail(const struct source *source, struct rg_buf *tail)
{
    rg_autoclose int fd = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    off_t skip = source->skip <= st.st_size ? source->skip : 0; /* it was emptied since */
    bool part = st.st_size - skip > TAIL_NBYTES;
    off_t at = part ? st.st_size - TAIL_NBYTES : skip;
    uint8_t *room = rg_buf_reserve(tail, TAIL_NBYTES);
    ssize_t n = room ? pread(fd, room, TAIL_NBYTES, at) : -1;
    if (n < 0)
        return -errno;
    rg_buf_commit(tail, (size_t) n);
    const uint8_t *end = part ? memchr(rg_buf_bytes(tail), '\n', (size_t) n) : NULL;
    if (end)
        rg_buf_consume(tail, (size_t) (end - rg_buf_bytes(tail)) + 1);
    return 0;
}

/* Zeros show nothing. Files have them that were emptied while they were written. */
static void drop_zeros(char *text, size_t nbytes)
{
    size_t kept = 0;

    for (size_t i = 0; i < nbytes; i++) {
        if (text[i])
            text[kept++] = text[i];
    }
    text[kept] = '\0';
}

/* What stands on a terminal after a line, without its tag; NULL: it is another rank's. The line is
 * ended here. */
static const char *shown(char *line, size_t nbytes, int rank)
{
    if (rank >= 0 && rg_jobs_tag_rank(line, nbytes) != rank)
        return NULL;
    size_t begin = rank >= 0 ? rg_jobs_tag_nbytes(line, nbytes) : 0;
    while (nbytes > begin && line[nbytes - 1] == '\r')
        nbytes--;
    line[nbytes] = '\0';
    const char *back = strrchr(line + begin, '\r');
    return back ? back + 1 : line + begin;
}

/* The last of its lines, at most so many. Returns how many there are. */
static size_t put_tail(const struct source *source, size_t nlines, const struct rg_top_look *look,
                       struct rg_buf *text)
{
    rg_autobuf struct rg_buf tail = RG_BUF_INIT;
    rg_autofree const char **lines = calloc(nlines + 1, sizeof(*lines));
    size_t count = 0;

    if (!lines || read_tail(source, &tail) < 0)
        return 0;
    char *p = (char *) rg_buf_text(&tail);
    drop_zeros(p, rg_buf_nbytes(&tail));
    for (size_t n; *p; p += n) {
        n = strcspn(p, "\n");
        bool ended = p[n] == '\n';
        const char *line = shown(p, n, source->rank);
        n += ended;
        if (line)
            lines[count++ % (nlines + 1)] = line;
    }
    size_t kept = count < nlines ? count : nlines;
    for (size_t i = count - kept; i < count; i++) {
        rg_autobuf struct rg_buf line = RG_BUF_INIT;
        rg_shown_printf(&line, "  | ");
        rg_shown_line(&line, lines[i % (nlines + 1)]);
        rg_top_put_line(rg_buf_text(&line), "", look, text);
    }
    return kept;
}

static void put_from(const char *what, const char *path, const struct rg_top_look *look,
                     struct rg_buf *text)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;

    rg_shown_printf(&line, "%s", what);
    rg_shown_line(&line, path);
    rg_top_put_line(rg_buf_text(&line), "", look, text);
}

static void put_one_file(const char *what, const struct source *source, size_t nlines,
                         const struct rg_top_look *look, struct rg_buf *text)
{
    put_from(what, source->path, look, text);
    if (put_tail(source, nlines - 1, look, text) == 0)
        rg_top_put_line("  none of late", "", look, text);
}

/* Standard error has half of the lines at most, and is shown where there is any. */
static void put_two_files(const char *dir, int width, int rank, size_t nlines,
                          const struct rg_top_look *look, struct rg_buf *text)
{
    rg_autofree char *out = rg_strf("%s/rank.%0*d/stdout", dir, width, rank);
    rg_autofree char *err = rg_strf("%s/rank.%0*d/stderr", dir, width, rank);
    rg_autobuf struct rg_buf errors = RG_BUF_INIT;
    const struct source of_out = { out, 0, -1 }, of_err = { err, 0, -1 };
    size_t n = out && err ? put_tail(&of_err, nlines / 2 - 1, look, &errors) : 0;

    if (!out || !err)
        return;
    put_one_file(OF_RANK, &of_out, nlines - (n ? n + 1 : 0), look, text);
    if (n)
        put_from("and in ", err, look, text);
    rg_buf_put(text, rg_buf_bytes(&errors), rg_buf_nbytes(&errors));
}

static void put_lines(const struct rg_registry_job *job, int rank, size_t nlines,
                      const struct rg_top_look *look, struct rg_buf *text)
{
    char kind[16], number[16];
    const char *path = rg_jobs_output(job, kind);
    int width = snprintf(number, sizeof(number), "%d", job->nranks > 0 ? job->nranks - 1 : 0);
    bool log = strcmp(kind, "log") == 0, tags = log ? job->tags : job->nranks > 1;
    const struct source source = { path, (off_t) job->skip_nbytes, tags ? rank : -1 };

    if (strcmp(kind, "dir") == 0)
        put_two_files(path, width, rank, nlines, look, text);
    else if (log || strcmp(kind, "file") == 0)
        put_one_file(tags || job->nranks == 1 ? OF_RANK : "last lines of all ranks, in ", &source,
                     nlines, look, text);
    else
        rg_top_put_line("its lines are kept nowhere: start a job with --output-dir DIR", "", look,
                        text);
}

/* --- a rank: its numbers ---------------------------------------------------------------------- */

static void put_words(const struct rg_top_numbers *n, const struct rg_top_look *look,
                      struct rg_buf *text)
{
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    char cell[RG_TOP_CELL];

    rg_shown_printf(&line, "  step %.0f, %s steps/s", n->steps,
                    rg_top_number(n->steps_per_s, n->rated, cell));
    if (n->step_s > 0)
        rg_shown_printf(&line, ", %.3g s each", n->step_s);
    rg_shown_printf(&line, "; heard of %.1f s ago", n->age_s);
    rg_top_put_line(rg_buf_text(&line), "", look, text);
    rg_buf_clear(&line);
    rg_shown_printf(&line, "  communication %s of its time",
                    rg_top_percent(n->communication, n->rated, cell));
    rg_shown_printf(&line, ", of which %s waits for ranks of its host",
                    rg_top_percent(n->waiting, n->rated, cell));
    rg_top_put_line(rg_buf_text(&line), "", look, text);
    rg_buf_clear(&line);
    rg_shown_printf(&line, "  others wait %s s in a second for it, together",
                    rg_top_number(n->causing, n->rated, cell));
    rg_top_put_line(rg_buf_text(&line), "", look, text);
    rg_buf_clear(&line);
    rg_shown_printf(&line, "  %s operations/s", rg_top_number(n->operations_per_s, n->rated, cell));
    rg_shown_printf(&line, ", %s bytes/s", rg_top_amount(n->bytes_per_s, n->rated, cell));
    rg_shown_printf(&line, ", CPU %s", rg_top_number(n->cpu, n->rated, cell));
    rg_shown_printf(&line, ", memory %s", rg_top_amount(n->resident, n->resident > 0, cell));
    rg_top_put_line(rg_buf_text(&line), "", look, text);
}

void rg_top_put_rank(const struct rg_top_watch *watch, int rank, size_t nlines,
                     const struct rg_top_look *look, struct rg_buf *text)
{
    const struct rg_top_reading *reading = &watch->reading;
    const struct rg_top_rank *found = NULL;
    rg_autobuf struct rg_buf line = RG_BUF_INIT;

    for (size_t i = 0; i < reading->nranks; i++)
        found = reading->ranks[i].rank == rank ? &reading->ranks[i] : found;
    rg_shown_printf(&line, "rank %d", rank);
    if (found && found->host >= 0)
        rg_shown_printf(&line, " on ");
    rg_shown_line(&line, found && found->host >= 0 ? reading->hosts[found->host].name : "");
    rg_top_put_line(rg_buf_text(&line), BOLD, look, text);
    if (found)
        put_words(&found->n, look, text);
    else
        rg_top_put_line("  there are no numbers of it now", "", look, text);
    if (nlines > NUMBER_LINES + 2)
        put_lines(&watch->job, rank, nlines - NUMBER_LINES, look, text);
}
