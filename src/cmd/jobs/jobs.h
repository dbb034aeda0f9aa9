/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `reigen jobs`, `status`, `logs` and `stop` share: the jobs of a user, whichever way they
 * were started (launch/jobs/registry.h), and those that were submitted (launch/jobs/submitted.h).
 *
 *   command.c     the commands jobs and status
 *   find.c        which job is meant
 *   drain.c       the command drain
 *   elastic.c     what the launcher of an elastic job says of it
 *   jobs_print.c  tables, lines and JSON
 *   jobs_logs.c   the command logs
 *   jobs_tags.c   lines of a log that the job itself keeps
 *   attach.c      the command attach
 *   beside.c      the way to a head that is an agent elsewhere (beside.h)
 *   fetch.c       the record of such a job (fetch.h)
 *   copy.c        the folder that this comes into
 *   stop.c        the command stop; what killed launchers and agents have left
 *
 * Thread rule: main thread. Reads files; with submitted jobs, asks their driver.
 */
#ifndef RG_CMD_JOBS_JOBS_H
#define RG_CMD_JOBS_JOBS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "platform/drivers.h"
#include "launch/jobs/registry.h"
#include "launch/jobs/submitted.h"

enum rg_jobs_column {
    RG_JOBS_ID,
    RG_JOBS_STATE, /* "running", "dead", "exit 3", ... */
    RG_JOBS_ELAPSED,
    RG_JOBS_RANKS,
    RG_JOBS_HOSTS,
    RG_JOBS_COMMAND,
    RG_JOBS_COLUMNS
};

/* One line of `reigen jobs`; owned. */
struct rg_jobs_row {
    char *cell[RG_JOBS_COLUMNS];
};

struct rg_jobs_table {
    struct rg_jobs_row *rows;
    size_t count;
    json_t *json; /* the same, an object each */
};

/* As struct rg_command says of run. */
int rg_cmd_jobs(int argc, char **argv);
int rg_cmd_stop(int argc, char **argv);
int rg_cmd_drain(int argc, char **argv);
int rg_cmd_logs(int argc, char **argv);
int rg_cmd_attach(int argc, char **argv);
int rg_cmd_status(int argc, char **argv);

/* The job of which this is the id, its beginning, or the number of Slurm's job that it runs in: one
 * that runs, else one that has ended. 0 and the caller's job; or the exit code, after the error was
 * told in the command's name. */
int rg_jobs_find(const char *command, const char *id, struct rg_registry_job *ret_job);
/* The same, but that there is none is no error: 0, and ret_job's id is NULL. */
int rg_jobs_look(const char *command, const char *id, struct rg_registry_job *ret_job);

/* Whether a job is part of one of these, which is what the user knows it as: it is listed so. */
bool rg_jobs_is_submitted(const struct rg_registry_job *job, const struct rg_submitted_list *list);
/* The submitted job of this id, and the driver that has it; NULL: there is none. */
const struct rg_driver_ops *rg_jobs_find_submitted(const char *id,
                                                   struct rg_submitted_job *ret_job);
/* Where a job is that may have been started elsewhere, by the options that platforms have for that
 * (platform.places). A command takes all of them, and one platform's are used. */
enum rg_jobs_place_option {
    RG_JOBS_NAMESPACE,
    RG_JOBS_CONTEXT,
    RG_JOBS_PAI_SERVER,
    RG_JOBS_PAI_USER,
    RG_JOBS_PLACES
};
struct rg_jobs_place {
    const char *value[RG_JOBS_PLACES]; /* as given, or NULL */
};
#define RG_JOBS_PLACE_ARGS(place)                                                                  \
    { .name = "namespace", .what = "NAME", .value = &(place).value[RG_JOBS_NAMESPACE] },           \
    { .name = "context", .what = "NAME", .value = &(place).value[RG_JOBS_CONTEXT] },               \
    { .name = "pai-server", .what = "URL", .value = &(place).value[RG_JOBS_PAI_SERVER] },          \
    { .name = "pai-user", .what = "NAME", .value = &(place).value[RG_JOBS_PAI_USER] }

/* Where no job was named: the only one that runs or waits to, of which is told. 0 and its id, the
 * caller's; or the exit code, after the error was told, which lists what there is. */
int rg_jobs_find_only(const char *command, const struct rg_jobs_place *place, char **ret_id);
/* Whether any is given. */
bool rg_jobs_names_place(const struct rg_jobs_place *place);
/* The driver that looks jobs up where these options say; NULL: none is given. 0; or the exit code,
 * after the error was told, where they are not of one platform. */
int rg_jobs_choose_finder(const char *command, const struct rg_jobs_place *place,
                          const struct rg_driver_ops **ret_driver);
/* The driver's find, with what place says for its platform. */
int rg_jobs_ask_place(const struct rg_driver_ops *driver, const struct rg_jobs_place *place,
                      struct rg_submitted_job *job, struct rg_strv *hosts, struct rg_error *err);
/* As rg_jobs_find_submitted; where a place is named, its platform is asked whether the job is
 * there. 0, and the driver or NULL; or the exit code, after the error was told. */
int rg_jobs_find_at(const char *command, const char *id, const struct rg_jobs_place *place,
                    struct rg_submitted_job *ret_job, const struct rg_driver_ops **ret_driver);
/* About files that are passed over, as they were listed. */
void rg_jobs_say_remarks(const struct rg_strv *remarks);
/* Say that there is no memory. The exit code. */
int rg_jobs_fail_memory(const char *command);
/* Append all that were submitted, with what their platforms say; of those that do not answer, it is
 * told. 0 or -ENOMEM. */
int rg_jobs_list_submitted(struct rg_submitted_list *list);
/* Say why the driver could not do it. The exit code. */
int rg_jobs_fail_submitted(const char *command, const struct rg_submitted_job *job,
                           struct rg_error *err);

/* "terminal", "file" and the like, and behind it the path or "". */
const char *rg_jobs_output(const struct rg_registry_job *job, char kind[16]);

/* Of a line of such a log (output log): the rank's number in its tag, or -1. */
int rg_jobs_tag_rank(const void *line, size_t nbytes);
/* Where in such a line that begins what the rank has written. */
size_t rg_jobs_tag_nbytes(const void *line, size_t nbytes);
/* Append the line without the colours of its tag. */
void rg_jobs_put_plain(struct rg_buf *text, const void *line, size_t nbytes);

/* Add a line. 0 or -ENOMEM. */
int rg_jobs_add(struct rg_jobs_table *table, const struct rg_registry_job *job);
int rg_jobs_add_submitted(struct rg_jobs_table *table, const struct rg_submitted_job *job);
/* One job as an object; NULL: there was no memory. */
json_t *rg_jobs_json(const struct rg_registry_job *job);
json_t *rg_jobs_submitted_json(const struct rg_submitted_job *job);
void rg_jobs_table_fini(struct rg_jobs_table *table);
/* Aligned; columns 0: as wide as it gets, else cut to a terminal of that width. */
void rg_jobs_print_table(const struct rg_jobs_table *table, int columns, bool colour,
                         struct rg_buf *text);
/* All that is known of one job, for people. ranks: lines that stand for its ranks and hosts; NULL:
 * they are those of its beginning. */
void rg_jobs_describe(const struct rg_registry_job *job, const char *ranks, struct rg_buf *text);
/* What the launcher of an elastic job says of it now (launch/control/control.h): an object for the
 * caller to release, or NULL: the job is not elastic, has ended, or its launcher does not answer
 * here. host: only what is of this one; "": all. Waits for RG_JOBS_ASK_MS at most. */
#define RG_JOBS_ASK_MS 5000
struct rg_control_request;
json_t *rg_jobs_ask_elastic(const struct rg_registry_job *job, const char *host);
/* The same, whatever the question, of any job: the answer, or NULL. */
json_t *rg_jobs_ask(const char *id, const struct rg_control_request *request);
/* What the job's ranks have done and do now, as docs/jobs.md says of `numbers`: a list of
 * objects, which is empty while no rank is in the runtime; null where nobody answers here. */
json_t *rg_jobs_ask_numbers(const struct rg_registry_job *job);
/* Append that as lines, for people. */
void rg_jobs_describe_elastic(const json_t *elastic, struct rg_buf *text);
/* "12", "3:12", "1:02:03", "2-01:02:03": in seconds, minutes, hours and days, as squeue has it.
 * Into buf, which is returned. */
const char *rg_jobs_elapsed(uint64_t seconds, char buf[32]);
/* Remove what killed launchers and agents of this user have left on this computer, as far as it is
 * proved that nobody uses it and that it needs no container's runtime. Takes about a second at
 * most. Returns how many jobs are no longer listed. */
size_t rg_jobs_sweep(void);
/* Also the containers that killed launchers' jobs have left on their hosts, and say it. The exit
 * code. */
int rg_jobs_clean_all(void);
/* Print a JSON value and a line break to standard output. Takes it. The exit code. */
int rg_jobs_print_json(json_t *take_value);

#endif
