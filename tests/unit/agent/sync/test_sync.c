/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "agent/store/store.h"
#include "agent/sync/internal.h"
#include "base/fd.h"
#include "unit.h"

static char root[] = "/tmp/reigen-sync-XXXXXX";
static int root_fd;

static void write_file(const char *name, const char *text)
{
    assert_int_equal(rg_store_write(root_fd, name, text, strlen(text), 0644), 0);
}

static struct rg_sync_entry entry_of(const char *text)
{
    struct rg_sync_entry entry = { .kind = RG_SYNC_FILE, .mode = 0640, .nbytes = strlen(text),
                                   .mtime_ns = 5000000007 };

    crypto_hash_sha256(entry.hash, (const unsigned char *) text, strlen(text));
    return entry;
}

static int keep(int cache_fd, const char *text, const uint8_t *hash)
{
    struct rg_sync_fresh fresh;

    assert_int_equal(rg_sync_cache_begin(cache_fd, &fresh), 0);
    assert_int_equal(rg_sync_cache_add(&fresh, (const uint8_t *) text, strlen(text)), 0);
    return rg_sync_cache_end(cache_fd, &fresh, hash);
}

static void no_path_is_made_through_a_link(void **state)
{
    rg_autoclose int tree = -1;
    struct stat st;

    (void) state;
    assert_int_equal(mkdirat(root_fd, "tree", 0755), 0);
    assert_int_equal(mkdirat(root_fd, "outside", 0755), 0);
    tree = openat(root_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(rg_sync_tree_link(tree, "sub/away", "../../outside"), 0);
    assert_true(rg_sync_tree_create(tree, "sub/away/file", false) < 0);
    assert_true(rg_sync_tree_mkdir(tree, "sub/away/dir/deep") < 0);
    assert_true(rg_sync_tree_mkdir(tree, "sub/away") < 0);
    assert_true(rg_sync_tree_link(tree, "sub/away/link", "x") < 0);
    assert_int_equal(fstatat(root_fd, "outside/file", &st, 0), -1);
    assert_int_equal(fstatat(root_fd, "outside/dir", &st, 0), -1);

    int fd = rg_sync_tree_create(tree, "a/b/file", false);
    assert_true(fd >= 0);
    struct rg_sync_entry entry = entry_of("");
    assert_int_equal(rg_sync_tree_settle(fd, &entry), 0);
    close(fd);
    assert_int_equal(rg_sync_tree_create(tree, "a/b/file", false), -EEXIST);
    assert_int_equal(rg_sync_tree_mkdir(tree, "a/b"), 0);
    assert_true(rg_sync_tree_mkdir(tree, "a/b/file") < 0);
    assert_int_equal(fstatat(tree, "a/b/file", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0640);
    assert_int_equal(st.st_mtim.tv_nsec, 7);
}

static void only_what_has_its_hash_is_taken_from_the_cache(void **state)
{
    struct rg_sync_entry entry = entry_of("contents");
    rg_autoclose int cache = rg_sync_cache_open(root_fd), out = -1;
    char text[32] = "";

    (void) state;
    assert_true(cache >= 0);
    out = openat(root_fd, "out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(rg_sync_cache_take(cache, &entry, out), -ENOENT);
    assert_int_equal(keep(cache, "contentz", entry.hash), -EBADMSG);
    assert_int_equal(rg_sync_cache_take(cache, &entry, out), -ENOENT);
    assert_int_equal(keep(cache, "contents", entry.hash), 0);
    assert_int_equal(keep(cache, "contents", entry.hash), 0);
    assert_int_equal(rg_sync_cache_take(cache, &entry, out), 0);
    assert_int_equal(pread(out, text, sizeof(text), 0), 8);
    assert_string_equal(text, "contents");

    /* somebody has changed it: it goes, and nothing of it stays in what was begun */
    rg_autodir DIR *list = fdopendir(openat(root_fd, "files", O_RDONLY | O_CLOEXEC));
    int nfiles = 0;
    for (struct dirent *d; (d = readdir(list));) {
        int fd = *d->d_name == '.' ? -1 : openat(cache, d->d_name, O_WRONLY | O_APPEND | O_CLOEXEC);
        nfiles += fd >= 0;
        if (fd >= 0)
            assert_int_equal(write(fd, "!", 1), 1);
        close(fd);
    }
    assert_int_equal(nfiles, 1);
    assert_int_equal(ftruncate(out, 0), 0);
    assert_int_equal(lseek(out, 0, SEEK_SET), 0);
    assert_int_equal(rg_sync_cache_take(cache, &entry, out), -ENOENT);
    assert_int_equal(lseek(out, 0, SEEK_END), 0);
}

static void a_cache_that_others_can_reach_is_not_used(void **state)
{
    (void) state;
    assert_int_equal(fchmodat(root_fd, "files", 0755, 0), 0);
    assert_int_equal(rg_sync_cache_open(root_fd), -EPERM);
    assert_int_equal(fchmodat(root_fd, "files", 0700, 0), 0);
    assert_int_equal(renameat(root_fd, "files", root_fd, "elsewhere"), 0);
    assert_int_equal(symlinkat("elsewhere", root_fd, "files"), 0);
    assert_true(rg_sync_cache_open(root_fd) < 0);
    assert_int_equal(unlinkat(root_fd, "files", 0), 0);
    assert_int_equal(renameat(root_fd, "elsewhere", root_fd, "files"), 0);
}

static void set_times(int cache_fd, const struct timespec times[2])
{
    rg_autodir DIR *list = fdopendir(openat(root_fd, "files", O_RDONLY | O_CLOEXEC));

    for (struct dirent *d; (d = readdir(list));) {
        if (*d->d_name != '.')
            assert_int_equal(utimensat(cache_fd, d->d_name, times, 0), 0);
    }
}

static void what_nobody_has_used_for_long_leaves_the_cache(void **state)
{
    struct rg_sync_entry old = entry_of("old"), young = entry_of("young");
    struct timespec times[2] = { { 0, UTIME_OMIT }, { time(NULL) - 31 * 24 * 3600, 0 } };
    rg_autoclose int cache = rg_sync_cache_open(root_fd), out = -1;

    (void) state;
    assert_int_equal(keep(cache, "old", old.hash), 0);
    set_times(cache, times);
    assert_int_equal(keep(cache, "young", young.hash), 0);
    {
        rg_autoclose int other = rg_sync_cache_open(root_fd);
        assert_true(other >= 0);
        rg_sync_cache_bound(cache, UINT64_MAX); /* another job may be about to take it */
        out = openat(root_fd, "out", O_RDWR | O_TRUNC | O_CLOEXEC);
        assert_int_equal(rg_sync_cache_take(cache, &old, out), 0);
        close(rg_steal_fd(&out));
    }
    set_times(cache, times);
    assert_int_equal(keep(cache, "young", young.hash), 0);
    rg_sync_cache_bound(cache, UINT64_MAX);
    out = openat(root_fd, "out", O_RDWR | O_TRUNC | O_CLOEXEC);
    assert_int_equal(rg_sync_cache_take(cache, &old, out), -ENOENT);
    assert_int_equal(rg_sync_cache_take(cache, &young, out), 0);
}

static bool is_there(const char *path)
{
    struct stat st;

    return fstatat(root_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Until the file system's clock has gone on. */
static void tick(const struct timespec *since)
{
    struct stat now;

    do {
        write_file("tick", "");
        assert_int_equal(fstatat(root_fd, "tick", &now, 0), 0);
    } while (now.st_ctim.tv_sec == since->tv_sec && now.st_ctim.tv_nsec == since->tv_nsec);
}

/* With a file of the launcher's and, once the stamp is older, one of a rank's. */
static void make_job(const char *name, bool results)
{
    char path[256];
    struct stat st;

    assert_int_equal(mkdirat(root_fd, name, 0700), 0);
    snprintf(path, sizeof(path), "%s/work", name);
    assert_int_equal(mkdirat(root_fd, path, 0755), 0);
    assert_int_equal(fstatat(root_fd, path, &st, 0), 0);
    struct timespec times[2] = { { 0, UTIME_OMIT }, st.st_ctim };
    snprintf(path, sizeof(path), "%s/work/sent", name);
    write_file(path, "sent");
    snprintf(path, sizeof(path), "%s/work/away", name);
    assert_int_equal(symlinkat("../../outside", root_fd, path), 0);
    snprintf(path, sizeof(path), "%s/stamp", name);
    write_file(path, "");
    assert_int_equal(utimensat(root_fd, path, times, 0), 0);
    assert_int_equal(fstatat(root_fd, path, &st, 0), 0);
    tick(&st.st_ctim);
    snprintf(path, sizeof(path), "%s/work/new", name);
    if (results)
        write_file(path, "new");
}

static void what_killed_agents_left_goes_but_for_results(void **state)
{
    rg_autoclose int lock = -1;

    (void) state;
    write_file("outside/data", "precious");
    make_job("sync-aaaaaa", false);
    make_job("sync-bbbbbb", true);
    make_job("sync-cccccc", true);
    lock = openat(root_fd, "sync-cccccc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_SH), 0);
    assert_int_equal(rg_sync_sweep_in(root_fd), 2);
    assert_false(is_there("sync-aaaaaa"));
    assert_false(is_there("kept-aaaaaa"));
    assert_true(is_there("kept-bbbbbb/work/new"));
    assert_false(is_there("kept-bbbbbb/work/sent"));
    assert_true(is_there("sync-cccccc/work/sent"));
    assert_true(is_there("outside/data"));
    assert_int_equal(rg_sync_sweep_in(root_fd), 0);
    assert_true(is_there("kept-bbbbbb/work/new"));

    struct timespec times[2] = { { 0, UTIME_OMIT }, { time(NULL) - 8 * 24 * 3600, 0 } };
    assert_int_equal(utimensat(root_fd, "kept-bbbbbb", times, 0), 0);
    assert_int_equal(rg_sync_sweep_in(root_fd), 0);
    assert_false(is_there("kept-bbbbbb"));
}

static void tidy(const char *name)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    rg_sync_tidy(path);
}

/* Beside the copy; older than it, in a directory that a rank has moved there; and where a rank has
 * removed the stamp. */
static void results_are_kept_wherever_they_are(void **state)
{
    struct stat st;

    (void) state;
    assert_int_equal(mkdirat(root_fd, "older", 0755), 0);
    write_file("older/data", "precious");
    assert_int_equal(fstatat(root_fd, "older/data", &st, 0), 0);
    tick(&st.st_ctim);
    make_job("sync-eeeeee", false);
    assert_int_equal(renameat(root_fd, "older", root_fd, "sync-eeeeee/work/older"), 0);
    tidy("sync-eeeeee");
    assert_true(is_there("kept-eeeeee/work/older/data"));
    assert_false(is_there("kept-eeeeee/work/sent"));

    make_job("sync-ffffff", false);
    assert_int_equal(mkdirat(root_fd, "sync-ffffff/out", 0755), 0);
    write_file("sync-ffffff/out/model", "trained");
    tidy("sync-ffffff");
    assert_true(is_there("kept-ffffff/out/model"));
    assert_false(is_there("kept-ffffff/work"));

    make_job("sync-gggggg", true);
    assert_int_equal(unlinkat(root_fd, "sync-gggggg/stamp", 0), 0);
    tidy("sync-gggggg");
    assert_true(is_there("kept-gggggg/work/new"));

    make_job("sync-hhhhhh", false);
    tidy("sync-hhhhhh");
    assert_false(is_there("sync-hhhhhh") || is_there("kept-hhhhhh"));
}

/* As kernels do that are older, and sandboxes that know no newer call. */
static void forget_openat2(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 437, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = { 4, code };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
        _exit(77);
}

/* A mount of a directory of the same file system has the same number. */
static void remove_what_is_mounted(void)
{
    char from[300], to[300], other[300];

    snprintf(from, sizeof(from), "%s/outside", root);
    snprintf(to, sizeof(to), "%s/sync-iiiiii/work/mnt", root);
    snprintf(other, sizeof(other), "%s/mounted", root);
    if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount(from, to, NULL, MS_BIND, NULL) < 0)
        _exit(77);
    forget_openat2();
    tidy("sync-iiiiii");
    snprintf(to, sizeof(to), "%s/mounted/mnt", root);
    if (mount(from, to, NULL, MS_BIND, NULL) < 0)
        _exit(77);
    rg_store_remove_tree(other);
    _exit(0);
}

static void no_mount_is_entered_by_older_kernels(void **state)
{
    int status;

    (void) state;
    make_job("sync-iiiiii", false);
    assert_int_equal(mkdirat(root_fd, "sync-iiiiii/work/mnt", 0755), 0);
    assert_int_equal(mkdirat(root_fd, "mounted", 0755), 0);
    assert_int_equal(mkdirat(root_fd, "mounted/mnt", 0755), 0);
    pid_t pid = fork();
    if (pid == 0)
        remove_what_is_mounted();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WEXITSTATUS(status) == 77)
        skip(); /* who may not mount here */
    assert_int_equal(status, 0);
    assert_true(is_there("outside/data"));
}

static void a_folder_that_is_a_link_is_left_alone(void **state)
{
    (void) state;
    assert_int_equal(symlinkat("outside", root_fd, "sync-dddddd"), 0);
    assert_int_equal(symlinkat("outside", root_fd, "kept-dddddd"), 0);
    rg_sync_sweep_in(root_fd);
    tidy("sync-dddddd");
    assert_true(is_there("outside/data"));
}

/* As the agent starts it, with a stream that is no stream of ours. */
static void a_receiver_refuses_what_it_cannot_read(void **state)
{
    static const uint8_t wrong[][8] = { { 2, 0, 0, 0, RG_SYNC_DATA, 0, 1, 2 },
                                        { 255, 255, 255, 255, RG_SYNC_HEAD, 0 },
                                        { 2, 0, 0, 0, RG_SYNC_HEAD, 0, 1, 2 } };

    (void) state;
    for (size_t i = 0; i < 3; i++) {
        int in[2], out[2];
        uint8_t said[64];
        assert_int_equal(rg_pipe(in), 0);
        assert_int_equal(rg_pipe(out), 0);
        pid_t pid = fork();
        if (pid == 0) {
            dup2(in[0], 0);
            dup2(out[1], 1);
            close(in[1]);
            _exit(rg_sync_main());
        }
        close(in[0]);
        close(out[1]);
        assert_int_equal(write(in[1], wrong[i], 8), 8);
        close(in[1]);
        assert_true(read(out[0], said, sizeof(said)) > RG_FRAME_HEAD_NBYTES);
        assert_int_equal(said[4], RG_SYNC_FAILED);
        close(out[0]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

static int set_up(void **state)
{
    (void) state;
    if (!mkdtemp(root))
        return -1;
    root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void) state;
    close(root_fd);
    rg_store_remove_tree(root);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_path_is_made_through_a_link),
        cmocka_unit_test(only_what_has_its_hash_is_taken_from_the_cache),
        cmocka_unit_test(a_cache_that_others_can_reach_is_not_used),
        cmocka_unit_test(what_nobody_has_used_for_long_leaves_the_cache),
        cmocka_unit_test(what_killed_agents_left_goes_but_for_results),
        cmocka_unit_test(results_are_kept_wherever_they_are),
        cmocka_unit_test(no_mount_is_entered_by_older_kernels),
        cmocka_unit_test(a_folder_that_is_a_link_is_left_alone),
        cmocka_unit_test(a_receiver_refuses_what_it_cannot_read),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
