/* SPDX-License-Identifier: Apache-2.0 */
/* What the user says of a matter wins over our settings, and may be said in many places: all of
 * them are read. */
#include "agent/engine/engine.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/process/spawn.h"

/* What people write for each matter. */
static const struct {
    unsigned matter;
    const char *text;
} signs[] = {
    { RG_USER_BTL, "btl_tcp_if_" },
    { RG_USER_OOB, "oob_tcp_if_" },
    { RG_USER_OOB, "oob_tcp_include" },
    { RG_USER_OOB, "oob_tcp_exclude" },
    { RG_USER_OOB, "prte_if_" },
    { RG_USER_OOB, "ptl_tcp_if_" },
    { RG_USER_BINDING, "hwloc_base_binding_policy" },
    { RG_USER_BINDING, "hwloc_default_binding_policy" },
    { RG_USER_UCX, "UCX_NET_DEVICES" },
    { RG_USER_NCCL, "NCCL_SOCKET_IFNAME" },
};

/* Where the search is. */
struct search {
    const struct rg_strv *env;
    const char *cwd;
    unsigned wanted; /* matters that are looked for in what comes next */
    unsigned found;
    unsigned nwords; /* looked up as files */
};

static void look_at(struct search *search, const char *text)
{
    for (size_t i = 0; i < rg_array_len(signs); i++) {
        if ((search->wanted & ~search->found & signs[i].matter) && strstr(text, signs[i].text))
            search->found |= signs[i].matter;
    }
}

/* --- files ------------------------------------------------------------------------------------ */

/* A text that people write, without its comments; an empty one for anything else. */
static void read_text(const char *path, struct rg_buf *text)
{
    rg_autofree char *all = NULL;
    size_t nbytes;

    if (rg_read_regular(path, true, RG_USER_FILE_MAX, &all, &nbytes) < 0 ||
        memchr(all, '\0', nbytes))
        return;
    for (char *line = all, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        end += *end == '\n';
        if (line[strspn(line, " \t")] != '#')
            rg_buf_put(text, line, (size_t) (end - line));
    }
}

static void look_into(struct search *search, const char *path)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    read_text(path, &text);
    look_at(search, rg_buf_text(&text));
}

static void look_below(struct search *search, const char *dir, const char *const *names)
{
    char path[PATH_MAX];

    for (size_t i = 0; dir && *dir && names[i]; i++) {
        if (snprintf(path, sizeof(path), "%s/%s", dir, names[i]) < PATH_MAX)
            look_into(search, path);
    }
}

/* --- parameter files -------------------------------------------------------------------------- */

static const char *const of_folder[] = {
    "openmpi-mca-params.conf", "openmpi-mca-params-override.conf", "prte-mca-params.conf",
    "pmix-mca-params.conf", NULL
};
static const char *const of_prefix[] = {
    "etc/openmpi-mca-params.conf", "etc/openmpi/openmpi-mca-params.conf",
    "etc/openmpi-mca-params-override.conf", "etc/prte-mca-params.conf",
    "etc/pmix-mca-params.conf", "etc/ucx/ucx.conf", NULL
};

/* PREFIX/bin/mpirun; path is changed. */
static void look_at_prefix_of(struct search *search, char *path)
{
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
    look_below(search, path, of_prefix);
}

/* The MPI whose program this is may have been installed elsewhere than where it is linked. */
static void look_at_mpi_of(struct search *search, const char *program)
{
    rg_autoclose int fd = open(program, O_PATH | O_CLOEXEC);
    char path[PATH_MAX], link[64];

    if (fd < 0 || snprintf(path, sizeof(path), "%s", program) >= PATH_MAX)
        return;
    look_at_prefix_of(search, path);
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n > 0) {
        path[n] = '\0';
        look_at_prefix_of(search, path);
    }
}

static void look_at_mpis_in_path(struct search *search)
{
    static const char *const programs[] = { "mpirun", "orterun", "prterun" };
    const char *dir = rg_env_get(search->env, "PATH");
    char path[PATH_MAX];

    for (size_t n; dir && *dir; dir += n + (dir[n] == ':')) {
        n = strcspn(dir, ":");
        for (size_t i = 0; n && i < rg_array_len(programs); i++) {
            if (snprintf(path, sizeof(path), "%.*s/%s", (int) n, dir, programs[i]) < PATH_MAX &&
                access(path, X_OK) == 0) {
                look_at_mpi_of(search, path);
                break;
            }
        }
    }
}

/* Distributions have a folder for each of their Open MPIs: /etc/openmpi-x86_64 and so on. */
static void look_at_systems(struct search *search)
{
    static const char *const others[] = { "ucx/ucx.conf", "nccl.conf", NULL };
    rg_autodir DIR *list = opendir("/etc");
    const struct dirent *entry;
    char path[PATH_MAX];

    while (list && (entry = readdir(list))) {
        if (!rg_str_starts(entry->d_name, "openmpi") && !rg_str_starts(entry->d_name, "prte") &&
            !rg_str_starts(entry->d_name, "pmix"))
            continue;
        snprintf(path, sizeof(path), "/etc/%s", entry->d_name);
        look_below(search, path, of_folder);
    }
    look_below(search, "/etc", of_folder);
    look_below(search, "/etc", others);
}

static void look_at_own(struct search *search)
{
    static const char *const of_home[] = { ".openmpi/mca-params.conf", ".prte/mca-params.conf",
                                           ".pmix/mca-params.conf", "ucx.conf", ".nccl.conf",
                                           NULL };
    static const char *const of_ucx[] = { "ucx.conf", NULL };
    static const char *const prefixes[] = { "OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX" };
    const char *nccl = rg_env_get(search->env, "NCCL_CONF_FILE");

    look_below(search, rg_env_get(search->env, "HOME"), of_home);
    look_below(search, rg_env_get(search->env, "UCX_CONFIG_DIR"), of_ucx);
    for (size_t i = 0; i < rg_array_len(prefixes); i++)
        look_below(search, rg_env_get(search->env, prefixes[i]), of_prefix);
    if (nccl)
        look_into(search, nccl);
}

/* OMPI_MCA_mca_base_param_files and its like: lists with commas or colons. */
static void look_at_list(struct search *search, const char *list)
{
    char path[PATH_MAX];

    for (size_t n; *list; list += n + (list[n] != '\0')) {
        n = strcspn(list, ":,");
        if (n && n < sizeof(path)) {
            memcpy(path, list, n);
            path[n] = '\0';
            look_into(search, path);
        }
    }
}

/* --- scripts ---------------------------------------------------------------------------------- */

static void look_at_words(struct search *search, const char *text, const char *dir, int depth);

/* Programs in these are full of words with dots that are no files. */
static bool is_other_language(const char *path)
{
    static const char *const ends[] = { ".py", ".pl", ".lua", ".yaml", ".yml", ".json", ".toml",
                                        ".csv", ".txt", ".md", ".ipynb" };
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < rg_array_len(ends); i++) {
        if (strcmp(dot, ends[i]) == 0)
            return true;
    }
    return false;
}

static void look_at_script(struct search *search, const char *path, int depth)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char dir[PATH_MAX];

    if (depth >= RG_USER_DEPTH_MAX || search->nwords >= RG_USER_WORDS_MAX)
        return;
    search->nwords++;
    read_text(path, &text);
    if (!rg_buf_nbytes(&text))
        return;
    look_at(search, rg_buf_text(&text));
    if (is_other_language(path))
        return;
    snprintf(dir, sizeof(dir), "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = '\0';
    look_at_words(search, rg_buf_text(&text), slash ? dir : search->cwd, depth + 1);
}

static void look_at_script_in(struct search *search, const char *dir, const char *name, int depth)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", dir && *dir ? dir : ".", name) < PATH_MAX)
        look_at_script(search, path, depth);
}

/* One that may name a script, or an mpirun by its path. What "$HERE/run.sh" means is not known, but
 * it is mostly beside the script that says so. dir: of that script, or NULL. */
static void look_at_word(struct search *search, const char *word, const char *dir, int depth)
{
    const char *slash = strrchr(word, '/');

    if (*word == '/') {
        if (strstr(slash, "mpi") || strstr(slash, "run"))
            look_at_mpi_of(search, word);
        look_at_script(search, word, depth);
        return;
    }
    if (slash && memchr(word, '$', (size_t) (slash - word)))
        word = slash + 1;
    look_at_script_in(search, search->cwd, word, depth);
    if (dir && (!search->cwd || strcmp(dir, search->cwd) != 0))
        look_at_script_in(search, dir, word, depth);
}

static void look_at_words(struct search *search, const char *text, const char *dir, int depth)
{
    static const char between[] = " \t\r\n\"'`;|&()<>=,";
    char word[512];

    for (size_t n; *(text += strspn(text, between)); text += n) {
        n = strcspn(text, between);
        if (n >= sizeof(word))
            continue;
        memcpy(word, text, n);
        word[n] = '\0';
        if (strpbrk(word, "./"))
            look_at_word(search, word, dir, depth);
    }
}

/* The first word may be a script that PATH has. */
static void look_at_program(struct search *search, const char *name)
{
    const char *dirs = rg_env_get(search->env, "PATH");
    char path[PATH_MAX];

    if (dirs && !strchr(name, '/') && rg_path_find(dirs, name, strlen(name), path))
        look_at_script(search, path, 0);
}

/* A word may have blanks of its own: what sh -c gets, or a file's name. */
static void look_at_command(struct search *search, const struct rg_strv *command)
{
    if (command->count)
        look_at_program(search, command->v[0]);
    for (size_t i = 0; i < command->count; i++) {
        look_at(search, command->v[i]);
        if (strpbrk(command->v[i], " \t\n="))
            look_at_words(search, command->v[i], NULL, 0);
        look_at_word(search, command->v[i], NULL, 0);
    }
}

/* --- all of it -------------------------------------------------------------------------------- */

unsigned rg_engine_user_sets(const struct rg_strv *command, const char *cwd, const char *remote,
                             const struct rg_strv *env)
{
    struct search search = { .env = env, .cwd = cwd && *cwd ? cwd : NULL,
                             .wanted = RG_USER_ALL };

    for (size_t i = 0; i < env->count; i++) {
        const char *value = strchr(env->v[i], '=');
        look_at(&search, env->v[i]);
        if (value && memmem(env->v[i], (size_t) (value - env->v[i]), "_param_files", 12))
            look_at_list(&search, value + 1);
    }
    look_at_own(&search);
    look_at_systems(&search);
    look_at_mpis_in_path(&search);
    /* Of the others, what stands here wins over ours by itself. */
    search.wanted = RG_USER_BTL | RG_USER_OOB;
    if (remote) {
        look_at(&search, remote);
        look_at_words(&search, remote, NULL, 0);
    }
    if (command)
        look_at_command(&search, command);
    return search.found;
}

bool rg_engine_is_daemon(const char *remote)
{
    static const char *const names[] = { "orted", "prted" };
    static const char around[] = " \t\"'/;";

    for (size_t i = 0; i < rg_array_len(names); i++) {
        for (const char *at = remote; (at = strstr(at, names[i])); at++) {
            if ((at == remote || strchr(around, at[-1])) && (!at[5] || strchr(around, at[5])))
                return true;
        }
    }
    return false;
}
