/* SPDX-License-Identifier: Apache-2.0 */
/* `reigen plan`: what would become of a job, before anything of it is made. Where the job's head
 * would be here, that is what --dry-run prints; of ranks on this computer a sentence says it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/process/spawn.h"
#include "base/say.h"
#include "head/console/command.h"
#include "head/console/exit.h"
#include "head/console/json.h"
#include "head/console/terminal.h"
#include "head/console/words.h"
#include "cmd/run/away.h"
#include "cmd/run/dryrun.h"
#include "cmd/run/run.h"
#include "head/head.h"
#include "head/show/events.h"
#include "platform/drivers.h"
#include "launch/host/outlook.h"

#define SCHEMA 1
#define LEFT 21       /* where the text of a check begins */
#define NODES_MAX 10  /* that have a line of their own: it is to be one screen */
#define OTHERS_WIDTH 21 /* of a node's line, but for its name and why */
#define WHY_MIN 20
#define REASONS_MAX 5 /* of the others */

static int exit_code_of(const struct rg_outlook *outlook)
{
    const struct rg_outlook_check *worst = rg_outlook_worst(outlook);

    if (worst && worst->level == RG_OUTLOOK_REFUSED)
        return worst->exit_code;
    return worst && worst->level == RG_OUTLOOK_WAITS ? RG_EXIT_PREEMPTED : 0;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *list_checks(const struct rg_outlook *outlook)
{
    json_t *list = json_array();

    for (size_t i = 0; i < outlook->nchecks; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "check", outlook->checks[i].about,
                                              "level",
                                              rg_outlook_level_name(outlook->checks[i].level),
                                              "text", rg_json_text(outlook->checks[i].text)));
    return list;
}

static json_t *list_nodes(const struct rg_outlook *outlook)
{
    json_t *list = json_array();

    for (size_t i = 0; i < outlook->nnodes; i++)
        json_array_append_new(list, json_pack("{s:o, s:i, s:i, s:o}", "name",
                                              rg_json_text(outlook->nodes[i].name), "pods",
                                              outlook->nodes[i].nnow, "pods_if_empty",
                                              outlook->nodes[i].nempty, "why",
                                              rg_json_text(outlook->nodes[i].why)));
    return list;
}

static void print_json(const struct rg_outlook *outlook, const struct rg_planned *planned,
                       struct rg_buf *text)
{
    const struct rg_outlook_check *worst = rg_outlook_worst(outlook);

    rg_json_put(text, json_pack("{s:i, s:s, s:i, s:o, s:i, s:i, s:o, s:o}", "schema", SCHEMA,
                                "outlook",
                                worst ? rg_outlook_level_name(worst->level) : "unknown",
                                "exit_code", exit_code_of(outlook), "place",
                                rg_json_text(outlook->place), "pods", planned->plan.nhosts,
                                "ranks", planned->plan.np, "checks", list_checks(outlook), "nodes",
                                list_nodes(outlook)), JSON_INDENT(2));
}

/* --- for people ------------------------------------------------------------------------------- */

static void put_head(const struct rg_outlook *outlook, const struct rg_planned *planned,
                     int columns, struct rg_buf *text)
{
    static const char *const says[] = {
        [RG_OUTLOOK_OK] = "it would start now",
        [RG_OUTLOOK_UNKNOWN] = "nothing is seen that stands in its way, but not all could be seen",
        [RG_OUTLOOK_WAITS] = "it would have to wait",
        [RG_OUTLOOK_REFUSED] = "it would not start",
    };
    const struct rg_outlook_check *worst = rg_outlook_worst(outlook);
    int npods = planned->plan.nhosts, nranks = planned->plan.np;
    rg_autofree char *line =
        rg_strf("%d rank%s in %d pod%s, %s: %s", nranks, nranks == 1 ? "" : "s", npods,
                npods == 1 ? "" : "s", outlook->place,
                says[worst ? worst->level : RG_OUTLOOK_UNKNOWN]);

    rg_wrap(text, line ? line : "", 0, columns);
}

static void put_check(const struct rg_outlook_check *check, bool colour, int columns,
                      struct rg_buf *text)
{
    static const char *const colours[] = { "\033[32m", "\033[33m", "\033[33m", "\033[1;31m" };
    rg_autobuf struct rg_buf body = RG_BUF_INIT;

    rg_buf_printf(text, "  ");
    if (colour)
        rg_buf_put(text, colours[check->level], strlen(colours[check->level]));
    rg_shown_printf(text, "%-7s", rg_outlook_level_name(check->level));
    rg_buf_printf(text, colour ? "\033[0m" : "");
    rg_shown_printf(text, "  %-*s ", LEFT - 12, check->about);
    rg_wrap(&body, check->text, LEFT, columns);
    const char *said = rg_buf_text(&body);
    rg_shown_printf(text, "%s", strlen(said) > LEFT ? said + LEFT : "\n");
}

/* Nodes that have no line, by their reasons. */
static void put_other_nodes(const struct rg_outlook *outlook, size_t first, int width,
                            struct rg_buf *text)
{
    size_t nleft = outlook->nnodes - first;
    int ntold = 0;

    for (size_t i = first; i < outlook->nnodes && ntold < REASONS_MAX; i++) {
        size_t nsame = 0;
        bool told = false;
        for (size_t k = first; k < outlook->nnodes; k++) {
            bool same = strcmp(outlook->nodes[k].why, outlook->nodes[i].why) == 0;
            told |= same && k < i;
            nsame += same;
        }
        if (told)
            continue;
        rg_shown_printf(text, "  and %zu more node%s: ", nsame, nsame == 1 ? "" : "s");
        rg_put_cut(text, *outlook->nodes[i].why ? outlook->nodes[i].why : "like those", width, 0);
        rg_buf_printf(text, "\n");
        nleft -= nsame;
        ntold++;
    }
    if (nleft)
        rg_buf_printf(text, "  and %zu more nodes, for other reasons\n", nleft);
}

static void put_nodes(const struct rg_outlook *outlook, int columns, struct rg_buf *text)
{
    size_t nlines = outlook->nnodes <= NODES_MAX ? outlook->nnodes : NODES_MAX - REASONS_MAX;
    int width = 4;

    if (!outlook->nnodes)
        return;
    for (size_t i = 0; i < nlines; i++)
        width = rg_width(outlook->nodes[i].name) > width ? rg_width(outlook->nodes[i].name) : width;
    rg_shown_printf(text, "\n  %-*s  TAKES  IF EMPTY  WHY NOT MORE\n", width, "NODE");
    for (size_t i = 0; i < nlines; i++) {
        const struct rg_outlook_node *node = &outlook->nodes[i];
        int left = columns - width - OTHERS_WIDTH;
        rg_shown_printf(text, "  %-*s  %5d  %8d%s", width, node->name, node->nnow, node->nempty,
                        *node->why ? "  " : "");
        rg_put_cut(text, node->why, left > WHY_MIN ? left : WHY_MIN, 0);
        rg_buf_printf(text, "\n");
    }
    put_other_nodes(outlook, nlines, columns - 24, text);
}

static void print_screen(const struct rg_outlook *outlook, const struct rg_planned *planned,
                         struct rg_buf *text)
{
    int columns = rg_terminal_columns(1);

    put_head(outlook, planned, columns, text);
    for (size_t i = 0; i < outlook->nchecks; i++)
        put_check(&outlook->checks[i], rg_terminal_colour(1), columns, text);
    put_nodes(outlook, columns, text);
}

/* --- the command ------------------------------------------------------------------------------ */

static int look_ahead(struct rg_request *request, const struct rg_driver_ops *driver)
{
    rg_cleanup(rg_outlook_fini) struct rg_outlook outlook = { .place = NULL };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    RG_AUTO_PLANNED struct rg_planned planned;
    struct rg_error err = RG_ERROR_INIT;
    bool json = request->job.json;

    rg_run_take(request, &planned);
    planned.job.json = false;
    int r = rg_away_plan(driver, request, &planned, &err);
    if (r == 0)
        r = driver->away->outlook(&planned, &outlook, &err);
    if (r < 0)
        return rg_fail(&err, "plan");
    if (json)
        print_json(&outlook, &planned, &text);
    else
        print_screen(&outlook, &planned, &text);
    int code = rg_print_exact(rg_buf_text(&text));
    return code ? code : exit_code_of(&outlook);
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Whether ranks would find it, by their own directory and PATH. */
static bool is_there(const struct rg_job *job, const char *command)
{
    const char *path = getenv("PATH");
    char found[PATH_MAX];

    for (size_t i = 0; i < job->env.count; i++)
        if (strncmp(job->env.v[i], "PATH=", 5) == 0)
            path = job->env.v[i] + 5;
    if (!strchr(command, '/'))
        return rg_path_find(path, command, strlen(command), found);
    if (*command == '/' || !job->cwd)
        snprintf(found, sizeof(found), "%s", command);
    else
        snprintf(found, sizeof(found), "%s/%s", job->cwd, command);
    return is_program(found);
}

/* What a script says is no answer to who asks whether the job would start. */
static int say_here(void *arg, const struct rg_planned *planned, bool here, struct rg_error *err)
{
    const char *command = planned->job.command.count ? planned->job.command.v[0] : "";
    int nranks = planned->plan.nranks;
    bool found = is_there(&planned->job, command);
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) arg;
    if (planned->job.json)
        rg_event_plan(&text, "plan", &planned->job, &planned->plan);
    else if (!rg_dryrun_is_script(&planned->plan, &planned->job, here)) {
        int r = rg_dryrun_print(&planned->plan, &planned->job, here, &text, err);
        if (r < 0)
            return r;
    } else if (!found) {
        return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                                 "it would not start: %s is not %s", command,
                                 strchr(command, '/') ? "a program" : "found in PATH");
    } else {
        rg_shown_printf(&text, "%d rank%s on this computer: %s would start now. "
                               "reigen run --dry-run prints a script of %s.\n", nranks,
                        nranks == 1 ? "" : "s", nranks == 1 ? "it" : "they",
                        nranks == 1 ? "it" : "them");
    }
    return rg_print_exact(rg_buf_text(&text));
}

static int plan_here(struct rg_request *request, bool stdin_open)
{
    RG_AUTO_PLANNED struct rg_planned planned;

    rg_run_take(request, &planned);
    return rg_head_run(&planned, &(struct rg_head_as){
        .command = "plan", .stdin_open = stdin_open, .instead = say_here });
}

int rg_cmd_plan(int argc, char **argv)
{
    rg_cleanup(rg_request_fini) struct rg_request request;
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    rg_request_init(&request);
    request.configured = true;
    if (rg_run_parse(&request, argc, argv, &err) < 0)
        return rg_fail(&err, "plan");
    if (request.help)
        return RG_COMMAND_HELP;
    const struct rg_driver_ops *driver = rg_driver_choose(&request.job);
    if (driver->away && driver->away->outlook)
        return look_ahead(&request, driver);
    request.job.dry_run = true;
    if (driver->platform.here)
        return plan_here(&request, open[0]);
    return rg_run_request(&request, "plan", false, open[0]);
}
