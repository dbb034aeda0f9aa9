/* SPDX-License-Identifier: Apache-2.0 */
/* All variables of the runtime are read here, and nowhere else. */
#include "coll/ground/config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"
#include "base/say.h"
#include "base/str.h"

#define CACHE_MAX 8192
#define SPIN_MAX_US 1000000
#define TREE_DEGREE_MAX 4096
#define STALL_MS 6000

/* The first of the names that is set to something; its value, or NULL. */
static const char *get(const char *reigen, const char *horovod, const char **ret_name)
{
    const char *value = getenv(reigen);

    *ret_name = reigen;
    if ((!value || !value[0]) && horovod) {
        value = getenv(horovod);
        *ret_name = horovod;
    }
    return value && value[0] ? value : NULL;
}

enum kind { SWITCH, INT, NBYTES, MS, TEXT };

/* What is read: the result, and what only changes a part of it. */
struct reading {
    struct rg_config config;
    bool stall_disabled, hide_time;
};

#define AT(member) offsetof(struct reading, member)
#define ROOM(member) sizeof(((struct rg_config *) 0)->member)

/* A later one wins where two go to the same place. */
static const struct knob {
    const char *reigen, *horovod; /* the first that is set counts; horovod may be NULL */
    enum kind kind;               /* bool, int, size_t, uint64_t or an array of char */
    size_t at;
    int64_t min, max; /* of a number; of a text max is the room that it has */
} knobs[] = {
    { "HOROVOD_GLOO_TIMEOUT_SECONDS", NULL, MS, AT(config.start_timeout_ms), 0, 0 },
    { "REIGEN_START_TIMEOUT", "HOROVOD_START_TIMEOUT", MS, AT(config.start_timeout_ms), 0, 0 },
    { "REIGEN_STALL_SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS", MS, AT(config.stall_ms), 0, 0 },
    { "REIGEN_STALL_SHUTDOWN_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", MS,
      AT(config.stall_shutdown_ms), 0, 0 },
    { "REIGEN_DEADLOCK_SECONDS", NULL, MS, AT(config.deadlock_ms), 0, 0 },
    { "REIGEN_SILENCE_SECONDS", NULL, MS, AT(config.silence_ms), 0, 0 },
    { "HOROVOD_STALL_CHECK_DISABLE", NULL, SWITCH, AT(stall_disabled), 0, 0 },
    { "REIGEN_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", NBYTES, AT(config.fusion_nbytes), 0,
      INT64_C(1) << 40 },
    { "REIGEN_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY", INT, AT(config.cache_capacity), 0,
      CACHE_MAX },
    { "REIGEN_TREE_DEGREE", NULL, INT, AT(config.tree_degree), 2, TREE_DEGREE_MAX },
    { "REIGEN_SPIN_US", NULL, INT, AT(config.spin_us), -1, SPIN_MAX_US },
    { "REIGEN_MASTER_PORT", NULL, INT, AT(config.master_port), 0, 65535 },
    { "REIGEN_PLANES", NULL, TEXT, AT(config.planes), 0, ROOM(planes) },
    { "REIGEN_LOG_TIMESTAMP", "HOROVOD_LOG_TIMESTAMP", SWITCH, AT(config.log.time), 0, 0 },
    { "HOROVOD_LOG_HIDE_TIME", NULL, SWITCH, AT(hide_time), 0, 0 },
    { "REIGEN_TIMELINE", "HOROVOD_TIMELINE", TEXT, AT(config.timeline.path), 0,
      ROOM(timeline.path) },
    { "REIGEN_TIMELINE_MARK_CYCLES", "HOROVOD_TIMELINE_MARK_CYCLES", SWITCH,
      AT(config.timeline.marks_cycles), 0, 0 },
    { "REIGEN_TIMELINE_ALL_RANKS", "HOROVOD_TIMELINE_ALL_RANKS", SWITCH,
      AT(config.timeline.all_ranks), 0, 0 },
    { "REIGEN_DETERMINISTIC", NULL, SWITCH, AT(config.deterministic), 0, 0 },
    { "REIGEN_HUGE_PAGES", NULL, SWITCH, AT(config.huge_pages), 0, 0 },
    { "HOROVOD_AUTOTUNE", NULL, SWITCH, AT(config.autotune_ignored), 0, 0 },
    { "REIGEN_INSECURE", NULL, SWITCH, AT(config.insecure), 0, 0 },
    { "REIGEN_KEY_FILE", NULL, TEXT, AT(config.key_file), 0, ROOM(key_file) },
    { "REIGEN_BOOT", NULL, TEXT, AT(config.boot), 0, ROOM(boot) },
    { "REIGEN_NETWORK_INTERFACE", "HOROVOD_GLOO_IFACE", TEXT, AT(config.interface), 0,
      ROOM(interface) },
};

static int read_number(const struct knob *knob, const char *name, const char *text, void *to,
                       struct rg_error *err)
{
    int64_t n;
    int r = rg_parse_int(name, text, knob->min, knob->max, &n, err);

    if (r == 0 && knob->kind == INT)
        *(int *) to = (int) n;
    else if (r == 0)
        *(size_t *) to = (size_t) n;
    return r;
}

static int read_knob(const struct knob *knob, void *to, struct rg_error *err)
{
    const char *name, *text = get(knob->reigen, knob->horovod, &name);

    if (!text)
        return 0;
    switch (knob->kind) {
    case SWITCH:
        if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
            return rg_error_set(err, EINVAL, "%s=%s: give 0 or 1", name, text);
        *(bool *) to = text[0] == '1';
        return 0;
    case MS:
        return rg_parse_duration_ms(name, text, to, err);
    case TEXT:
        if (strlen(text) >= (size_t) knob->max)
            return rg_error_set(err, EINVAL, "%s: longer than %d bytes", name,
                                (int) knob->max - 1);
        strcpy(to, text);
        return 0;
    default:
        return read_number(knob, name, text, to, err);
    }
}

static int get_level(int *level, struct rg_error *err)
{
    static const char *const names[] = { "error", "warning", "info", "debug", "trace" };
    const char *name, *text = get("REIGEN_LOG_LEVEL", "HOROVOD_LOG_LEVEL", &name);

    if (!text)
        return 0;
    for (int i = 0; i < (int) rg_array_len(names); i++) {
        if (strcasecmp(text, names[i]) == 0) {
            *level = i;
            return 0;
        }
    }
    if (strcasecmp(text, "fatal") == 0 || strcasecmp(text, "warn") == 0) {
        *level = strcasecmp(text, "warn") == 0 ? RG_LOG_WARN : RG_LOG_ERROR;
        return 0;
    }
    return rg_error_set(err, EINVAL,
                        "%s=%s: no log level; give trace, debug, info, warning, error or fatal",
                        name, text);
}

static int get_affinity(struct rg_config *config, struct rg_error *err)
{
    const char *name, *value = get("REIGEN_THREAD_AFFINITY", "HOROVOD_THREAD_AFFINITY", &name);
    rg_autofree char *list = value ? strdup(value) : NULL;
    char *rest = list, *word;

    if (value && !list)
        return rg_error_set(err, ENOMEM, "out of memory");
    while (rest && (word = strsep(&rest, ",")) != NULL) {
        int64_t core = 0;

        if (config->naffinity == RG_AFFINITY_MAX)
            return rg_error_set(err, EINVAL, "%s: more than %d cores", name, RG_AFFINITY_MAX);
        if (rg_parse_int(name, word, 0, RG_CORE_MAX, &core, err) < 0)
            return rg_error_prepend(err, "%s=%s (one core, or one for each rank of a host with "
                                         "commas between)", name, value);
        config->affinity[config->naffinity++] = (int) core;
    }
    return 0;
}

/* How the tcp plane chooses. */
static int get_model(struct rg_config *config, struct rg_error *err)
{
    const char *name, *algorithms = get("REIGEN_ALGORITHM", NULL, &name);
    const char *path = get("REIGEN_MODEL", NULL, &name);
    int r = algorithms ? rg_algorithms_parse("REIGEN_ALGORITHM", algorithms, config->algorithms,
                                             err) : 0;

    if (r < 0 || !path)
        return r;
    r = rg_model_read(path, &config->model, err);
    config->model_given = r == 0;
    return r < 0 ? rg_error_prepend(err, "REIGEN_MODEL") : 0;
}

static int get_sockets(struct rg_config *config, struct rg_error *err)
{
    const char *name, *text = get("REIGEN_SOCKETS_PER_PAIR", NULL, &name);
    int64_t n = 0;

    if (!text || strcmp(text, "auto") == 0)
        return 0;
    if (rg_parse_int(name, text, 1, RG_SOCKETS_PER_PAIR_MAX, &n, NULL) < 0)
        return rg_error_set(err, EINVAL, "%s=%s: no number of sockets between two hosts; give auto "
                            "or 1 to %d", name, text, RG_SOCKETS_PER_PAIR_MAX);
    config->sockets_per_pair = (int) n;
    return 0;
}

static int get_congestion(struct rg_config *config, struct rg_error *err)
{
    const char *name, *text = get("REIGEN_TCP_CONGESTION", NULL, &name);

    if (text && strcmp(text, "auto") != 0 && strcmp(text, "host") != 0)
        return rg_error_set(err, EINVAL, "%s=%s: give auto or host; for another algorithm, change "
                            "the host's: sysctl net.ipv4.tcp_congestion_control", name, text);
    config->keeps_congestion = text && strcmp(text, "host") == 0;
    return 0;
}

/* What several variables say together. */
static int settle(struct reading *reading, struct rg_error *err)
{
    struct rg_config *config = &reading->config;

    if (config->silence_ms < RG_SILENCE_MIN_MS)
        return rg_error_set(err, EINVAL, "REIGEN_SILENCE_SECONDS=%s: heartbeats come every second; "
                            "give at least %d", getenv("REIGEN_SILENCE_SECONDS"),
                            RG_SILENCE_MIN_MS / 1000);
    config->log.asked = config->log.level >= 0;
    if (!config->log.asked)
        config->log.level = RG_LOG_WARN;
    config->stall_learns = config->stall_ms == UINT64_MAX && !reading->stall_disabled;
    if (config->stall_ms == UINT64_MAX)
        config->stall_ms = STALL_MS;
    if (reading->stall_disabled)
        config->stall_ms = 0;
    config->stall_shutdown_ignored = config->stall_shutdown_ms > 0 && config->stall_ms > 0 &&
                                     !config->stall_learns &&
                                     config->stall_shutdown_ms < config->stall_ms;
    if (config->stall_shutdown_ignored)
        config->stall_shutdown_ms = 0;
    /* Horovod's HIDE_TIME is the wrong way round, and unset means hidden here. */
    config->log.time = config->log.time || !reading->hide_time;
    /* Horovod wants this before it allows start_timeline, which is always allowed here. */
    if (strcmp(config->timeline.path, "DYNAMIC") == 0)
        config->timeline.path[0] = '\0';
    return 0;
}

int rg_config_read(struct rg_config *ret_config, struct rg_error *err)
{
    struct reading reading = {
        .config = { .start_timeout_ms = 300000, .stall_ms = UINT64_MAX, .silence_ms = 30000,
                    .fusion_nbytes = 128u << 20, .cache_capacity = 4096, .spin_us = -1,
                    .log = { .level = -1 }, .huge_pages = true, .model = rg_model_assumed },
        .hide_time = true,
    };
    const char *ports = getenv("REIGEN_PORT_RANGE");
    int r = 0;

    for (size_t i = 0; i < rg_array_len(knobs) && r == 0; i++)
        r = read_knob(&knobs[i], (char *) &reading + knobs[i].at, err);
    if (r == 0)
        r = get_level(&reading.config.log.level, err);
    if (r == 0)
        r = get_affinity(&reading.config, err);
    if (r == 0)
        r = get_model(&reading.config, err);
    if (r == 0)
        r = get_sockets(&reading.config, err);
    if (r == 0)
        r = get_congestion(&reading.config, err);
    if (r == 0 && ports && *ports)
        r = rg_parse_ports("REIGEN_PORT_RANGE:", ports, &reading.config.ports, err);
    if (r == 0)
        r = settle(&reading, err);
    if (r == 0)
        *ret_config = reading.config;
    return r < 0 ? -EINVAL : 0;
}
