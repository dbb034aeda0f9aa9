/* SPDX-License-Identifier: Apache-2.0 */
/* The file may grow while it is read: what is there at the begin counts. */
#include "cmd/report/read/window.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#define HEAD_NBYTES 4096           /* which say when the timeline began */
#define PEEK_NBYTES 4096           /* where one of them has at least one whole line */
#define SLACK_NBYTES (512u << 10)  /* of events that were written late, or began before */
#define LAST_OPS 60
#define LEAST_S 1e-4

struct file {
    int fd;
    off_t nbytes;
};

/* So many bytes from there, or fewer: into *ret_text, the caller's. Their number or -errno. */
static ssize_t read_part(const struct file *file, off_t from, size_t nbytes, char **ret_text)
{
    char *text = malloc(nbytes + 1);
    size_t n = 0;
    ssize_t r = 1;

    if (!text)
        return -ENOMEM;
    while (n < nbytes && r > 0) {
        r = pread(file->fd, text + n, nbytes - n, from + (off_t) n);
        if (r < 0 && errno == EINTR)
            r = 1;
        else if (r > 0)
            n += (size_t) r;
    }
    if (r < 0) {
        free(text);
        return -errno;
    }
    *ret_text = text;
    return (ssize_t) n;
}

/* The time of the first event behind that place; below 0: there is none nearby. */
static double time_behind(const struct file *file, off_t place)
{
    rg_autofree char *text = NULL;
    ssize_t n = read_part(file, place, PEEK_NBYTES, &text);
    const char *line = n > 0 ? memchr(text, '\n', (size_t) n) : NULL;

    while (line && ++line < text + n) {
        size_t left = (size_t) (text + n - line);
        double at_s = rg_traced_time(line, left);
        if (at_s >= 0)
            return at_s;
        line = memchr(line, '\n', left);
    }
    return -1;
}

/* Where the events of that time begin, or a little before. */
static off_t find_time(const struct file *file, double at_s)
{
    off_t low = 0, high = file->nbytes;

    while (high - low > PEEK_NBYTES) {
        off_t middle = low + (high - low) / 2;
        if (time_behind(file, middle) < at_s)
            low = middle;
        else
            high = middle;
    }
    return low > SLACK_NBYTES ? low - SLACK_NBYTES : 0;
}

static int began_of(const struct file *file, double *ret_began_s)
{
    rg_cleanup(rg_traced_fini) struct rg_traced head = { 0 };
    rg_autofree char *text = NULL;
    ssize_t n = read_part(file, 0, HEAD_NBYTES, &text);
    int r = n < 0 ? (int) n : rg_traced_parse(text, (size_t) n, &head);

    *ret_began_s = r == 0 ? head.began_s : 0;
    return r;
}

static int read_events(const struct file *file, off_t from, struct rg_traced *ret_traced)
{
    rg_autofree char *text = NULL;
    off_t left = file->nbytes - from;
    ssize_t n = read_part(file, from, (size_t) (left < (off_t) RG_WINDOW_NBYTES_MAX
                                                    ? left : (off_t) RG_WINDOW_NBYTES_MAX), &text);

    return n < 0 ? (int) n : rg_traced_parse(text, (size_t) n, ret_traced);
}

/* The last seconds: their end is that of the last operation. */
static void choose_last(const struct rg_window_want *want, struct rg_window *window)
{
    const struct rg_traced *traced = &window->traced;
    size_t first = traced->nops > LAST_OPS ? traced->nops - LAST_OPS : 0;
    double begin_s = traced->ops[first].all_s;

    for (size_t i = 0; i < traced->nops; i++)
        window->to_s = fmax(window->to_s, traced->ops[i].end_s);
    window->from_s = want->length_s > 0 ? window->to_s - want->length_s : begin_s;
    window->from_s = fmin(fmax(window->from_s, traced->first_s), window->to_s - LEAST_S);
}

static bool has_operation(const struct rg_window *window)
{
    for (size_t i = 0; i < window->traced.nops; i++) {
        const struct rg_traced_op *op = &window->traced.ops[i];
        if (op->end_s >= window->from_s && op->all_s <= window->to_s)
            return true;
    }
    return false;
}

static int choose(const struct file *file, const struct rg_window_want *want,
                  struct rg_window *window)
{
    bool last = !(want->to_s > 0);
    double began_s;
    int r = began_of(file, &began_s);
    off_t from = file->nbytes > (off_t) RG_WINDOW_NBYTES_MAX
                     ? file->nbytes - (off_t) RG_WINDOW_NBYTES_MAX : 0;

    if (r == 0 && !last)
        from = find_time(file, want->from_s - began_s);
    r = r == 0 ? read_events(file, from, &window->traced) : r;
    if (r < 0)
        return r;
    window->traced.began_s = began_s;
    if (window->traced.nops == 0)
        return -ENOENT;
    if (last) {
        choose_last(want, window);
    } else {
        window->from_s = want->from_s - began_s;
        window->to_s = fmin(want->to_s - began_s, window->traced.last_s);
    }
    return window->to_s - window->from_s >= LEAST_S / 2 && has_operation(window) ? 0 : -ENOENT;
}

int rg_window_read(const char *path, const struct rg_window_want *want,
                   struct rg_window *ret_window)
{
    rg_autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct file file = { .fd = fd };
    struct rg_window window = { 0 };
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    file.nbytes = st.st_size;
    int r = choose(&file, want, &window);
    if (r < 0)
        rg_window_fini(&window);
    else
        *ret_window = window;
    return r;
}

void rg_window_fini(struct rg_window *window)
{
    rg_traced_fini(&window->traced);
    *window = (struct rg_window){ 0 };
}
