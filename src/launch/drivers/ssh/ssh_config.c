/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the user's ssh configuration speaks of something. What stands on ssh's command line wins
 * over its files, so a default of ours may be said there only if no file says otherwise; to ask
 * `ssh -G` would cost a process for each host. */
#include <ctype.h>
#include <glob.h>
#include <pwd.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"
#include "launch/drivers/ssh/ssh_internal.h"

#define DEPTH_MAX 16 /* as ssh's own */
#define FILE_MAX_NBYTES (1u << 20)
#define SYSTEM_DIR "/etc/ssh"

static bool file_says(const char *path, const char *keyword, const char *dir, const char *home,
                      int depth);

/* One name of an Include line: a pattern, relative to where the configuration lies. */
static bool pattern_says(const char *pattern, const char *keyword, const char *dir,
                         const char *home, int depth)
{
    rg_autofree char *path = rg_str_starts(pattern, "~/") ? rg_strf("%s%s", home, pattern + 1)
                             : *pattern == '/'            ? strdup(pattern)
                                                          : rg_strf("%s/%s", dir, pattern);
    glob_t found = { 0 };
    bool says = false;

    if (path && glob(path, 0, NULL, &found) == 0) {
        for (size_t i = 0; !says && i < found.gl_pathc; i++)
            says = file_says(found.gl_pathv[i], keyword, dir, home, depth + 1);
    }
    globfree(&found);
    return says;
}

static bool line_says(char *line, const char *keyword, const char *dir, const char *home, int depth)
{
    static const char between[] = " \t=\"";
    bool says = false;
    char *rest = NULL, *word = strtok_r(line, between, &rest);

    if (!word || *word == '#')
        return false;
    if (strcasecmp(word, keyword) == 0)
        return true;
    if (strcasecmp(word, "Include") != 0)
        return false;
    while (!says && (word = strtok_r(NULL, between, &rest)))
        says = pattern_says(word, keyword, dir, home, depth);
    return says;
}

static bool file_says(const char *path, const char *keyword, const char *dir, const char *home,
                      int depth)
{
    rg_autofree char *text = NULL;
    bool says = false;

    if (depth > DEPTH_MAX || rg_read_file(path, FILE_MAX_NBYTES, &text, NULL) < 0)
        return false;
    for (char *line, *rest = text; !says && (line = strsep(&rest, "\r\n"));)
        says = line_says(line, keyword, dir, home, depth);
    return says;
}

/* The file of -F, or NULL. */
static const char *file_of(const struct rg_strv *options)
{
    const char *file = NULL;

    for (size_t i = 0; i < options->count; i++) {
        if (rg_str_starts(options->v[i], "-F"))
            file = options->v[i][2] ? options->v[i] + 2
                                    : i + 1 < options->count ? options->v[i + 1] : "none";
    }
    return file;
}

static bool options_say(const struct rg_strv *options, const char *keyword)
{
    size_t n = strlen(keyword);

    for (size_t i = 0; i < options->count; i++) {
        const char *word = options->v[i];
        word += rg_str_starts(word, "-o") ? 2 : 0;
        word += strspn(word, " ");
        if (strncasecmp(word, keyword, n) == 0 && !isalnum((unsigned char) word[n]))
            return true;
    }
    return false;
}

bool ssh_config_says(const struct rg_strv *options, const char *keyword)
{
    const struct passwd *user = getpwuid(getuid()); /* ssh looks there, and not at $HOME */
    const char *home = user && user->pw_dir ? user->pw_dir : "/", *file = file_of(options);
    rg_autofree char *dir = rg_strf("%s/.ssh", home), *own = rg_strf("%s/.ssh/config", home);

    if (options_say(options, keyword))
        return true;
    if (file || !dir || !own)
        return file && strcmp(file, "none") != 0 && file_says(file, keyword, dir ? dir : "/", home,
                                                              0);
    return file_says(own, keyword, dir, home, 0) ||
           file_says(SYSTEM_DIR "/ssh_config", keyword, SYSTEM_DIR, home, 0);
}
