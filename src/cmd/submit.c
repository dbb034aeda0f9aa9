/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that Slurm runs when it can: reigen logs, reigen status, and their reigen stop. */
#include "cmd/submit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/time.h"
#include "cmd/commands.h"
#include "cmd/exit.h"
#include "launch/drivers/slurm.h"
#include "launch/exitcode.h"

#define LOOK_MS 1000     /* between looks at the queue */
#define READ_MS 200      /* between looks at the log */
#define STOP_MS 60000    /* KillWait is 30 s by default */
#define STATE_MAX 512

/* --- submission ------------------------------------------------------------------------------- */

int rg_submit(const struct rg_request *request, char **argv)
{
    struct rg_error err = RG_ERROR_INIT;
    char id[RG_SLURM_ID_MAX];

    if (rg_slurm_submit(&request->job, argv, id, &err) < 0)
        return rg_fail(&err, "run");
    if (!request->quiet)
        fprintf(stderr, "reigen: submitted as job %s; reigen logs -f %s shows its output\n", id,
                id);
    return printf("%s\n", id) < 0 || fflush(stdout) != 0 ? RG_EXIT_OUTPUT_LOST : 0;
}

/* --- what Slurm says -------------------------------------------------------------------------- */

/* "RUNNING|None|node[1-2]|0:10"; false: it is not in the queue any more. */
static bool look(const char *id, char text[STATE_MAX])
{
    char job[RG_SLURM_ID_MAX + 8];
    char *argv[] = { (char *) "squeue", (char *) "--noheader", job,
                     (char *) "--format=%T|%r|%N|%M", NULL };

    snprintf(job, sizeof(job), "--jobs=%s", id);
    if (rg_slurm_ask(argv, text, STATE_MAX) < 0) {
        strcpy(text, "UNKNOWN|squeue does not answer||");
        return true;
    }
    text[strcspn(text, "\n")] = '\0';
    return strchr(text, '|') != NULL;
}

static int find(const char *command, const char *id, struct rg_slurm_record *ret_record)
{
    int r = rg_slurm_record_read(id, ret_record);

    if (r == 0)
        return 0;
    return rg_fail_usage(command, "%s %s: no such job; it takes the number that reigen run "
                         "--submit has printed", command, id);
}

/* --- status ----------------------------------------------------------------------------------- */

int rg_cmd_status(int argc, char **argv)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record record = { .exit_code = -1 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char state[STATE_MAX];

    if (argc != 2)
        return rg_fail_usage("status", "status: give a job's number");
    int code = find("status", argv[1], &record);
    if (code)
        return code;
    if (look(argv[1], state)) {
        char *rest = state, *word = strsep(&rest, "|"), *reason = strsep(&rest, "|"),
             *nodes = strsep(&rest, "|"), *since = rest;
        bool pending = nodes && !*nodes;
        rg_buf_printf(&text, "job %s: %s %s%s%s%s\n", argv[1], word, pending ? "" : "on ",
                      pending ? reason : nodes, pending ? "" : " for ", pending ? "" : since);
    } else if (record.exit_code >= 0) {
        rg_buf_printf(&text, "job %s: ended with exit code %d\n", argv[1], record.exit_code);
    } else {
        rg_buf_printf(&text, "job %s: ended by Slurm before it could say how\n", argv[1]);
    }
    rg_buf_printf(&text, "  %s\n  output: %s\n", record.command, record.log);
    return rg_print(rg_buf_text(&text));
}

/* --- logs ------------------------------------------------------------------------------------- */

/* What is new in the file; it may not be there yet. 0 or -errno of writing. */
static int copy_new(const char *path, int *fd)
{
    char bytes[16384];
    ssize_t n;

    if (*fd < 0)
        *fd = open(path, O_RDONLY | O_CLOEXEC);
    while (*fd >= 0 && (n = read(*fd, bytes, sizeof(bytes))) > 0) {
        int r = rg_write_all(1, bytes, (size_t) n);
        if (r < 0)
            return r;
    }
    return 0;
}

static int follow(const char *id, const char *path, int *fd)
{
    char state[STATE_MAX];
    uint64_t next_ns = 0;
    int r;

    do {
        if (next_ns)
            rg_sleep_ms(READ_MS);
        if ((r = copy_new(path, fd)) < 0)
            return r;
        if (rg_now_ns() < next_ns)
            continue;
        next_ns = rg_now_ns() + LOOK_MS * RG_NS_PER_MS;
        if (!look(id, state))
            return copy_new(path, fd);
    } while (true);
}

int rg_cmd_logs(int argc, char **argv)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record record = { .exit_code = -1 };
    bool keep = argc == 3 && (strcmp(argv[1], "-f") == 0 || strcmp(argv[1], "--follow") == 0);
    rg_autoclose int fd = -1;

    if (argc != 2 + keep)
        return rg_fail_usage("logs", "logs: give a job's number, after -f to follow its output");
    int code = find("logs", argv[1 + keep], &record);
    if (code)
        return code;
    int r = keep ? follow(argv[2], record.log, &fd) : copy_new(record.log, &fd);
    if (r == 0)
        return 0;
    return rg_fail(&(struct rg_error){ -r, RG_EXIT_OUTPUT_LOST, "standard output was lost" },
                   "logs");
}

/* --- stop ------------------------------------------------------------------------------------- */

bool rg_submitted(const char *id)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record record = { .exit_code = -1 };

    return rg_slurm_record_read(id, &record) == 0;
}

int rg_submitted_stop(const char *id)
{
    char *argv[] = { (char *) "scancel", (char *) id, NULL };
    char text[STATE_MAX];
    uint64_t deadline_ns = rg_now_ns() + STOP_MS * RG_NS_PER_MS;
    int r = rg_slurm_ask(argv, text, sizeof(text));

    while (r == 0 && look(id, text) && rg_now_ns() < deadline_ns)
        rg_sleep_ms(READ_MS);
    if (r == 0)
        return 0;
    struct rg_error err = RG_ERROR_INIT;
    rg_error_set_exit(&err, -r, RG_EXIT_UNAVAILABLE, "job %s: scancel: %s", id, strerror(-r));
    return rg_fail(&err, "stop");
}
