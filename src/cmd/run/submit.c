/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that Slurm runs when it can: what jobs, logs, status and stop know of them. */
#include "cmd/run/submit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/time.h"
#include "cmd/common/exit.h"
#include "launch/drivers/slurm/slurm.h"
#include "base/exitcode.h"

#define LOOK_MS 1000     /* between looks at the queue, at first */
#define LOOK_MAX_MS 15000
#define READ_MS 200      /* between looks at the log */
#define STOP_LOOK_MAX_MS 2000
#define STOP_MS 60000    /* KillWait is 30 s by default */
#define STATE_MAX 4096
#define WORDS_MAX 512
#define ANSWER_MAX (256u << 10)

/* --- submission ------------------------------------------------------------------------------- */

int rg_submit(const struct rg_request *request, char **argv)
{
    struct rg_error err = RG_ERROR_INIT;
    rg_autobuf struct rg_buf line = RG_BUF_INIT;
    char id[RG_SLURM_ID_MAX];

    if (rg_slurm_submit(&request->job, argv, id, &err) < 0)
        return rg_fail(&err, "run");
    if (!request->quiet)
        fprintf(stderr, "reigen: submitted as job %s; reigen logs -f %s shows its output\n", id,
                id);
    rg_buf_printf(&line, "%s\n", id);
    return rg_print(rg_buf_text(&line));
}

/* --- what Slurm says -------------------------------------------------------------------------- */

enum presence {
    GONE,
    THERE,
    UNTOLD /* squeue fails; words then are about that */
};

/* What squeue says of a job. */
struct state {
    char text[STATE_MAX]; /* holds the others */
    const char *word;     /* "RUNNING"; of a job that is gone "CANCELLED", or "" */
    const char *reason, *since, *nodes;
    char words[WORDS_MAX];
};

/* "RUNNING|None|0:10|node[1-2]"; other lines are remarks, or name the cluster. The nodes come last,
 * as nothing else may be long enough to be cut. */
static bool split(struct state *state)
{
    for (char *line, *rest = state->text; (line = strsep(&rest, "\n"));) {
        const char *word = strsep(&line, "|"), *reason = strsep(&line, "|"),
                   *since = strsep(&line, "|");
        if (!line || strchr(line, '|'))
            continue;
        state->word = word;
        state->reason = reason;
        state->since = since;
        state->nodes = line;
        return true;
    }
    return false;
}

/* Some versions of squeue show ended jobs for a while, with --states=all all do. */
static bool is_end(const char *word)
{
    static const char *const ends[] = { "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL",
                                        "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
                                        "REVOKED" };

    for (size_t i = 0; i < rg_array_len(ends); i++) {
        if (strcmp(word, ends[i]) == 0)
            return true;
    }
    return false;
}

/* argv has room for one more: the option for the cluster, kept in text. */
static void add_cluster(char **argv, const struct rg_slurm_record *record, char *text, size_t n)
{
    while (*argv)
        argv++;
    if (record->cluster) {
        snprintf(text, n, "--clusters=%s", record->cluster);
        *argv = text;
    }
}

static enum presence look(const char *id, const struct rg_slurm_record *record,
                          struct state *ret_state)
{
    char job[RG_SLURM_ID_MAX + 8], cluster[128];
    char *argv[] = { (char *) "squeue", (char *) "--noheader", job, (char *) "--states=all",
                     (char *) "--format=%T|%r|%M|%N", NULL, NULL };

    *ret_state = (struct state){ .word = "" };
    snprintf(job, sizeof(job), "--jobs=%s", id);
    add_cluster(argv, record, cluster, sizeof(cluster));
    int r = rg_slurm_ask(argv, ret_state->text, sizeof(ret_state->text));
    if (r < 0)
        snprintf(ret_state->words, sizeof(ret_state->words), "squeue: %s",
                 r == -ETIMEDOUT ? "it does not answer; sinfo tells more" : strerror(-r));
    else
        snprintf(ret_state->words, sizeof(ret_state->words), "squeue: %.*s",
                 (int) strcspn(ret_state->text, "\n"), ret_state->text);
    if (r >= 0 && strstr(ret_state->text, "Invalid job id")) /* too long ago for Slurm to know */
        return GONE;
    if (r != 0)
        return UNTOLD;
    return split(ret_state) && !is_end(ret_state->word) ? THERE : GONE;
}

static int find(const char *command, const char *id, struct rg_slurm_record *ret_record)
{
    int r = rg_slurm_record_read(id, ret_record);

    if (r == 0)
        return 0;
    return rg_fail_usage(command, "%s %s: no such job; it takes the number that reigen run "
                         "--submit has printed", command, id);
}

static int fail_untold(const char *command, const char *id, const char *words)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_error_set_exit(&err, EAGAIN, RG_EXIT_UNAVAILABLE, "job %s: %s", id, words);
    return rg_fail(&err, command);
}

/* --- status ----------------------------------------------------------------------------------- */

static void describe(const char *id, enum presence presence, const struct state *state,
                     const struct rg_slurm_record *record, struct rg_buf *text)
{
    bool plain = !*state->word || strcmp(state->word, "COMPLETED") == 0 ||
                 strcmp(state->word, "FAILED") == 0;
    bool told = state->reason && strcmp(state->reason, "None") != 0; /* Slurm may not know it yet */

    if (presence == THERE && !*state->nodes)
        rg_buf_printf(text, "job %s: %s%s%s\n", id, state->word, told ? ": " : "",
                      told ? state->reason : "");
    else if (presence == THERE)
        rg_buf_printf(text, "job %s: %s on %s for %s\n", id, state->word, state->nodes,
                      state->since);
    else if (record->exit_code >= 0)
        rg_buf_printf(text, "job %s: ended with exit code %d%s%s\n", id, record->exit_code,
                      plain ? "" : ", for Slurm: ", plain ? "" : state->word);
    else
        rg_buf_printf(text, "job %s: ended by Slurm before it could say how%s%s\n", id,
                      *state->word ? ": " : "", state->word);
    rg_buf_printf(text, "  %s\n  output: %s\n", record->command, record->log);
}

int rg_submitted_status(const char *id)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record record = { .exit_code = -1 };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct state state;

    int code = find("status", id, &record);
    if (code)
        return code;
    enum presence presence = look(id, &record, &state);
    if (presence == UNTOLD && record.exit_code < 0)
        return fail_untold("status", id, state.words);
    describe(id, presence, &state, &record, &text);
    return rg_print(rg_buf_text(&text));
}

/* --- logs ------------------------------------------------------------------------------------- */

/* What is new in the file; it may not be there yet. A job that is run again may begin it anew. 0
 * or -errno of writing. */
static int copy_new(const char *path, int *fd)
{
    char bytes[16384];
    struct stat st;
    ssize_t n;

    if (*fd < 0)
        *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd >= 0 && fstat(*fd, &st) == 0 && st.st_size < lseek(*fd, 0, SEEK_CUR))
        lseek(*fd, 0, SEEK_SET);
    while (*fd >= 0 && (n = read(*fd, bytes, sizeof(bytes))) > 0) {
        int r = rg_write_all(1, bytes, (size_t) n);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The file knows of the job's end without a question to Slurm, which is asked ever more seldom
 * until then; a job that is put back into the queue has several ends. */
static bool is_over(const char *id, uint64_t *next_ns, uint64_t *pause_ms)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record record = { .exit_code = -1 };
    struct state state;
    bool read = rg_slurm_record_read(id, &record) == 0;

    if (record.exit_code < 0 && rg_now_ns() < *next_ns)
        return false;
    bool over = look(id, &record, &state) == GONE;
    *pause_ms = *pause_ms * 2 < LOOK_MAX_MS ? *pause_ms * 2 : LOOK_MAX_MS;
    *next_ns = rg_now_ns() + *pause_ms * RG_NS_PER_MS;
    return over || !read;
}

static int follow(const char *id, const char *path, int *fd)
{
    uint64_t next_ns = 0, look_ns = 0, pause_ms = LOOK_MS;

    for (;;) {
        int r = copy_new(path, fd);
        if (r < 0)
            return r;
        if (rg_now_ns() >= look_ns) {
            if (is_over(id, &next_ns, &pause_ms))
                return copy_new(path, fd);
            look_ns = rg_now_ns() + LOOK_MS * RG_NS_PER_MS;
        }
        rg_sleep_ms(READ_MS);
    }
}

int rg_submitted_logs(const char *id, bool keep)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record record = { .exit_code = -1 };
    struct rg_error err = RG_ERROR_INIT;
    rg_autoclose int fd = -1;

    int code = find("logs", id, &record);
    if (code)
        return code;
    int r = keep ? follow(id, record.log, &fd) : copy_new(record.log, &fd);
    if (r < 0)
        return rg_fail(&(struct rg_error){ -r, RG_EXIT_OUTPUT_LOST, "standard output was lost" },
                       "logs");
    if (fd >= 0)
        return 0;
    r = rg_error_set_exit(&err, errno, RG_EXIT_UNAVAILABLE, "job %s has no output%s: %s: %s; "
                          "reigen status %s tells more", id, keep ? "" : " yet", record.log,
                          strerror(errno), id);
    return rg_fail(&err, "logs");
}

/* --- all of them ------------------------------------------------------------------------------ */

static struct rg_submitted_job *find_listed(struct rg_submitted_list *list, const char *id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->jobs[i].id, id) == 0)
            return &list->jobs[i];
    }
    return NULL;
}

static void set_text(char **text, const char *value)
{
    free(*text);
    *text = strdup(value ? value : "");
}

/* "12|RUNNING|None|0:10|node[1-2]", a line each; other lines are remarks, or name the cluster. */
static void take_answer(struct rg_submitted_list *list, char *text)
{
    for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
        const char *field[5] = { NULL };
        for (size_t i = 0; i < 5; i++)
            field[i] = strsep(&line, "|");
        struct rg_submitted_job *job = field[4] ? find_listed(list, field[0]) : NULL;
        if (!job || job->record.exit_code >= 0)
            continue;
        job->state = is_end(field[1])                     ? RG_SUBMITTED_ENDED
                     : strcmp(field[1], "PENDING") == 0 ? RG_SUBMITTED_WAITS : RG_SUBMITTED_RUNS;
        set_text(&job->word, field[1]);
        set_text(&job->reason, strcmp(field[2], "None") == 0 ? "" : field[2]);
        set_text(&job->elapsed, field[3]);
        set_text(&job->nodes, field[4]);
    }
}

static bool same_cluster(const struct rg_slurm_record *a, const struct rg_slurm_record *b)
{
    return strcmp(a->cluster ? a->cluster : "", b->cluster ? b->cluster : "") == 0;
}

/* One question for all of a cluster, from this one on. False: it was not answered. */
static bool ask_cluster(struct rg_submitted_list *list, size_t first)
{
    rg_autobuf struct rg_buf jobs = RG_BUF_INIT;
    rg_autofree char *answer = malloc(ANSWER_MAX);
    char cluster[128];
    size_t count = 0;

    for (size_t i = first; i < list->count; i++) {
        struct rg_submitted_job *job = &list->jobs[i];
        if (job->state != RG_SUBMITTED_UNKNOWN ||
            !same_cluster(&job->record, &list->jobs[first].record))
            continue;
        job->state = RG_SUBMITTED_ENDED; /* unless it is listed */
        rg_buf_printf(&jobs, "%s%s", count++ ? "," : "--jobs=", job->id);
    }
    char *argv[] = { (char *) "squeue", (char *) "--noheader", (char *) rg_buf_text(&jobs),
                     (char *) "--states=all", (char *) "--format=%i|%T|%r|%M|%N", NULL, NULL };
    add_cluster(argv, &list->jobs[first].record, cluster, sizeof(cluster));
    int r = answer ? rg_slurm_ask(argv, answer, ANSWER_MAX) : -ENOMEM;
    if (r == 0) {
        take_answer(list, answer);
        return true;
    }
    if (r > 0 && count == 1 && strstr(answer, "Invalid job id"))
        return true;
    for (size_t i = first; i < list->count; i++) {
        if (list->jobs[i].record.exit_code < 0 && !*list->jobs[i].word)
            list->jobs[i].state = RG_SUBMITTED_UNKNOWN;
    }
    return false;
}

int rg_submitted_list(struct rg_submitted_list *ret_list)
{
    rg_autostrv struct rg_strv ids = RG_STRV_INIT;
    struct rg_submitted_list list = { NULL, 0, false };
    int r = rg_slurm_record_list(&ids);

    if (r == 0)
        list.jobs = calloc(ids.count + 1, sizeof(*list.jobs));
    if (!list.jobs)
        return -ENOMEM;
    for (size_t i = 0; i < ids.count; i++) {
        struct rg_submitted_job *job = &list.jobs[list.count];
        if (rg_slurm_record_read(ids.v[i], &job->record) < 0)
            continue;
        snprintf(job->id, sizeof(job->id), "%s", ids.v[i]);
        job->state = job->record.exit_code >= 0 ? RG_SUBMITTED_ENDED : RG_SUBMITTED_UNKNOWN;
        job->word = strdup("");
        job->reason = strdup("");
        job->elapsed = strdup("");
        job->nodes = strdup("");
        list.count++;
    }
    for (size_t i = 0; i < list.count && !list.untold; i++) {
        if (list.jobs[i].state == RG_SUBMITTED_UNKNOWN)
            list.untold = !ask_cluster(&list, i);
    }
    *ret_list = list;
    return 0;
}

void rg_submitted_list_fini(struct rg_submitted_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct rg_submitted_job *job = &list->jobs[i];
        rg_slurm_record_fini(&job->record);
        free(job->word);
        free(job->reason);
        free(job->elapsed);
        free(job->nodes);
    }
    free(list->jobs);
    *list = (struct rg_submitted_list){ NULL, 0, false };
}

/* --- stop ------------------------------------------------------------------------------------- */

bool rg_submitted(const char *id)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record record = { .exit_code = -1 };

    return rg_slurm_record_read(id, &record) == 0;
}

int rg_submitted_stop(const char *id)
{
    rg_cleanup(rg_slurm_record_fini) struct rg_slurm_record record = { .exit_code = -1 };
    char cluster[128], said[WORDS_MAX], words[2 * WORDS_MAX];
    char *argv[] = { (char *) "scancel", (char *) id, NULL, NULL };
    uint64_t deadline_ns = rg_now_ns() + STOP_MS * RG_NS_PER_MS, pause_ms = READ_MS;
    struct state state;

    if (rg_slurm_record_read(id, &record) < 0)
        return rg_fail_usage("stop", "stop %s: no such job", id);
    add_cluster(argv, &record, cluster, sizeof(cluster));
    int r = rg_slurm_ask(argv, said, sizeof(said));
    said[strcspn(said, "\n")] = '\0';
    for (;;) {
        enum presence presence = look(id, &record, &state);
        if (presence == GONE)
            return 0;
        if (r != 0 || rg_now_ns() >= deadline_ns)
            break;
        rg_sleep_ms((unsigned) pause_ms);
        pause_ms = pause_ms * 2 < STOP_LOOK_MAX_MS ? pause_ms * 2 : STOP_LOOK_MAX_MS;
    }
    if (r != 0)
        snprintf(words, sizeof(words), "scancel: %s",
                 r == -ETIMEDOUT ? "it does not answer; sinfo tells more"
                                 : r < 0 ? strerror(-r) : said);
    else
        snprintf(words, sizeof(words), "cancelled, but after %d s it is not gone (%s); a node that "
                 "does not answer holds it: sinfo tells more", STOP_MS / 1000,
                 *state.word ? state.word : state.words);
    return fail_untold("stop", id, words);
}
