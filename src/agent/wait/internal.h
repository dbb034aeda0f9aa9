/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share: the workers that the head waits for, and what is known of
 * each.
 *
 * Thread rule: main thread, in the loop but where it says otherwise.
 */
#ifndef RG_AGENT_WAIT_INTERNAL_H
#define RG_AGENT_WAIT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/loop.h"
#include "platform/openpai/inside/tasks.h"
#include "wire/link.h"

#define RG_WAIT_WHY_MAX 160

struct rg_wait;
struct rg_listener;

struct rg_wait_host {
    struct rg_wait *wait;
    const char *name, *user; /* the job's; user: for ssh, or NULL */
    bool ready;
    char why[RG_WAIT_WHY_MAX]; /* what is in the way */
    int fd;            /* it has called: its connection; else -1 */
    struct rg_io io;   /* which tells of its end */
    /* its ssh, while it runs; pid 0: it does not */
    pid_t pid;
    int errors_fd;     /* what it says, */
    struct rg_io errors;
    char said[RG_WAIT_WHY_MAX]; /* and its last line: nsaid bytes; said_over: that is complete */
    size_t nsaid;
    bool said_over;
    struct rg_child child;
    struct rg_timer timer; /* until it is ended, or begun again */
    unsigned pause_ms;
};

struct rg_wait {
    struct rg_loop *loop;
    struct rg_wait_host *hosts;
    size_t nhosts, nready;
    size_t nssh;       /* of them run one */
    uint64_t begin_ns, limit_ms;
    bool ssh;          /* it decides who is ready; else the calls do */
    bool quiet, live;  /* live: a terminal, on which each host has a line */
    size_t ndrawn;     /* lines */
    const char *pending; /* what is in the way of one of whom nothing is known */
    int port;          /* 0: nobody is listened to */
    uint8_t key[RG_KEY_NBYTES];
    struct rg_listener *listener;
    struct rg_timer limit, news, look;
    struct rg_signal term, interrupt;
    int signo;         /* which of them has come; 0: none */
    bool over;         /* the time is, or the parent is gone */
    pid_t parent;      /* who has started this process */
    char stranger[RG_TASKS_NAME_MAX + 1]; /* who has called and is none of the hosts; or "" */
};

/* It is ready, or not: why. Ends the loop once all are ready. */
void rg_wait_ready(struct rg_wait_host *host);
void rg_wait_not_ready(struct rg_wait_host *host, const char *why);

/* show.c: a change of a host, and the news of every few seconds. */
void rg_wait_show(struct rg_wait *wait, const struct rg_wait_host *changed);
void rg_wait_show_news(void *wait);

/* ssh.c: try each host until it answers. stop ends what still runs. */
void rg_wait_ssh_start(struct rg_wait *wait);
void rg_wait_ssh_stop(struct rg_wait *wait);
bool rg_wait_has_ssh(void);

/* call.c: listen on wait->port. 0; -errno with exit code 69. */
int rg_wait_listen(struct rg_wait *wait, struct rg_error *err);
/* No more calls. go: tell the workers that all are ready, where the parent is still there, and
 * leave a keeper behind that holds their connections for as long as it lives; it does not return
 * there. Else they are told that it is over, and closed. Not in the loop. */
void rg_wait_listen_end(struct rg_wait *wait, bool go);

#endif
