/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What MSG_ZEROCOPY saves a sender, and what a look at ready descriptors costs: docs/planes.md has
 * the figures. The receiver, on another host (bench/between.py shell), throws away what comes.
 *
 *      cc -O2 -o build/zerocopy bench/zerocopy.c
 *      build/zerocopy receive PORT
 *      build/zerocopy send ADDRESS PORT MIB ROUNDS
 *
 * A round sends MIB megabytes by send() and as many with MSG_ZEROCOPY, in pieces of 256 KiB, and
 * waits until the kernel has let all of them go. One line for each: seconds, the sender's own
 * processor time (user and system), and how many pieces the kernel said it had copied all the same
 * (SO_EE_CODE_ZEROCOPY_COPIED). Then what poll() of one socket that is ready takes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 256 * 1024, LOOKS = 200000 };

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double) at.tv_sec + (double) at.tv_nsec / 1e9;
}

static double busy(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static struct sockaddr_in place(const char *host, const char *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t) atoi(port)) };

    if (inet_pton(AF_INET, host, &at.sin_addr) != 1)
        die(host);
    return at;
}

static void receive(const char *port)
{
    struct sockaddr_in at = place("0.0.0.0", port);
    int listening = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    char *memory = malloc(PIECE);

    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(listening, (struct sockaddr *) &at, sizeof(at)) < 0 || listen(listening, 1) < 0)
        die("listen");
    int fd = accept(listening, NULL, NULL);

    while (recv(fd, memory, PIECE, 0) > 0)
        ;
}

/* Notices that are there: how many pieces they speak of, and of these how many were copied. */
static void take_notices(int fd, unsigned *done, unsigned *copied)
{
    for (;;) {
        char control[128];
        struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };

        if (recvmsg(fd, &message, MSG_ERRQUEUE) < 0)
            return;
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
        struct sock_extended_err *err = (struct sock_extended_err *) CMSG_DATA(cmsg);
        unsigned count = err->ee_data - err->ee_info + 1;

        *done += count;
        if (err->ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
            *copied += count;
    }
}

static void send_all(int fd, const char *memory, size_t nbytes, int flags)
{
    double from = now(), worked = busy();
    unsigned sent = 0, done = 0, copied = 0;

    for (size_t at = 0; at < nbytes;) {
        size_t left = nbytes - at;
        ssize_t n = send(fd, memory + at, left < PIECE ? left : PIECE, flags);

        if (n < 0 && errno != ENOBUFS)
            die("send");
        at += n > 0 ? (size_t) n : 0;
        sent += n > 0;
        take_notices(fd, &done, &copied);
    }
    while (flags && done < sent) {
        struct pollfd pfd = { .fd = fd };

        poll(&pfd, 1, 10);
        take_notices(fd, &done, &copied);
    }
    printf("%-12s %.3f s, processor %.3f s, %u of %u pieces were copied\n",
           flags ? "MSG_ZEROCOPY" : "send", now() - from, busy() - worked, flags ? copied : sent,
           sent);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "receive") == 0) {
        receive(argv[2]);
        return 0;
    }
    if (argc != 6 || strcmp(argv[1], "send") != 0) {
        fprintf(stderr, "usage: %s receive PORT | send ADDRESS PORT MIB ROUNDS\n", argv[0]);
        return 2;
    }
    struct sockaddr_in to = place(argv[2], argv[3]);
    size_t nbytes = (size_t) atoi(argv[4]) << 20;
    char *memory = malloc(nbytes);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    memset(memory, 1, nbytes);
    if (connect(fd, (struct sockaddr *) &to, sizeof(to)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)) < 0)
        die("connect");
    for (int round = 0; round < atoi(argv[5]); round++) {
        send_all(fd, memory, nbytes, 0);
        send_all(fd, memory, nbytes, MSG_ZEROCOPY);
    }
    double from = now();

    for (int i = 0; i < LOOKS; i++) {
        struct pollfd pfd = { .fd = fd, .events = POLLOUT };

        poll(&pfd, 1, 0);
    }
    printf("poll         %.0f ns\n", (now() - from) / LOOKS * 1e9);
    return 0;
}
