/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that sleep first, in the hope that the other tasks are up by then: how they are found,
 * and what waits in the place of the sleep. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "platform/openpai/jobfile/pai_internal.h"
#include "platform/openpai/jobfile/prologue.h"

#define WAIT_S_MIN 300
#define WAIT_S_MAX 86400
#define LOOP_MARK "reigen_wait_s="
#define WAIT_WORKERS " wait-workers"

/* --- sleeps ----------------------------------------------------------------------------------- */

/* Behind the word sleep and the blanks that follow it; NULL: the command begins otherwise. */
static const char *behind_sleep(const char *command)
{
    const char *p = command + strspn(command, " \t\n");

    if (!rg_str_starts(p, "sleep") || !p[5] || !strchr(" \t", p[5]))
        return NULL;
    return p + 5 + strspn(p + 5, " \t");
}

static double seconds(const char *number, char unit)
{
    double n = strtod(number, NULL);

    return n * (unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86400 : 1);
}

bool rg_pai_hope_find(const char *command, bool more, bool is_head, struct rg_pai_hope *ret_hope)
{
    const char *number = behind_sleep(command);
    size_t n = number ? strspn(number, RG_PAI_DIGITS ".") : 0;

    if (!n)
        return false;
    const char *p = number + n;
    double s = seconds(number, *p);

    p += *p && strchr("smhd", *p) ? 1 : 0;
    const char *end = p;
    p += strspn(p, " \t");
    struct rg_pai_hope hope = { p + strspn(p, " \t\n"), (int) (end - number), number,
                                s < WAIT_S_MIN ? WAIT_S_MIN
                                               : s > WAIT_S_MAX ? WAIT_S_MAX : (int64_t) s, false };

    if (*hope.rest && rg_str_starts(p, "&&"))
        hope.rest = p + 2;
    else if (*hope.rest && (*p == ';' || *p == '\n'))
        hope.rest = p + 1;
    else if (*hope.rest)
        return false;
    hope.joined = rg_str_starts(p, "&&");
    hope.rest += strspn(hope.rest, " \t\n");
    if (!*hope.rest && (hope.joined || !more))
        return false;
    if (!hope.joined && !is_head)
        return false;
    *ret_hope = hope;
    return true;
}

bool rg_pai_hope_of(const struct rg_pai *job, size_t role, struct rg_pai_hope *ret_hope)
{
    const struct rg_strv *commands = &job->roles[role].commands;

    return rg_pai_hope_find(commands->v[0], commands->count > 1, role == rg_pai_head(job),
                            ret_hope);
}

bool rg_pai_sleeps_forever(const char *command)
{
    size_t n = strlen(command), begin;

    while (n && strchr(" \t\n;", command[n - 1]))
        n--;
    /* What stands before it, as the start of a service, ends. */
    for (begin = n; begin && !strchr(";&\n", command[begin - 1]);)
        begin--;
    const char *last = command + begin + strspn(command + begin, " \t\n");
    const char *number = behind_sleep(last);

    return (number && rg_str_starts(number, "inf")) || rg_str_starts(last, "tail -f /dev/null");
}

/* --- what waits ------------------------------------------------------------------------------- */

/* A loop of a POSIX shell: all other tasks are asked at once, in rounds, by ssh where the platform
 * has told it their names, else by their ports of ssh. It keeps its variables to itself. */
static const char loop_begin[] =
    "set +eux; say() { echo \"reigen: $*\" >&2; }; val() { printenv \"$1\" 2>/dev/null; }; "
    "end=$(($(date +%s) + reigen_wait_s)); left=; next=0; r=; "
    "me=${PAI_CURRENT_TASK_ROLE_NAME:-${PAI_TASK_ROLE_NAME:-}}-"
    "${PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX:-${PAI_TASK_ROLE_INDEX:-}}; "
    "for r in $(echo \"${PAI_TASK_ROLE_LIST:-${PAI_JOB_TASK_ROLE_LIST:-}}\" | tr , ' '); do "
    "n=$(val PAI_TASK_ROLE_TASK_COUNT_$r || val PAI_TASK_ROLE_${r}_HOST_LIST | tr , ' ' | wc -w); "
    "i=0; while [ $i -lt ${n:-0} ]; do [ $r-$i = \"$me\" ] || left=\"$left $r:$i\"; "
    "i=$((i + 1)); done; done; "
    "[ -n \"$r\" ] || { say \"PAI_TASK_ROLE_LIST is not set: is this a task of OpenPAI?\"; "
    "exit 69; }; "
    "t=; if command -v timeout >/dev/null 2>&1; then t='timeout 10'; fi; ";

static const char loop_up[] =
    "up() { if command -v ssh >/dev/null 2>&1 && grep -qsw \"Host $1-$2\" ~/.ssh/config "
    "/root/.ssh/config /etc/ssh/ssh_config; then "
    "$t ssh -n -o BatchMode=yes -o ConnectTimeout=5 \"$1-$2\" true >/dev/null 2>&1; return; fi; "
    "a=$(val PAI_HOST_IP_$1_$2); p=$(val PAI_PORT_LIST_$1_$2_ssh); p=${p%%,*}; "
    "[ -n \"$a\" ] && [ -n \"$p\" ] || return 1; "
    "if command -v bash >/dev/null 2>&1; then $t bash -c \": </dev/tcp/$a/$p\" 2>/dev/null; "
    "elif command -v python3 >/dev/null 2>&1; then $t python3 -c 'import socket,sys; "
    "socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)' \"$a\" \"$p\" 2>/dev/null; "
    "else nc -z -w 5 \"$a\" \"$p\" >/dev/null 2>&1; fi; }; ";

static const char loop_end[] =
    "while :; do left=$( { for x in $left; do { up \"${x%:*}\" \"${x##*:}\" || echo \"$x\"; } & "
    "done; wait; } | sort ); [ -n \"$left\" ] || exit 0; now=$(date +%s); "
    "[ $now -lt $end ] || { say \"no answer within $reigen_wait_s s from\" "
    "$(echo $left | tr : -)\": look at the logs of these tasks\"; exit 124; }; "
    "[ $now -lt $next ] || { say \"waiting for\" $(echo $left | tr : -); next=$((now + 30)); }; "
    "sleep 1; done)";

bool rg_pai_waits(const char *command)
{
    return strstr(command, LOOP_MARK) || strstr(command, WAIT_WORKERS);
}

static void put_wait(struct rg_buf *text, enum rg_pai_wait wait,
                     const struct rg_pai_agent_source *source, int64_t wait_s)
{
    switch (wait) {
    case RG_PAI_WAIT_REIGEN:
        rg_buf_printf(text, "reigen" WAIT_WORKERS);
        return;
    case RG_PAI_WAIT_AGENT:
        rg_pai_agent_prologue(source, text);
        rg_buf_printf(text, "\"$AGENT\"" WAIT_WORKERS);
        return;
    case RG_PAI_WAIT_SHELL:
        rg_buf_printf(text, "(" LOOP_MARK "%lld; %s%s%s", (long long) wait_s, loop_begin, loop_up,
                      loop_end);
        return;
    }
}

/* --- mending ---------------------------------------------------------------------------------- */

size_t rg_pai_head(const struct rg_pai *job)
{
    for (size_t i = 0; i < job->nroles; i++) {
        if (strcmp(job->roles[i].name, "master") == 0)
            return i;
    }
    return 0;
}

/* Whether the plugin takes a value for true (or false), which may be a text. */
static bool means(const json_t *value, bool truth)
{
    const char *text = json_string_value(value);

    return text ? strcasecmp(text, truth ? "true" : "false") == 0
                : truth ? json_is_true(value) : json_is_false(value);
}

static bool has_text(const json_t *list, const char *text)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) {
        if (strcmp(json_string_value(item) ?: "", text) == 0)
            return true;
    }
    return false;
}

/* Without gang allocation the platform turns the plugin's ssh off. */
bool rg_pai_has_barrier(const json_t *extras, const char *role)
{
    const json_t *item;
    size_t i;

    if (means(json_object_get(extras, "gangAllocation"), false))
        return false;
    json_array_foreach(json_object_get(extras, RG_PAI_PLUGINS), i, item) {
        const json_t *parameters = json_object_get(item, "parameters");
        const json_t *roles = json_object_get(item, "taskroles");
        if (strcmp(json_string_value(json_object_get(item, "plugin")) ?: "", "ssh") == 0 &&
            (!roles || has_text(roles, role)) &&
            means(json_object_get(parameters, "jobssh"), true) &&
            means(json_object_get(parameters, "sshbarrier"), true))
            return true;
    }
    return false;
}

/* A mending that is under way, of one role. */
struct mend {
    struct rg_pai *job;
    size_t role;
    enum rg_pai_wait wait;
    const struct rg_pai_agent_source *source;
    struct rg_strv *words;
};

/* What is to be read of role's first command, with the remark behind it. */
static void tell(const struct mend *m, const char *what, const char *remark)
{
    if (m->job->version == 1)
        rg_strv_addf(m->words, "taskRoles[%zu].command: %s%s", m->role, what, remark);
    else
        rg_strv_addf(m->words, "taskRoles.%.80s.commands[0]: %s%s", m->job->roles[m->role].name,
                     what, remark);
}

static const char *remark_of(enum rg_pai_wait wait)
{
    switch (wait) {
    case RG_PAI_WAIT_REIGEN:
        return "reigen wait-workers, which waits as long as needed; the image has to have reigen "
               "in PATH";
    case RG_PAI_WAIT_AGENT:
        return "reigen-agent's wait-workers, which waits as long as needed; the command gets the "
               "agent first";
    case RG_PAI_WAIT_SHELL:
        break;
    }
    return "a loop of a POSIX shell, which waits until the ssh of all tasks answers; where the "
           "image has no ssh, say --agent-url, --agent-path or --image-has-reigen, and reigen "
           "wait-workers waits instead";
}

/* wait-workers is for the one task that the others wait for; between equals only a loop fits. */
static enum rg_pai_wait fitting(const struct mend *m)
{
    bool leads = m->role == rg_pai_head(m->job) && m->job->roles[m->role].tasks == 1;

    return leads ? m->wait : RG_PAI_WAIT_SHELL;
}

static int replace_command(struct mend *m, struct rg_buf *text)
{
    struct rg_strv *commands = &m->job->roles[m->role].commands;
    char *line = rg_buf_status(text) < 0 ? NULL : strdup(rg_buf_text(text));

    if (!line)
        return -ENOMEM;
    free(commands->v[0]);
    commands->v[0] = line;
    return 0;
}

static int mend_sleep(struct mend *m, const struct rg_pai_hope *hope, bool barrier)
{
    struct rg_strv *commands = &m->job->roles[m->role].commands;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char what[64];

    snprintf(what, sizeof what, "sleep %.*s ", hope->length < 40 ? hope->length : 40, hope->number);
    if (barrier) {
        tell(m, what, "is taken out: the ssh plugin's sshbarrier waits for the tasks");
        rg_buf_printf(&text, "%s", hope->rest);
        if (*hope->rest)
            return replace_command(m, &text);
        free(commands->v[0]);
        commands->count--;
        memmove(commands->v, commands->v + 1, (commands->count + 1) * sizeof *commands->v);
        return 0;
    }
    enum rg_pai_wait wait = fitting(m);

    strcat(what, "becomes ");
    tell(m, what, remark_of(wait));
    put_wait(&text, wait, m->source, hope->wait_s);
    if (hope->joined)
        rg_buf_printf(&text, " && %s", hope->rest);
    else
        rg_buf_printf(&text, " || exit $?%s%s", *hope->rest ? "; " : "", hope->rest);
    return replace_command(m, &text);
}

/* What sshbarrier did before the commands of all roles, the head's command does in API v1. */
static int mend_barrier(struct mend *m)
{
    const struct rg_pai_role *role = &m->job->roles[m->role];
    const char *command = role->commands.v[0];
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    enum rg_pai_wait wait = fitting(m);

    if (rg_pai_waits(command) || rg_pai_sleeps_forever(command))
        return 0;
    tell(m, "in the place of sshbarrier it begins with ", remark_of(wait));
    put_wait(&text, wait, m->source, WAIT_S_MIN);
    rg_buf_printf(&text, " || exit $?; %s", command);
    return replace_command(m, &text);
}

/* The ssh plugin that converting has added waits for the tasks in the place of all sleeps, where no
 * command waits by itself. */
static int raise_barrier(const struct rg_pai *from, struct rg_pai *job, struct rg_strv *words)
{
    json_t *plugin = json_array_get(json_object_get(job->extras, RG_PAI_PLUGINS), 0);
    json_t *parameters = json_object_get(plugin, "parameters");
    int64_t minutes = 0;

    if (from->version != 1 || job->version != 2 || json_object_get(from->extras, RG_PAI_PLUGINS))
        return 0;
    for (size_t i = 0; i < job->nroles; i++) {
        struct rg_pai_hope hope;
        if (rg_pai_waits(job->roles[i].commands.v[0]))
            return 0;
        if (rg_pai_hope_of(job, i, &hope) && (hope.wait_s + 59) / 60 > minutes)
            minutes = (hope.wait_s + 59) / 60;
    }
    if (!minutes || !parameters)
        return 0;
    minutes = minutes > RG_PAI_BARRIER_MINUTES ? minutes : RG_PAI_BARRIER_MINUTES;
    rg_strv_addf(words, "extras: sshbarrier is true, so that the plugin waits for the tasks, for "
                 "%lld minutes at most (sshbarrierTimeout)", (long long) minutes);
    return json_object_set_new(parameters, "sshbarrier", json_true()) < 0 ||
                   json_object_set_new(parameters, "sshbarrierTimeout", json_integer(minutes)) < 0
               ? -ENOMEM : 0;
}

int rg_pai_mend_waits(const struct rg_pai *from, struct rg_pai *job, enum rg_pai_wait wait,
                      const struct rg_pai_agent_source *source, struct rg_strv *words)
{
    size_t head = rg_pai_head(job);
    bool mended = false;
    int r = wait == RG_PAI_WAIT_SHELL ? raise_barrier(from, job, words) : 0;

    for (size_t i = 0; r == 0 && i < job->nroles; i++) {
        struct mend m = { job, i, wait, source, words };
        struct rg_pai_hope hope;
        bool barrier = job->version == 2 && wait == RG_PAI_WAIT_SHELL &&
                       rg_pai_has_barrier(job->extras, job->roles[i].name);
        if (!rg_pai_hope_of(job, i, &hope))
            continue;
        r = mend_sleep(&m, &hope, barrier);
        mended |= i == head;
    }
    if (r == 0 && !mended && job->version == 1 && from->version == 2 &&
        rg_pai_has_barrier(from->extras, from->roles[head].name)) {
        struct mend m = { job, head, wait, source, words };
        r = mend_barrier(&m);
    }
    return r < 0 ? r : rg_strv_status(words);
}
