/* SPDX-License-Identifier: Apache-2.0 */
/* Options about networks between hosts, and about what hosts must have. */
#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"
#include "spec/options/apply.h"
#include "spec/job/require.h"

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
            return rg_error_set(err, ENOMEM, "out of memory");
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

int rg_apply_network_interface(struct rg_request *request, const char *what, const char *value,
                               struct rg_error *err)
{
    return for_each(what, value, &request->job.network_interfaces, check_interface, err);
}

int rg_apply_port_range(struct rg_request *request, const char *what, const char *value,
                        struct rg_error *err)
{
    return rg_job_set_ports(&request->job, what, value, err);
}

static int check_requirement(const char *what, const char *item, struct rg_error *err)
{
    struct rg_requirement requirement;

    return rg_requirement_parse(what, item, &requirement, err);
}

int rg_apply_require(struct rg_request *request, const char *what, const char *value,
                     struct rg_error *err)
{
    return for_each(what, value, &request->job.require, check_requirement, err);
}
