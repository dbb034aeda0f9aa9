/* SPDX-License-Identifier: Apache-2.0 */
/* The shell's text that finds or fetches reigen-agent. It is one line, as API v1 loses line breaks
 * and tabs; what it does stands in a command substitution, so that the command that follows finds
 * no functions, variables or modes of ours. */
#include "platform/openpai/jobfile/prologue.h"

#include <string.h>

#include "base/exitcode.h"
#include "base/str.h"
#include "platform/openpai/jobfile/pai_internal.h"

#define DIGEST_MARK "#sha256="
#define DIGEST_LENGTH 64
#define URL_KNOWN RG_PAI_WORD "-._~:/?#[]@!&()*+,;=%"
#define PATH_KNOWN RG_PAI_WORD "-._~/@+,=: "

#define WAYS "put it there, or name another way: --agent-url URL#sha256=HEX, --agent-path PATH"

/* What begins the substitution; what it says goes to standard error. */
#define BEGIN "AGENT=$(set +eux; say() { echo \"reigen: $*\" >&2; }; "
#define END ") || exit $?; "

/* runs FILE: whether it can be run here. */
#define RUNS "runs() { \"$1\" version >/dev/null 2>&1; }; "

/* sum FILE: its digest. */
static const char sum_text[] =
    "sum() { if command -v sha256sum >/dev/null 2>&1; then sha256sum <\"$1\" | cut -c1-64; "
    "else python3 -c 'import hashlib,sys; print(hashlib.sha256(open(sys.argv[1], \"rb\").read())"
    ".hexdigest())' \"$1\"; fi; }; ";

/* get FILE: fetch $url. 100: there is nothing to do it with; no program here ends so. wget's own
 * limit is the last resort: it is none for the whole, and some builds of busybox crash with it. */
static const char get_text[] =
    "get() { if command -v curl >/dev/null 2>&1; then "
    "curl -gfsSL --connect-timeout 15 --max-time 120 -o \"$1\" \"$url\" >&2; "
    "elif command -v wget >/dev/null 2>&1; then "
    "if command -v timeout >/dev/null 2>&1; then "
    "timeout 120 wget -q -t 1 -O \"$1\" \"$url\" >&2; "
    "else wget -q -t 1 -T 15 -O \"$1\" \"$url\" >&2; fi; "
    "elif command -v python3 >/dev/null 2>&1; then "
    "python3 -c 'import shutil,signal,sys,urllib.request as u; signal.alarm(120); "
    "shutil.copyfileobj(u.urlopen(sys.argv[2], timeout=15), open(sys.argv[1], \"wb\"))' "
    "\"$1\" \"$url\" >&2; "
    "else return 100; fi; }; ";

/* Where the image has the agent that is asked for, nothing is fetched. */
static const char own_text[] =
    "own=$(command -v reigen-agent 2>/dev/null); "
    "if [ -n \"$own\" ] && [ \"$(sum \"$own\")\" = \"$hex\" ] && runs \"$own\"; then "
    "echo \"$own\"; exit 0; fi; ";

/* Some directories are read-only, and from some nothing can be run. */
static const char fetch_text[] =
    "umask 077; file=; odd=; "
    "for at in \"${TMPDIR:-/tmp}\" /tmp /var/tmp /dev/shm \"${HOME:-/root}\" \"$PWD\"; do "
    "dir=$(mktemp -d \"$at/reigen.XXXXXX\" 2>/dev/null) || continue; "
    "if [ -z \"$file\" ]; then try=1; while :; do get \"$dir/reigen-agent\"; r=$?; "
    "[ $r -ne 0 ] || break; "
    "if [ $r -eq 100 ]; then say \"nothing in the image can fetch $url: install curl, wget or "
    "python3, or put reigen-agent into the image\"; rm -rf \"$dir\"; exit 69; fi; "
    "if [ $try -ge 3 ]; then say \"$url cannot be fetched (code $r after $try attempts): look "
    "whether this container reaches it\"; rm -rf \"$dir\"; exit 69; fi; "
    "sleep $((try * 2)); try=$((try + 1)); done; "
    "is=$(sum \"$dir/reigen-agent\"); "
    "if [ \"$is\" != \"$hex\" ]; then say \"$url has the sha256 ${is:-that cannot be computed}, "
    "and $hex is asked for: name the file's own digest, or look who has changed it\"; "
    "rm -rf \"$dir\"; exit 69; fi; "
    "else cp \"$file\" \"$dir/reigen-agent\" || { rm -rf \"$dir\"; continue; }; "
    "rm -rf \"$odd\"; fi; "
    "odd=$dir; file=$dir/reigen-agent; chmod 700 \"$file\"; "
    "if runs \"$file\"; then echo \"$file\"; exit 0; fi; done; "
    "rm -rf \"$odd\"; "
    "if [ -z \"$file\" ]; then say \"no directory can be written to, for reigen-agent: set TMPDIR "
    "to one\"; exit 69; fi; "
    "say \"what $url brings does not run here: is it the reigen-agent for $(uname -m)? Else set "
    "TMPDIR to a directory from which programs can run\"; exit 127";

static int refuse(struct rg_error *err, const char *what, const char *value, const char *rule)
{
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s %.200s: %s", what, value, rule);
}

static int check_url(const char *url, struct rg_error *err)
{
    const char *mark = strstr(url, DIGEST_MARK);
    const char *rest = strchr(url, ':');
    bool web = rg_str_starts(url, "https:") || rg_str_starts(url, "http:");

    if (!web || rest[1] != '/' || rest[2] != '/' || !rest[3] || rest + 3 == mark)
        return refuse(err, "--agent-url", url,
                      "write https://HOST/FILE" DIGEST_MARK "HEX, or http://");
    if (strlen(url) > RG_PAI_SOURCE_MAX || !rg_pai_is_of(url, URL_KNOWN))
        return refuse(err, "--agent-url", url,
                      "it has at most 1024 characters, none of them a blank, a quote, a dollar or "
                      "another that shells know; write them as %XX");
    if (!mark || strlen(mark + strlen(DIGEST_MARK)) != DIGEST_LENGTH ||
        !rg_pai_is_of(mark + strlen(DIGEST_MARK), RG_PAI_DIGITS "abcdef"))
        return refuse(err, "--agent-url", url,
                      "append " DIGEST_MARK " and the file's 64 small hexadecimal digits, which "
                      "sha256sum prints");
    return 0;
}

int rg_pai_agent_source_check(const struct rg_pai_agent_source *source, struct rg_error *err)
{
    const char *path = source->path;

    if (path && source->url)
        return refuse(err, "--agent-path", path, "--agent-url is said, too; take one out");
    if (source->url)
        return check_url(source->url, err);
    if (path && (*path != '/' || strlen(path) > RG_PAI_SOURCE_MAX ||
                 !rg_pai_is_of(path, PATH_KNOWN)))
        return refuse(err, "--agent-path", path,
                      "write the absolute path of reigen-agent in the containers, of letters, "
                      "digits, blanks and -._~/@+,=: only");
    return 0;
}

static void put_url(const char *url, struct rg_buf *text)
{
    const char *mark = strstr(url, DIGEST_MARK);

    rg_buf_printf(text, BEGIN "url='%.*s'; hex=%s; ", (int) (mark - url), url,
                  mark + strlen(DIGEST_MARK));
    rg_buf_printf(text, "%s%s%s%s%s%s", RUNS, sum_text, get_text, own_text, fetch_text,
                  END);
}

void rg_pai_agent_prologue(const struct rg_pai_agent_source *source, struct rg_buf *text)
{
    if (source->url) {
        put_url(source->url, text);
        return;
    }
    if (source->path)
        rg_buf_printf(text, BEGIN RUNS "file='%s'; [ -f \"$file\" ] || { say \"there is no $file "
                      "in this container: mount the storage that has it, or correct "
                      "--agent-path\"; exit 127; }; ", source->path);
    else
        rg_buf_printf(text, "%s", BEGIN RUNS "file=$(command -v reigen-agent 2>/dev/null) || { "
                      "say \"the image has no reigen-agent in PATH ($PATH): " WAYS "\"; "
                      "exit 127; }; ");
    rg_buf_printf(text, "%s", "runs \"$file\" || { say \"$file does not run here: is it the "
                  "reigen-agent for $(uname -m), may it be executed, and may programs run from "
                  "there?\"; exit 127; }; echo \"$file\"" END);
}
