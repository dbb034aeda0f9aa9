/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of bench/elastic.py where there are many: so small that two cores have room for 64.
 *
 * usage: elastic_rank FOLDER
 *
 * It takes steps of one allreduce, 5 ms after each other, until there is FOLDER/stop. After a loss,
 * and where hosts have come, it goes from one epoch to the next. Place P writes lines to
 * FOLDER/events-P as elastic_rank.py does: an event, the time in seconds, and how many ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <reigen/reigen.h>

enum { COME, STOPS, NWORDS };

static FILE *events;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static const char *get(const char *name, const char *otherwise)
{
    const char *value = getenv(name);

    return value ? value : otherwise;
}

static int die(const char *what)
{
    fprintf(stderr, "elastic_rank: %s: %s\n", what, reigen_last_error());
    return 1;
}

/* What any rank has seen, in ret_seen: whether hosts came or went, and whether all are to stop. */
static int step(const char *folder, int32_t ret_seen[NWORDS])
{
    const int64_t shape[] = { NWORDS };
    const struct reigen_options options = REIGEN_OPTIONS_INIT;
    struct reigen_epoch epoch;
    char stop[4096];
    int32_t own[NWORDS] = { 0 };

    snprintf(stop, sizeof(stop), "%s/stop", folder);
    own[STOPS] = reigen_rank() == 0 && access(stop, F_OK) == 0;
    own[COME] = reigen_epoch(&epoch) == 0 && epoch.update & REIGEN_HOSTS_BOTH;
    return reigen_allreduce("seen", own, ret_seen, REIGEN_INT32, shape, 1, &options);
}

/* Until the end of an epoch: 0; 1: of all. */
static int train(const char *folder)
{
    const struct timespec pause = { 0, 5000000 };
    int32_t seen[NWORDS];

    while (step(folder, seen) >= 0) {
        fprintf(events, "step %.6f %d\n", now(), reigen_size());
        if (seen[STOPS])
            return 1;
        if (seen[COME])
            return 0;
        nanosleep(&pause, NULL);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *folder = argc == 2 ? argv[1] : ".", *place = get("REIGEN_PLACE", get("RANK", "0"));
    double began = now();
    char path[4096];

    snprintf(path, sizeof(path), "%s/events-%s", folder, place);
    events = fopen(path, "w");
    if (!events)
        return die(path);
    setlinebuf(events);
    printf("place %s on %s pid %d\n", place, get("LOGIN", "here"), (int) getpid());
    fflush(stdout);
    fprintf(events, "began %.6f\nimported %.6f\n", began, began);
    if (reigen_init(NULL) < 0)
        return die("init");
    if (reigen_elastic(0) < 0)
        return die("elastic");
    while (!train(folder)) {
        began = now();
        if (reigen_shutdown() < 0)
            return die("shutdown");
        if (reigen_init(NULL) < 0)
            return die("init");
        fprintf(events, "reset %.6f %d\n", now() - began, reigen_size());
    }
    return reigen_shutdown() < 0 ? die("shutdown") : 0;
}
