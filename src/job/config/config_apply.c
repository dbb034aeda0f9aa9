/* SPDX-License-Identifier: Apache-2.0 */
/* From the configuration into a request: the defaults first, so that a profile wins. */
#include "job/config/config.h"

#include <string.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "job/options/apply.h"
#include "job/platform.h"

#define PATH_SHOWN 300

static int no_profile(const struct rg_config *config, const char *what, const char *name,
                      struct rg_error *err)
{
    const struct rg_strv *profiles = &config->profiles;
    const char *near = profiles->count ? rg_str_nearest(name, (const char *const *) profiles->v)
                                       : NULL;
    rg_autobuf struct rg_buf names = RG_BUF_INIT;

    if (!config->found)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s %.80s: there is no file of "
                                 "profiles%s%.*s", what, name, config->path ? "; it would be " : "",
                                 PATH_SHOWN, config->path ? config->path : "");
    for (size_t i = 0; i < profiles->count && i < 20; i++)
        rg_buf_printf(&names, "%s%s", i ? ", " : "", profiles->v[i]);
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s %.80s: no such profile in %.*s, which "
                             "has %s%s%s%s", what, name, PATH_SHOWN, config->path,
                             profiles->count ? rg_buf_text(&names) : "none",
                             near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

int rg_config_choose(const struct rg_config *config, const char *name, int *ret_profile,
                     struct rg_error *err)
{
    const char *what = name ? "--profile" : RG_CONFIG_PROFILE;

    name = name ? name : getenv(RG_CONFIG_PROFILE);
    *ret_profile = RG_CONFIG_DEFAULTS;
    if (!name || !*name)
        return 0;
    for (size_t i = 0; i < config->profiles.count; i++) {
        if (strcmp(config->profiles.v[i], name) != 0)
            continue;
        *ret_profile = (int) i;
        return 0;
    }
    return no_profile(config, what, name, err);
}

const char *rg_config_variable(const struct rg_option *option, const struct rg_request *request)
{
    const char *value = option->variable ? getenv(option->variable) : NULL;
    bool useless = option->file == RG_FILE_HOSTS && !rg_platform_of(&request->job)->any_host;

    return value && *value && !useless ? value : NULL;
}

/* A shell would have put the home directory in the place of ~. */
static char *expand(const struct rg_config_entry *entry)
{
    const char *kind = entry->option->completes, *home = getenv("HOME");
    bool file = kind && (strcmp(kind, "@file") == 0 || strcmp(kind, "@dir") == 0);

    return file && home && rg_str_starts(entry->value, "~/")
               ? rg_strf("%s%s", home, entry->value + 1) : strdup(entry->value);
}

static bool names_hosts(const struct rg_option *option)
{
    return rg_str_has_word("hosts hostfile host-discovery-script", rg_option_key(option));
}

static int apply_value(const struct rg_option *option, const char *value, const char *place,
                       struct rg_request *request, struct rg_error *err)
{
    struct rg_error cause = RG_ERROR_INIT;

    request->place = place;
    int rc = rg_option_apply(option, request, rg_option_key(option), value, &cause);

    request->place = NULL;
    return rc >= 0 ? 0 : rg_error_set_exit(err, cause.errnum ? cause.errnum : EINVAL, RG_EXIT_USAGE,
                                           "%s: %s", place, cause.text);
}

/* A host file on a share that is not mounted is to end no job that has other hosts. */
static int keep_hosts(const struct rg_option *option, const char *value, const char *place,
                      struct rg_request *request)
{
    struct rg_strv *kept = &request->usual_hosts;

    rg_request_begin_hosts(request);
    return rg_strv_add(kept, place) < 0 || rg_strv_add(kept, option->name) < 0 ||
           rg_strv_add(kept, value) < 0 ? -ENOMEM : 0;
}

static int apply_entry(const struct rg_config *config, const struct rg_config_entry *entry,
                       struct rg_request *request, struct rg_error *err)
{
    rg_autofree char *value = expand(entry);
    rg_autofree char *place = rg_strf("%.*s:%d", PATH_SHOWN, config->path, entry->line);

    if (!value || !place)
        return rg_error_memory(err);
    if (!names_hosts(entry->option))
        return apply_value(entry->option, value, place, request, err);
    return keep_hosts(entry->option, value, place, request) < 0 ? rg_error_memory(err) : 0;
}

int rg_config_take_hosts(struct rg_request *request, struct rg_error *err)
{
    rg_autostrv struct rg_strv kept = request->usual_hosts;
    int rc = 0;

    request->usual_hosts = (struct rg_strv) RG_STRV_INIT;
    request->source = request->hosts_source;
    for (size_t i = 0; rc == 0 && i + 2 < kept.count; i += 3)
        rc = apply_value(rg_option_find(kept.v[i + 1]), kept.v[i + 2], kept.v[i], request, err);
    request->source = RG_FROM_LINE;
    return rc;
}

bool rg_config_hosts_count(const struct rg_request *request)
{
    bool line = request->on_source == RG_FROM_LINE;

    return !request->job.on || rg_platform_of(&request->job)->any_host ||
           !(line || request->on_source > request->hosts_source);
}

/* Both are in the place of each other. */
static bool replaces(const struct rg_config_entry *other, const struct rg_config_entry *entry)
{
    const struct rg_option *a = other->option, *b = entry->option;
    size_t n = strcspn(entry->value, "=");

    if (names_hosts(a) && names_hosts(b))
        return true;
    if (a == b && a->file == RG_FILE_MAP)
        return n == strcspn(other->value, "=") && strncmp(other->value, entry->value, n) == 0;
    return a == b && a->file != RG_FILE_LIST;
}

bool rg_config_counts(const struct rg_config *config, const struct rg_config_entry *entry,
                      int profile, const struct rg_request *request)
{
    if (names_hosts(entry->option) && (!rg_config_hosts_count(request) ||
                                       rg_config_variable(rg_option_find("H"), request)))
        return false;
    if (entry->profile != RG_CONFIG_DEFAULTS)
        return entry->profile == profile;
    for (size_t i = 0; i < config->count; i++) {
        const struct rg_config_entry *e = &config->entries[i];
        if (e->profile == profile && profile != RG_CONFIG_DEFAULTS && replaces(e, entry))
            return false;
    }
    return true;
}

static int apply_section(const struct rg_config *config, int profile, struct rg_request *request,
                         struct rg_error *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < config->count; i++) {
        const struct rg_config_entry *e = &config->entries[i];
        if (e->profile == profile && !rg_config_variable(e->option, request))
            rc = apply_entry(config, e, request, err);
    }
    return rc;
}

int rg_config_apply(const struct rg_config *config, int profile, struct rg_request *request,
                    struct rg_error *err)
{
    request->source = RG_FROM_DEFAULTS;
    int rc = apply_section(config, RG_CONFIG_DEFAULTS, request, err);

    request->source = RG_FROM_PROFILE;
    if (rc == 0 && profile != RG_CONFIG_DEFAULTS)
        rc = apply_section(config, profile, request, err);
    request->source = RG_FROM_LINE;
    return rc;
}
