/* SPDX-License-Identifier: Apache-2.0 */
/* What stands between colons is a command line of its own, of a few options. Ranks find theirs by
 * counting. */
#include "job/request/programs.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "job/engine.h"
#include "job/envfile.h"
#include "job/hostlist.h"
#include "job/options/apply.h"
#include "job/request/walk.h"
#include "job/shellwords.h"

#define FILE_NBYTES_MAX (1u << 20)
#define WORDS_MAX 65536
#define OWN "env cwd" /* what the options in front of all say of the first program alone */

/* For each program follow the number of its ranks, the number of its words, and these. */
static const char choose[] =
    "r=${REIGEN_RANK:-${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}}; "
    "while [ \"$r\" -ge \"$1\" ]; do r=$((r-$1)); shift $(($2+2)); done; "
    "n=$2; shift 2; i=0; "
    "while [ $i -lt $n ]; do set -- \"$@\" \"$1\"; shift; i=$((i+1)); done; "
    "shift $(($#-n)); exec \"$@\"";

/* One of them, while it is read. */
struct program {
    int np;
    char *cwd;          /* or NULL */
    struct rg_strv env; /* NAME=VALUE */
    size_t nslots;      /* of hosts that it names; 0: none */
};

static void program_fini(struct program *program)
{
    free(program->cwd);
    rg_strv_fini(&program->env);
}

/* What the job is made of. */
struct making {
    struct rg_request *request;
    const char *what;         /* ":", or the option that names the file */
    struct rg_strv command;   /* so far */
    int np;
    size_t nprograms;
    bool hosted;              /* a program behind the first one names hosts */
    const char *unequal;      /* the first one that has not as many slots as ranks, or NULL */
};

static void making_fini(struct making *making)
{
    rg_strv_fini(&making->command);
}

/* --- options of one program ------------------------------------------------------------------- */

static int take_np(struct program *program, const char *what, const char *value,
                   struct rg_error *err)
{
    const struct rg_member number = { RG_MEMBER_INT, 0, 1, RG_JOB_RANKS_MAX };

    return rg_member_set(&number, &program->np, what, value, err);
}

/* NAME=VALUE, or NAME, which is the caller's value, as for the whole job. */
static int take_env(struct rg_request *request, struct program *program, const char *what,
                    const char *text, struct rg_error *err)
{
    int rc = rg_env_check_name(what, text, err);
    const char *value = strchr(text, '=') ? "" : getenv(text);

    if (rc < 0)
        return rc;
    if (!value)
        return rg_request_note(request, "%s %s: not set here, so nothing is handed on", what,
                               text) < 0 ? rg_error_memory(err) : 0;
    rc = strchr(text, '=') ? rg_strv_add(&program->env, text)
                           : rg_strv_addf(&program->env, "%s=%s", text, value);
    return rc < 0 ? rg_error_memory(err) : 0;
}

static size_t count_slots(const struct rg_job *job, size_t first)
{
    size_t n = 0;

    for (size_t i = first; i < job->nhosts; i++)
        n += job->hosts[i].nslots ? (size_t) job->hosts[i].nslots : 1;
    return n;
}

/* Ranks fill the hosts in order, so each program's follow those before. */
static int take_hosts(struct making *making, struct program *program, const char *what,
                      const char *value, struct rg_error *err)
{
    struct rg_job *job = &making->request->job;
    size_t before = job->nhosts, slots = count_slots(job, 0);
    int rc = rg_hostlist_parse(job, what, value, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < job->nhosts; i++)
        job->hosts[i].nslots = job->hosts[i].nslots ? job->hosts[i].nslots : 1;
    program->nslots = count_slots(job, before);
    making->hosted = making->nprograms > 0;
    if (count_slots(job, 0) == slots + program->nslots && program->nslots)
        return 0;
    return rg_error_set(err, EINVAL, "%s %s: a host of an earlier program is among them, and ranks "
                        "are numbered host by host; name all hosts once, in front of the first "
                        "program", what, value);
}

static int refuse_option(const char *what, size_t nbytes, struct rg_error *err)
{
    return rg_error_set(err, EINVAL, "%.*s: it stands behind \":\", where one program alone takes "
                        "-n, -x NAME=VALUE, --wdir and -H; say it in front of the first program, "
                        "for all", (int) nbytes, what);
}

/* An option and its values, which begin at argv[*next]. */
static int take_option(struct making *making, struct program *program, char *const *argv,
                       int argc, int *next, struct rg_error *err)
{
    struct rg_walk walk = { .argc = argc, .argv = argv, .next = *next };
    const char *arg = argv[*next];
    struct rg_flag flag;

    if (!rg_flag_find(arg, &flag))
        return refuse_option(arg, strlen(arg), err);
    bool idle = rg_flag_is_idle(&flag);
    const char *name = flag.option ? flag.option->name
                       : flag.foreign->nvalues == 2 ? "env" : flag.foreign->option;

    if (!idle && (!name || !rg_str_has_word(OWN " np H", name)))
        return refuse_option(arg, flag.name_nbytes, err);
    int rc = rg_walk_take(&walk, &flag, err);

    *next = walk.next;
    if (rc < 0 || idle)
        return rc < 0 ? rc : rg_walk_apply(&walk, making->request, err);
    rg_autofree char *text = walk.second ? rg_strf("%s=%s", walk.value, walk.second)
                                         : strdup(walk.value);

    if (!text)
        return rg_error_memory(err);
    if (strcmp(name, "env") == 0)
        return take_env(making->request, program, walk.what, text, err);
    if (strcmp(name, "np") == 0)
        return take_np(program, walk.what, text, err);
    if (strcmp(name, "cwd") == 0)
        return rg_parse_text(walk.what, text, &program->cwd, err);
    return take_hosts(making, program, walk.what, text, err);
}

/* --- a program -------------------------------------------------------------------------------- */

static int check(struct making *making, const struct program *program, const char *name,
                 struct rg_error *err)
{
    if (making->nprograms == RG_PROGRAMS_MAX)
        return rg_error_set(err, EINVAL, "%s: more than %d programs", making->what,
                            RG_PROGRAMS_MAX);
    if (!program->np)
        return rg_error_set(err, EINVAL, "%.80s: how many ranks run it is missing; of several "
                            "programs each says so: -n 1 loader : -n 4 trainer", name);
    if (program->np > RG_JOB_RANKS_MAX - making->np)
        return rg_error_set(err, EINVAL, "%.80s: with its ranks there are more than %d", name,
                            RG_JOB_RANKS_MAX);
    if (program->nslots != (size_t) program->np && !making->unequal)
        making->unequal = name;
    return 0;
}

/* What its ranks execute, behind the two numbers. */
static int add_program(struct making *making, const struct program *program, char *const *words,
                       int nwords)
{
    struct rg_strv *command = &making->command;
    size_t nbefore = (program->cwd ? 4 : 0) + (program->env.count ? 1 + program->env.count : 0);

    rg_strv_addf(command, "%d", program->np);
    rg_strv_addf(command, "%zu", nbefore + (size_t) nwords);
    if (program->env.count)
        rg_strv_add(command, "env");
    for (size_t i = 0; i < program->env.count; i++)
        rg_strv_add(command, program->env.v[i]);
    if (program->cwd)
        rg_strv_add_all(command, (char *[]){ "sh", "-c", "cd -- \"$0\" && exec \"$@\"",
                                             program->cwd, NULL });
    for (int i = 0; i < nwords; i++)
        rg_strv_add(command, words[i]);
    making->np += program->np;
    making->nprograms++;
    return rg_strv_status(command);
}

/* argv up to argc: a program, with its options in front, unless they were read already. */
static int take_program(struct making *making, struct program *program, char *const *argv,
                        int argc, bool options, struct rg_error *err)
{
    int next = 0, rc = 0;

    while (options && rc == 0 && next < argc && argv[next][0] == '-' && argv[next][1]) {
        if (strcmp(argv[next], "--") == 0) {
            next++;
            break;
        }
        rc = take_option(making, program, argv, argc, &next, err);
    }
    if (rc == 0 && next >= argc)
        return rg_error_set(err, EINVAL, "%s: there is no program %s it; where a colon is an "
                            "argument, write -- in front of the command", making->what,
                            making->nprograms ? "behind" : "in front of");
    rc = rc < 0 ? rc : check(making, program, argv[next], err);
    if (rc == 0 && add_program(making, program, argv + next, argc - next) < 0)
        rc = rg_error_memory(err);
    return rc;
}

/* --- all of them ------------------------------------------------------------------------------ */

static int count_to_colon(char *const *argv, int argc)
{
    int n = 0;

    while (n < argc && strcmp(argv[n], ":") != 0)
        n++;
    return n;
}

/* first: what the options in front of all have said of the first program, which is taken; NULL:
 * read those of each. */
static int take_programs(struct making *making, struct program *first,
                         const struct rg_strv *words, struct rg_error *err)
{
    int rc = 0, argc = (int) words->count;

    if (words->count > INT_MAX / 2)
        return rg_error_set(err, E2BIG, "%s: too many words", making->what);
    for (int at = 0, n; rc == 0 && at <= argc; at += n + 1, first = NULL) {
        rg_cleanup(program_fini) struct program program = { .np = 0 };
        n = count_to_colon(words->v + at, argc - at);
        if (first)
            program = *first, *first = (struct program){ .np = 0 };
        rc = take_program(making, &program, words->v + at, n, !first, err);
    }
    return rc;
}

/* As the user wrote it, for people who look for it. */
static int set_title(struct rg_job *job, const struct rg_strv *words)
{
    rg_autobuf struct rg_buf title = RG_BUF_INIT;

    for (size_t i = 0; i < words->count; i++)
        rg_buf_printf(&title, "%s%s", i ? " " : "", words->v[i]);
    free(job->title);
    job->title = rg_buf_status(&title) < 0 ? NULL : strdup(rg_buf_text(&title));
    return job->title ? 0 : -ENOMEM;
}

static int finish(struct making *making, const struct rg_strv *words, struct rg_error *err)
{
    struct rg_job *job = &making->request->job;

    if (making->hosted && making->unequal)
        return rg_error_set(err, EINVAL, "%.80s: of programs with hosts of their own each needs as "
                            "many slots as ranks; write -H HOST:SLOTS for each, or name all hosts "
                            "once, in front of the first program", making->unequal);
    /* Ranks that are dealt round would leave their programs' hosts. */
    if (making->hosted && job->map == RG_MAP_NODE)
        return rg_error_set(err, EINVAL, "--map-by node: programs with hosts of their own fill "
                            "them in order; leave it out, or name all hosts once, in front of the "
                            "first program");
    if (set_title(job, words) < 0)
        return rg_error_memory(err);
    rg_strv_fini(&job->command);
    rg_strv_add_all(&job->command, (char *[]){ "sh", "-c", (char *) choose, "reigen", NULL });
    if (making->command.count)
        rg_strv_add_all(&job->command, making->command.v);
    job->np = making->np;
    return rg_strv_status(&job->command) < 0 ? rg_error_memory(err) : 0;
}

bool rg_programs_are(int nwords, char *const *words)
{
    return nwords > 0 && count_to_colon(words, nwords) < nwords;
}

bool rg_programs_has_own(const char *option)
{
    return option && rg_str_has_word(OWN, option);
}

int rg_programs_keep(struct rg_request *request, const char *option, const char *what,
                     const char *value, const char *second, struct rg_error *err)
{
    rg_autofree char *pair = second ? rg_strf("%s=%s", value, second) : NULL;

    if (strcmp(option, "cwd") == 0)
        return rg_parse_text(what, value, &request->first_cwd, err);
    if (second && !pair)
        return rg_error_memory(err);
    int rc = rg_env_check_name(what, pair ? pair : value, err);

    if (rc == 0 && rg_strv_add(&request->first_env, pair ? pair : value) < 0)
        rc = rg_error_memory(err);
    return rc;
}

int rg_programs_give_back(struct rg_request *request, struct rg_error *err)
{
    const struct rg_strv *env = &request->first_env;
    int rc = request->first_cwd
                 ? rg_option_apply(rg_option_find("cwd"), request, "--cwd", request->first_cwd, err)
                 : 0;

    for (size_t i = 0; rc == 0 && i < env->count; i++)
        rc = rg_option_apply(rg_option_find("env"), request, "--env", env->v[i], err);
    return rc;
}

int rg_programs_settle(struct rg_request *request, struct rg_error *err)
{
    struct rg_job *job = &request->job;
    rg_cleanup(making_fini) struct making making = { .request = request, .what = "\":\"" };
    bool composed = job->engine == RG_ENGINE_OPENMPI || job->engine == RG_ENGINE_HYDRA;

    if (!rg_strv_has(&job->command, ":") || (rg_job_has_engine(job) && !composed))
        return rg_programs_give_back(request, err);
    rg_cleanup(program_fini) struct program first = { .np = job->np,
                                                      .cwd = rg_steal_ptr(&request->first_cwd),
                                                      .nslots = count_slots(job, 0) };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < request->first_env.count; i++)
        rc = take_env(request, &first, "--env", request->first_env.v[i], err);
    rc = rc < 0 ? rc : take_programs(&making, &first, &job->command, err);

    return rc < 0 ? rc : finish(&making, &job->command, err);
}

/* The words of all lines, with a colon between two of them. */
static int read_lines(const char *path, char *text, struct rg_strv *words, struct rg_error *err)
{
    unsigned number = 0;
    char *rest = text, *line, where[300];
    int rc = 0;

    while (rc == 0 && (line = strsep(&rest, "\n"))) {
        snprintf(where, sizeof(where), "%.200s:%u", path, ++number);
        line += strspn(line, " \t\r");
        if (!*line || *line == '#')
            continue;
        if (words->count && rg_strv_add(words, ":") < 0)
            return rg_error_memory(err);
        rc = rg_shell_split(where, line, WORDS_MAX, words, err);
    }
    return rc;
}

int rg_programs_read(struct rg_request *request, const char *what, const char *path,
                     struct rg_error *err)
{
    rg_cleanup(making_fini) struct making making = { .request = request, .what = what };
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    rg_autofree char *text = NULL;
    size_t nbytes = 0;
    int rc = rg_read_named(what, path, FILE_NBYTES_MAX, &text, &nbytes, err);

    if (rc == 0 && memchr(text, '\0', nbytes))
        return rg_error_set(err, EINVAL, "%s %s: it holds a NUL byte", what, path);
    if (rc == 0 && request->job.np)
        return rg_error_set(err, EINVAL, "%s %s: each of its programs says how many ranks run it; "
                            "leave -np out", what, path);
    rc = rc < 0 ? rc : read_lines(path, text, &words, err);
    if (rc == 0 && !words.count)
        return rg_error_set(err, EINVAL, "%s %s: no program is in it; each line is -n N PROGRAM",
                            what, path);
    rc = rc < 0 ? rc : take_programs(&making, NULL, &words, err);
    return rc < 0 ? rc : finish(&making, &words, err);
}
