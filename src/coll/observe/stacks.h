/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where this process's program is in its own language, for reports of stalls: the file, line and
 * function of a thread, as Python's faulthandler writes them. Nothing of the program takes part,
 * no lock of its interpreter is taken and no signal is sent: the function that faulthandler would
 * have run on a signal is called in a process of its own, which has this one's memory as it is at
 * that moment, and is gone at once. A stack that is broken ends that process, and the place is not
 * known.
 *
 * One per process, for all progress engines.
 *
 * Thread rule: any thread; a lock inside is held while a stack is read: for as long as a fork
 * takes, which grows with the process's memory, and a second at most beyond that.
 */
#ifndef RG_COLL_OBSERVE_STACKS_H
#define RG_COLL_OBSERVE_STACKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Choose the signal by whose number the function is to be registered. *signum: this one, or 0: a
 * real-time signal that is at its default. Returns the descriptor that the function is to write to,
 * which stays ours; -EBUSY: the program handles that signal, or all of them; -errno. */
int rg_stacks_file(int *signum);
/* The function is registered: use it. own: directories of Reigen's own code, others: those of
 * libraries, each with colons between; in them is no line that a user wants to see first. 0;
 * -EINVAL: nothing is registered; -ENOMEM. signum 0: use it no more, it may be gone. */
int rg_stacks_use(int signum, const char *own, const char *others);
/* In a forked child: nothing is known any more. */
void rg_stacks_after_fork(void);

/* The thread's place, "train.py:41 in load_batch"; the main one's if it has none. "" when nothing
 * is known. False: it is the place of another thread than the main one. */
bool rg_stacks_place(pthread_t thread, char *ret_text, size_t nbytes);
/* The same of what has been written down: for tests. */
bool rg_stacks_parse(char *text, unsigned long ident, const char *own, const char *others,
                     char *ret_text, size_t nbytes);

#endif
