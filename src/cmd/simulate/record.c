/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime writes a timeline of rank 0, which is read now and then while the program runs: each
 * time it has grown by half, so that reading takes little from what is measured. */
#include "cmd/simulate/record.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/self.h"
#include "base/process/spawn.h"
#include "base/say.h"
#include "base/time.h"
#include "head/console/exit.h"

extern char **environ;

#define COMMAND "simulate"
#define LOOK_MS 50
#define END_MS 20000
#define TIMELINE_MAX (512u << 20)
#define OUTPUT_MAX (64u << 20)
#define TAIL_LINES 10
#define NOTHING_ALIKE 1

/* A handler gets no argument of ours. */
static volatile sig_atomic_t told;

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

/* Where it is recorded. */
struct place {
    char *folder, *timeline, *output; /* owned */
};

struct run {
    const struct rg_simulate_recording *recording;
    struct place place;
    struct sigaction before[rg_array_len(ending)];
    struct rg_strv argv, env;
    pid_t pid;            /* 0: it has ended */
    int status;
    off_t looked_at;      /* how long the timeline was at the last look */
    size_t nops;          /* of rank 0, as of then */
    struct rg_modelfile file;
    bool found;
};

/* --- the place -------------------------------------------------------------------------------- */

static int make_place(struct place *place, struct rg_error *err)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = rg_strf("%s/reigen-simulate-XXXXXX", tmp && *tmp ? tmp : "/tmp");

    if (!folder || !mkdtemp(folder)) {
        rg_error_set(err, folder ? errno : ENOMEM, "no folder for the recording: %s: %s",
                     folder ? folder : "", strerror(folder ? errno : ENOMEM));
        free(folder);
        return -err->errnum;
    }
    place->folder = folder;
    place->timeline = rg_strf("%s/timeline.json", folder);
    place->output = rg_strf("%s/output", folder);
    return place->timeline && place->output ? 0 : rg_error_memory(err);
}

static void drop_place(struct place *place)
{
    char *const files[] = { place->timeline, place->output };

    for (size_t i = 0; i < rg_array_len(files); i++) {
        if (files[i])
            unlink(files[i]);
        free(files[i]);
    }
    if (place->folder)
        rmdir(place->folder);
    free(place->folder);
}

/* --- the command ------------------------------------------------------------------------------ */

static bool ends_in_py(const char *script)
{
    size_t n = strlen(script);

    return n > 3 && strcmp(script + n - 3, ".py") == 0;
}

/* A script of Python's is run by the Python that the user has in front; another one by itself. */
static void add_script(struct run *run, const char *script)
{
    char found[PATH_MAX];

    if (ends_in_py(script))
        rg_strv_add(&run->argv, rg_path_find(getenv("PATH"), "python", strlen("python"), found)
                                    ? "python" : "python3");
    rg_strv_addf(&run->argv, "%s%s", strchr(script, '/') || ends_in_py(script) ? "" : "./",
                 script);
}

/* A single rank has no gradients to exchange, and optimizers send none then, unless they are told
 * to. What the user's own configuration says of hosts is not for this run. */
static int compose(struct run *run, struct rg_error *err)
{
    const struct rg_simulate_recording *recording = run->recording;

    rg_strv_add_all(&run->argv, (char *[]){ (char *) RG_SELF, "run", "--on", "local", NULL });
    rg_strv_addf(&run->argv, "-np");
    rg_strv_addf(&run->argv, "%d", recording->nranks);
    rg_strv_addf(&run->argv, "--env=REIGEN_TIMELINE=%s", run->place.timeline);
    rg_strv_add(&run->argv, "--env=REIGEN_ALONE=1");
    rg_strv_add(&run->argv, "--");
    if (recording->script)
        add_script(run, recording->script);
    rg_strv_add_all(&run->argv, recording->command);
    rg_strv_add_all(&run->env, environ);
    rg_env_forget_launchers(&run->env);
    rg_env_set(&run->env, "REIGEN_CONFIG", "");
    rg_env_unset(&run->env, "REIGEN_PROFILE");
    return rg_strv_status(&run->argv) < 0 || rg_strv_status(&run->env) < 0 ? rg_error_memory(err)
                                                                            : 0;
}

static int start(struct run *run, struct rg_error *err)
{
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC;
    rg_autoclose int out = open(run->place.output, flags, 0600);
    const struct rg_spawn spec = { .argv = run->argv.v, .envp = run->env.v,
                                   .fds = { -1, out, out }, .new_group = true,
                                   .death_signal = SIGTERM };

    if (out < 0)
        return rg_error_set(err, errno, "%s: %s", run->place.folder, strerror(errno));
    return rg_spawn(&spec, &run->pid, err);
}

/* --- while it runs ---------------------------------------------------------------------------- */

static void on_signal(int signo)
{
    told = signo;
}

static void watch_signals(struct run *run)
{
    struct sigaction action = { .sa_handler = on_signal };

    told = 0;
    for (size_t i = 0; i < rg_array_len(ending); i++) {
        sigaction(ending[i], NULL, &run->before[i]);
        if (run->before[i].sa_handler != SIG_IGN)
            sigaction(ending[i], &action, NULL);
    }
}

static void leave_signals(const struct run *run)
{
    for (size_t i = 0; i < rg_array_len(ending); i++)
        sigaction(ending[i], &run->before[i], NULL);
}

static void end(struct run *run)
{
    if (!run->pid)
        return;
    kill(run->pid, SIGTERM);
    run->status = rg_spawn_wait(run->pid, END_MS);
    run->pid = 0;
}

/* Whether the program has ended by itself. */
static bool has_ended(struct run *run)
{
    pid_t pid = waitpid(run->pid, &run->status, WNOHANG);

    if (pid == run->pid)
        run->pid = 0;
    return run->pid == 0;
}

static int take_timeline(struct run *run, const char *text, size_t nbytes)
{
    rg_cleanup(rg_traced_fini) struct rg_traced traced = { 0 };
    struct rg_profile profile;
    int r = rg_traced_parse(text, nbytes, &traced);

    run->nops = traced.nops;
    if (r == 0)
        r = rg_profile_make(&traced, 0, run->recording->nsteps, &profile);
    if (r == 0) {
        rg_profile_fini(&run->file.profile);
        run->file.profile = profile;
        run->found = true;
    }
    return r == -EAGAIN ? 0 : r;
}

/* The runtime may be writing just now: then the end is cut off, which does not matter. */
static int look(struct run *run, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes = 0;
    int r = rg_read_regular(run->place.timeline, false, TIMELINE_MAX, &text, &nbytes);

    if (r == -ENOENT)
        return 0;
    if (r == -EFBIG)
        return rg_error_set_exit(err, EFBIG, NOTHING_ALIKE, "it has done so many operations that "
                                 "they fill %u MB, and no part of them is a step that comes again",
                                 TIMELINE_MAX >> 20);
    if (r == 0)
        r = take_timeline(run, text, nbytes);
    return r < 0 ? rg_error_set(err, -r, "%s: %s", run->place.timeline, strerror(-r)) : 0;
}

static bool has_grown(struct run *run)
{
    struct stat st;

    if (stat(run->place.timeline, &st) < 0 || 2 * st.st_size < 3 * run->looked_at)
        return false;
    run->looked_at = st.st_size;
    return st.st_size > 0;
}

/* Until there are enough steps, the program has ended, or we are told to end. */
static int follow(struct run *run, struct rg_error *err)
{
    int r = 0;

    while (r == 0 && !told && !has_ended(run)) {
        rg_sleep_ms(LOOK_MS);
        if (has_grown(run))
            r = look(run, err);
        if (run->found && run->file.profile.nsteps >= run->recording->nsteps)
            break;
    }
    if (r == 0 && !told && run->pid == 0)
        r = look(run, err);
    end(run);
    return r;
}

/* --- what is said ----------------------------------------------------------------------------- */

/* The last lines that the program, or reigen run for it, has written. */
static void put_tail(const struct run *run, struct rg_buf *text)
{
    rg_autofree char *output = NULL;
    size_t nbytes = 0, from;
    int nlines = 0;

    if (rg_read_regular(run->place.output, false, OUTPUT_MAX, &output, &nbytes) < 0 || nbytes == 0)
        return;
    from = nbytes;
    while (from > 0 && (output[from - 1] != '\n' || from == nbytes || ++nlines < TAIL_LINES))
        from--;
    rg_buf_printf(text, "\n%s", output + from);
    for (size_t n = rg_buf_nbytes(text); n > 0 && rg_buf_text(text)[n - 1] == '\n'; n--)
        text->end--;
}

static int complain(const struct run *run, int code, const char *what)
{
    rg_autobuf struct rg_buf tail = RG_BUF_INIT;

    put_tail(run, &tail);
    rg_say("simulate: %s: %s", run->file.name, what);
    if (rg_buf_nbytes(&tail))
        rg_say("what it wrote last:%s", rg_buf_text(&tail));
    return code;
}

static int complain_of_nothing(const struct run *run)
{
    char what[300];
    int code = rg_status_code(run->status);

    if (code) {
        snprintf(what, sizeof(what), "it failed, with exit code %d, before it had taken %d steps "
                 "that are alike", code, RG_PROFILE_STEPS_MIN);
        return complain(run, code, what);
    }
    if (run->nops == 0)
        return complain(run, NOTHING_ALIKE, "it has ended without any operation of the runtime. "
                        "Does it call init, and wrap its optimizer, as a script for reigen run "
                        "does?");
    snprintf(what, sizeof(what), "it has ended after %zu operations, and no part of them is a step "
             "that came %d times; let it train for longer", run->nops,
             RG_PROFILE_STEPS_MIN);
    return complain(run, NOTHING_ALIKE, what);
}

static int judge(const struct run *run)
{
    if (told) {
        rg_say("simulate: %s: told to end before enough was recorded", run->file.name);
        return RG_EXIT_SIGNAL + told;
    }
    if (!run->found)
        return complain_of_nothing(run);
    rg_say("simulate: recorded %d steps of %s, each with %zu operations", run->file.profile.nsteps,
           run->file.name, run->file.profile.nops);
    return 0;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* "train.py" of "python -u train.py --epochs 2" as well. */
static void name_it(struct run *run)
{
    const struct rg_simulate_recording *recording = run->recording;
    const char *name = recording->script ? recording->script : recording->command[0];

    for (int i = 0; !recording->script && recording->command[i]; i++) {
        if (ends_in_py(recording->command[i])) {
            name = recording->command[i];
            break;
        }
    }
    snprintf(run->file.name, sizeof(run->file.name), "%s", base_of(name));
    run->file.nranks = recording->nranks;
}

int rg_simulate_record(const struct rg_simulate_recording *recording,
                       struct rg_modelfile *ret_file)
{
    struct run run = { .recording = recording, .argv = RG_STRV_INIT, .env = RG_STRV_INIT };
    struct rg_error err = RG_ERROR_INIT;
    int code, r = make_place(&run.place, &err);

    name_it(&run);
    r = r == 0 ? compose(&run, &err) : r;
    watch_signals(&run);
    r = r == 0 ? start(&run, &err) : r;
    if (r == 0) {
        rg_say("simulate: running %s with %d rank%s, until it has taken %d steps; Ctrl-C ends it",
               run.file.name, recording->nranks, recording->nranks == 1 ? "" : "s",
               recording->nsteps);
        r = follow(&run, &err);
    }
    code = r < 0 ? rg_fail(&err, COMMAND) : judge(&run);
    leave_signals(&run);
    drop_place(&run.place);
    rg_strv_fini(&run.argv);
    rg_strv_fini(&run.env);
    if (code == 0)
        *ret_file = run.file;
    else
        rg_modelfile_fini(&run.file);
    return code;
}
