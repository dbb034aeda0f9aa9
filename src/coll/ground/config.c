/* SPDX-License-Identifier: Apache-2.0 */
/* All variables of the runtime are read here, and nowhere else. */
#include "coll/ground/config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/str.h"

#define FUSION_DEFAULT (128u << 20)
#define CACHE_DEFAULT 4096
#define CACHE_MAX 8192
#define SPIN_MAX_US 1000000

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

static int get_ms(const char *reigen, const char *horovod, uint64_t *value, struct rg_error *err)
{
    const char *name, *text = get(reigen, horovod, &name);

    return text ? rg_parse_duration_ms(name, text, value, err) : 0;
}

static int get_int(const char *reigen, const char *horovod, int64_t min, int64_t max,
                   int64_t *value, struct rg_error *err)
{
    const char *name, *text = get(reigen, horovod, &name);

    return text ? rg_parse_int(name, text, min, max, value, err) : 0;
}

static int get_text(const char *reigen, const char *horovod, char *ret_text, size_t room,
                    struct rg_error *err)
{
    const char *name, *value = get(reigen, horovod, &name);

    if (!value)
        return 0;
    if (strlen(value) >= room)
        return rg_error_set(err, EINVAL, "%s: longer than %zu bytes", name, room - 1);
    strcpy(ret_text, value);
    return 0;
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

static int get_switch(const char *reigen, const char *horovod, bool *on, struct rg_error *err)
{
    const char *name, *text = get(reigen, horovod, &name);

    if (!text)
        return 0;
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return rg_error_set(err, EINVAL, "%s=%s: give 0 or 1", name, text);
    *on = text[0] == '1';
    return 0;
}

static int get_numbers(struct rg_config *config, struct rg_error *err)
{
    int64_t fusion = FUSION_DEFAULT, cache = CACHE_DEFAULT, spin = -1, port = 0;
    int r;

    r = get_int("REIGEN_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", 0, INT64_C(1) << 40, &fusion,
                err);
    if (r == 0)
        r = get_int("REIGEN_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY", 0, CACHE_MAX, &cache, err);
    if (r == 0)
        r = get_int("REIGEN_SPIN_US", NULL, -1, SPIN_MAX_US, &spin, err);
    if (r == 0)
        r = get_int("REIGEN_MASTER_PORT", NULL, 0, 65535, &port, err);
    config->fusion_nbytes = (size_t) fusion;
    config->cache_capacity = (int) cache;
    config->spin_us = (int) spin;
    config->master_port = (uint16_t) port;
    return r;
}

static int get_silence(struct rg_config *config, struct rg_error *err)
{
    int r = get_ms("REIGEN_SILENCE_SECONDS", NULL, &config->silence_ms, err);

    if (r == 0 && config->silence_ms < RG_SILENCE_MIN_MS)
        r = rg_error_set(err, EINVAL, "REIGEN_SILENCE_SECONDS=%s: heartbeats come every second; "
                         "give at least %d", getenv("REIGEN_SILENCE_SECONDS"),
                         RG_SILENCE_MIN_MS / 1000);
    return r;
}

static int get_durations(struct rg_config *config, struct rg_error *err)
{
    bool disabled = false;
    int r;

    r = get_ms("HOROVOD_GLOO_TIMEOUT_SECONDS", NULL, &config->start_timeout_ms, err);
    if (r == 0)
        r = get_ms("REIGEN_START_TIMEOUT", "HOROVOD_START_TIMEOUT", &config->start_timeout_ms, err);
    if (r == 0)
        r = get_ms("REIGEN_STALL_SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS", &config->stall_ms,
                   err);
    if (r == 0)
        r = get_ms("REIGEN_STALL_SHUTDOWN_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                   &config->stall_shutdown_ms, err);
    if (r == 0)
        r = get_silence(config, err);
    if (r == 0)
        r = get_switch("HOROVOD_STALL_CHECK_DISABLE", NULL, &disabled, err);
    if (disabled)
        config->stall_ms = 0;
    config->stall_shutdown_ignored = config->stall_shutdown_ms > 0 && config->stall_ms > 0 &&
                                     config->stall_shutdown_ms < config->stall_ms;
    if (config->stall_shutdown_ignored)
        config->stall_shutdown_ms = 0;
    return r;
}

/* Horovod's HIDE_TIME is the wrong way round, and unset means hidden here. */
static int get_log(struct rg_config *config, struct rg_error *err)
{
    bool hide = true;
    int r = get_level(&config->log_level, err);

    if (r == 0)
        r = get_switch("REIGEN_LOG_TIMESTAMP", "HOROVOD_LOG_TIMESTAMP", &config->log_time, err);
    if (r == 0)
        r = get_switch("HOROVOD_LOG_HIDE_TIME", NULL, &hide, err);
    config->log_time = config->log_time || !hide;
    return r;
}

static int get_timeline(struct rg_config *config, struct rg_error *err)
{
    int r = get_text("REIGEN_TIMELINE", "HOROVOD_TIMELINE", config->timeline,
                     sizeof(config->timeline), err);

    /* Horovod wants this before it allows start_timeline, which is always allowed here. */
    if (strcmp(config->timeline, "DYNAMIC") == 0)
        config->timeline[0] = '\0';
    if (r == 0)
        r = get_switch("REIGEN_TIMELINE_MARK_CYCLES", "HOROVOD_TIMELINE_MARK_CYCLES",
                       &config->timeline_marks_cycles, err);
    if (r == 0)
        r = get_switch("REIGEN_TIMELINE_ALL_RANKS", "HOROVOD_TIMELINE_ALL_RANKS",
                       &config->timeline_all_ranks, err);
    return r;
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

int rg_config_read(struct rg_config *ret_config, struct rg_error *err)
{
    struct rg_config config = {
        .start_timeout_ms = 300000,
        .stall_ms = 10000,
        .silence_ms = 30000,
        .log_level = RG_LOG_WARN,
    };
    const char *ports;
    int r = get_durations(&config, err);

    if (r == 0)
        r = get_numbers(&config, err);
    if (r == 0)
        r = get_text("REIGEN_PLANES", NULL, config.planes, sizeof(config.planes), err);
    if (r == 0)
        r = get_log(&config, err);
    if (r == 0)
        r = get_timeline(&config, err);
    if (r == 0)
        r = get_switch("HOROVOD_AUTOTUNE", NULL, &config.autotune_ignored, err);
    if (r == 0)
        r = get_affinity(&config, err);
    if (r == 0)
        r = get_switch("REIGEN_INSECURE", NULL, &config.insecure, err);
    if (r == 0 && (ports = getenv("REIGEN_PORT_RANGE")) && *ports)
        r = rg_parse_ports("REIGEN_PORT_RANGE:", ports, &config.ports, err);
    if (r == 0)
        r = get_text("REIGEN_KEY_FILE", NULL, config.key_file, sizeof(config.key_file), err);
    if (r == 0)
        r = get_text("REIGEN_BOOT", NULL, config.boot, sizeof(config.boot), err);
    if (r == 0)
        r = get_text("REIGEN_NETWORK_INTERFACE", "HOROVOD_GLOO_IFACE", config.interface,
                     sizeof(config.interface), err);
    if (r == 0)
        *ret_config = config;
    return r < 0 ? -EINVAL : 0;
}
