/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of the options about hosts: containers there, networks between them, and
 * what they must have. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "job/options/apply.h"
#include "job/require.h"

#define APPLY(name)                                                                      \
    int rg_apply_##name(struct rg_request *request, const char *what, const char *value, \
                        struct rg_error *err)
#define UNUSED(x) ((void) (x))

APPLY(image)
{
    /* The runtime would read it as one of its own options. */
    if (*value == '-')
        return rg_error_set(err, EINVAL, "%s %s: an image's name does not begin with '-'", what,
                            value);
    return rg_parse_text(what, value, &request->job.container.image, err);
}

APPLY(container_runtime)
{
    static const char *const words[] = { "docker", "podman", "apptainer", "singularity", "enroot",
                                         "pyxis", "none", NULL };
    int i = rg_apply_choice(what, value, words, err);

    return i < 0 ? i : rg_parse_text(what, value, &request->job.container.runtime, err);
}

/* A path that is not absolute is the caller's; a bare name is a volume of the runtime. */
APPLY(mount)
{
    rg_autofree char *source = NULL, *target = NULL, *cwd = NULL, *absolute = NULL;
    bool read_only;

    if (*value == '.' && (cwd = getcwd(NULL, 0)))
        absolute = rg_strf("%s/%s", cwd, value);
    if (absolute)
        value = absolute;
    int rc = rg_container_split_mount(value, &source, &target, &read_only, err);

    if (rc < 0)
        return rg_error_prepend(err, "%s", what);
    if (*source != '/' && strchr(source, '/'))
        return rg_error_set(err, EINVAL, "%s %s: write ./%s for a directory of yours", what, value,
                            source);
    if (request->job.container.mounts.count >= RG_CONTAINER_LISTED_MAX)
        return rg_error_set(err, E2BIG, "%s: more than %d of them", what, RG_CONTAINER_LISTED_MAX);
    return rg_strv_add(&request->job.container.mounts, value) < 0 ? rg_error_memory(err) : 0;
}

/* Also as docker has it: '"device=0,1"', with quotes of its own. Its "device=1" is ours "1,". */
APPLY(gpus)
{
    bool quoted = value[0] == '"';
    const char *first = value + quoted;
    bool named = rg_str_starts(first, "device=") && strchr(first, '=') == strrchr(first, '=');
    size_t skipped = named ? strlen("device=") : 0, n = strlen(first);
    size_t length = n - skipped - (quoted && n && first[n - 1] == '"');
    rg_autofree char *plain = rg_strf("%.*s%s", (int) length, first + skipped,
                                      named && !strchr(first, ',') ? "," : "");

    if (!plain)
        return rg_error_memory(err);
    if (plain[strspn(plain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789,=:-")])
        return rg_error_set(err, EINVAL, "%s %s: give all, a number of GPUs, or GPU-... names "
                            "separated by commas", what, value);
    return rg_parse_text(what, plain, &request->job.container.gpus, err);
}

APPLY(gpus_per_rank)
{
    int64_t n = RG_GPUS_EVENLY;

    if (strcmp(value, "all") != 0 && rg_parse_int(what, value, 1, RG_JOB_SLOTS_MAX, &n, NULL) < 0)
        return rg_error_set(err, EINVAL, "%s %s: give the number of GPUs of each rank, or all, "
                            "which divides those of a host evenly", what, value);
    request->gpus_per_rank = (int) n;
    return 0;
}

APPLY(pull)
{
    static const char *const words[] = { "missing", "always", "never" };

    for (size_t i = 0; i < rg_array_len(words); i++) {
        if (strcmp(words[i], value) == 0) {
            request->job.container.pull = (enum rg_pull) i;
            return 0;
        }
    }
    return rg_error_set(err, EINVAL, "%s %s: give missing, always or never", what, value);
}

APPLY(inject_runtime)
{
    UNUSED(what), UNUSED(err);
    request->job.container.inject = strcmp(value, "true") == 0 ? RG_INJECT_YES : RG_INJECT_NO;
    return 0;
}

APPLY(no_inject_runtime)
{
    UNUSED(what), UNUSED(err), UNUSED(value);
    request->job.container.inject = RG_INJECT_NO;
    return 0;
}

/* --- networks, and what hosts must have ------------------------------------------------------- */

/* Each item of a list with commas. 0 or the first that is not. */
static int for_each(const char *what, const char *value, struct rg_strv *list,
                    int (*check)(const char *what, const char *item, struct rg_error *err),
                    struct rg_error *err)
{
    for (const char *p = value;; p++) {
        size_t n = strcspn(p, ",");
        rg_autofree char *item = strndup(p, n);
        int rc = item ? check(what, item, err) : -ENOMEM;
        if (rc == 0)
            rc = rg_strv_add(list, item);
        if (rc == -ENOMEM)
            return rg_error_memory(err);
        p += n;
        if (rc < 0 || !*p)
            return rc;
    }
}

/* No interface has a slash in its name. */
static bool is_broken_network(const char *text)
{
    char address[INET6_ADDRSTRLEN] = "";
    size_t length = strcspn(text, "/");
    uint8_t bytes[16];
    int64_t prefix;

    if (!text[length])
        return false;
    if (length >= sizeof(address))
        return true;
    memcpy(address, text, length);
    bool six = strchr(address, ':') != NULL;
    return inet_pton(six ? AF_INET6 : AF_INET, address, bytes) != 1 ||
           rg_parse_int("prefix", text + length + 1, 0, six ? 128 : 32, &prefix, NULL) < 0;
}

static int check_interface(const char *what, const char *item, struct rg_error *err)
{
    const char *name = strchr(item, '=');

    if (!*item || name == item || (name && !name[1]) || is_broken_network(name ? name + 1 : item))
        return rg_error_set(err, EINVAL,
                            "%s %s: write NAME or a network such as 10.0.0.0/8, for one host "
                            "HOST=NAME", what, item);
    return 0;
}

APPLY(network_interface)
{
    return for_each(what, value, &request->job.network_interfaces, check_interface, err);
}

APPLY(port_range)
{
    return rg_job_set_ports(&request->job, what, value, err);
}

static int check_requirement(const char *what, const char *item, struct rg_error *err)
{
    struct rg_requirement requirement;

    return rg_requirement_parse(what, item, &requirement, err);
}

APPLY(require)
{
    return for_each(what, value, &request->job.require, check_requirement, err);
}
