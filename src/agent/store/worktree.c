/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher has in its directory, ranks on other hosts find in theirs; what is here already
 * need not come. */
#include "agent/store/worktree.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/fd.h"

#define STEP_NBYTES (1u << 20) /* of a file, that are read at a time */
#define PIECE_NBYTES (64u << 10)
#define TOTAL_MAX (1ull << 60)
#define KEPT_S (7 * 24 * 3600) /* what nobody has used for so long is not kept */
#define KEPT_HASH (2 * RG_FILELIST_HASH) /* characters; then "-" and the size */
#define KEPT_NAME (KEPT_HASH + 24)

enum look { QUICK, WHOLE, BUILD }; /* by kinds and sizes; by contents; into the folder */

struct rg_worktree {
    char *source, *last;
    enum rg_worktree_state state;
    enum look look;
    struct rg_buf list;
    size_t list_nbytes;
    struct rg_reader reader; /* behind the entry */
    struct rg_filelist_entry entry;
    bool has_entry;
    size_t nfiles, index; /* of files in the list; the entry's, where it is one */
    uint64_t total, lacks;
    uint8_t *missing;
    int source_fd;       /* -1: it is not here */
    int kept_fd;         /* of other jobs' files; -1: there are none */
    int from_fd, to_fd;  /* of the entry's file */
    uint64_t at;         /* bytes of it that are done */
    crypto_hash_sha256_state hash;
    struct rg_jobdir dir;
    uint8_t piece[PIECE_NBYTES];
};

static void drop_fd(int *fd)
{
    if (*fd >= 0)
        close(rg_steal_fd(fd));
}

int rg_worktree_create(const char *source, uint64_t list_nbytes, const char *last,
                       struct rg_worktree **ret_tree)
{
    struct rg_worktree *tree = NULL;

    if (!list_nbytes || list_nbytes > RG_FILELIST_MAX)
        return -EBADMSG;
    tree = calloc(1, sizeof(*tree));
    if (!tree)
        return -ENOMEM;
    tree->source_fd = tree->kept_fd = tree->from_fd = tree->to_fd = -1;
    tree->dir = (struct rg_jobdir) RG_JOBDIR_INIT;
    tree->list_nbytes = (size_t) list_nbytes;
    tree->source = strdup(source);
    tree->last = strdup(last ? last : "");
    if (!tree->source || !tree->last) {
        rg_worktree_destroy(tree);
        return -ENOMEM;
    }
    *ret_tree = tree;
    return 0;
}

/* What is old, or has been made longer by a rank that wrote its results into it. */
static void sweep_kept(const struct rg_worktree *tree)
{
    int fd = tree->kept_fd < 0
                 ? -1 : openat(tree->kept_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rg_autodir DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct stat st;

    for (struct dirent *entry; list && (entry = readdir(list));) {
        const char *size = strchr(entry->d_name, '-');
        if (size && fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            (time(NULL) - st.st_mtime > KEPT_S ||
             strtoull(size + 1, NULL, 10) != (unsigned long long) st.st_size))
            unlinkat(fd, entry->d_name, 0);
    }
}

void rg_worktree_destroy(struct rg_worktree *tree)
{
    if (!tree)
        return;
    drop_fd(&tree->source_fd);
    sweep_kept(tree);
    drop_fd(&tree->kept_fd);
    drop_fd(&tree->from_fd);
    drop_fd(&tree->to_fd);
    rg_jobdir_remove(&tree->dir);
    rg_buf_fini(&tree->list);
    free(tree->missing);
    free(tree->source);
    free(tree->last);
    free(tree);
}

enum rg_worktree_state rg_worktree_state(const struct rg_worktree *tree)
{
    return tree->state;
}

uint64_t rg_worktree_lacks(const struct rg_worktree *tree)
{
    return tree->state == RG_WORKTREE_LISTING ? tree->list_nbytes - rg_buf_nbytes(&tree->list)
                                              : tree->lacks;
}

const uint8_t *rg_worktree_missing(const struct rg_worktree *tree, size_t *ret_nbytes)
{
    *ret_nbytes = (tree->nfiles + 7) / 8;
    return tree->missing;
}

const char *rg_worktree_path(const struct rg_worktree *tree)
{
    return *tree->dir.path ? tree->dir.path : tree->source;
}

/* --- along the list --------------------------------------------------------------------------- */

static void rewind_list(struct rg_worktree *tree)
{
    tree->reader = rg_reader_make(rg_buf_bytes(&tree->list), rg_buf_nbytes(&tree->list));
    tree->entry = (struct rg_filelist_entry){ .nbytes = 0 };
    tree->index = SIZE_MAX; /* so that the first one's is 0 */
    tree->has_entry = false;
}

/* 1, 0 at its end, or -EBADMSG. */
static int next_entry(struct rg_worktree *tree)
{
    tree->has_entry = false;
    if (!tree->reader.nbytes)
        return 0;
    if (rg_filelist_read(&tree->reader, &tree->entry) < 0)
        return -EBADMSG;
    tree->has_entry = true;
    tree->index += rg_filelist_is_file(&tree->entry);
    return 1;
}

static int take_list(struct rg_worktree *tree, struct rg_error *err)
{
    int r;

    rewind_list(tree);
    while ((r = next_entry(tree)) > 0 && tree->total <= TOTAL_MAX)
        tree->total += tree->entry.nbytes;
    if (r < 0 || tree->total > TOTAL_MAX)
        return rg_error_set(err, EBADMSG, "the list of files is damaged");
    tree->nfiles = tree->index + 1;
    tree->missing = calloc(1, tree->nfiles / 8 + 1);
    if (!tree->missing)
        return rg_error_memory(err);
    tree->source_fd = open(tree->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree->state = RG_WORKTREE_LOOKING;
    tree->look = QUICK;
    rewind_list(tree);
    return 0;
}

/* --- one file --------------------------------------------------------------------------------- */

static int fail(const struct rg_worktree *tree, int errnum, struct rg_error *err)
{
    char need[32];

    if (errnum == ENOSPC || errnum == EDQUOT)
        return rg_error_set(err, errnum, "%s: %s; %s are needed there", tree->dir.path,
                            strerror(errnum), rg_size_text(tree->total, need, sizeof(need)));
    return rg_error_set(err, errnum, "%s/%s: %s", tree->dir.path, tree->entry.path,
                        strerror(errnum));
}

/* The folder that the entry is in, made where it is missing. Without following a link: 0700, ours,
 * and by this list, but ranks of another job may have other ideas. -errno. */
static int open_parent(const struct rg_worktree *tree, const char **ret_name)
{
    char name[NAME_MAX + 1];
    const char *p = tree->entry.path;
    int fd = fcntl(tree->dir.fd, F_DUPFD_CLOEXEC, 3);

    for (const char *slash; fd >= 0 && (slash = strchr(p, '/')); p = slash + 1) {
        snprintf(name, sizeof(name), "%.*s", (int) (slash - p), p);
        int next = mkdirat(fd, name, 0755) < 0 && errno != EEXIST
                       ? -1 : openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        int errnum = errno;
        close(fd);
        errno = errnum;
        fd = next;
    }
    *ret_name = p;
    return fd < 0 ? -errno : fd;
}

static void begin_file(struct rg_worktree *tree)
{
    tree->at = 0;
    crypto_hash_sha256_init(&tree->hash);
}

static int create_file(struct rg_worktree *tree)
{
    const char *name;
    rg_autoclose int fd = open_parent(tree, &name);

    if (fd < 0)
        return fd;
    tree->to_fd = openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                         tree->entry.kind == RG_FILELIST_PROGRAM ? 0755 : 0644);
    return tree->to_fd < 0 ? -errno : 0;
}

static int make_other(struct rg_worktree *tree)
{
    const char *name;
    rg_autoclose int fd = open_parent(tree, &name);

    if (fd < 0)
        return fd;
    int r = tree->entry.kind == RG_FILELIST_LINK ? symlinkat(tree->entry.target, fd, name)
                                                 : mkdirat(fd, name, 0755);
    return r < 0 ? -errno : 0;
}

/* The next bytes of it, into the file that is being made, if there is one. */
static int take(struct rg_worktree *tree, const uint8_t *data, size_t nbytes)
{
    crypto_hash_sha256_update(&tree->hash, data, nbytes);
    tree->at += nbytes;
    return tree->to_fd < 0 ? 0 : rg_write_all(tree->to_fd, data, nbytes);
}

/* Whether it is what the list says. */
static bool end_file(struct rg_worktree *tree)
{
    uint8_t hash[RG_FILELIST_HASH];

    drop_fd(&tree->from_fd);
    drop_fd(&tree->to_fd);
    crypto_hash_sha256_final(&tree->hash, hash);
    return tree->at == tree->entry.nbytes && memcmp(hash, tree->entry.hash, sizeof(hash)) == 0;
}

/* --- what is here already --------------------------------------------------------------------- */

static bool is_alike(const struct rg_worktree *tree)
{
    const struct rg_filelist_entry *entry = &tree->entry;
    bool program = entry->kind == RG_FILELIST_PROGRAM;
    char target[RG_FILELIST_PATH_MAX + 1];
    struct stat st;

    if (entry->kind == RG_FILELIST_LINK) {
        ssize_t n = readlinkat(tree->source_fd, entry->path, target, sizeof(target));
        return n >= 0 && (size_t) n == strlen(entry->target) &&
               memcmp(target, entry->target, (size_t) n) == 0;
    }
    if (fstatat(tree->source_fd, entry->path, &st, 0) < 0)
        return false;
    if (entry->kind == RG_FILELIST_FOLDER)
        return S_ISDIR(st.st_mode);
    return S_ISREG(st.st_mode) && (uint64_t) st.st_size == entry->nbytes &&
           (tree->look == BUILD || !!(st.st_mode & 0100) == program);
}

/* Where it is kept, or would be. */
static const char *name_kept(const struct rg_worktree *tree, char name[KEPT_NAME])
{
    sodium_bin2hex(name, KEPT_NAME, tree->entry.hash, sizeof(tree->entry.hash));
    snprintf(name + KEPT_HASH, KEPT_NAME - KEPT_HASH, "-%llu",
             (unsigned long long) tree->entry.nbytes);
    return name;
}

static void open_here(struct rg_worktree *tree)
{
    char name[KEPT_NAME];

    if (tree->kept_fd >= 0)
        tree->from_fd = openat(tree->kept_fd, name_kept(tree, name),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (tree->from_fd >= 0)
        futimens(tree->from_fd, NULL);
    else if (tree->source_fd >= 0 && is_alike(tree))
        tree->from_fd = openat(tree->source_fd, tree->entry.path,
                               O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    begin_file(tree);
}

/* Some of the file that is here. 1: there is more; 0: it is at its end, or longer than it should
 * be; -errno of writing. */
static int copy_some(struct rg_worktree *tree)
{
    for (size_t i = 0; i < STEP_NBYTES / PIECE_NBYTES; i++) {
        ssize_t n = read(tree->from_fd, tree->piece, sizeof(tree->piece));
        int r = n > 0 ? take(tree, tree->piece, (size_t) n) : 0;
        if (r < 0)
            return r;
        if (n <= 0 || tree->at > tree->entry.nbytes)
            return 0;
    }
    return 1;
}

static void look_again(struct rg_worktree *tree, enum look look)
{
    drop_fd(&tree->from_fd);
    tree->look = look;
    rewind_list(tree);
}

/* On the disk of the folder, as they are one file. */
static void open_kept(struct rg_worktree *tree)
{
    rg_autofree char *path = rg_strf("%s/../files", tree->dir.path);

    if (!path)
        return;
    mkdir(path, 0700);
    tree->kept_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    sweep_kept(tree);
}

/* The directory is not here, or another one. */
static int begin_build(struct rg_worktree *tree, struct rg_error *err)
{
    look_again(tree, BUILD);
    int r = rg_jobdir_make_room(tree->total, *tree->last ? tree->last : NULL, &tree->dir, err);

    if (r == 0)
        open_kept(tree);
    return r;
}

/* QUICK and WHOLE. */
static int compare_some(struct rg_worktree *tree, struct rg_error *err)
{
    if (tree->has_entry) {
        if (copy_some(tree) == 0) {
            if (!end_file(tree))
                return begin_build(tree, err);
            tree->has_entry = false;
        }
        return 0;
    }
    if (tree->source_fd < 0)
        return begin_build(tree, err);
    if (next_entry(tree) == 0) {
        if (tree->look == WHOLE)
            tree->state = RG_WORKTREE_READY;
        else
            look_again(tree, WHOLE);
        return 0;
    }
    bool file = rg_filelist_is_file(&tree->entry);
    if (file && tree->look == WHOLE)
        open_here(tree);
    else if (!is_alike(tree))
        return begin_build(tree, err);
    if (file && tree->look == WHOLE && tree->from_fd < 0)
        return begin_build(tree, err);
    tree->has_entry = tree->from_fd >= 0;
    return 0;
}

/* It has to come by the link; what was made of it is none of the list's. */
static int miss_file(struct rg_worktree *tree, bool made)
{
    const char *name;
    rg_autoclose int fd = made ? open_parent(tree, &name) : -1;
    char kept[KEPT_NAME];

    unlinkat(tree->kept_fd, name_kept(tree, kept), 0);
    if (fd >= 0 && unlinkat(fd, name, 0) < 0)
        return -errno;
    tree->missing[tree->index / 8] |= (uint8_t) (1u << tree->index % 8);
    tree->lacks += tree->entry.nbytes;
    return 0;
}

/* The next entry, or the next bytes of it. 0 or -errno. */
static int build_some(struct rg_worktree *tree)
{
    int r = 0;

    if (!tree->has_entry) {
        if (next_entry(tree) == 0) {
            tree->state = tree->lacks ? RG_WORKTREE_FILLING : RG_WORKTREE_READY;
            rewind_list(tree);
            return 0;
        }
        if (!rg_filelist_is_file(&tree->entry)) {
            tree->has_entry = false;
            return make_other(tree);
        }
        open_here(tree);
        if (tree->from_fd >= 0 || !tree->entry.nbytes)
            r = create_file(tree);
    }
    if (r == 0 && tree->from_fd >= 0 && (r = copy_some(tree)) > 0)
        return 0;
    bool made = tree->to_fd >= 0;
    tree->has_entry = false;
    return r < 0 ? r : end_file(tree) ? 0 : miss_file(tree, made);
}

int rg_worktree_step(struct rg_worktree *tree, struct rg_error *err)
{
    if (tree->look != BUILD)
        return compare_some(tree, err);
    int r = build_some(tree);

    return r < 0 ? fail(tree, -r, err) : 0;
}

/* --- what comes ------------------------------------------------------------------------------- */

static bool is_missing(const struct rg_worktree *tree)
{
    return rg_filelist_is_file(&tree->entry) &&
           (tree->missing[tree->index / 8] & (1u << tree->index % 8));
}

static int begin_missing(struct rg_worktree *tree)
{
    while (next_entry(tree) > 0) {
        if (!is_missing(tree))
            continue;
        begin_file(tree);
        return create_file(tree);
    }
    return -EBADMSG;
}

/* For the next job. */
static void keep(const struct rg_worktree *tree)
{
    const char *name;
    rg_autoclose int fd = open_parent(tree, &name);
    char kept[KEPT_NAME];

    if (fd >= 0)
        (void) !linkat(fd, name, tree->kept_fd, name_kept(tree, kept), 0);
}

static int fill(struct rg_worktree *tree, const uint8_t *data, size_t nbytes, struct rg_error *err)
{
    while (nbytes > 0) {
        int r = tree->has_entry ? 0 : begin_missing(tree);
        uint64_t left = tree->entry.nbytes - tree->at;
        size_t n = nbytes < left ? nbytes : (size_t) left;
        if (r == 0)
            r = take(tree, data, n);
        if (r < 0)
            return fail(tree, -r, err);
        data += n;
        nbytes -= n;
        tree->lacks -= n;
        if (n < left)
            continue;
        tree->has_entry = false;
        if (!end_file(tree))
            return rg_error_set(err, EBADMSG, "%s did not come as the list says", tree->entry.path);
        keep(tree);
    }
    if (!tree->lacks)
        tree->state = RG_WORKTREE_READY;
    return 0;
}

int rg_worktree_feed(struct rg_worktree *tree, const uint8_t *data, size_t nbytes,
                     struct rg_error *err)
{
    bool comes = tree->state == RG_WORKTREE_LISTING || tree->state == RG_WORKTREE_FILLING;

    if (!comes || nbytes > rg_worktree_lacks(tree))
        return rg_error_set(err, EBADMSG, "more bytes of files have come than are missing");
    if (tree->state == RG_WORKTREE_FILLING)
        return fill(tree, data, nbytes, err);
    rg_buf_put(&tree->list, data, nbytes);
    if (rg_buf_status(&tree->list) < 0)
        return rg_error_memory(err);
    return rg_worktree_lacks(tree) ? 0 : take_list(tree, err);
}
