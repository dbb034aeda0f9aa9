/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's program does it, which is there even where reigen is not. */
#include "cmd/wait/command.h"

#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/str.h"
#include "base/time.h"
#include "head/console/exit.h"
#include "platform/kubernetes/inside/pods.h"
#include "launch/host/agentfile.h"
#include "job/job.h"

#define AGAIN_MS 1000 /* from a look-up to the next one */

struct asked {
    uint64_t limit_ms;
    int port;
};

/* The host of HOST, HOST:PORT, ADDRESS, [ADDRESS] or [ADDRESS]:PORT; *ret_rest is what follows. */
static char *host_of(const char *value, const char **ret_rest)
{
    const char *colon = strchr(value, ':');
    bool six = colon && strchr(colon + 1, ':') && *value != '[';

    if (*value == '[' && strchr(value, ']')) {
        *ret_rest = strchr(value, ']') + 1;
        return strndup(value + 1, strcspn(value + 1, "]"));
    }
    size_t n = six || !colon ? strlen(value) : (size_t) (colon - value);
    *ret_rest = value + n;
    return strndup(value, n);
}

/* In a cluster's own name service a host that is about to start has no name yet. */
static bool may_come(int r)
{
    return r == EAI_NONAME || r == EAI_AGAIN || r == EAI_NODATA;
}

/* Each second for limit_ms, until the host has a name. 0, or what getaddrinfo returns. */
static int find_addresses(const char *host, uint64_t limit_ms, struct addrinfo **ret_found)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    uint64_t end_ns = rg_now_ns() + limit_ms * RG_NS_PER_MS;
    int r;

    while ((r = getaddrinfo(host, NULL, &hints, ret_found)) && may_come(r) && rg_now_ns() < end_ns)
        rg_sleep_ms(AGAIN_MS);
    return r;
}

static int add_addresses(const struct addrinfo *found, int port, struct rg_buf *list)
{
    char address[NI_MAXHOST];
    int r = 0;

    for (const struct addrinfo *one = found; r == 0 && one; one = one->ai_next) {
        r = getnameinfo(one->ai_addr, one->ai_addrlen, address, sizeof(address), NULL, 0,
                        NI_NUMERICHOST);
        if (r || rg_buf_nbytes(list) + strlen(address) > RG_POD_ADDRESS_MAX - sizeof(",[]:65535"))
            break;
        rg_buf_printf(list, strchr(address, ':') ? "%s[%s]:%d" : "%s%s:%d",
                      rg_buf_nbytes(list) ? "," : "", address, port);
    }
    return r;
}

/* All addresses of the head, as the agent takes them. NULL with err. */
static char *look_up(const char *value, const struct asked *asked, struct rg_error *err)
{
    const char *rest;
    struct addrinfo *found = NULL;
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    rg_autofree char *host = host_of(value, &rest);
    int64_t port = asked->port;

    if (*rest && (*rest != ':' || rg_parse_int("", rest + 1, 1, UINT16_MAX, &port, NULL) < 0)) {
        rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                          "--head %s: %s is no port, which is from 1 to 65535", value,
                          *rest == ':' ? rest + 1 : rest);
        return NULL;
    }
    int r = host ? find_addresses(host, asked->limit_ms, &found) : EAI_MEMORY;
    if (r == 0)
        r = add_addresses(found, (int) port, &list);
    if (found)
        freeaddrinfo(found);
    if (r) {
        rg_error_set_exit(err, ENOENT, may_come(r) ? RG_EXIT_TIMEOUT : RG_EXIT_USAGE,
                          may_come(r) ? "--head %s: %s, for %.6g s (--start-timeout)"
                                      : "--head %s: %s",
                          value, gai_strerror(r), (double) asked->limit_ms / 1000.0);
        return NULL;
    }
    char *text = rg_strf("%s", rg_buf_text(&list));
    if (!text)
        rg_error_memory(err);
    return text;
}

/* The value of an option among the words, --NAME=VALUE or --NAME VALUE; NULL: it is not there. */
static const char *value_of(int argc, char **argv, const char *option)
{
    size_t n = strlen(option);
    const char *value = NULL;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i - 1], option) == 0)
            value = argv[i];
        else if (strncmp(argv[i], option, n) == 0 && argv[i][n] == '=')
            value = argv[i] + n + 1;
    }
    return value;
}

static int read_asked(int argc, char **argv, struct asked *asked, struct rg_error *err)
{
    const char *limit = value_of(argc, argv, "--start-timeout");
    const char *text = value_of(argc, argv, "--port");
    int64_t port = 0;
    int r = limit ? rg_parse_duration_ms("--start-timeout", limit, &asked->limit_ms, err) : 0;

    if (r == 0)
        r = text ? rg_parse_int("--port", text, 1, UINT16_MAX, &port, err)
                 : rg_kubernetes_port(&asked->port, err);
    if (r == 0 && text)
        asked->port = (int) port;
    if (r < 0)
        err->exit_code = RG_EXIT_USAGE;
    return r;
}

/* The words that the agent gets. */
static int make_words(int argc, char **argv, struct rg_strv *words, struct rg_error *err)
{
    static const char option[] = "--head=";
    struct asked asked = { RG_START_TIMEOUT_MS, 0 };

    if (value_of(argc, argv, "--head") && read_asked(argc, argv, &asked, err) < 0)
        return -EINVAL;
    for (int i = 0; i < argc; i++) {
        bool apart = i > 0 && strcmp(argv[i - 1], "--head") == 0;
        bool equals = strncmp(argv[i], option, strlen(option)) == 0;
        if (!apart && !equals) {
            rg_strv_add(words, argv[i]);
            continue;
        }
        rg_autofree char *value = look_up(argv[i] + (equals ? strlen(option) : 0), &asked,
                                            err);
        if (!value)
            return -EINVAL;
        rg_strv_addf(words, "%s%s", equals ? option : "", value);
    }
    return rg_strv_status(words) < 0 ? rg_error_memory(err) : 0;
}

int rg_cmd_wait_workers(int argc, char **argv)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    char program[PATH_MAX];

    if (rg_agent_file_find(program, &err) < 0)
        return rg_fail(&err, argv[0]);
    rg_strv_add(&words, program);
    if (make_words(argc, argv, &words, &err) < 0)
        return rg_fail(&err, argv[0]);
    execv(program, words.v);
    rg_error_set(&err, errno, "%s: %s", program, strerror(errno));
    return rg_fail(&err, argv[0]);
}
