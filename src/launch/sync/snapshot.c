/* SPDX-License-Identifier: Apache-2.0 */
/* Files are read once, while they are copied: whoever changes them later changes nothing of the
 * job. */
#include "launch/sync/snapshot.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "launch/sync/internal.h"
#include "wire/filelist.h"

#define PIECE_NBYTES (256u << 10)
#define ATTEMPTS 3
#define NAMED_MAX 5 /* files in a message */

struct file {
    uint64_t at, nbytes; /* in the spool */
};

struct rg_snapshot {
    char *dir, *cwd;
    struct rg_buf list;
    struct file *files;
    size_t nfiles, room;
    uint64_t total;
    int dir_fd, spool_fd;
    uint8_t *piece;
    struct rg_filelist_entry entry;
    uint64_t max_nbytes;
    struct rg_strv names;
    struct rg_buf left_out; /* links */
    size_t nleft_out;
};

void rg_snapshot_free(struct rg_snapshot *snapshot)
{
    if (!snapshot)
        return;
    if (snapshot->dir_fd >= 0)
        close(snapshot->dir_fd);
    if (snapshot->spool_fd >= 0)
        close(snapshot->spool_fd);
    rg_buf_fini(&snapshot->list);
    rg_buf_fini(&snapshot->left_out);
    rg_strv_fini(&snapshot->names);
    free(snapshot->files);
    free(snapshot->piece);
    free(snapshot->dir);
    free(snapshot->cwd);
    free(snapshot);
}

/* --- how large it is -------------------------------------------------------------------------- */

struct large {
    const char *name;
    uint64_t nbytes;
};

static void note_large(struct large *largest, const char *name, uint64_t nbytes)
{
    int i = NAMED_MAX;

    for (; i > 0 && largest[i - 1].nbytes < nbytes; i--) {
        if (i < NAMED_MAX)
            largest[i] = largest[i - 1];
    }
    if (i < NAMED_MAX)
        largest[i] = (struct large){ name, nbytes };
}

static int too_large(const struct rg_snapshot *snapshot, uint64_t total,
                     const struct large *largest, struct rg_error *err)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    char a[32], b[32], c[32];

    for (int i = 0; i < NAMED_MAX && largest[i].name; i++)
        rg_buf_printf(&names, "%s%.100s (%s)", i ? ", " : "", largest[i].name,
                      rg_size_text(largest[i].nbytes, c, sizeof(c)));
    return rg_error_set(err, EFBIG, "--sync: %s has %s in %zu files, and %s are allowed; the "
                        "largest are %s. Let .gitignore name what no rank needs, name a "
                        "smaller directory (--sync=DIR), or raise --sync-limit", snapshot->dir,
                        rg_size_text(total, a, sizeof(a)), snapshot->names.count,
                        rg_size_text(snapshot->max_nbytes, b, sizeof(b)), rg_buf_text(&names));
}

/* Before anything is copied. */
static int check_size(const struct rg_snapshot *snapshot, struct rg_error *err)
{
    struct large largest[NAMED_MAX] = { { NULL, 0 } };
    uint64_t total = 0;
    struct stat st;

    for (size_t i = 0; i < snapshot->names.count; i++) {
        const char *name = snapshot->names.v[i];
        if (fstatat(snapshot->dir_fd, name, &st, 0) < 0 || !S_ISREG(st.st_mode))
            continue;
        total += (uint64_t) st.st_size;
        note_large(largest, name, (uint64_t) st.st_size);
    }
    return total > snapshot->max_nbytes ? too_large(snapshot, total, largest, err) : 0;
}

/* --- one file --------------------------------------------------------------------------------- */

static int read_error(const struct rg_snapshot *snapshot, int errnum, struct rg_error *err)
{
    return rg_error_set(err, errnum, "--sync: %s/%s: %s", snapshot->dir, snapshot->entry.path,
                        strerror(errnum));
}

static int write_error(int errnum, struct rg_error *err)
{
    return rg_error_set(err, errnum, "--sync: copying the files in TMPDIR, or else /var/tmp or "
                        "/tmp: %s; TMPDIR can name a directory with more room", strerror(errnum));
}

/* All of it to the spool's end, and its hash into the entry. 0 or -errno with err. */
static int copy(struct rg_snapshot *snapshot, int fd, struct rg_error *err)
{
    struct rg_filelist_entry *entry = &snapshot->entry;
    crypto_hash_sha256_state hash;
    ssize_t n;

    entry->nbytes = 0;
    crypto_hash_sha256_init(&hash);
    while ((n = pread(fd, snapshot->piece, PIECE_NBYTES, (off_t) entry->nbytes)) > 0) {
        if (entry->nbytes + (uint64_t) n > snapshot->max_nbytes - snapshot->total)
            return rg_error_set(err, EFBIG, "--sync: %s/%s grows while it is read, beyond "
                                "--sync-limit", snapshot->dir, entry->path);
        if (lseek(snapshot->spool_fd, (off_t) (snapshot->total + entry->nbytes), SEEK_SET) < 0)
            return write_error(errno, err);
        int r = rg_write_all(snapshot->spool_fd, snapshot->piece, (size_t) n);
        if (r < 0)
            return write_error(-r, err);
        crypto_hash_sha256_update(&hash, snapshot->piece, (unsigned long long) n);
        entry->nbytes += (uint64_t) n;
    }
    crypto_hash_sha256_final(&hash, entry->hash);
    return n < 0 ? read_error(snapshot, errno, err) : 0;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* One that somebody writes meanwhile is read again: half of it is of no use to anybody. */
static int copy_whole(struct rg_snapshot *snapshot, int fd, struct rg_error *err)
{
    struct stat before, after;

    for (int i = 0; i < ATTEMPTS; i++) {
        if (fstat(fd, &before) < 0)
            return read_error(snapshot, errno, err);
        int r = copy(snapshot, fd, err);
        if (r < 0)
            return r;
        if (fstat(fd, &after) == 0 && is_same(&before, &after) &&
            (uint64_t) after.st_size == snapshot->entry.nbytes)
            return 0;
    }
    return rg_error_set(err, EBUSY, "--sync: %s/%s changes while it is read; let .gitignore name "
                        "it, or start the job when it is written", snapshot->dir,
                        snapshot->entry.path);
}

static int add_file(struct rg_snapshot *snapshot, int fd, struct rg_error *err)
{
    int r = copy_whole(snapshot, fd, err);

    if (r < 0)
        return r;
    if (rg_grow(&snapshot->files, &snapshot->room, snapshot->nfiles + 1) < 0)
        return rg_error_memory(err);
    snapshot->files[snapshot->nfiles++] =
        (struct file){ snapshot->total, snapshot->entry.nbytes };
    snapshot->total += snapshot->entry.nbytes;
    rg_filelist_put(&snapshot->list, &snapshot->entry);
    return 0;
}

/* --- one entry -------------------------------------------------------------------------------- */

static void leave_out(struct rg_snapshot *snapshot)
{
    if (snapshot->nleft_out++ < NAMED_MAX)
        rg_buf_printf(&snapshot->left_out, "%s%.100s", snapshot->nleft_out > 1 ? ", " : "",
                      snapshot->entry.path);
}

/* It stays one where it says by its own words that it stays inside, and does. */
static bool is_inner_link(struct rg_snapshot *snapshot)
{
    struct rg_filelist_entry *entry = &snapshot->entry;
    size_t length = strlen(snapshot->dir);
    ssize_t n = readlinkat(snapshot->dir_fd, entry->path, entry->target, sizeof(entry->target) - 1);
    rg_autofree char *path = rg_strf("%s/%s", snapshot->dir, entry->path);
    rg_autofree char *real = path ? realpath(path, NULL) : NULL;

    entry->target[n > 0 ? n : 0] = '\0';
    return real && rg_filelist_stays_inside(entry->path, entry->target) &&
           strncmp(real, snapshot->dir, length) == 0 && (!real[length] || real[length] == '/');
}

static int add_entry(struct rg_snapshot *snapshot, const char *name, struct rg_error *err)
{
    struct rg_filelist_entry *entry = &snapshot->entry;
    struct stat st;

    strcpy(entry->path, name);
    *entry->target = '\0';
    if (fstatat(snapshot->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : read_error(snapshot, errno, err);
    bool link = S_ISLNK(st.st_mode);
    entry->kind = link ? RG_FILELIST_LINK : RG_FILELIST_FOLDER;
    if (S_ISDIR(st.st_mode) || (link && is_inner_link(snapshot))) {
        rg_filelist_put(&snapshot->list, entry);
        return 0;
    }
    bool found = !link || fstatat(snapshot->dir_fd, name, &st, 0) == 0;
    if (!found || !S_ISREG(st.st_mode)) {
        leave_out(snapshot);
        return 0;
    }
    rg_autoclose int fd = openat(snapshot->dir_fd, name,
                                 O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : read_error(snapshot, errno, err);
    entry->kind = st.st_mode & 0111 ? RG_FILELIST_PROGRAM : RG_FILELIST_FILE;
    return add_file(snapshot, fd, err);
}

/* --- all of them ------------------------------------------------------------------------------ */

static int open_spool(struct rg_error *err)
{
    const char *tmp = getenv("TMPDIR"), *dirs[] = { tmp ? tmp : "/var/tmp", "/var/tmp", "/tmp" };
    int fd = -1;

    for (size_t i = 0; fd < 0 && i < rg_array_len(dirs); i++) {
        rg_autofree char *path = rg_strf("%s/reigen-sync-XXXXXX", dirs[i]);
        fd = path ? mkostemp(path, O_CLOEXEC) : -1;
        if (fd >= 0)
            unlink(path);
    }
    return fd < 0 ? write_error(errno, err) : fd;
}

/* Ranks start where the user is, in it; which may be a folder of which nothing is sent. */
static int find_cwd(struct rg_snapshot *snapshot, const char *cwd, struct rg_error *err)
{
    rg_autofree char *real = realpath(cwd, NULL);
    size_t n = strlen(snapshot->dir);
    bool inside = real && strncmp(real, snapshot->dir, n) == 0 && real[n] == '/';

    snapshot->cwd = strdup(inside ? real + n + 1 : "");
    if (!snapshot->cwd || (*snapshot->cwd && rg_strv_add(&snapshot->names, snapshot->cwd) < 0))
        return rg_error_memory(err);
    return 0;
}

static int open_dir(struct rg_snapshot *snapshot, const char *dir, struct rg_error *err)
{
    snapshot->dir = realpath(dir, NULL);
    snapshot->dir_fd = snapshot->dir ? open(snapshot->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (snapshot->dir_fd < 0)
        return rg_error_set(err, errno, "--sync %s: %s", dir, strerror(errno));
    return 0;
}

static void say_left_out(const struct rg_snapshot *snapshot, struct rg_strv *remarks)
{
    struct rg_buf names = snapshot->left_out;

    if (snapshot->nleft_out)
        rg_strv_addf(remarks, "--sync: left out, as they are no files, or links to what is no file "
                     "of the directory: %s%s", rg_buf_text(&names),
                     snapshot->nleft_out > NAMED_MAX ? ", ..." : "");
}

static int fill(struct rg_snapshot *snapshot, const char *cwd, struct rg_strv *remarks,
                struct rg_error *err)
{
    uint64_t max = snapshot->max_nbytes / RG_SNAPSHOT_FILES_EACH;
    int r = find_cwd(snapshot, cwd, err);

    if (r == 0)
        r = rg_sync_names(snapshot->dir, max > RG_SNAPSHOT_FILES ? max : RG_SNAPSHOT_FILES,
                          &snapshot->names, remarks, err);
    if (r == 0)
        r = check_size(snapshot, err);
    if (r == 0 && (snapshot->spool_fd = open_spool(err)) < 0)
        r = snapshot->spool_fd;
    snapshot->piece = malloc(PIECE_NBYTES);
    if (r == 0 && !snapshot->piece)
        r = rg_error_memory(err);
    for (size_t i = 0; r == 0 && i < snapshot->names.count; i++)
        r = add_entry(snapshot, snapshot->names.v[i], err);
    if (r < 0)
        return r;
    if (rg_buf_status(&snapshot->list) < 0 || rg_buf_nbytes(&snapshot->list) > RG_FILELIST_MAX)
        return rg_error_set(err, E2BIG, "--sync: the list of %zu files is too long",
                            snapshot->names.count);
    if (!rg_buf_nbytes(&snapshot->list))
        return rg_error_set(err, ENOENT, "--sync: %s has no file to send", snapshot->dir);
    say_left_out(snapshot, remarks);
    rg_strv_fini(&snapshot->names);
    free(rg_steal_ptr(&snapshot->piece));
    return 0;
}

int rg_snapshot_make(const char *dir, const char *cwd, uint64_t max_nbytes,
                     struct rg_strv *remarks, struct rg_snapshot **ret_snapshot,
                     struct rg_error *err)
{
    struct rg_snapshot *snapshot = calloc(1, sizeof(*snapshot));

    if (!snapshot)
        return rg_error_memory(err);
    snapshot->dir_fd = snapshot->spool_fd = -1;
    snapshot->max_nbytes = max_nbytes ? max_nbytes : RG_SNAPSHOT_NBYTES;
    int r = open_dir(snapshot, dir, err);

    if (r == 0)
        r = fill(snapshot, cwd, remarks, err);
    if (r < 0)
        rg_snapshot_free(snapshot);
    else
        *ret_snapshot = snapshot;
    return r;
}

/* --- what it has ------------------------------------------------------------------------------ */

const char *rg_snapshot_dir(const struct rg_snapshot *snapshot)
{
    return snapshot->dir;
}

const char *rg_snapshot_cwd(const struct rg_snapshot *snapshot)
{
    return snapshot->cwd;
}

const uint8_t *rg_snapshot_list(const struct rg_snapshot *snapshot, size_t *ret_nbytes)
{
    *ret_nbytes = rg_buf_nbytes(&snapshot->list);
    return rg_buf_bytes(&snapshot->list);
}

size_t rg_snapshot_count(const struct rg_snapshot *snapshot)
{
    return snapshot->nfiles;
}

uint64_t rg_snapshot_nbytes(const struct rg_snapshot *snapshot, size_t file)
{
    return snapshot->files[file].nbytes;
}

int rg_snapshot_read(const struct rg_snapshot *snapshot, size_t file, uint64_t at, void *data,
                     size_t nbytes)
{
    uint64_t from = snapshot->files[file].at + at;

    for (size_t done = 0; done < nbytes;) {
        ssize_t n = pread(snapshot->spool_fd, (uint8_t *) data + done, nbytes - done,
                          (off_t) (from + done));
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t) n;
    }
    return 0;
}
