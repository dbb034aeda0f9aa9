/* SPDX-License-Identifier: Apache-2.0 */
/* Only a process at the place itself can measure what ranks will find there; it may hang, and
 * then costs nothing but its own facts. */
#include "agent/look/doctor.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "agent/contain/contain.h"
#include "agent/sync/sync.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/time.h"

#define FILE_MAX_NBYTES 65536
#define ROUTES_MAX 16
#define DAPL_MAX 16
#define CAP_SYS_PTRACE_BIT 19
#define PATTERN 0x72656967656e2121ull

/* What was found and not yet written. The whole process is one look, so it has one. */
static struct rg_buf out = RG_BUF_INIT;

/* Sent in pieces, so that a hanging program costs nothing but its own facts. */
static void flush(void)
{
    rg_write_all(1, rg_buf_bytes(&out), rg_buf_nbytes(&out));
    rg_buf_clear(&out);
}

static char *read_text(const char *path)
{
    char *text = NULL;

    rg_read_file(path, FILE_MAX_NBYTES, &text, NULL);
    return text;
}

/* The number behind a name, as in /proc/self/status; -1 when it is not there. */
static long long number_of(const char *text, const char *name, int base)
{
    const char *at = text ? strstr(text, name) : NULL;

    return at ? strtoll(at + strlen(name), NULL, base) : -1;
}

/* What a program says. Its bytes; 0 also when it failed; -ETIMEDOUT, or another -errno where there
 * is none. */
static int ask(const char *const *argv, char *ret_text, size_t room)
{
    int r = rg_capture(argv, NULL, false, RG_DOCTOR_PROGRAM_MS, ret_text, room);

    return r == 0 ? (int) strlen(ret_text) : r > 0 ? 0 : r;
}

static bool find(const char *name, char ret_path[PATH_MAX])
{
    return rg_path_find(getenv("PATH"), name, strlen(name), ret_path);
}

/* --- the machine ------------------------------------------------------------------------------ */

/* Entries of a directory that begin so; numbered: and go on with a digit. */
static int count_entries(const char *dir, const char *prefix, bool numbered)
{
    rg_autodir DIR *d = opendir(dir);
    int count = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        count += rg_str_starts(e->d_name, prefix) &&
                 (!numbered || isdigit((unsigned char) e->d_name[strlen(prefix)]));
    return count;
}

static void put_system(void)
{
    struct utsname name;
    char version[128];
    cpu_set_t cpus;

    if (uname(&name) == 0)
        rg_buf_printf(&out, "kernel %s %s\n", name.release, name.machine);
    if (ask((const char *const[]){ "getconf", "GNU_LIBC_VERSION", NULL }, version,
            sizeof(version)) > 0 && rg_str_starts(version, "glibc "))
        rg_buf_printf(&out, "libc %.*s\n", (int) strcspn(version, "\n"), version);
    else
        rg_buf_printf(&out, "libc %s\n",
                      count_entries("/lib", "ld-musl-", false) ? "musl" : "none");
    if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
        rg_buf_printf(&out, "cpus %d\n", CPU_COUNT(&cpus));
}

static void put_limit(const char *fact, int which)
{
    struct rlimit limit;

    if (getrlimit((unsigned) which, &limit) < 0)
        return;
    if (limit.rlim_cur == RLIM_INFINITY)
        rg_buf_printf(&out, "%s unlimited\n", fact);
    else
        rg_buf_printf(&out, "%s %llu\n", fact, (unsigned long long) limit.rlim_cur);
}

static void put_limits(void)
{
    struct rlimit limit;

    put_limit("memlock", RLIMIT_MEMLOCK);
    put_limit("nproc", RLIMIT_NPROC);
    put_limit("vmem", RLIMIT_AS);
    put_limit("fsize", RLIMIT_FSIZE);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        rg_buf_printf(&out, "nofile %llu %llu\n", (unsigned long long) limit.rlim_cur,
                      (unsigned long long) limit.rlim_max);
}

static void put_disk(const char *fact, const char *path, const char *shown)
{
    struct statvfs fs;

    if (statvfs(path, &fs) == 0)
        rg_buf_printf(&out, "%s %llu %llu%s%s\n", fact,
                      (unsigned long long) fs.f_blocks * fs.f_frsize,
                      (unsigned long long) fs.f_bavail * fs.f_frsize, *shown ? " " : "", shown);
    else if (!*shown)
        rg_buf_printf(&out, "%s 0 0\n", fact);
}

/* The least of this file's numbers, from the process's group up to the root of what is visible. */
static unsigned long long least_of(const char *group, const char *file)
{
    char path[PATH_MAX], at[PATH_MAX];
    unsigned long long least = ULLONG_MAX;

    snprintf(at, sizeof(at), "%s", group);
    for (;;) {
        if (snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", at, file) >= (int) sizeof(path))
            return least;
        rg_autofree char *text = read_text(path);
        if (text && *text >= '0' && *text <= '9') {
            unsigned long long n = strtoull(text, NULL, 10);
            least = n < least ? n : least;
        }
        char *slash = strrchr(at, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* The process's group in a hierarchy: behind "0::" for cgroup v2, ":memory:" and the like for v1,
 * where the folder of that name comes first. "" where there is none. */
static void find_group(const char *groups, const char *mark, const char *folder, char *ret_group)
{
    const char *at = groups ? strstr(groups, mark) : NULL;
    const char *path = at ? at + strlen(mark) : "";

    snprintf(ret_group, PATH_MAX, "%s%.*s", at ? folder : "", (int) strcspn(path, "\n"), path);
    size_t n = strlen(ret_group);
    if (n && ret_group[n - 1] == '/')
        ret_group[n - 1] = '\0';
}

static void put_memory(const char *groups)
{
    rg_autofree char *info = read_text("/proc/meminfo");
    char group[PATH_MAX];
    unsigned long long total = (unsigned long long) number_of(info, "MemTotal:", 10) * 1024;
    unsigned long long room = (unsigned long long) number_of(info, "MemAvailable:", 10) * 1024;

    find_group(groups, "0::", "", group);
    unsigned long long limit = least_of(group, "memory.max");
    unsigned long long used = least_of(group, "memory.current");
    if (limit == ULLONG_MAX) {
        find_group(groups, ":memory:", "/memory", group);
        limit = least_of(group, "memory.limit_in_bytes");
        used = least_of(group, "memory.usage_in_bytes");
    }
    if (info && limit >= total)
        limit = total;
    else if (used < limit && limit - used < room)
        room = limit - used;
    if (info)
        rg_buf_printf(&out, "memory %llu %llu\n", limit, room < limit ? room : limit);
}

static void put_quota(const char *groups)
{
    char group[PATH_MAX], path[PATH_MAX];

    find_group(groups, "0::", "", group);
    if (snprintf(path, sizeof(path), "/sys/fs/cgroup%s/cpu.max", group) >= (int) sizeof(path))
        return;
    rg_autofree char *quota = read_text(path);
    if (quota && *quota >= '0' && *quota <= '9') {
        rg_buf_printf(&out, "quota %.*s\n", (int) strcspn(quota, "\n"), quota);
        return;
    }
    find_group(groups, ":cpu,cpuacct:", "/cpu", group);
    if (!*group)
        find_group(groups, ":cpu:", "/cpu", group);
    unsigned long long allowed = least_of(group, "cpu.cfs_quota_us");
    unsigned long long period = least_of(group, "cpu.cfs_period_us");
    if (*group && allowed != ULLONG_MAX && period != ULLONG_MAX)
        rg_buf_printf(&out, "quota %llu %llu\n", allowed, period);
}

/* A child that waits with the pattern in its memory until it is killed. */
static pid_t fork_target(const volatile uint64_t *pattern)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (*pattern == PATTERN)
            pause();
        _exit(1);
    }
    return pid;
}

/* Can a process read the memory of its sibling, as ranks of one host want to? 0, or the errno. */
static int try_cma(void)
{
    static volatile uint64_t pattern;
    int status = 0;

    prctl(PR_SET_DUMPABLE, 1);
    pattern = PATTERN;
    pid_t target = fork_target(&pattern);
    if (target < 0)
        return errno;
    pid_t reader = fork();
    if (reader == 0) {
        uint64_t seen = 0;
        struct iovec to = { &seen, sizeof(seen) };
        struct iovec from = { (void *) (uintptr_t) &pattern, sizeof(pattern) };
        ssize_t n = process_vm_readv(target, &to, 1, &from, 1, 0);
        _exit(n < 0 ? errno : seen == PATTERN ? 0 : EIO);
    }
    while (reader > 0 && waitpid(reader, &status, 0) < 0 && errno == EINTR)
        ;
    kill(target, SIGKILL);
    while (waitpid(target, NULL, 0) < 0 && errno == EINTR)
        ;
    return reader < 0 ? EAGAIN : WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

static void put_caps_and_cma(void)
{
    rg_autofree char *status = read_text("/proc/self/status");
    rg_autofree char *yama = read_text("/proc/sys/kernel/yama/ptrace_scope");
    unsigned long long caps = (unsigned long long) number_of(status, "CapEff:\t", 16);

    if (status)
        rg_buf_printf(&out, "caps %llu %llu\n", caps,
                      (unsigned long long) number_of(status, "CapBnd:\t", 16));
    rg_buf_printf(&out, "cma %d %lld %d %d\n", try_cma(),
                  number_of(status, "Seccomp:", 10), yama ? atoi(yama) : 0,
                  status && (caps >> CAP_SYS_PTRACE_BIT & 1));
}

/* --- devices and routes ----------------------------------------------------------------------- */

static void put_rdma(void)
{
    rg_autodir DIR *d = opendir("/sys/class/infiniband");
    char path[512];

    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/sys/class/infiniband/%.200s/ports/1/state", e->d_name);
        rg_autofree char *state = read_text(path);
        rg_buf_printf(&out, "rdma %s %.*s\n", e->d_name, state ? (int) strcspn(state, "\n") : 1,
                      state ? state : "?");
    }
    rg_buf_printf(&out, "rdma-devices %d\n", count_entries("/dev/infiniband", "uverbs", true));
}

/* What Intel MPI and NCCL reach RDMA devices by, and NCCL where the system has it. */
static void put_fabrics(void)
{
    static const char *const folders[] = { "lib64", "lib/x86_64-linux-gnu",
                                           "lib/aarch64-linux-gnu", "local/lib" };
    rg_autofree char *text = read_text("/etc/dat.conf");
    int n = 0;

    for (const char *line = text; line && *line && n < DAPL_MAX;) {
        int length = (int) strcspn(line, " \t\n");
        if (*line != '#' && length) {
            rg_buf_printf(&out, "dapl %.*s\n", length, line);
            n++;
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    for (size_t i = 0; i < rg_array_len(folders); i++) {
        char path[64], to[64] = "";
        snprintf(path, sizeof(path), "/usr/%s/libucp.so.0", folders[i]);
        if (access(path, F_OK) == 0)
            rg_buf_printf(&out, "ucx 1\n");
        snprintf(path, sizeof(path), "/usr/%s/libnccl.so.2", folders[i]);
        if (readlink(path, to, sizeof(to) - 1) > 0)
            rg_buf_printf(&out, "nccl %s\n", to);
    }
    if (access("/sys/module/nvidia_peermem", F_OK) == 0)
        rg_buf_printf(&out, "peermem 1\n");
}

static void put_routes(void)
{
    rg_autofree char *text = read_text("/proc/net/route");
    const char *line = text ? strchr(text, '\n') : NULL;

    for (int n = 0; line && line[1] && n < ROUTES_MAX; n++, line = strchr(line + 1, '\n')) {
        char name[32], net[INET_ADDRSTRLEN], via[INET_ADDRSTRLEN];
        unsigned field[7]; /* the network, its gateway, four numbers, and the mask */
        char *rest = (char *) rg_str_word(line + 1, name, sizeof(name));
        for (size_t i = 0; i < rg_array_len(field); i++)
            field[i] = (unsigned) strtoul(rest, &rest, 16);
        inet_ntop(AF_INET, &field[0], net, sizeof(net));
        inet_ntop(AF_INET, &field[1], via, sizeof(via));
        rg_buf_printf(&out, "route %s/%d %s %s\n", net, __builtin_popcount(field[6]), name,
                      field[1] ? via : "-");
    }
}

/* Each line is out at once: a GPU that hangs costs only those after it. */
static void try_gpus(void)
{
    const char *script = getenv(RG_DOCTOR_GPUS_SCRIPT);
    char path[PATH_MAX], text[8192] = "";
    bool tried = false;
    int r;

    if (!script || (!find("python3", path) && !find("python", path)))
        return;
    r = rg_capture((const char *const[]){ path, "-c", script, NULL }, NULL, false,
                   RG_DOCTOR_GPUS_MS, text, sizeof(text));
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        tried = tried || rg_str_starts(line, "gpu-tried");
        if (rg_str_starts(line, "gpu-"))
            rg_buf_printf(&out, "%.240s\n", line);
    }
    if (r == -ETIMEDOUT)
        rg_buf_printf(&out, "gpu-bad - late\n");
    else if (!tried)
        rg_buf_printf(&out, "gpu-bad - what tries them ended too early (%d)\n", r);
}

static void put_gpus(void)
{
    static const char *const questions[][3] = {
        { "gpu-name", "-L", NULL },
        { "gpu-state", "--query-gpu=index,driver_version,mig.mode.current,"
                       "ecc.errors.uncorrected.volatile.total", "--format=csv,noheader" },
        { "gpu-topo", "topo", "-m" },
    };
    char text[8192];

    rg_buf_printf(&out, "gpu %d\n", count_entries("/dev", "nvidia", true));
    for (size_t i = 0; i < rg_array_len(questions); i++) {
        const char *const *question = questions[i];
        int n = ask((const char *const[]){ "nvidia-smi", question[1], question[2], NULL }, text,
                    sizeof(text));
        if (i == 0 && (n == -ETIMEDOUT || n == 0))
            rg_buf_printf(&out, "gpu-trouble %s\n", n ? "late" : "failed");
        if (n <= 0)
            return;
        for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
            rg_buf_printf(&out, "%s %.240s\n", *question, line);
        flush();
    }
    try_gpus();
}

/* --- software --------------------------------------------------------------------------------- */

static void put_name(const char *name)
{
    char text[256];
    int n = ask((const char *const[]){ "getent", "ahosts", name, NULL }, text, sizeof(text));

    if (n >= 0 || n == -ETIMEDOUT)
        rg_buf_printf(&out, "resolve %s %.*s\n", name, n > 0 ? (int) strcspn(text, " \n") : 1,
                      n > 0 ? text : "-");
}

/* Where no server of names answers, each takes its time: not all are asked for then. */
static void put_names(char *const *names)
{
    uint64_t until_ns = rg_now_ns() + RG_DOCTOR_PROGRAM_MS * RG_NS_PER_MS;

    for (int i = 0; names[i] && i < RG_DOCTOR_NAMES_MAX && rg_now_ns() < until_ns; i++) {
        put_name(names[i]);
        flush();
    }
}

static void put_mpi(void)
{
    char path[PATH_MAX], text[512], line[200];

    if (!find("mpirun", path) && !find("mpiexec", path))
        return;
    int n = ask((const char *const[]){ path, "--version", NULL }, text, sizeof(text));
    rg_version_line(n > 0 ? text : "?", line, sizeof(line));
    rg_buf_printf(&out, "mpi %s %s\n", path, line);
}

/* Looked up, not imported: importing takes seconds. But Horovod is: only so is known whether
 * packages that came with the job can be used (agent/ranks/packages.h). */
static void put_python(void)
{
    static const char script[] =
        "import sys, importlib.util as u\n"
        "try:\n"
        " from importlib.metadata import version\n"
        "except ImportError:\n"
        " version = lambda p: 1 / 0\n"
        "print(sys.version.split()[0])\n"
        "for p in 'numpy', 'torch', 'tensorflow', 'jax', 'horovod', 'mpi4py':\n"
        " try:\n"
        "  found = u.find_spec(p)\n"
        " except Exception:\n"
        "  continue\n"
        " if p == 'horovod' and found:\n"
        "  try:\n"
        "   import horovod, reigen\n"
        "  except ImportError as e:\n"
        "   if type(e) is ImportError: print('no-horovod', e); continue\n"
        " for name in (p, p + '-cpu', p + '-gpu', 'reigen') if found else ():\n"
        "  try:\n"
        "   print('package', p, version(name)); break\n"
        "  except Exception:\n"
        "   pass\n"
        " else:\n"
        "  if found: print('package', p, '?')\n"
        "for n in '13', '12', '11':\n"
        " try:\n"
        "  print('package', 'nccl', version('nvidia-nccl-cu' + n)); break\n"
        " except Exception:\n"
        "  pass\n";
    char path[PATH_MAX], text[2048];

    if (!find("python3", path) && !find("python", path))
        return;
    int n = ask((const char *const[]){ path, "-c", script, NULL }, text, sizeof(text));
    rg_buf_printf(&out, "python %s %.*s\n", path, n > 0 ? (int) strcspn(text, "\n") : 1,
                  n > 0 ? text : "?");
    const char *rest = n > 0 ? strchr(text, '\n') : NULL;
    if (rest)
        rg_buf_printf(&out, "%s%s", rest + 1, text[n - 1] == '\n' ? "" : "\n");
}

int rg_doctor_main(char *const *names)
{
    rg_autofree char *groups = read_text("/proc/self/cgroup");
    bool clean = *names && strcmp(*names, RG_DOCTOR_CLEAN) == 0;
    char cwd[PATH_MAX];

    names += clean;
    put_system();
    put_limits();
    put_disk("shm", "/dev/shm", "");
    put_memory(groups);
    put_quota(groups);
    put_caps_and_cma();
    if (getcwd(cwd, sizeof(cwd)))
        put_disk("disk", ".", cwd);
    put_disk("disk", "/tmp", "/tmp");
    put_rdma();
    put_fabrics();
    put_routes();
    flush();
    put_mpi();
    flush();
    put_python();
    flush();
    put_gpus();
    flush();
    put_names(names);
    flush();
    int nleft = clean ? rg_contain_sweep_all() + rg_sync_sweep() : 0;
    if (nleft)
        rg_buf_printf(&out, "cleaned %d\n", nleft);
    rg_buf_printf(&out, "end\n");
    flush();
    rg_buf_fini(&out);
    return 0;
}
