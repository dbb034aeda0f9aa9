/* SPDX-License-Identifier: Apache-2.0 */
/* What ssh is told, and what a login shell of any kind is told by it: the agent must come to a host
 * that has nothing of ours, over one connection. */
#include <ctype.h>
#include <glob.h>
#include <pwd.h>
#include <string.h>
#include <strings.h>

#include "base/fd.h"
#include "platform/ssh/internal.h"

/* The host's cache directories, in the order in which they are tried. $u: the user's number. */
#define CACHES \
    "\"$HOME/.cache/reigen\" \"$XDG_RUNTIME_DIR/reigen\" /var/tmp/reigen-$u /tmp/reigen-$u"
/* Where anyone can put a link that leads to a directory of ours now, and to another one later. */
#define SHARED "/var/tmp/*|/tmp/*"

/* Ours come last: of an option that is given twice, ssh takes the first. */
static void add_options(const struct ssh *ssh, const char *user, struct rg_strv *argv)
{
    static const char *const always[] = {
        "BatchMode=yes",              /* there is nobody to ask */
        "ClearAllForwardings=yes",    /* ports that another session of the user may hold */
        "ControlMaster=no",           /* use a master's connection, but do not become one */
        "ForwardX11=no",
    };
    const struct rg_job *job = ssh->shared.o.job;

    for (size_t i = 0; i < job->ssh_options.count; i++) {
        if (job->ssh_options.v[i][0] != '-')
            rg_strv_add(argv, "-o");
        rg_strv_add(argv, job->ssh_options.v[i]);
    }
    if (job->ssh_port)
        rg_strv_addf(argv, "-p%d", job->ssh_port);
    if (job->ssh_identity)
        rg_strv_addf(argv, "-i%s", job->ssh_identity);
    if (user)
        rg_strv_addf(argv, "-l%s", user);
    for (size_t i = 0; i < rg_array_len(always); i++)
        rg_strv_addf(argv, "-o%s", always[i]);
    if (ssh->accepts_new)
        rg_strv_add(argv, "-oStrictHostKeyChecking=accept-new");
    if (ssh->forgets)
        rg_strv_add(argv, "-oUserKnownHostsFile=/dev/null");
    if (ssh->connect_s)
        rg_strv_addf(argv, "-oConnectTimeout=%d", ssh->connect_s);
}

static void add_ssh(const struct ssh *ssh, const char *user, struct rg_strv *argv)
{
    const char *program = getenv("REIGEN_SSH");

    rg_strv_add(argv, program && *program ? program : "ssh");
    rg_strv_add(argv, "-T");
    add_options(ssh, user, argv);
    rg_strv_add(argv, "--");
}

static void add_exec(const struct ssh *ssh, struct rg_strv *argv)
{
    rg_strv_add(argv, "/bin/sh");
    rg_strv_add(argv, "-c");
    rg_strv_add(argv, ssh->exec);
    rg_strv_add(argv, "kubectl-exec");
}

int ssh_command_make(const struct ssh *ssh, int host, struct rg_strv *argv)
{
    const struct rg_plan_host *there = &ssh->shared.o.plan->hosts[host];
    rg_autobuf struct rg_buf script = RG_BUF_INIT;

    if (ssh->exec)
        add_exec(ssh, argv);
    else
        add_ssh(ssh, there->user, argv);
    rg_strv_add(argv, there->name);
    ssh_command_bootstrap(ssh, &script);
    rg_strv_add(argv, rg_buf_text(&script));
    return rg_buf_status(&script) < 0 ? -ENOMEM : rg_strv_status(argv);
}

/* What we start there. */
static const char *what(const struct ssh *ssh)
{
    return ssh->shared.o.job->container.image ? "contain" : "agent";
}

void ssh_command_bootstrap(const struct ssh *ssh, struct rg_buf *text)
{
    rg_buf_printf(text, "exec sh -c '");
    rg_dialogue_put_machines(&ssh->shared, text);
    /* A directory that is not ours could change what is in it behind our back. */
    rg_buf_printf(text,
                  "u=${UID:-$(id -u)}; for d in " CACHES "; do f=$d/$k/reigen-agent; "
                  "case $d in " SHARED ") [ -L \"$d\" ] && continue;; esac; "
                  "[ -x \"$f\" ] && [ -O \"$d\" ] && [ -O \"$f\" ] && "
                  "\"$f\" version </dev/null >/dev/null 2>&1 && "
                  "echo reigen-boot ready && exec \"$f\" %s; done; "
                  "echo reigen-boot need agent $m; IFS= read -r s; eval \"$s\"'",
                  what(ssh));
}

void ssh_command_installer(const struct ssh *ssh, int host, struct rg_buf *text)
{
    /* What was read from the connection cannot be read again, so a directory must be known to have
     * room first. $e: why each directory would not do; $s: where the bytes are, once they came;
     * $t: a name that is ours alone, whatever other jobs and hosts do in the same directory now.
     * Every program that this starts costs 64 times as much with 64 hosts. */
    rg_buf_printf(text,
                  "umask 077; e=; s=; for d in " CACHES "; do "
                  "case $d in /reigen) continue;; " SHARED ") if [ -L \"$d\" ]; then "
                  "e=\"$e; $d is a link\"; continue; fi;; esac; t=$d/.new-%s-%d; "
                  "h=${d%%%%/.cache/*}; if ! [ -d \"$d\" ] && { { [ \"$h\" != \"$d\" ] && "
                  "! [ -d \"$h\" ]; } || ! mkdir -p \"$d\" 2>/dev/null; }; then "
                  "e=\"$e; $d cannot be made\"; continue; fi; "
                  "if ! [ -O \"$d\" ]; then e=\"$e; $d belongs to someone else\"; continue; fi; "
                  "if ! { true >\"$t\"; } 2>/dev/null; then "
                  "e=\"$e; $d cannot be written\"; continue; fi; "
                  "if ! head -c $n /dev/zero >\"$t\" 2>/dev/null && command -v head >/dev/null; "
                  "then e=\"$e; $d has no room (disk or quota)\"; rm -f \"$t\"; continue; fi; ",
                  ssh->shared.o.plan->job_id, host);
    rg_buf_printf(text,
                  "if [ -n \"$s\" ]; then mv \"$s\" \"$t\" 2>/dev/null || continue; else "
                  "if command -v head >/dev/null 2>&1; then head -c $n; else dd bs=1 count=$n "
                  "2>/dev/null; fi >\"$t\"; h=$(wc -c <\"$t\"); "
                  "if ! [ $h -eq $n ]; then rm -f \"$t\"; echo \"reigen-boot error 69 of the "
                  "agent, only $h of $n bytes came to $d: the connection broke, or its disk is "
                  "full\"; exit 69; fi; "
                  "fi; s=$t; chmod 700 \"$t\"; ");
    rg_buf_printf(text,
                  "h=$(\"$t\" install $k 2>&1 </dev/null) && { echo reigen-boot ready; "
                  "exec \"$d/$k/reigen-agent\" %s; }; "
                  "case $h in *ermission*|\"\") h=\"$d does not permit execution\";; esac; "
                  "e=\"$e; $h\"; done; [ -n \"$s\" ] && rm -f \"$s\"; "
                  "echo \"reigen-boot error 69 there is no place for the agent$e. One of them "
                  "must be writable and permit execution\"; exit 69\n",
                  what(ssh));
}

/* --- the user's configuration ----------------------------------------------------------------- */

/* What stands on ssh's command line wins over its files, so a default of ours may be said there
 * only if no file says otherwise; to ask `ssh -G` would cost a process for each host. */
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
