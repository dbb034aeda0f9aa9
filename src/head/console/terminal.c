/* SPDX-License-Identifier: Apache-2.0 */
/* The user's terminal must be as it was, whatever ends us. */
#include "head/console/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

#ifndef RG_AGENT
/* A process has one terminal, and the handlers of deadly signals and exit get no argument. */
static struct termios saved;
static volatile sig_atomic_t raw_fd = -1;
static volatile sig_atomic_t has_page;

/* The alternate screen (xterm's), without the cursor, and without a break at the right edge. */
static const char open_page[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
static const char close_page[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

bool rg_terminal_size(int fd, int *ret_rows, int *ret_columns)
{
    struct winsize size;

    if (ioctl(fd, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
        return false;
    *ret_rows = size.ws_row;
    *ret_columns = size.ws_col;
    return true;
}

int rg_terminal_columns(int fd)
{
    int rows, columns;

    if (!rg_terminal_size(fd, &rows, &columns))
        return 80;
    return columns < 40 ? 40 : columns > 120 ? 120 : columns;
}

bool rg_terminal_colour(int fd)
{
    const char *term = getenv("TERM");
    const char *no_colour = getenv("NO_COLOR");

    return isatty(fd) && term && strcmp(term, "dumb") != 0 && !(no_colour && *no_colour);
}

bool rg_terminal_smart(void)
{
    const char *term = getenv("TERM");

    return term && *term && strcmp(term, "dumb") != 0;
}

void rg_terminal_restore(void)
{
    int fd = raw_fd;

    if (fd < 0)
        return;
    raw_fd = -1;
    if (has_page) {
        has_page = 0;
        rg_write_all(fd, close_page, sizeof(close_page) - 1);
    }
    tcsetattr(fd, TCSANOW, &saved);
}

bool rg_terminal_is_raw(void)
{
    return raw_fd >= 0;
}

static void on_deadly_signal(int signo)
{
    rg_terminal_restore();
    raise(signo); /* SA_RESETHAND: now with the default action */
}

static void catch_deadly_signals(void)
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT };
    struct sigaction action = { .sa_handler = on_deadly_signal,
                                .sa_flags = SA_RESETHAND | SA_NODEFER };

    for (size_t i = 0; i < rg_array_len(signals); i++)
        sigaction(signals[i], &action, NULL);
}

int rg_terminal_raw(int fd)
{
    static bool prepared;
    struct termios raw;

    if (raw_fd >= 0)
        return 0;
    if (tcgetattr(fd, &saved) < 0)
        return -errno;
    if (!prepared) {
        atexit(rg_terminal_restore);
        catch_deadly_signals();
        prepared = true;
    }
    raw = saved;
    cfmakeraw(&raw);
    raw_fd = fd;
    if (tcsetattr(fd, TCSANOW, &raw) < 0) {
        raw_fd = -1;
        return -errno;
    }
    return 0;
}

int rg_terminal_page(int fd)
{
    int r = rg_terminal_raw(fd);

    if (r < 0)
        return r;
    has_page = 1;
    return rg_write_all(fd, open_page, sizeof(open_page) - 1);
}
#endif

int rg_reopen_nonblock(int fd, int flags)
{
    char path[64];
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
        return -EINVAL;
    int mode = fcntl(fd, F_GETFL) & O_ACCMODE;
    if (mode != O_RDWR && mode != (flags & O_ACCMODE))
        return -EBADF;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int copy = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    return copy < 0 ? -errno : copy;
}

void rg_stdio_ensure(bool ret_was_open[3])
{
    static bool done, was_open[3];

    for (int fd = 0; !done && fd < 3; fd++) {
        was_open[fd] = fcntl(fd, F_GETFD) >= 0;
        /* open() returns the lowest free number: exactly this one. Not for writing: what is written
         * to a descriptor that was closed is lost, and whoever writes must hear of that. An image
         * of nothing but a program has no /dev/null. */
        if (!was_open[fd] && open("/dev/null", O_RDONLY) < 0 && open("/", O_RDONLY) < 0)
            abort();
    }
    done = true;
    memcpy(ret_was_open, was_open, sizeof(was_open));
}
