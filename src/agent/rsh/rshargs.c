/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that call ssh give it options that mean nothing here, and they must not be taken for
 * the host or the command. */
#include "agent/rsh/rshargs.h"

#include <string.h>

#include "base/buf.h"

/* As in ssh's manual. */
static const char flags[] = "1246aACgfkKMnqtTvxXyY";
static const char with_value[] = "BbcDEeFIiJLlmOoPpQRSWw";
static const char refused[] = "DLNORQWwGs"; /* forward, multiplex or ask instead of running */

void rg_rsh_args_fini(struct rg_rsh_args *args)
{
    free(args->user);
    free(args->command);
    *args = (struct rg_rsh_args) RG_RSH_ARGS_INIT;
}

static int set_user(struct rg_rsh_args *args, const char *user, size_t length)
{
    free(args->user);
    args->user = strndup(user, length);
    return args->user ? 0 : -ENOMEM;
}

/* One argument of flags, perhaps with a value at its end or in the next argument. Returns how many
 * arguments were used, or -errno. */
static int take_options(char *const *argv, struct rg_rsh_args *args, struct rg_error *err)
{
    for (const char *p = argv[0] + 1; *p; p++) {
        if (strchr(refused, *p))
            return rg_error_set(err, EINVAL, "-%c: reigen rsh runs commands and does nothing else "
                                "of what ssh can do; use ssh itself for that", *p);
        if (strchr(with_value, *p)) {
            const char *value = p[1] ? p + 1 : argv[1];
            if (!value)
                return rg_error_set(err, EINVAL, "-%c needs a value", *p);
            if (*p == 'l' && set_user(args, value, strlen(value)) < 0)
                return -ENOMEM;
            return p[1] ? 1 : 2;
        }
        if (*p != 'V' && !strchr(flags, *p))
            return rg_error_set(err, EINVAL, "-%c is no option of ssh", *p);
        args->version |= *p == 'V';
        args->no_input |= *p == 'n' || *p == 'f';
        args->background |= *p == 'f';
    }
    return 1;
}

/* Options up to the first word that is none. *ret_end: "--" came, so nothing behind is one. */
static int skip_options(char *const *argv, struct rg_rsh_args *args, bool *ret_end,
                        struct rg_error *err)
{
    int i = 0;

    while (argv[i] && argv[i][0] == '-' && argv[i][1]) {
        if (strcmp(argv[i], "--") == 0) {
            *ret_end = true;
            return i + 1;
        }
        int r = take_options(argv + i, args, err);
        if (r < 0)
            return r;
        i += r;
    }
    return i;
}

static int take_host(const char *text, struct rg_rsh_args *args, struct rg_error *err)
{
    const char *at = strrchr(text, '@');

    args->host = at ? at + 1 : text;
    if (!*args->host)
        return rg_error_set(err, EINVAL, "'%.60s' names no host", text);
    return at ? set_user(args, text, (size_t) (at - text)) : 0;
}

static int join(char *const *words, char **ret_text)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (int i = 0; words[i]; i++)
        rg_buf_printf(&text, "%s%s", i ? " " : "", words[i]);
    *ret_text = strdup(rg_buf_text(&text));
    return *ret_text && rg_buf_status(&text) == 0 ? 0 : -ENOMEM;
}

static int parse(char *const *argv, struct rg_rsh_args *args, struct rg_error *err)
{
    bool end = false;
    int r = skip_options(argv, args, &end, err);

    if (r < 0 || args->version)
        return r;
    argv += r;
    if (!argv[0])
        return rg_error_set(err, EINVAL, "no host; write: reigen rsh HOST COMMAND");
    r = take_host(argv[0], args, err);
    argv++;
    if (r == 0 && !end) {
        r = skip_options(argv, args, &end, err);
        argv += r > 0 ? r : 0;
    }
    return r < 0 ? r : join(argv, &args->command);
}

int rg_rsh_parse(int argc, char *const *argv, struct rg_rsh_args *ret_args, struct rg_error *err)
{
    struct rg_rsh_args args = RG_RSH_ARGS_INIT;
    int r = parse(argv + (argc > 0), &args, err);

    if (r < 0) {
        rg_rsh_args_fini(&args);
        return r == -ENOMEM ? rg_error_set(err, ENOMEM, "no memory") : r;
    }
    *ret_args = args;
    return 0;
}

/* --- without a shell -------------------------------------------------------------------------- */

/* One character outside quotes, from *p on, or a quoted part, into word. 0 or -EINVAL. */
static int take_part(const char **p, struct rg_buf *word)
{
    const char *text = *p;
    char quote = *text;

    if (quote == '\'' || quote == '"') {
        for (text++; *text != quote; text++) {
            if (!*text || (quote == '"' && strchr("$`", *text)))
                return -EINVAL;
            if (quote == '"' && *text == '\\' && text[1] && strchr("\"\\$`", text[1]))
                text++;
            rg_buf_put_u8(word, (uint8_t) *text);
        }
    } else if (quote == '\\') {
        if (!*++text || *text == '\n')
            return -EINVAL;
        rg_buf_put_u8(word, (uint8_t) *text);
    } else if (strchr("|&;<>()$`*?[]#~{}!\n", quote)) {
        return -EINVAL;
    } else {
        rg_buf_put_u8(word, (uint8_t) quote);
    }
    *p = text + 1;
    return 0;
}

static int take_word(const char **p, struct rg_strv *words)
{
    rg_autobuf struct rg_buf word = RG_BUF_INIT;
    bool quoted = false;

    while (**p && !strchr(" \t", **p)) {
        quoted |= strchr("'\"\\", **p) != NULL;
        int r = take_part(p, &word);
        if (r < 0)
            return r;
    }
    /* A shell would make a variable of the first one. */
    if (!words->count && !quoted && strchr(rg_buf_text(&word), '='))
        return -EINVAL;
    const char *text = rg_buf_text(&word);
    return rg_buf_status(&word) < 0 ? -ENOMEM : rg_strv_add(words, text);
}

int rg_rsh_split(const char *command, struct rg_strv *ret_words)
{
    struct rg_strv words = RG_STRV_INIT;
    int r = 0;

    for (const char *p = command + strspn(command, " \t"); r == 0 && *p; p += strspn(p, " \t"))
        r = take_word(&p, &words);
    if (r == 0 && !words.count)
        r = -EINVAL;
    if (r < 0) {
        rg_strv_fini(&words);
        return r;
    }
    *ret_words = words;
    return 0;
}
