/* SPDX-License-Identifier: Apache-2.0 */
/* Each option of the table has a handler, which judges its value. */
#include "job/options/apply.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "job/chaos/chaos.h"
#include "job/envfile.h"
#include "job/hostlist.h"
#include "job/options/metrics.h"
#include "job/platform.h"

#define APPLY(name)                                                                      \
    int rg_apply_##name(struct rg_request *request, const char *what, const char *value, \
                        struct rg_error *err)
#define UNUSED(x) ((void) (x))

#define PLATFORMS_MAX 16

static bool is_true(const char *value)
{
    return strcmp(value, "true") == 0;
}

int rg_request_note(struct rg_request *request, const char *fmt, ...)
{
    rg_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0)
        return -ENOMEM;
    return rg_strv_has(&request->notes, text) ? 0 : rg_strv_add(&request->notes, text);
}

const struct rg_option *rg_option_of(const struct rg_platform *platform, const char *name)
{
    const struct rg_option *row = platform->options;

    while (row && row->name && strcmp(row->name, name) != 0)
        row++;
    return row && row->name ? row : NULL;
}

static bool is_shared(const char *name)
{
    int count = 0;

    for (const struct rg_platform *const *p = rg_platforms(); *p; p++)
        count += rg_option_of(*p, name) != NULL;
    return count > 1;
}

int rg_request_settle_shared(struct rg_request *request, struct rg_error *err)
{
    const struct rg_option *row = rg_platform_of(&request->job)->options;
    int r = 0;

    for (; r == 0 && row && row->name; row++) {
        const char *kept = row->judge && is_shared(row->name)
                               ? rg_env_get(&request->job.settings, row->name) : NULL;
        rg_autofree char *what = kept ? rg_strf("--%s", row->name) : NULL;
        if (kept)
            r = what ? row->judge(what, kept, err) : rg_error_memory(err);
    }
    return r;
}

/* Keep what an option of a platform was given. */
static int keep(struct rg_request *request, const struct rg_option *option, const char *what,
                const char *value, struct rg_error *err)
{
    struct rg_strv *settings = &request->job.settings;

    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the value is empty", what);
    int r = option->file == RG_FILE_LIST ? rg_strv_addf(settings, "%s=%s", option->name, value)
                                         : rg_env_set(settings, option->name, value);
    return r < 0 ? rg_error_memory(err) : 0;
}

/* What is usual, and what is said now. 0 or -ENOMEM. */
static int note_source(struct rg_request *request, const char *name)
{
    struct rg_strv *usual = &request->usual, *places = &request->usual_places;

    for (size_t i = usual->count; i-- > 0;) {
        if (strcmp(usual->v[i], name) != 0)
            continue;
        rg_strv_remove(usual, i);
        rg_strv_remove(places, i);
    }
    if (request->source != RG_FROM_DEFAULTS && request->source != RG_FROM_PROFILE)
        return rg_strv_has(&request->given, name) ? 0 : rg_strv_add(&request->given, name);
    int r = rg_strv_add(places, request->place ? request->place : "");
    return r < 0 ? r : rg_strv_add(usual, name);
}

int rg_option_apply(const struct rg_option *option, struct rg_request *request, const char *what,
                    const char *value, struct rg_error *err)
{
    if (note_source(request, option->name) < 0)
        return rg_error_memory(err);
    if (is_shared(option->name)) {
        const struct rg_option *row = rg_option_of(rg_platform_of(&request->job), option->name);
        if (!row) /* the platform is not known yet, or has no such option: judged later */
            return keep(request, option, what, value, err);
        option = row;
    }
    if (option->apply)
        return option->apply(request, what, value, err);
    if (option->member.kind)
        return rg_member_set(&option->member, request, what, value, err);
    int r = option->judge ? option->judge(what, value, err) : 0;
    return r < 0 ? r : keep(request, option, what, value, err);
}

int rg_apply_choice(const char *what, const char *value, const char *const *words,
                    struct rg_error *err)
{
    char list[256] = "";

    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], value) == 0)
            return i;
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", !i ? "" : words[i + 1] ? ", " : " or ",
                 words[i]);
    }
    const char *near = rg_str_nearest(value, words);

    if (near)
        return rg_error_set(err, EINVAL, "%s %s: give %s; did you mean %s?", what, value, list,
                            near);
    return rg_error_set(err, EINVAL, "%s %s: give %s", what, value, list);
}

static int parse_positive(const char *what, const char *value, uint64_t *ret_ms,
                          struct rg_error *err)
{
    uint64_t ms;
    int rc = rg_parse_duration_ms(what, value, &ms, err);

    if (rc < 0)
        return rc;
    if (!ms)
        return rg_error_set(err, EINVAL,
                            "%s %s: nothing happens in no time; give seconds, or 500ms, "
                            "2m, 1h",
                            what, value);
    *ret_ms = ms;
    return 0;
}

APPLY(ranks_per_host)
{
    static const char *const guesses[] = { "auto", "gpu", "cpu" };
    int64_t n;

    for (size_t i = 0; i < rg_array_len(guesses); i++)
        if (strcmp(value, guesses[i]) == 0)
            return rg_error_set(err, EINVAL, "%s %s: give a number; reigen doctor shows the cores "
                                "and the GPUs of each host", what, value);
    int rc = rg_parse_int(what, value, 1, RG_JOB_SLOTS_MAX, &n, err);

    if (rc == 0)
        request->job.ranks_per_host = (int) n;
    return rc;
}

void rg_request_drop_hosts(struct rg_request *request)
{
    struct rg_job *job = &request->job;

    for (size_t i = 0; i < job->nhosts; i++)
        free(job->hosts[i].name), free(job->hosts[i].user);
    job->nhosts = 0;
    rg_strv_fini(&request->usual_hosts);
    free(rg_steal_ptr(&request->discovery));
}

void rg_request_begin_hosts(struct rg_request *request)
{
    if (request->source != request->hosts_source)
        rg_request_drop_hosts(request);
    request->hosts_source = request->source;
}

APPLY(hosts)
{
    rg_request_begin_hosts(request);
    return rg_hostlist_parse(&request->job, what, value, err);
}

APPLY(hostfile)
{
    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the value is empty; give a file's name", what);
    rg_request_begin_hosts(request);
    return rg_hostfile_read(&request->job, value, err);
}

/* A command for the shell. The name of a file alone is this file, whatever is in its name and in
 * PATH. */
APPLY(host_discovery_script)
{
    rg_autofree char *first = strndup(value, strcspn(value, " \t\n;|&<>()$`\"'\\*?["));
    bool there = access(value, F_OK) == 0;

    if (!first)
        return rg_error_memory(err);
    if (!there && strchr(first, '/') && access(first, F_OK) < 0)
        return rg_error_set(err, errno, "%s %s: %s", what, first, strerror(errno));
    const char *program = there ? value : strchr(first, '/') ? first : NULL;

    if (program && access(program, X_OK) < 0)
        return rg_error_set(err, errno, "%s %s: not executable; chmod +x %s", what, program,
                            program);
    rg_request_begin_hosts(request);
    return rg_parse_text(what, value, &request->discovery, err);
}

/* In seconds, as Horovod's flag has them. */
APPLY(blacklist_cooldown_range)
{
    struct rg_elastic *e = &request->job.elastic;
    int least, most, end = 0;

    if (sscanf(value, "%d:%d%n", &least, &most, &end) != 2 || value[end] || least < 1 ||
        least > most)
        return rg_error_set(err, EINVAL, "%s %s: give two numbers of seconds, the least first and "
                            "at least 1, such as 60:300", what, value);
    e->cooldown_min_ms = 1000 * (uint64_t) least;
    e->cooldown_max_ms = 1000 * (uint64_t) most;
    return 0;
}

/* Of what help is wanted, is for who prints it. */
APPLY(help)
{
    UNUSED(what), UNUSED(value), UNUSED(err);
    request->help = true;
    return 0;
}

APPLY(chaos)
{
    struct rg_chaos chaos;
    int rc = rg_chaos_parse(what, value, &chaos, err);

    return rc < 0 ? rc : rg_parse_text(what, value, &request->job.chaos, err);
}

/* Without a value, and in a job file, it is the current directory. */
APPLY(sync)
{
    bool named = value && strcmp(value, "true") != 0;

    if (value && strcmp(value, "false") == 0) {
        free(rg_steal_ptr(&request->job.sync));
        return 0;
    }
    return rg_parse_text(what, named ? value : ".", &request->job.sync, err);
}

APPLY(metrics)
{
    rg_autofree char *host = NULL;
    int port, rc = rg_metrics_split(what, value, &host, &port, err);

    return rc < 0 ? rc : rg_parse_text(what, value, &request->job.metrics, err);
}

/* What may stand behind the object, and what of it has no meaning here. */
static int apply_modifier(struct rg_request *request, const char *what, const char *value,
                          const char *word, const char *object, struct rg_error *err)
{
    static const char ignored[] = "span inherit noinherit hwtcpus corecpus display displaydevel "
                                  "displaytopo displayalloc ordered";
    rg_autofree char *lower = strdup(word);
    int64_t n;

    for (char *p = lower; p && *p; p++)
        *p = *p >= 'A' && *p <= 'Z' ? (char) (*p - 'A' + 'a') : *p;
    if (!lower)
        return rg_error_memory(err);
    if (strcmp(lower, "oversubscribe") == 0 || strcmp(lower, "nooversubscribe") == 0) {
        request->job.oversubscribe = *lower == 'o';
        return 0;
    }
    bool cores = rg_str_starts(lower, "pe=");
    if (cores && rg_parse_int("PE", lower + 3, 1, RG_JOB_SLOTS_MAX, &n, NULL) < 0)
        return rg_error_set(err, EINVAL, "%s %s: %s: PE is a number of cores, such as PE=2", what,
                            value, word);
    if (cores || rg_str_has_word(ignored, lower))
        return rg_request_note(request, "%s %s: taken for %s; %s%s", what, value, object, word,
                               cores ? " means nothing here: --bind-to says which cores a rank gets"
                                     : " means nothing here") < 0 ? rg_error_memory(err) : 0;
    return rg_error_set(err, EINVAL, "%s %s: %s behind the object means nothing here; PE=N, "
                        "OVERSUBSCRIBE, NOOVERSUBSCRIBE and SPAN may stand there", what, value,
                        word);
}

/* rest: ":PE=2:SPAN", or ":PE=2,SPAN", or "". */
static int apply_modifiers(struct rg_request *request, const char *what, const char *value,
                           const char *object, const char *rest, struct rg_error *err)
{
    rg_autofree char *copy = strdup(rest);
    char *save = NULL;
    int rc = copy ? 0 : rg_error_memory(err);

    for (char *word = copy ? strtok_r(copy, ":,", &save) : NULL; rc == 0 && word;
         word = strtok_r(NULL, ":,", &save))
        rc = apply_modifier(request, what, value, word, *object ? object : "slot", err);
    return rc;
}

/* ppr:2:node, and what may follow it */
static int apply_ppr(struct rg_request *request, const char *what, const char *value,
                     struct rg_error *err)
{
    const char *count = value + strcspn(value, ":") + (strchr(value, ':') != NULL);
    const char *unit = count + strcspn(count, ":") + (strchr(count, ':') != NULL);
    size_t length = strcspn(unit, ":");

    if (length != 4 || strncasecmp(unit, "node", length) != 0)
        return rg_error_set(err, EINVAL, "%s %s: ranks are counted by host; use --ranks-per-host "
                            "N, and --bind-to for what each is bound to", what, value);
    rg_autofree char *number = strndup(count, strcspn(count, ":"));
    rg_autofree char *object = strndup(value, (size_t) (unit + length - value));

    if (!number || !object)
        return rg_error_memory(err);
    int rc = rg_apply_ranks_per_host(request, what, number, err);
    return rc < 0 ? rc : apply_modifiers(request, what, value, object, unit + length, err);
}

APPLY(map_by)
{
    static const char *const words[] = {"slot",    "node",    "core",    "hwthread",
                                        "socket",  "numa",    "board",   "l1cache",
                                        "l2cache", "l3cache", "package", NULL};
    rg_autofree char *object = strndup(value, strcspn(value, ":"));
    const char *rest = value + strcspn(value, ":");

    for (char *p = object; p && *p; p++)
        *p = *p >= 'A' && *p <= 'Z' ? (char) (*p - 'A' + 'a') : *p;
    if (!object)
        return rg_error_memory(err);
    if (strcmp(object, "ppr") == 0)
        return apply_ppr(request, what, value, err);
    /* Modifiers alone are those of what is usual. */
    int i = !*object && *rest ? 0 : rg_apply_choice(what, object, words, err);

    if (i < 0)
        return i;
    if (*object)
        request->job.map = i == 1 ? RG_MAP_NODE : RG_MAP_SLOT;
    if (i > 1 &&
        rg_request_note(request,
                        "%s %s: ranks are placed by slot; which cores they get is "
                        "--bind-to's", what,
             object) < 0)
        return rg_error_memory(err);
    return apply_modifiers(request, what, value, object, rest, err);
}

APPLY(bind_to)
{
    static const char *const words[] = { "none", "core", "socket", "hwthread", "package", "numa",
                                         "board", "l1cache", "l2cache", "l3cache", "gpu", NULL };
    rg_autofree char *object = strndup(value, strcspn(value, ":"));

    if (!object)
        return rg_error_memory(err);
    int i = rg_apply_choice(what, object, words, err);

    if (i < 0)
        return i;
    bool core = i == 1 || i == 3 || i == 7 || i == 8, gpu = i == 10;

    request->job.bind = i == 0 || i == 6 || gpu ? RG_BIND_NONE
                        : core ? RG_BIND_CORE : RG_BIND_SOCKET;
    /* Which GPU a rank uses is known there: its runtime binds it (coll/gpu/near.h). */
    rg_env_unset(&request->job.env, "REIGEN_BIND_TO");
    if (gpu && rg_env_set(&request->job.env, "REIGEN_BIND_TO", "gpu") < 0)
        return rg_error_memory(err);
    /* Open MPI's words mean nothing more here; MPICH's core:2 is two cores for each rank. */
    if (strcasestr(value, ":overload-allowed"))
        request->job.oversubscribe = true;
    else if (isdigit((unsigned char) value[strlen(object) + !!value[strlen(object)]]) &&
             rg_request_note(request, "%s %s: taken for %s; a rank is bound to one of them", what,
                             value, object) < 0)
        return rg_error_memory(err);
    if (i > 2 && i != 4 && !gpu &&
        rg_request_note(request, "%s %s: taken as %s", what, object, words[request->job.bind]) < 0)
        return rg_error_memory(err);
    return 0;
}

APPLY(on)
{
    const char *words[PLATFORMS_MAX + 1] = { NULL };

    for (size_t n = 0; rg_platforms()[n] && n < PLATFORMS_MAX; n++)
        words[n] = rg_platforms()[n]->name;
    int i = rg_apply_choice(what, value, words, err);

    if (i < 0)
        return i;
    request->on_source = request->source;
    return rg_parse_text(what, words[i], &request->job.on, err);
}

APPLY(ssh_option)
{
    if (!*value || strpbrk(value, "\r\n"))
        return rg_error_set(err, EINVAL, "%s \"%.40s\": write KEYWORD=VALUE, as for ssh -o", what,
                            value);
    return rg_strv_add(&request->job.ssh_options, value) < 0 ? rg_error_memory(err) : 0;
}

/* As an option of ssh's, in the place of an earlier one of this kind. */
APPLY(connect_timeout)
{
    static const char keyword[] = "ConnectTimeout=";
    struct rg_strv *options = &request->job.ssh_options;
    uint64_t ms = 0;
    int rc = parse_positive(what, value, &ms, err);

    for (size_t i = 0; rc == 0 && i < options->count; i++) {
        if (!rg_str_starts(options->v[i], keyword))
            continue;
        rg_strv_remove(options, i);
        break;
    }
    if (rc < 0)
        return rc;
    return rg_strv_addf(options, "%s%llu", keyword, (unsigned long long) (ms + 999) / 1000) < 0
               ? rg_error_memory(err) : 0;
}

APPLY(engine)
{
    /* In the order of enum rg_engine. */
    static const char *const words[] = { "auto", "native", "openmpi", "hydra", "script", NULL };
    static const char *const others[] = { "mpich", "impi", "intelmpi", NULL };

    for (size_t i = 0; others[i]; i++) {
        if (strcmp(value, others[i]) == 0)
            value = "hydra";
    }
    int i = rg_apply_choice(what, value, words, err);

    if (i < 0)
        return i;
    request->job.engine = (enum rg_engine) i;
    return 0;
}

/* The last mention of a variable counts. */
static void drop_name(struct rg_strv *list, const char *text)
{
    size_t n = strcspn(text, "=");

    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->v[i], text, n) == 0 && (list->v[i][n] == '=' || !list->v[i][n])) {
            rg_strv_remove(list, i);
            return;
        }
    }
}

static int set_variable(struct rg_request *request, const char *entry, struct rg_error *err)
{
    drop_name(&request->job.env, entry);
    return rg_strv_add(&request->job.env, entry) < 0 ? rg_error_memory(err) : 0;
}

APPLY(env)
{
    int rc = rg_env_check_name(what, value, err);

    return rc < 0 ? rc : set_variable(request, value, err);
}

APPLY(env_file)
{
    rg_autostrv struct rg_strv entries = RG_STRV_INIT;

    if (!*value)
        return rg_error_set(err, EINVAL, "%s: the value is empty; give a file's name", what);
    int rc = rg_envfile_read(value, &entries, err);

    for (size_t i = 0; rc == 0 && i < entries.count; i++)
        rc = set_variable(request, entries.v[i], err);
    return rc;
}

APPLY(share_env)
{
    int rc = rg_env_check_name(what, value, err);

    if (rc < 0)
        return rc;
    if (strchr(value, '='))
        return rg_error_set(err, EINVAL,
                            "%s %.*s=...: a command line is no place for a secret; export "
                            "the variable and give its name alone",
                            what, (int)strcspn(value, "="), value);
    drop_name(&request->job.share_env, value);
    return rg_strv_add(&request->job.share_env, value) < 0 ? rg_error_memory(err) : 0;
}

APPLY(tag_output)
{
    UNUSED(what), UNUSED(err);
    request->job.tag = is_true(value) ? RG_TAG_ON : RG_TAG_OFF;
    return 0;
}

APPLY(no_tag_output)
{
    UNUSED(what), UNUSED(err), UNUSED(value);
    request->job.tag = RG_TAG_OFF;
    return 0;
}

APPLY(ranks)
{
    struct rg_ranks ranks = { .count = 0 };
    int rc = strcmp(value, "all") == 0 ? 0 : rg_ranks_parse(value, &ranks, err);

    if (rc < 0)
        return rg_error_prepend(err, "%s", what);
    rg_ranks_fini(&request->job.show);
    request->job.show = ranks;
    return 0;
}

APPLY(stdin)
{
    int64_t rank = 0;

    if (strcmp(value, "all") == 0) {
        request->job.stdin_mode = RG_STDIN_ALL;
    } else if (strcmp(value, "none") == 0) {
        request->job.stdin_mode = RG_STDIN_NONE;
    } else if (rg_parse_int(what, value, 0, RG_JOB_RANKS_MAX - 1, &rank, NULL) == 0) {
        request->job.stdin_mode = RG_STDIN_RANK;
    } else {
        return rg_error_set(err, EINVAL, "%s %s: give a rank, all or none", what, value);
    }
    request->job.stdin_rank = (int) rank;
    return 0;
}

APPLY(debug_rank)
{
    int64_t rank;
    int rc = rg_parse_int(what, value, 0, RG_JOB_RANKS_MAX - 1, &rank, err);

    if (rc < 0)
        return rc;
    request->debugs = true;
    request->debug_rank = (int) rank;
    request->job.pty = true;
    request->job.stdin_mode = RG_STDIN_RANK;
    request->job.stdin_rank = (int) rank;
    return 0;
}

APPLY(start_timeout)
{
    return parse_positive(what, value, &request->job.start_timeout_ms, err);
}

APPLY(lease)
{
    uint64_t ms = 0;
    int rc = parse_positive(what, value, &ms, err);

    /* Heartbeats go once a second; a shorter lease would end healthy jobs. */
    if (rc == 0 && ms < 3000)
        return rg_error_set(err, EINVAL, "%s %s: heartbeats come every second; give at least 3",
                            what, value);
    if (rc < 0)
        return rc;
    request->job.lease_ms = ms;
    request->lease = true;
    return 0;
}

APPLY(verbose)
{
    UNUSED(what), UNUSED(err);
    request->job.verbose = is_true(value) ? request->job.verbose + 1 : 0;
    return 0;
}

APPLY(accepted)
{
    UNUSED(request), UNUSED(what), UNUSED(err), UNUSED(value);
    return 0;
}
