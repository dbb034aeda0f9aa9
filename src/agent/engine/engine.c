/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks are left to an mpirun of the user's, this finds it on the first host and makes its
 * command line. */
#include "agent/engine/engine.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/process/spawn.h"

/* --- what is installed ------------------------------------------------------------------------ */

/* The file that PATH has for a program; one with a slash is that file itself. */
static bool find(const struct rg_strv *env, const char *program, char path[PATH_MAX])
{
    const char *dir = rg_env_get(env, "PATH");

    if (strchr(program, '/')) {
        snprintf(path, PATH_MAX, "%s", program);
        return access(path, X_OK) == 0;
    }
    return rg_path_find(dir ? dir : "", program, strlen(program), path);
}

static bool is_openmpi(const char *version)
{
    return strstr(version, "Open MPI") || strstr(version, "OpenRTE");
}

static bool is_hydra(const char *version)
{
    return strstr(version, "HYDRA") || strstr(version, "Intel(R) MPI");
}

/* The first of these programs that is of the wanted kind, or NULL. The others are kept for the
 * error. It is called by its name: from a full path Open MPI concludes where it is on all hosts. */
static const char *find_engine(const char *const *programs, bool (*is_it)(const char *version),
                               const struct rg_strv *env, struct rg_buf *others)
{
    char version[RG_ENGINE_PROBE_MAX + 1], line[64], path[PATH_MAX];

    for (size_t i = 0; programs[i]; i++) {
        if (!find(env, programs[i], path))
            continue;
        const char *const argv[] = { path, "--version", NULL };
        rg_capture(argv, env->v, true, RG_ENGINE_PROBE_MS, version, sizeof(version));
        if (is_it(version))
            return programs[i];
        rg_version_line(version, line, sizeof(line));
        rg_buf_printf(others, "%s%s (%.60s)", rg_buf_nbytes(others) ? ", " : "", path,
                      *line ? line : "says no version");
    }
    return NULL;
}

static int not_found(const struct rg_msg_setup *setup, bool openmpi, struct rg_buf *others,
                     struct rg_error *err)
{
    const char *kind = openmpi ? "Open MPI" : "MPICH or Intel MPI";
    bool some = rg_buf_nbytes(others) > 0;

    return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                             "--engine %s: there is no mpirun of %s in PATH on host %s%s%s; "
                             "install it there (in the image), or leave --engine out: reigen "
                             "starts ranks without an MPI",
                             setup->engine, kind, setup->host, some ? ", only " : "",
                             rg_buf_text(others));
}

/* --- the command ------------------------------------------------------------------------------ */

static bool stays_here(const struct rg_msg_setup *setup, const char *entry, size_t length)
{
    static const char names[] = "REIGEN_AGENT_SOCKET REIGEN_AGENT_TOKEN REIGEN_JOB_DIR REIGEN_RSH "
                                "REIGEN_HOSTFILE PATH HOSTNAME";
    rg_autofree char *name = strndup(entry, length);

    return !name || rg_str_has_word(names, name) || rg_env_get(&setup->secret_env, name);
}

/* Hydra hands its whole environment to all ranks, in the clear. What is meant for its own host only
 * stays here, and so does what came by --share-env: the ranks find theirs in what our agent gives
 * to the daemon that starts them. MPICH knows no list of exceptions: this is one of all others. */
static int list_env(const struct rg_msg_setup *setup, const struct rg_strv *env,
                    struct rg_strv *argv)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;

    for (size_t i = 0; i < env->count; i++) {
        size_t n = strspn(env->v[i], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                                     "abcdefghijklmnopqrstuvwxyz0123456789");
        if (env->v[i][n] == '=' && !stays_here(setup, env->v[i], n))
            rg_buf_printf(&names, "%s%.*s", rg_buf_nbytes(&names) ? "," : "", (int) n, env->v[i]);
    }
    int r = rg_strv_add(argv, "-genvlist");
    return r < 0 ? r : rg_strv_add(argv, rg_buf_text(&names));
}

static int compose(struct rg_msg_setup *setup, const struct rg_strv *env, const char *program,
                   bool openmpi)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    int r = rg_strv_add(&argv, program);

    if (r == 0)
        r = rg_strv_add(&argv, openmpi ? "-np" : "-n");
    if (r == 0)
        r = rg_strv_addf(&argv, "%u", setup->np);
    if (r == 0 && !openmpi)
        r = list_env(setup, env, &argv);
    if (r == 0 && setup->engine_options.count)
        r = rg_strv_add_all(&argv, setup->engine_options.v);
    if (r == 0)
        r = rg_strv_add_all(&argv, setup->command.v);
    if (r < 0)
        return r;
    struct rg_strv before = setup->command;
    setup->command = argv;
    argv = before;
    return 0;
}

/* Intel's mpirun is a script that runs the mpiexec.hydra of PATH, which may be another MPI's: the
 * one beside it shall be found first. */
static int prefer_neighbours(const char *path, struct rg_strv *env)
{
    const char *slash = strrchr(path, '/'), *old = rg_env_get(env, "PATH");
    char neighbour[PATH_MAX];

    if (!slash || *path != '/' ||
        snprintf(neighbour, sizeof(neighbour), "%.*s/mpiexec.hydra", (int) (slash - path), path) >=
            PATH_MAX ||
        access(neighbour, X_OK) < 0)
        return 0;
    rg_autofree char *value = rg_strf("%.*s:%s", (int) (slash - path), path,
                                      old ? old : "/usr/bin");
    return value ? rg_env_set(env, "PATH", value) : -ENOMEM;
}

static int find_users_own(const struct rg_msg_setup *setup, struct rg_strv *env,
                          struct rg_error *err)
{
    const char *program = setup->command.v[0];
    char path[PATH_MAX];

    /* A relative path counts from the command's directory, not ours. */
    if (strchr(program, '/') && *program != '/')
        return 0;
    if (find(env, program, path))
        return prefer_neighbours(path, env);
    return rg_error_set_exit(err, ENOENT, RG_EXIT_NOT_FOUND,
                             "%s is not installed on host %s (%s); install an MPI there (in the "
                             "image), or let reigen start the ranks: reigen run -np %u -- "
                             "PROGRAM, without %s",
                             program, setup->host,
                             *program == '/' ? "no such program" : "not found in PATH", setup->np,
                             program);
}

static int prepare_composed(struct rg_msg_setup *setup, struct rg_strv *env, struct rg_error *err)
{
    static const char *const openmpis[] = { "mpirun", "mpirun.openmpi", "orterun", NULL };
    static const char *const hydras[] = { "mpiexec.hydra", "mpiexec", "mpirun", "mpiexec.mpich",
                                          NULL };
    bool openmpi = strcmp(setup->engine, "openmpi") == 0;
    rg_autobuf struct rg_buf others = RG_BUF_INIT;
    const char *program = find_engine(openmpi ? openmpis : hydras,
                                      openmpi ? is_openmpi : is_hydra, env, &others);
    char path[PATH_MAX];

    if (!program)
        return not_found(setup, openmpi, &others, err);
    int r = compose(setup, env, program, openmpi);
    return r == 0 && find(env, program, path) ? prefer_neighbours(path, env) : r;
}

int rg_engine_prepare(struct rg_msg_setup *setup, struct rg_strv *env, struct rg_error *err)
{
    int r = 0;

    if (strcmp(setup->engine, "mpirun") == 0)
        r = find_users_own(setup, env, err);
    else if (strcmp(setup->engine, "openmpi") == 0 || strcmp(setup->engine, "hydra") == 0)
        r = prepare_composed(setup, env, err);
    return r == -ENOMEM ? rg_error_set(err, ENOMEM, "no memory for the engine's command") : r;
}
