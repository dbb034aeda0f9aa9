/* SPDX-License-Identifier: Apache-2.0 */
/* The runtimes' command lines need facts about the host and the user, which are found out once. */
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "agent/contain/contain.h"
#include "agent/store/store.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/cpus.h"
#include "base/process/spawn.h"
#include "container/bundle.h"

#define INSPECT_MS 5000
#define SAY_MAX 4096 /* of a line, see launch/host/preamble.h */

void rg_contain_say(const char *fmt, ...)
{
    char line[SAY_MAX];
    va_list args;
    int n = snprintf(line, sizeof(line), "reigen-boot ");

    va_start(args, fmt);
    n += vsnprintf(line + n, sizeof(line) - (size_t) n, fmt, args);
    va_end(args);
    if (n > SAY_MAX - 2)
        n = SAY_MAX - 2;
    for (int i = 0; i < n; i++) {
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    }
    line[n++] = '\n';
    rg_write_all(1, line, (size_t) n);
}

/* --- the user -------------------------------------------------------------------------------- */

static void find_user(struct rg_contain *contain)
{
    struct rg_container_host *host = &contain->host;
    const struct passwd *entry = getpwuid(geteuid());
    const char *home = getenv("HOME"), *name = getenv("USER");

    host->uid = geteuid();
    host->gid = getegid();
    if (entry)
        name = entry->pw_name;
    if (!name || !*name || strpbrk(name, ":\n"))
        name = "user";
    snprintf(contain->user_name, sizeof(contain->user_name), "%s", name);
    host->user_name = contain->user_name;
    if ((!home || *home != '/') && entry)
        home = entry->pw_dir;
    if (home && *home == '/' && strlen(home) < sizeof(contain->home))
        strcpy(contain->home, home);
    int n = getgroups(RG_CONTAIN_GROUPS_MAX, contain->groups);
    for (int i = 0; i < n; i++) {
        if (contain->groups[i] != host->gid)
            contain->groups[host->ngroups++] = contain->groups[i];
    }
    host->groups = contain->groups;
}

static const char *group_name(gid_t gid, const char *fallback, char *buf, size_t nbytes)
{
    const struct group *entry = getgrgid(gid);

    if (entry && !strpbrk(entry->gr_name, ":\n"))
        snprintf(buf, nbytes, "%s", entry->gr_name);
    else
        snprintf(buf, nbytes, "%s", fallback);
    return buf;
}

/* Names for the ids that files have in any image, and for the caller's. */
static void format_passwd(const struct rg_contain *contain, struct rg_buf *text)
{
    const struct rg_container_host *host = &contain->host;

    rg_buf_printf(text, "root:x:0:0:root:/root:/bin/sh\n"
                        "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                        "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                        "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"
                        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
                        "%s:x:%u:%u:%s:%s:/bin/sh\n",
                  contain->user_name, (unsigned) host->uid, (unsigned) host->gid,
                  contain->user_name, host->home ? host->home : RG_CONTAINER_RUN);
}

static void format_group(const struct rg_contain *contain, struct rg_buf *text)
{
    const struct rg_container_host *host = &contain->host;
    char name[64], fallback[24];

    rg_buf_printf(text, "root:x:0:\ndaemon:x:1:\nbin:x:2:\nadm:x:4:\ntty:x:5:\n"
                        "nogroup:x:65534:\n%s:x:%u:\n",
                  group_name(host->gid, contain->user_name, name, sizeof(name)),
                  (unsigned) host->gid);
    for (size_t i = 0; i < host->ngroups; i++) {
        snprintf(fallback, sizeof(fallback), "g%u", (unsigned) host->groups[i]);
        rg_buf_printf(text, "%s:x:%u:%s\n",
                      group_name(host->groups[i], fallback, name, sizeof(name)),
                      (unsigned) host->groups[i], contain->user_name);
    }
}

static int write_names(struct rg_contain *contain, int which,
                       void (*format)(const struct rg_contain *, struct rg_buf *),
                       const char *name, const char **ret_path)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char *path = contain->paths[which] = rg_strf("%s/%s", contain->dir, name);

    format(contain, &text);
    if (!path || rg_buf_status(&text) < 0)
        return -ENOMEM;
    *ret_path = path;
    return rg_contain_write(contain->dir, name, rg_buf_bytes(&text), rg_buf_nbytes(&text), 0644);
}

/* --- directories ----------------------------------------------------------------------------- */

static bool is_directory(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* What an image brings itself must not be hidden by the host's. */
static bool may_mount(const char *path)
{
    static const char *const own[] = { "bin",  "boot", "dev", "etc",    "lib", "lib32", "lib64",
                                       "proc", "run",  "sys", "reigen", "sbin", "usr" };
    size_t n = strcspn(path + 1, "/");

    for (size_t i = 0; i < rg_array_len(own); i++) {
        if (strlen(own[i]) == n && strncmp(own[i], path + 1, n) == 0)
            return false;
    }
    return n > 0;
}

static void find_directories(struct rg_contain *contain)
{
    struct rg_container_host *host = &contain->host;
    const char *cwd = contain->container.place.cwd;

    /* root's home in an image often holds programs, which the host's would hide. */
    if (!contain->container.user && host->uid != 0 && *contain->home && may_mount(contain->home) &&
        is_directory(contain->home))
        host->home = contain->home;
    if (!cwd || *cwd != '/')
        return;
    if (!is_directory(cwd) && contain->container.place.cwd_is_sent)
        return;
    if (!is_directory(cwd))
        rg_contain_say("note there is no directory %s here: ranks start in the image's working "
                       "directory. Go to one that all hosts have, or mount one and name it by "
                       "--cwd", cwd);
    else if (may_mount(cwd))
        host->cwd = cwd;
    else if (cwd[1])
        rg_contain_say("note %s is a directory of the system and is not mounted; the ranks start "
                       "in the image's working directory", cwd);
}

static uint64_t half_of_memory(void)
{
    struct sysinfo info;

    if (sysinfo(&info) < 0)
        return 1u << 30;
    return (uint64_t) info.totalram * info.mem_unit / 2;
}

int rg_contain_find_host(struct rg_contain *contain, struct rg_error *err)
{
    struct rg_container_host *host = &contain->host;
    int r = 0;

    find_user(contain);
    find_directories(contain);
    host->name = contain->name;
    host->job_id = contain->job_id;
    host->shm_nbytes = half_of_memory();
    host->infiniband = is_directory("/dev/infiniband");
    host->cpus = contain->cpus = rg_cpus_limit(RG_CPUS_ROOT);
    host->selinux = access("/sys/fs/selinux/enforce", F_OK) == 0;
    if (contain->container.ibdevices && !host->infiniband)
        rg_contain_say("note --ibdevices: this host has no /dev/infiniband");
    host->bin_dir = contain->paths[0] = rg_strf("%s/bin", contain->dir);
    host->run_dir = contain->paths[1] = rg_strf("%s/run", contain->dir);
    if (!host->bin_dir || !host->run_dir)
        r = -ENOMEM;
    if (r == 0 && !contain->container.user && host->uid != 0) {
        r = write_names(contain, 2, format_passwd, "passwd", &host->passwd);
        if (r == 0)
            r = write_names(contain, 3, format_group, "group", &host->group);
    }
    return r < 0 ? rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE,
                                     "files for the container in %s: %s",
                                     contain->dir, strerror(-r)) : 0;
}

/* --- our Python packages --------------------------------------------------------------------- */

/* Taken from our standard input, where the launcher puts it when it is asked. */
static int fetch_bundle(const struct rg_container_place *place, const char *path,
                     struct rg_error *err)
{
    if (place->bundle_nbytes > RG_BUNDLE_MAX)
        return rg_error_set(err, EFBIG, "an archive of %llu bytes",
                            (unsigned long long) place->bundle_nbytes);
    rg_autofree uint8_t *data = malloc(place->bundle_nbytes + 1);
    if (!data)
        return rg_error_set(err, ENOMEM, "out of memory");
    rg_contain_say("need bundle");
    int r = rg_read_all(0, data, place->bundle_nbytes);
    if (r < 0)
        return rg_error_set(err, -r, "the launcher sent nothing: %s", strerror(-r));
    return rg_store_keep_bundle(data, place->bundle_nbytes, path, err);
}

void rg_contain_find_bundle(struct rg_contain *contain)
{
    const struct rg_container_place *place = &contain->container.place;
    struct rg_error err = RG_ERROR_INIT;

    if (contain->container.inject == RG_INJECT_NO)
        return;
    if (contain->container.inject == RG_INJECT_YES)
        rg_contain_write(contain->dir, "run/inject", "", 0, 0644); /* see inside.c */
    if (!place->bundle_digest)
        return;
    if (!rg_store_bundle_fits(place->bundle_digest)) {
        rg_contain_say("note Reigen's Python packages are not mounted: this host has another "
                       "architecture than the launcher's");
        return;
    }
    char *path = contain->paths[4] = rg_strf("%s/bundle-%s", contain->base, place->bundle_digest);
    if (!path || (!is_directory(path) && fetch_bundle(place, path, &err) < 0))
        rg_contain_say("note Reigen's Python packages are not mounted: %s", err.text);
    else
        contain->host.bundle_dir = path;
    /* When it was last used: see rg_contain_sweep. */
    if (contain->host.bundle_dir)
        utimensat(AT_FDCWD, path, NULL, 0);
}

/* --- who has the name that the user has given our container ---------------------------------- */

/* What our own containers are labelled with (container/oci.c), and what anybody's have. */
static const char format[] = "{{index .Config.Labels \"reigen.job\"}}|"
                             "{{index .Config.Labels \"reigen.user\"}}|"
                             "{{.State.Running}}|{{.Config.Image}}";

int rg_contain_explain_name(const struct rg_contain *contain, const char *program,
                            struct rg_error *err)
{
    const char *name = contain->container.name;
    const char *const argv[] = { program, "container", "inspect", "--format", format, name, NULL };
    char said[RG_CONTAIN_SAID_MAX];

    if (rg_capture(argv, NULL, true, INSPECT_MS, said, sizeof(said)) != 0)
        return -ENOENT;
    said[strcspn(said, "\n")] = '\0';
    char *rest = said, *job = strsep(&rest, "|"), *user = strsep(&rest, "|");
    const char *state = strsep(&rest, "|");
    bool runs = state && strcmp(state, "true") == 0;
    if (!rest)
        return -ENOENT;
    if (!*job)
        return rg_error_set_exit(err, EEXIST, RG_EXIT_CONTAINER,
                                 "a container named %s is there already, %s, of the image %.100s, "
                                 "which is none of Reigen's: give another --dockname, or remove it "
                                 "if it is yours (%s rm --force %s)",
                                 name, runs ? "running" : "stopped", rest, contain->host.program,
                                 name);
    if (strtol(user, NULL, 10) != (long) getuid())
        return rg_error_set_exit(err, EEXIST, RG_EXIT_CONTAINER,
                                 "a container named %s is there already, of a job of the user %s: "
                                 "give another --dockname", name, user);
    return rg_error_set_exit(err, EEXIST, RG_EXIT_CONTAINER,
                             "your job %s has a container named %s here: wait for that job, end it "
                             "(reigen jobs, or squeue --me on Slurm), or give another --dockname",
                             job, name);
}
