/* SPDX-License-Identifier: Apache-2.0 */
/* Some of horovodrun's flags do more than set a variable; here is what they do. */
#include "spec/horovodrun/horovodrun_apply.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "spec/options/apply.h"

#define APPLY(name)                                                                            \
    int rg_hvd_apply_##name(struct rg_horovodrun *run, const struct rg_hvd_option *option,     \
                            const char *what, const char *value, struct rg_error *err)
#define UNUSED(x) ((void) (x))
#define FUSION_MB_MAX (INT64_C(1) << 40)

/* --- judging --------------------------------------------------------------------------------- */

/* "fusion_threshold_mb", as Horovod names the value in its own error. */
static void argument_name(const struct rg_hvd_option *option, char name[64])
{
    snprintf(name, 64, "%s", option->name);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
}

static int judge_number(const struct rg_hvd_option *option, const char *what, const char *value,
                        struct rg_error *err)
{
    char *end = NULL, name[64];
    double n = strtod(value, &end);

    argument_name(option, name);
    /* strtod also takes blanks, hexadecimal numbers and words. */
    if (!*value || *end || strspn(value, "+-.0123456789eE") != strlen(value) || !isfinite(n))
        return rg_error_set(err, EINVAL, "%s %s: not a number", what, *value ? value : "(empty)");
    if (n < 0)
        return rg_error_set(err, ERANGE, "%s: %s=%s must be >= 0", what, name, value);
    if (option->kind == RG_HVD_SHARE && n > 1)
        return rg_error_set(err, ERANGE, "%s: %s=%s must be in [0, 1]", what, name, value);
    return 0;
}

static int judge_count(const struct rg_hvd_option *option, const char *what, const char *value,
                       struct rg_error *err)
{
    char name[64];
    int64_t n;
    int rc = rg_parse_int(what, value, 0, RG_HVD_COUNT_MAX, &n, err);

    argument_name(option, name);
    if (rc < 0 && rg_parse_int(what, value, INT64_MIN, -1, &n, NULL) == 0)
        return rg_error_set(err, ERANGE, "%s: %s=%s must be >= 0", what, name, value);
    return rc;
}

static int judge_pair(const struct rg_hvd_option *option, const char *what, const char *value,
                      struct rg_error *err)
{
    rg_autofree char *first = strndup(value, strcspn(value, " "));
    const char *second = value + strcspn(value, " ");
    int rc = first ? judge_count(option, what, first, err) : rg_error_memory(err);

    return rc < 0 ? rc : judge_count(option, what, second + (*second == ' '), err);
}

static int judge(const struct rg_hvd_option *option, const char *what, const char *value,
                 struct rg_error *err)
{
    switch (option->kind) {
    case RG_HVD_COUNT: return judge_count(option, what, value, err);
    case RG_HVD_NUMBER:
    case RG_HVD_SHARE: return judge_number(option, what, value, err);
    case RG_HVD_PAIR: return judge_pair(option, what, value, err);
    case RG_HVD_TEXT:
        return *value ? 0 : rg_error_set(err, EINVAL, "%s: the value is empty", what);
    default: return 0;
    }
}

int rg_hvd_apply(struct rg_horovodrun *run, const struct rg_hvd_option *option, const char *what,
                 const char *value, struct rg_error *err)
{
    int rc = judge(option, what, value, err);

    if (rc >= 0 && option->env && rg_env_set(&run->request.job.env, option->env, value) < 0)
        rc = rg_error_memory(err);
    if (rc >= 0 && option->apply)
        rc = option->apply(run, option, what, value, err);
    else if (rc >= 0)
        rc = rg_field_set(&option->field, run, what, value, err);
    if (rc >= 0 && option->note &&
        rg_request_note(&run->request, "%s: %s", what, option->note) < 0)
        rc = rg_error_memory(err);
    return rc;
}

/* --- handlers -------------------------------------------------------------------------------- */

static int set_env(struct rg_horovodrun *run, const char *name, const char *value,
                   struct rg_error *err)
{
    return rg_env_set(&run->request.job.env, name, value) < 0 ? rg_error_memory(err) : 0;
}

/* Flags of which one only may be given; another mention of the same one is fine. */
static int exclude(const char **given, const struct rg_hvd_option *option, const char *what,
                   struct rg_error *err)
{
    if (*given && strcmp(*given, option->name) != 0)
        return rg_error_set(err, EINVAL, "%s: not allowed with %s%s; keep one", what,
                            strlen(*given) == 1 ? "-" : "--", *given);
    *given = option->name;
    return 0;
}

/* As the option of reigen run that has this name. */
APPLY(same)
{
    return rg_option_apply(rg_option_find(option->name), &run->request, what, value, err);
}

/* Where it runs. */
APPLY(where)
{
    int rc = exclude(&run->where, option, what, err);

    return rc < 0 ? rc : rg_hvd_apply_same(run, option, what, value, err);
}

APPLY(start_timeout)
{
    UNUSED(option);
    run->has_start_timeout = true;
    return rg_apply_start_timeout(&run->request, what, value, err);
}

APPLY(verbose)
{
    UNUSED(option), UNUSED(what), UNUSED(value), UNUSED(err);
    run->request.job.verbose = 2;
    return 0;
}

/* The runtime chooses one interface; NCCL and gloo take the list. */
static int use_interfaces(struct rg_horovodrun *run, const char *what, struct rg_error *err)
{
    const char *all = run->interfaces;
    rg_autofree char *first = strndup(all, strcspn(all, ","));
    int rc = first ? 0 : rg_error_memory(err);

    if (rc == 0 && !*first)
        return rg_error_set(err, EINVAL, "%s %s: an interface without a name", what, all);
    if (rc == 0) { /* the session checks it among hosts, the runtime on each */
        rg_strv_fini(&run->request.job.network_interfaces);
        rc = rg_apply_network_interface(&run->request, what, first, err);
    }
    rc = rc < 0 ? rc : set_env(run, "REIGEN_NETWORK_INTERFACE", first, err);
    rc = rc < 0 ? rc : set_env(run, "HOROVOD_GLOO_IFACE", first, err);
    rc = rc < 0 ? rc : set_env(run, "NCCL_SOCKET_IFNAME", all, err);
    if (rc == 0 && strchr(all, ',') &&
        rg_request_note(&run->request, "%s: of several interfaces, the first is used", what) < 0)
        return rg_error_memory(err);
    return rc;
}

APPLY(interfaces)
{
    UNUSED(option);
    int rc = rg_parse_text(what, value, &run->interfaces, err);

    return rc < 0 ? rc : use_interfaces(run, what, err);
}

APPLY(interface)
{
    UNUSED(option);
    char *both = run->interfaces ? rg_strf("%s,%s", run->interfaces, value) : strdup(value);

    if (!both)
        return rg_error_memory(err);
    free(run->interfaces);
    run->interfaces = both;
    return use_interfaces(run, what, err);
}

APPLY(ssh_identity)
{
    UNUSED(option);
    if (access(value, R_OK) < 0)
        return rg_error_set(err, errno, "%s %s: %s", what, value, strerror(errno));
    return rg_parse_text(what, value, &run->request.job.ssh_identity, err);
}

APPLY(fusion)
{
    UNUSED(option);
    int64_t mb;
    int rc = rg_parse_int(what, value, 0, FUSION_MB_MAX, &mb, err);

    if (rc < 0)
        return rc;
    return rg_env_setf(&run->request.job.env, "HOROVOD_FUSION_THRESHOLD", "%lld",
                       (long long) mb * 1024 * 1024) < 0 ? rg_error_memory(err) : 0;
}

APPLY(log_level)
{
    static const char *const levels[] = {"TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"};

    UNUSED(option);
    for (size_t i = 0; i < rg_array_len(levels); i++) {
        if (strcasecmp(levels[i], value) == 0)
            return set_env(run, "HOROVOD_LOG_LEVEL", levels[i], err);
    }
    return rg_error_set(err, EINVAL, "%s %s: give TRACE, DEBUG, INFO, WARNING, ERROR or FATAL",
                        what, value);
}

APPLY(timestamp_off)
{
    UNUSED(option), UNUSED(what);
    return set_env(run, "HOROVOD_LOG_HIDE_TIME", *value == '1' ? "0" : "1", err);
}

APPLY(stall_off)
{
    UNUSED(option), UNUSED(what);
    return set_env(run, "HOROVOD_STALL_CHECK_DISABLE", *value == '1' ? "0" : "1", err);
}

APPLY(controller)
{
    UNUSED(value);
    return exclude(&run->controller, option, what, err);
}

APPLY(jsrun)
{
    UNUSED(run), UNUSED(option), UNUSED(value);
    return rg_error_set(err, EINVAL,
                        "%s: LSF's jsrun is not among what Reigen starts ranks with; leave %s out "
                        "and name the hosts with -H or --hostfile",
                        what, what);
}

/* The file's word for --gloo, --mpi and --jsrun. The command line may say another. */
APPLY(file_controller)
{
    const struct rg_hvd_option *flag = rg_hvd_option_find(value);

    UNUSED(option);
    if (!flag || flag->group != RG_HVD_CONTROLLER || flag->key)
        return rg_error_set(err, EINVAL, "%s: \"%s\" is no controller; give gloo or mpi", what,
                            value);
    char text[64];
    snprintf(text, sizeof text, "%s: %.20s", what, value);
    int rc = rg_hvd_apply(run, flag, text, "1", err);

    run->controller = NULL;
    return rc;
}

/* --- elastic --------------------------------------------------------------------------------- */

APPLY(discovery)
{
    int rc = exclude(&run->where, option, what, err);

    if (rc < 0)
        return rc;
    if (access(value, F_OK) < 0)
        return rg_error_set(err, errno, "%s %s: %s", what, value, strerror(errno));
    if (access(value, X_OK) < 0)
        return rg_error_set(err, errno, "%s %s: not executable; chmod +x %s", what, value, value);
    return rg_parse_text(what, value, &run->elastic.discovery_script, err);
}

APPLY(cooldown)
{
    struct rg_hvd_elastic *e = &run->elastic;

    UNUSED(option);
    if (sscanf(value, "%d %d", &e->cooldown_min_s, &e->cooldown_max_s) != 2 ||
        e->cooldown_min_s < 1 || e->cooldown_min_s > e->cooldown_max_s)
        return rg_error_set(err, EINVAL,
                            "%s %s: give two numbers of seconds, the least first and at least 1, "
                            "such as 60 300",
                            what, value);
    return 0;
}
