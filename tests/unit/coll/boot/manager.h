/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process manager for tests: a thread that speaks PMI-1 or PMI-2 with some clients over socket
 * pairs, and keeps their keys.
 */
#ifndef RG_TESTS_UNIT_COLL_BOOT_MANAGER_H
#define RG_TESTS_UNIT_COLL_BOOT_MANAGER_H

#include <pthread.h>
#include <stdbool.h>

#include "coll/boot/pm/pmi.h"

#define MANAGER_CLIENTS_MAX 8
#define MANAGER_KEYS_MAX 512

struct manager {
    /* for the test to set */
    enum rg_pmi_version version; /* the other one is refused */
    int nclients;
    int value_max;               /* told as vallen_max */
    bool dribble;                /* answers come byte by byte */
    const char *instead;         /* the answer to whatever comes after the greeting, or NULL */
    /* for the test to read */
    int fds[MANAGER_CLIENTS_MAX]; /* the clients' ends */
    int nfinalized, nkeys;
    size_t longest_value;
    /* its own */
    int ends[MANAGER_CLIENTS_MAX];
    int nwaiting;
    char *keys[MANAGER_KEYS_MAX], *values[MANAGER_KEYS_MAX];
    pthread_t thread;
};

void manager_start(struct manager *manager);
/* Close the clients' ends and wait for its thread. */
void manager_stop(struct manager *manager);

#endif
