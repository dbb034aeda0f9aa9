/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that left their group or session are still found by who descends from whom. */
#include "base/process/proctree.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/fd.h"

#define STAT_MAX 4096
#define ENVIRON_MAX (4u << 20)

/* The name in parentheses may hold anything, so the fields are counted from the last ')'. */
static bool read_process(const char *name, struct rg_process *ret)
{
    char path[64];
    rg_autofree char *text = NULL;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", name);
    if (rg_read_file(path, STAT_MAX, &text, NULL) < 0)
        return false;
    char *rest = strrchr(text, ')'), *end;
    if (!rest || strlen(rest) < 4)
        return false;
    *ret = (struct rg_process){ .pid = (pid_t) atoi(name), .state = rest[2] };
    ret->parent = (pid_t) strtol(rest + 3, &end, 10);
    ret->group = (pid_t) strtol(end, &end, 10);
    ret->session = (pid_t) strtol(end, &rest, 10);
    return rest > end;
}

static int list_all(struct rg_process **ret_list, size_t *ret_count)
{
    rg_autodir DIR *dir = opendir("/proc");
    rg_autobuf struct rg_buf list = RG_BUF_INIT;
    struct rg_process process;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (isdigit((unsigned char) e->d_name[0]) && read_process(e->d_name, &process))
            rg_buf_put(&list, &process, sizeof(process));
    }
    if (rg_buf_status(&list) < 0 || !rg_buf_nbytes(&list))
        return rg_buf_status(&list) < 0 ? rg_buf_status(&list) : -ENOENT;
    *ret_count = rg_buf_nbytes(&list) / sizeof(process);
    *ret_list = (struct rg_process *) (void *) rg_steal_ptr(&list.data);
    return 0;
}

static bool is_parent_in(const struct rg_process *found, size_t nfound, pid_t root, pid_t parent)
{
    if (parent == root)
        return true;
    for (size_t i = 0; i < nfound; i++) {
        if (found[i].pid == parent)
            return true;
    }
    return false;
}

/* In a pid name space of its own, a container may still see another one's /proc: the numbers there
 * would name the wrong processes. */
static bool proc_is_ours(void)
{
    char self[32];
    ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);

    self[n > 0 ? n : 0] = '\0';
    return atoi(self) == getpid();
}

int rg_proctree_descendants(pid_t root, struct rg_process **ret_list, size_t *ret_count)
{
    rg_autofree struct rg_process *all = NULL;
    size_t count = 0, nfound = 0, before;
    int r = proc_is_ours() ? list_all(&all, &count) : -ENOENT;

    if (r < 0)
        return r;
    /* Each round moves those whose parent was found before to the front. Zombies are followed too:
     * a dead thread group leader may have threads that fork. */
    do {
        before = nfound;
        for (size_t i = nfound; i < count; i++) {
            if (all[i].pid != root && is_parent_in(all, nfound, root, all[i].parent)) {
                struct rg_process t = all[nfound];
                all[nfound++] = all[i];
                all[i] = t;
            }
        }
    } while (nfound > before);
    size_t nalive = 0;
    for (size_t i = 0; i < nfound; i++) {
        if (all[i].state != 'Z' && all[i].state != 'X')
            all[nalive++] = all[i];
    }
    *ret_list = nalive ? rg_steal_ptr(&all) : NULL;
    *ret_count = nalive;
    return 0;
}

pid_t rg_process_parent(pid_t pid)
{
    char name[32];
    struct rg_process process;

    snprintf(name, sizeof(name), "%d", (int) pid);
    return proc_is_ours() && read_process(name, &process) ? process.parent : 0;
}

int rg_process_env(pid_t pid, struct rg_strv *env)
{
    char path[64];
    rg_autofree char *text = NULL;
    size_t nbytes;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int) pid);
    int r = rg_read_file(path, ENVIRON_MAX, &text, &nbytes);
    for (const char *p = text; r == 0 && p < text + nbytes; p += strlen(p) + 1)
        r = rg_strv_add(env, p);
    return r;
}

bool rg_process_has_env(pid_t pid, const char *entry)
{
    rg_autostrv struct rg_strv env = RG_STRV_INIT;

    return rg_process_env(pid, &env) == 0 && rg_strv_has(&env, entry);
}

bool rg_process_has_children(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}
