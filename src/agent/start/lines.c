/* SPDX-License-Identifier: Apache-2.0 */
/* The key must stand in no argument list and no environment, so an agent reads its orders from
 * standard input. */
#include "agent/start/lines.h"

#include <string.h>

#include "base/str.h"

enum { HAS_VERSION = 1, HAS_JOB = 2, HAS_KEY = 4, HAS_LINK = 8, HAS_ALL = 15 };

#define LINK_FD_MAX 1023

static bool take_word(const char *line, const char *word, const char **ret_rest)
{
    size_t length = strlen(word);

    if (strncmp(line, word, length) != 0 || line[length] != ' ')
        return false;
    *ret_rest = line + length + 1;
    return true;
}

static int keep(const char *word, const char *text, char *field, size_t nbytes,
                struct rg_error *err)
{
    if (!*text || strlen(text) >= nbytes)
        return rg_error_set(err, EINVAL, "%s %.40s: %zu characters; 1 to %zu are allowed", word,
                            text, strlen(text), nbytes - 1);
    strcpy(field, text);
    return 0;
}

static int keep_path(const char *word, const char *text, char *field, size_t nbytes,
                     struct rg_error *err)
{
    return *text == '/' ? keep(word, text, field, nbytes, err)
                        : rg_error_set(err, EINVAL, "%s %.40s: no absolute path", word, text);
}

static int parse_link(const char *rest, struct rg_agent_lines *boot, struct rg_error *err)
{
    int64_t n = 0;

    /* The last line counts, whole. */
    boot->dial[0] = '\0';
    boot->silent = false;
    boot->link_fd = boot->link_write_fd = -1;
    if (strcmp(rest, "stdio") == 0 || strcmp(rest, "socket") == 0) {
        boot->link_fd = 0;
        boot->link_write_fd = 1;
        boot->silent = rest[1] == 'o';
        return HAS_LINK;
    }
    if (take_word(rest, "dial", &rest)) {
        int r = keep("link dial", rest, boot->dial, sizeof(boot->dial), err);
        return r < 0 ? r : HAS_LINK;
    }
    if (!take_word(rest, "fd", &rest))
        return rg_error_set(err, EINVAL, "'link %.40s' is no line of an agent's standard input",
                            rest);
    int r = rg_parse_int("link fd", rest, 3, LINK_FD_MAX, &n, err);
    boot->link_fd = boot->link_write_fd = (int) n;
    return r < 0 ? r : HAS_LINK;
}

/* Returns the HAS_ bit of the line, or -errno. The key's line is never quoted in an error. */
static int parse_line(const char *line, struct rg_agent_lines *boot, struct rg_error *err)
{
    const char *rest;
    int64_t n;

    if (take_word(line, "reigen-agent", &rest)) {
        int r = rg_parse_int("protocol version", rest, RG_PROTOCOL_VERSION, RG_PROTOCOL_VERSION, &n,
                             err);
        return r < 0 ? r : HAS_VERSION;
    }
    if (take_word(line, "job", &rest)) {
        int r = keep("job id", rest, boot->job_id, sizeof(boot->job_id), err);
        return r < 0 ? r : HAS_JOB;
    }
    if (take_word(line, "key", &rest)) {
        if (rg_key_parse(rest, boot->key) < 0)
            return rg_error_set(err, EINVAL, "the key is not 64 hexadecimal digits");
        return HAS_KEY;
    }
    if (take_word(line, "dir", &rest))
        return keep_path("dir", rest, boot->job_dir, sizeof(boot->job_dir), err);
    if (take_word(line, "cwd", &rest))
        return keep_path("cwd", rest, boot->cwd, sizeof(boot->cwd), err);
    if (strcmp(line, "guard on") == 0 || strcmp(line, "guard report") == 0) {
        boot->guard = line[6] == 'o' ? RG_GUARD_ON : RG_GUARD_REPORT;
        return 0;
    }
    if (take_word(line, "tracked", &rest)) {
        boot->tracked = true;
        return 0;
    }
    if (take_word(line, "announce", &rest))
        return keep("announce", rest, boot->announce, sizeof(boot->announce), err);
    if (take_word(line, "place", &rest))
        return keep("place", rest, boot->place, sizeof(boot->place), err);
    if (take_word(line, "link", &rest))
        return parse_link(rest, boot, err);
    return rg_error_set(err, EINVAL, "'%.40s' is no line of an agent's standard input", line);
}

int rg_agent_lines_parse(const char *text, struct rg_agent_lines *ret_boot, struct rg_error *err)
{
    struct rg_agent_lines boot = { .link_fd = -1, .link_write_fd = -1, .keeper_fd = -1 };
    char line[RG_AGENT_LINES_CWD_MAX + 32];
    int has = 0;

    while (*text && *text != '\n') {
        size_t length = strcspn(text, "\n");
        if (length >= sizeof(line))
            return rg_error_set(err, EINVAL, "a line of %zu characters on standard input", length);
        memcpy(line, text, length);
        line[length] = '\0';
        text += length + (text[length] == '\n');
        int r = parse_line(line, &boot, err);
        explicit_bzero(line, sizeof(line));
        if (r < 0)
            return r;
        has |= r;
    }
    if (has != HAS_ALL)
        return rg_error_set(err, EINVAL,
                            "standard input must bring the lines reigen-agent, job, key and link; "
                            "the agent is started by reigen, not by hand");
    *ret_boot = boot;
    explicit_bzero(boot.key, sizeof(boot.key));
    return 0;
}

int rg_agent_lines_read(int fd, struct rg_agent_lines *ret_boot, struct rg_error *err)
{
    char text[RG_AGENT_LINES_MAX + 1];
    size_t have = 0;
    int r = 0;

    for (;;) {
        if (have == RG_AGENT_LINES_MAX) {
            r = rg_error_set(err, EMSGSIZE, "more than %d bytes on standard input",
                             RG_AGENT_LINES_MAX);
            break;
        }
        ssize_t n = read(fd, text + have, RG_AGENT_LINES_MAX - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            r = rg_error_set(err, errno, "standard input: %s", strerror(errno));
        if (n <= 0)
            break;
        have += (size_t) n;
        text[have] = '\0';
        if (strstr(text, "\n\n"))
            break;
    }
    text[have] = '\0';
    if (r == 0 && have == 0)
        r = rg_error_set(err, EPIPE, "nothing on standard input; the agent is started by reigen");
    if (r == 0)
        r = rg_agent_lines_parse(text, ret_boot, err);
    explicit_bzero(text, sizeof(text));
    return r;
}
