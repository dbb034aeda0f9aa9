/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input goes to the ranks only as fast as they take it. */
#include "head/input.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "head/console/terminal.h"

#define BACKGROUND_RETRY_MS 250 /* not our terminal now */

static void wait_readable(struct rg_input *input);
static void push(struct rg_input *input);

static void on_timer(void *arg)
{
    push(arg);
}

static void finish(struct rg_input *input)
{
    rg_io_stop(&input->io);
    rg_timer_stop(&input->timer);
    input->over = true;
    if (input->owned)
        close(input->fd);
    input->owned = false;
}

/* Send what is there; then wait for more, for room (rg_input_ready), or for nothing. */
static void push(struct rg_input *input)
{
    while (input->start < input->end) {
        int n = input->send(input->arg, input->data + input->start, input->end - input->start);
        if (n < 0) {
            finish(input);
            return;
        }
        if (n == 0) {
            rg_io_stop(&input->io);
            return;
        }
        input->start += (size_t) n;
    }
    if (input->eof) {
        input->send(input->arg, NULL, 0);
        finish(input);
    } else {
        wait_readable(input);
    }
}

static bool in_background(const struct rg_input *input)
{
    return input->tty && tcgetpgrp(input->fd) != getpgrp();
}

static void on_readable(void *arg, int events)
{
    struct rg_input *input = arg;

    (void) events;
    if (in_background(input)) {
        wait_readable(input);
        return;
    }
    ssize_t n = read(input->fd, input->data, sizeof input->data);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    input->eof = n <= 0;
    input->start = 0;
    input->end = n > 0 ? (size_t) n : 0;
    push(input);
}

static void wait_readable(struct rg_input *input)
{
    if (!in_background(input)) {
        rg_io_start(&input->io, input->loop, input->fd, RG_IO_READ, on_readable, input);
        return;
    }
    rg_io_stop(&input->io);
    rg_timer_start(&input->timer, input->loop, BACKGROUND_RETRY_MS, 0, on_timer, input);
}

void rg_input_start(struct rg_input *input, struct rg_loop *loop, int fd,
                    int (*send)(void *arg, const void *data, size_t nbytes), void *arg)
{
    input->loop = loop;
    input->send = send;
    input->arg = arg;
    input->fd = fd;
    input->start = input->end = 0;
    input->over = false;
    input->eof = fd < 0;
    if (fd >= 0) {
        /* A read that loses a race for the foreground fails instead of stopping us. */
        signal(SIGTTIN, SIG_IGN);
        input->tty = isatty(fd);
        int copy = rg_reopen_nonblock(fd, O_RDONLY);
        input->owned = copy >= 0;
        input->fd = copy >= 0 ? copy : fd;
    }
    push(input);
}

void rg_input_ready(struct rg_input *input)
{
    if (input->loop && !input->over && input->start < input->end)
        push(input);
}

void rg_input_stop(struct rg_input *input)
{
    if (input->loop && !input->over)
        finish(input);
}
