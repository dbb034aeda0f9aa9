/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts come as "a:2,b" and in files of several dialects; all become one list. */
#include "job/hostlist.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "job/slurm.h"

#define SEPARATORS " \t\r"

/* Where "node[1-4]" or "bob@n[1,3]-ib" has the name whose brackets are ranges; NULL: it has none. A
 * bracket in front is that of an IPv6 address. */
static const char *find_range(const char *text)
{
    const char *at = strchr(text, '@');
    const char *name = at ? at + 1 : text;

    return *name != '[' && strchr(name, '[') ? name : NULL;
}

/* The first comma that stands outside of brackets; or the end. */
static char *find_comma(char *text)
{
    bool inside = false;

    for (; *text && (inside || *text != ','); text++)
        inside = *text == '[' || (inside && *text != ']');
    return text;
}

/* Split "name", "name:slots", "name[1-4]:slots", "[v6]:slots" or a bare IPv6 address in place; a
 * user may stand in front. */
static int split_slots(char *text, char **ret_slots)
{
    char *at = strchr(text, '@'), *name = at ? at + 1 : text;
    char *behind = find_range(text) ? strrchr(text, ']') : NULL;
    char *first = strchr(behind ? behind : name, ':');
    char *close = name[0] == '[' ? strchr(name, ']') : NULL;

    *ret_slots = NULL;
    if (name[0] == '[') {
        if (!close || (close[1] && close[1] != ':'))
            return -EINVAL;
        *ret_slots = close[1] ? close + 2 : NULL;
        *close = '\0';
        memmove(name, name + 1, (size_t) (close - name));
    } else if (first && (behind || !strchr(first + 1, ':'))) {
        *first = '\0';
        *ret_slots = first + 1;
    }
    return 0;
}

static int parse_slots(const char *where, const char *host, const char *text, int *ret_nslots,
                       struct rg_error *err)
{
    char what[RG_HOST_NAME_MAX + 300];
    int64_t n;

    snprintf(what, sizeof what, "%s: slots of host %s", where, host);
    int rc = rg_parse_int(what, text, 1, RG_JOB_SLOTS_MAX, &n, err);

    if (rc == 0)
        *ret_nslots = (int) n;
    return rc;
}

/* A host, or those of its ranges. */
static int add_hosts(struct rg_job *job, const char *where, const char *text, int nslots,
                     struct rg_error *err)
{
    rg_autostrv struct rg_strv names = RG_STRV_INIT;
    const char *range = find_range(text);
    size_t n = range ? (size_t) (range - text) : 0;
    int rc = range ? rg_slurm_nodes(where, range, &names, err) : rg_strv_add(&names, text);

    for (size_t i = 0; i < names.count && rc == 0; i++) {
        rg_autofree char *host = rg_strf("%.*s%s", (int) n, text, names.v[i]);
        if (!host)
            return rg_error_memory(err);
        if (rg_job_add_host(job, host, nslots, err) < 0)
            rc = rg_error_prepend(err, "%s", where);
    }
    return rc == -ENOMEM ? rg_error_memory(err) : rc;
}

/* nslots: what stands beside the item, or 0. */
static int add_item(struct rg_job *job, const char *where, const char *item, int nslots,
                    struct rg_error *err)
{
    rg_autofree char *name = strdup(item);
    char *slots;

    if (!name)
        return rg_error_memory(err);
    if (split_slots(name, &slots) < 0)
        return rg_error_set(
            err, EINVAL, "%s: \"%s\" is not a host; write an IPv6 address as [::1]:2", where, item);
    if (!*name)
        return rg_error_set(err, EINVAL, "%s: \"%s\" has no host name; write NAME or NAME:SLOTS",
                            where, item);
    if (slots) {
        int rc = parse_slots(where, name, slots, &nslots, err);
        if (rc < 0)
            return rc;
    }
    return add_hosts(job, where, name, nslots, err);
}

int rg_hostlist_parse(struct rg_job *job, const char *what, const char *text, struct rg_error *err)
{
    rg_autofree char *copy = strdup(text);
    char *rest = copy;

    if (!copy)
        return rg_error_memory(err);
    if (!*text)
        return rg_error_set(err, EINVAL, "%s: no host in it; write for example localhost:4", what);
    while (rest) {
        char *item = rest, *end = find_comma(rest);
        rest = *end ? end + 1 : NULL;
        *end = '\0';
        item += strspn(item, SEPARATORS);
        item[strcspn(item, SEPARATORS)] = '\0';
        if (!*item)
            return rg_error_set(err, EINVAL, "%s \"%s\": a host is missing beside a comma", what,
                                text);
        int rc = add_item(job, what, item, 0, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The words after the host: slots=N counts, max_slots=N only bounds what we never exceed. As with
 * Open MPI, they have other names, and blanks around '='. */
static int parse_words(const char *where, const char *host, char *words, int *ret_nslots,
                       const char **ret_user, struct rg_error *err)
{
    char *word, *save = NULL;

    for (; (word = strtok_r(words, SEPARATORS "=", &save)); words = NULL) {
        const char *value = strtok_r(NULL, SEPARATORS "=", &save);
        int ignored, rc = 0;

        if (value && rg_str_has_word("username user_name user-name", word))
            *ret_user = value;
        else if (value && rg_str_has_word("slots count cpu max_slots max-slots slots_max slots-max",
                                          word))
            rc = parse_slots(where, host, value, strchr(word, 'm') ? &ignored : ret_nslots, err);
        else
            rc = rg_error_set(err, EINVAL,
                              "%s: \"%s\" after host %s; only slots=N may stand there", where, word,
                              host);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int parse_line(struct rg_job *job, const char *where, char *line, struct rg_error *err)
{
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, SEPARATORS);
    if (!*line)
        return 0;
    size_t n = strcspn(line, SEPARATORS);
    char *words = line[n] ? line + n + 1 : line + n;
    const char *user = NULL;
    int nslots = 0;

    line[n] = '\0';
    if (*find_comma(line))
        return rg_error_set(err, EINVAL, "%s: \"%s\": one host per line, without commas", where,
                            line);
    int rc = parse_words(where, line, words, &nslots, &user, err);
    rg_autofree char *item = user && rc == 0 ? rg_strf("%s@%s", user, line) : NULL;

    if (rc < 0 || (user && !item))
        return rc < 0 ? rc : rg_error_memory(err);
    return add_item(job, where, user ? item : line, nslots, err);
}

int rg_hostfile_parse(struct rg_job *job, const char *path, const char *text, size_t nbytes,
                      struct rg_error *err)
{
    rg_autofree char *copy = strndup(text, nbytes);
    char *rest = copy, *line, where[300];
    size_t before = job->nhosts;
    unsigned number = 0;

    if (!copy)
        return rg_error_memory(err);
    if (memchr(text, '\0', nbytes))
        return rg_error_set(err, EINVAL, "%s: not a host file: it holds a NUL byte", path);
    while ((line = strsep(&rest, "\n"))) {
        snprintf(where, sizeof where, "%.200s:%u", path, ++number);
        int rc = parse_line(job, where, line, err);
        if (rc < 0)
            return rc;
    }
    if (job->nhosts == before && before == 0)
        return rg_error_set(err, EINVAL, "%s: no host in it; each line is HOST slots=N or HOST:N",
                            path);
    return 0;
}

int rg_hostfile_read(struct rg_job *job, const char *path, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes;
    int rc = rg_read_named("host file", path, RG_HOSTFILE_NBYTES_MAX, &text, &nbytes, err);

    return rc < 0 ? rc : rg_hostfile_parse(job, path, text, nbytes, err);
}

bool rg_host_is_local(const char *name)
{
    char own[RG_HOST_NAME_MAX + 1] = "";
    size_t n = strcspn(name, ".");

    if (strcasecmp(name, "localhost") == 0 || strcmp(name, "::1") == 0)
        return true;
    if (rg_str_starts(name, "127.") && name[strspn(name, "0123456789.")] == '\0')
        return true;
    if (gethostname(own, sizeof own - 1) < 0 || !*own)
        return false;
    if (strcasecmp(name, own) == 0)
        return true;
    /* node7 is node7.cluster, but node7.a is not node7.b. */
    return (name[n] == '\0' || own[strcspn(own, ".")] == '\0') && strcspn(own, ".") == n &&
           strncasecmp(name, own, n) == 0 && !isdigit((unsigned char) name[0]);
}
