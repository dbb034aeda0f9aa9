/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/str.h"

#define FUSION_DEFAULT (128u << 20)
#define CACHE_DEFAULT 1024
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

static int get_text(const char *name, char *ret_text, size_t room, struct rg_error *err)
{
    const char *value = getenv(name);

    if (!value)
        return 0;
    if (strlen(value) >= room)
        return rg_error_set(err, EINVAL, "%s: longer than %zu bytes", name, room - 1);
    strcpy(ret_text, value);
    return 0;
}

static int get_planes(unsigned *planes, struct rg_error *err)
{
    const char *value = getenv("REIGEN_PLANES");
    char list[64], *rest = list, *word;
    unsigned set = 0;

    if (!value || !value[0])
        return 0;
    snprintf(list, sizeof(list), "%s", value);
    while ((word = strsep(&rest, ",")) != NULL) {
        if (strcmp(word, "shm") == 0)
            set |= RG_PLANE_SHM;
        else if (strcmp(word, "tcp") == 0)
            set |= RG_PLANE_TCP;
        else
            return rg_error_set(err, EINVAL,
                                "REIGEN_PLANES=%s: \"%s\" is no plane; give shm, tcp or both, "
                                "with a comma between",
                                value, word);
    }
    *planes = set;
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

static int get_switch(const char *name, bool *on, struct rg_error *err)
{
    const char *text = getenv(name);

    if (!text || !text[0])
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

static int get_durations(struct rg_config *config, struct rg_error *err)
{
    bool disabled = false;
    int r;

    r = get_ms("REIGEN_START_TIMEOUT", "HOROVOD_START_TIMEOUT", &config->start_timeout_ms, err);
    if (r == 0)
        r = get_ms("REIGEN_STALL_SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS", &config->stall_ms,
                   err);
    if (r == 0)
        r = get_ms("REIGEN_STALL_SHUTDOWN_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                   &config->stall_shutdown_ms, err);
    if (r == 0)
        r = get_switch("HOROVOD_STALL_CHECK_DISABLE", &disabled, err);
    if (disabled)
        config->stall_ms = 0;
    return r;
}

int rg_config_read(struct rg_config *ret_config, struct rg_error *err)
{
    struct rg_config config = {
        .start_timeout_ms = 300000,
        .stall_ms = 10000,
        .planes = RG_PLANE_SHM | RG_PLANE_TCP,
        .log_level = RG_LOG_WARN,
    };
    int r = get_durations(&config, err);

    if (r == 0)
        r = get_numbers(&config, err);
    if (r == 0)
        r = get_planes(&config.planes, err);
    if (r == 0)
        r = get_level(&config.log_level, err);
    if (r == 0)
        r = get_switch("REIGEN_INSECURE", &config.insecure, err);
    if (r == 0)
        r = get_text("REIGEN_KEY_FILE", config.key_file, sizeof(config.key_file), err);
    if (r == 0)
        r = get_text("REIGEN_NETWORK_INTERFACE", config.interface, sizeof(config.interface), err);
    if (r == 0)
        *ret_config = config;
    return r < 0 ? -EINVAL : 0;
}
