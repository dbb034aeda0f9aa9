/* SPDX-License-Identifier: Apache-2.0 */
/* A signal may be meant for the ranks, for reigen, or may be the platform's word that the job
 * ends: who sent it tells. */
#include "head/signals.h"

#include <signal.h>
#include <unistd.h>

#include "base/time.h"

/* How long the word to stop may take to the agents before reigen itself stops. */
#define STOP_DELAY_MS 50
/* Within which the platform's SIGTERM may come again, by another way. */
#define AGAIN_MS 2000

static const int handled[RG_SIGNALS_COUNT] = { SIGINT,  SIGTERM, SIGHUP,  SIGUSR1,
                                               SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH };

/* A handler gets no argument of ours, and a process has one set of them. */
static void (*next_handler)(int signo);
static volatile sig_atomic_t sent_by_platform, sent_by_stop;
static bool platform_is_root; /* root sends nothing else */
static pid_t shell; /* that hands on what the platform sends it; 0: none */
static pid_t first; /* process of a pod, that does so for all of them; 0: none */

/* The loop's own handler does not look at who has sent a signal. */
static void note_sender(int signo, siginfo_t *info, void *context)
{
    (void) context;
    sent_by_stop = info->si_code == SI_QUEUE && info->si_value.sival_int == RG_SIGNALS_STOP;
    /* What comes from without our pid name space has no number here: that is who made it. */
    sent_by_platform = info->si_code <= 0 &&
                       (info->si_pid == 0 || info->si_pid == shell || info->si_pid == first ||
                        (platform_is_root && info->si_uid == 0));
    next_handler(signo);
}

static void watch_sender(int signo)
{
    struct sigaction action;

    if (sigaction(signo, NULL, &action) < 0 || action.sa_flags & SA_SIGINFO ||
        action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)
        return;
    next_handler = action.sa_handler;
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = note_sender;
    sigaction(signo, &action, NULL);
}

static void stop_self(void *arg)
{
    struct rg_signals *signals = arg;

    signals->ops->stopping(signals->arg);
    kill(getpid(), SIGSTOP);
}

static void on_end_signal(struct rg_signals *signals, int signo)
{
    uint64_t now_ns = rg_now_ns();

    if (signo == SIGTERM && sent_by_platform)
        signals->evicted |= signals->ops->evict(signals->arg);
    if (!signals->ending) {
        signals->ending = true;
        signals->since_ns = now_ns;
        signals->ops->forward(signals->arg, signo);
    } else if (signo != SIGTERM || !signals->evicted ||
               now_ns - signals->since_ns > AGAIN_MS * RG_NS_PER_MS) {
        signals->ops->kill(signals->arg, signo);
    }
}

static void on_signal(void *arg, int signo)
{
    struct rg_signals *signals = arg;

    switch (signo) {
    case SIGINT:
    case SIGTERM:
        on_end_signal(signals, signo);
        break;
    case SIGTSTP:
        signals->ops->forward(signals->arg, signo);
        rg_timer_start(&signals->stop_timer, signals->loop, STOP_DELAY_MS, 0, stop_self, signals);
        break;
    case SIGCONT:
        rg_timer_stop(&signals->stop_timer);
        signals->ops->resumed(signals->arg);
        signals->ops->forward(signals->arg, signo);
        break;
    case SIGWINCH:
        signals->ops->resize(signals->arg);
        break;
    default:
        signals->ops->forward(signals->arg, signo);
        break;
    }
}

bool rg_signals_from_stop(void)
{
    return sent_by_stop;
}

void rg_signals_start(struct rg_signals *signals, struct rg_loop *loop,
                      const struct rg_signals_ops *ops, void *arg, enum rg_parent parent)
{
    struct sigaction old;

    shell = parent == RG_PARENT_ANY ? 0 : getppid();
    first = parent == RG_PARENT_POD ? 1 : 0;
    /* Of root's processes nobody else can stop one, so root is no sign of the platform. */
    platform_is_root = geteuid() != 0 || parent == RG_PARENT_SCRIPT;
    *signals = (struct rg_signals){ .loop = loop, .ops = ops, .arg = arg };
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    for (size_t i = 0; i < RG_SIGNALS_COUNT; i++) {
        if (sigaction(handled[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            continue;
        rg_signal_start(&signals->watch[i], loop, handled[i], on_signal, signals);
    }
    watch_sender(SIGTERM);
}

void rg_signals_stop(struct rg_signals *signals)
{
    rg_timer_stop(&signals->stop_timer);
    for (size_t i = 0; i < RG_SIGNALS_COUNT; i++)
        rg_signal_stop(&signals->watch[i]);
}
