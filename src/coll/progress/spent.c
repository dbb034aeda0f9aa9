/* SPDX-License-Identifier: Apache-2.0 */
/* Reads /proc and /sys/fs/cgroup. */
#include "coll/progress/spent.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"

#define FILE_MAX 65536
#define GPU_LOOKS 10 /* the list of open files may be long: every so many looks ... */
#define GPU_FIRST 30 /* ... after these, as programs begin to use it after they have begun */

/* What a sum has grown by; 0 where it began anew. */
static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/* The number behind this word, which begins a line or follows a space. */
static bool find_number(const char *text, const char *word, uint64_t *ret_number)
{
    const char *at = strstr(text, word);

    while (at && at > text && !isspace((unsigned char) at[-1]))
        at = strstr(at + 1, word);
    if (!at)
        return false;
    *ret_number = strtoull(at + strlen(word), NULL, 10);
    return true;
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool read_thread(pid_t tid, uint64_t *ret_run_ns, uint64_t *ret_delay_ns)
{
    rg_autofree char *text = NULL;
    char path[64], *end;

    snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int) tid);
    if (tid <= 0 || rg_read_file(path, 256, &text, NULL) < 0)
        return false;
    *ret_run_ns = strtoull(text, &end, 10);
    *ret_delay_ns = strtoull(end, NULL, 10);
    return *end == ' ';
}

static uint32_t count_cpus(pid_t tid)
{
    cpu_set_t set;

    return sched_getaffinity(tid, sizeof(set), &set) == 0
               ? (uint32_t) CPU_COUNT(&set)
               : (uint32_t) sysconf(_SC_NPROCESSORS_ONLN); /* a set has no room for so many */
}

/* /dev/nvidiactl is open in processes that use none. */
bool rg_spent_is_gpu(const char *path)
{
    static const char *const numbered[] = { "/dev/nvidia", "/dev/dri/renderD", "/dev/accel/accel" };

    for (size_t i = 0; i < rg_array_len(numbered); i++) {
        size_t n = strlen(numbered[i]);
        if (strncmp(path, numbered[i], n) == 0 && isdigit((unsigned char) path[n]))
            return true;
    }
    return strcmp(path, "/dev/kfd") == 0;
}

static bool has_gpu(void)
{
    rg_autodir DIR *fds = opendir("/proc/self/fd");
    struct dirent *entry;
    char target[64];

    while (fds && (entry = readdir(fds))) {
        ssize_t n = readlinkat(dirfd(fds), entry->d_name, target, sizeof(target) - 1);

        target[n > 0 ? n : 0] = '\0';
        if (rg_spent_is_gpu(target))
            return true;
    }
    return false;
}

static void look_at_thread(struct rg_spent *spent, pid_t tid, uint64_t waits_ns, uint64_t now_ns)
{
    uint64_t run_ns = 0, delay_ns = 0;
    bool known = read_thread(tid, &run_ns, &delay_ns);

    if (known && spent->last.tid == tid && !spent->last.gpu) {
        uint64_t used_ns = grown(run_ns, spent->last.run_ns);
        spent->timed_ns += now_ns - spent->last.at_ns;
        spent->computed_ns += grown(used_ns, grown(waits_ns, spent->last.waits_ns));
        spent->delayed_ns += grown(delay_ns, spent->last.delay_ns);
        spent->cpus = count_cpus(tid);
    }
    spent->last.tid = known ? tid : 0;
    spent->last.run_ns = run_ns;
    spent->last.delay_ns = delay_ns;
    spent->last.waits_ns = waits_ns;
    spent->last.at_ns = now_ns;
}

/* --- its cgroup ------------------------------------------------------------------------------- */

static char *read_of(const char *group, const char *file)
{
    char path[RG_SPENT_GROUP_MAX + 32], *text = NULL;

    snprintf(path, sizeof(path), "%s/%s", group, file);
    return rg_read_file(path, FILE_MAX, &text, NULL) < 0 ? NULL : text;
}

/* Version 2 says "max" where there is no limit, version 1 says -1. */
static bool has_limit(const char *group)
{
    rg_autofree char *max = read_of(group, "cpu.max");
    rg_autofree char *quota = max ? NULL : read_of(group, "cpu.cfs_quota_us");
    const char *text = max ? max : quota;

    return text && isdigit((unsigned char) *text);
}

static bool read_throttle(const char *group, uint64_t *ret_ns)
{
    rg_autofree char *text = read_of(group, "cpu.stat");
    uint64_t us;

    if (text && find_number(text, "throttled_usec ", &us)) {
        *ret_ns = us * 1000;
        return true;
    }
    return text && find_number(text, "throttled_time ", ret_ns);
}

/* The nearest group that has a limit, from this one upward to the mount's root: in a container the
 * path may be the host's, of which only the root is there. */
static bool find_limited(char *group, size_t root_length, uint64_t *ret_ns)
{
    for (;;) {
        if (has_limit(group) && read_throttle(group, ret_ns))
            return true;
        char *slash = strrchr(group, '/');
        if (strlen(group) <= root_length || !slash)
            return false;
        *slash = '\0';
    }
}

static bool has_cpu(const char *controllers)
{
    size_t n = strcspn(controllers, ",");

    return (n == 3 && strncmp(controllers, "cpu", 3) == 0) ||
           (controllers[n] && has_cpu(controllers + n + 1));
}

/* A line is "hierarchy:controllers:path"; version 2 has no controllers. */
static bool look_by_line(char *line, char group[RG_SPENT_GROUP_MAX], uint64_t *ret_ns)
{
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!path)
        return false;
    *path++ = '\0';
    controllers++;
    if (*controllers && !has_cpu(controllers))
        return false;
    snprintf(group, RG_SPENT_GROUP_MAX, "/sys/fs/cgroup%s%s", *controllers ? "/" : "", controllers);
    size_t root_length = strlen(group);
    if (strcmp(path, "/") != 0 && root_length + strlen(path) < RG_SPENT_GROUP_MAX)
        memcpy(group + root_length, path, strlen(path) + 1);
    return find_limited(group, root_length, ret_ns);
}

static void look_at_group(struct rg_spent *spent)
{
    rg_autofree char *text = NULL;
    char group[RG_SPENT_GROUP_MAX] = "", *rest, *line;
    uint64_t ns = 0;
    bool found = false;

    if (rg_read_file("/proc/self/cgroup", FILE_MAX, &text, NULL) < 0)
        return;
    rest = text;
    while (!found && (line = strsep(&rest, "\n")))
        found = look_by_line(line, group, &ns);
    if (found && strcmp(group, spent->last.group) == 0)
        spent->throttled_ns += grown(ns, spent->last.throttle_ns);
    snprintf(spent->last.group, sizeof(spent->last.group), "%s", found ? group : "");
    spent->last.throttle_ns = ns;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Pages of both kinds that had been in memory before. */
static uint64_t read_refaults(void)
{
    rg_autofree char *text = NULL;
    uint64_t anon = 0, file = 0;

    if (rg_read_file("/proc/vmstat", FILE_MAX, &text, NULL) < 0)
        return 0;
    find_number(text, "workingset_refault_anon ", &anon);
    if (!find_number(text, "workingset_refault_file ", &file))
        find_number(text, "workingset_refault ", &file); /* before Linux 5.9 */
    return anon + file;
}

static void look_at_memory(struct rg_spent *spent)
{
    struct rusage usage = { .ru_majflt = 0 };
    uint64_t refaults = read_refaults(), faults;

    getrusage(RUSAGE_SELF, &usage);
    faults = (uint64_t) usage.ru_majflt;
    if (spent->last.looks) {
        spent->refaults += grown(refaults, spent->last.refaults);
        spent->faults += grown(faults, spent->last.faults);
    }
    spent->last.refaults = refaults;
    spent->last.faults = faults;
}

void rg_spent_look(struct rg_spent *spent, pid_t tid, uint64_t waits_ns, uint64_t now_ns)
{
    if (spent->last.looks < GPU_FIRST || spent->last.looks % GPU_LOOKS == 0)
        spent->last.gpu = has_gpu();
    look_at_thread(spent, tid ? tid : spent->last.tid, waits_ns, now_ns);
    look_at_group(spent);
    look_at_memory(spent);
    spent->last.looks++;
}
