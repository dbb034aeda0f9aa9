/* SPDX-License-Identifier: Apache-2.0 */
/* One state of the user's files, for all hosts of a job: read once for their hashes, and looked at
 * again whenever a part of one is sent. */
#include "launch/sync/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium/crypto_hash_sha256.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "launch/sync/list.h"
#include "launch/sync/marker.h"

#define READ_NBYTES (256u << 10)
#define TRIES 3
#define GIT_MS 120000
#define LARGEST 3               /* files that are named when it is too much */
#define TELL_NBYTES (64u << 20) /* to read more than this takes a while */
#define NS 1000000000ull

/* What says that a file is still the one that was read. */
struct identity {
    dev_t dev;
    ino_t ino;
    uint64_t nbytes;
    struct timespec mtime, ctime;
};

struct item {
    char *path; /* owned */
    struct identity id;
    uint64_t nbytes; /* of a file; else 0 */
};

struct rg_sync {
    char *dir, *sub;
    struct item *items; /* by the list's numbers */
    uint32_t count;
    uint64_t nbytes;
    uint32_t nfiles, nleft; /* that are sent; and that stay, the first of which is */
    char *first_left;       /* owned, or NULL */
    bool by_git;
    struct rg_buf list;
    struct rg_sync_marker marker;
    int nmarked;
    struct rg_strv decided; /* "HOST=1": RG_SYNC_IN_PLACE or RG_SYNC_COPY */
};

/* --- what is too much ------------------------------------------------------------------------- */

struct largest {
    const char *path[LARGEST];
    uint64_t nbytes[LARGEST];
};

static void note_large(struct largest *l, const char *path, uint64_t nbytes)
{
    for (int i = 0; i < LARGEST; i++) {
        if (nbytes <= l->nbytes[i])
            continue;
        for (int k = LARGEST - 1; k > i; k--) {
            l->path[k] = l->path[k - 1];
            l->nbytes[k] = l->nbytes[k - 1];
        }
        l->path[i] = path;
        l->nbytes[i] = nbytes;
        return;
    }
}

static int refuse_size(const char *dir, uint64_t nbytes, const struct largest *l,
                       struct rg_error *err)
{
    rg_autobuf struct rg_buf names = RG_BUF_INIT;
    char all[32], most[32], one[32];

    for (int i = 0; i < LARGEST && l->path[i]; i++)
        rg_buf_printf(&names, "%s%.200s (%s)", i ? ", " : "", l->path[i],
                      rg_size_text(l->nbytes[i], one, sizeof(one)));
    return rg_error_set(err, EFBIG, "--sync: %s has %s, and at most %s is sent. The largest: %s. "
                        "Name what ranks do not need in .gitignore, send a smaller directory "
                        "(--sync=DIR), or put data on a shared one", dir,
                        rg_size_text(nbytes, all, sizeof(all)),
                        rg_size_text(RG_SYNC_NBYTES_MAX, most, sizeof(most)), rg_buf_text(&names));
}

/* Of all that it lists, the directory in dir that has most. */
static int refuse_count(const char *dir, const struct rg_strv *paths, struct rg_error *err)
{
    const char *most = "", *first = "";
    size_t nmost = 0, n = 0;

    for (size_t i = 0; i < paths->count; i++, n++) {
        size_t length = strcspn(paths->v[i], "/");
        if (strncmp(paths->v[i], first, length) != 0 || first[length] != '/') {
            first = paths->v[i];
            n = 0;
        }
        if (n >= nmost) {
            most = first;
            nmost = n;
        }
    }
    return rg_error_set(err, EFBIG, "--sync: %s has more than %d files, most of them in %.*s; name "
                        "what ranks do not need in .gitignore, or send a smaller directory "
                        "(--sync=DIR)", dir, RG_SYNC_ENTRIES_MAX, (int) strcspn(most, "/"), most);
}

/* --- looking at files ------------------------------------------------------------------------- */

static struct identity identity_of(const struct stat *st)
{
    return (struct identity){ st->st_dev, st->st_ino, (uint64_t) st->st_size, st->st_mtim,
                              st->st_ctim };
}

static bool is_same(const struct identity *a, const struct identity *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->nbytes == b->nbytes &&
           a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec &&
           a->ctime.tv_sec == b->ctime.tv_sec && a->ctime.tv_nsec == b->ctime.tv_nsec;
}

static int open_file(const char *dir, const char *path, struct stat *ret_st)
{
    rg_autofree char *full = rg_strf("%s/%s", dir, path);
    rg_autoclose int fd = full ? open(full, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;

    if (fd < 0 || fstat(fd, ret_st) < 0)
        return full ? -errno : -ENOMEM;
    return S_ISREG(ret_st->st_mode) ? rg_steal_fd(&fd) : -EBUSY;
}

static int hash_fd(int fd, uint8_t hash[RG_SYNC_HASH_NBYTES], uint64_t *ret_nbytes)
{
    static uint8_t bytes[READ_NBYTES];
    crypto_hash_sha256_state state;
    ssize_t n;

    *ret_nbytes = 0;
    crypto_hash_sha256_init(&state);
    while ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        crypto_hash_sha256_update(&state, bytes, (unsigned long long) n);
        *ret_nbytes += (uint64_t) n;
        if (*ret_nbytes > RG_SYNC_NBYTES_MAX)
            return -EBUSY; /* it was smaller a moment ago */
    }
    crypto_hash_sha256_final(&state, hash);
    return n < 0 ? -errno : 0;
}

/* -EBUSY: it changed while it was read, each time. */
static int read_file(const char *dir, struct item *item, struct rg_sync_entry *entry)
{
    int r = -EBUSY;

    for (int i = 0; i < TRIES && r == -EBUSY; i++) {
        struct stat st, after;
        rg_autoclose int fd = open_file(dir, item->path, &st);
        if (fd < 0)
            return fd;
        r = hash_fd(fd, entry->hash, &entry->nbytes);
        item->id = identity_of(&st);
        if (r == 0 && fstat(fd, &after) == 0) {
            struct identity id = identity_of(&after);
            r = is_same(&id, &item->id) && entry->nbytes == id.nbytes ? 0 : -EBUSY;
        }
        item->nbytes = entry->nbytes;
        entry->mode = st.st_mode & 0777;
        entry->mtime_ns = (uint64_t) st.st_mtim.tv_sec * NS + (uint64_t) st.st_mtim.tv_nsec;
    }
    return r;
}

/* By its text alone: as if no part of the way were a link. */
static bool leads_out(const char *path, const char *target)
{
    int depth = 0;

    if (*target == '/')
        return true;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    for (const char *p = target; *p; p += p[0] == '/') {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            depth--;
        else if (n && !(n == 1 && *p == '.'))
            depth++;
        if (depth < 0)
            return true;
        p += n;
    }
    return false;
}

static int leave(struct rg_sync *sync, const char *path)
{
    if (sync->nleft++ == 0)
        sync->first_left = strdup(path);
    return 0;
}

static int add_item(struct rg_sync *sync, struct rg_sync_entry *entry, struct item *item,
                    struct rg_buf *part)
{
    rg_sync_entry_put(part, entry);
    sync->items[sync->count++] = *item;
    item->path = NULL;
    if (rg_buf_nbytes(part) < RG_SYNC_CHUNK_MAX)
        return rg_buf_status(part);
    rg_frame_put(&sync->list, RG_SYNC_LIST, rg_buf_bytes(part), rg_buf_nbytes(part));
    rg_buf_clear(part);
    return rg_buf_status(&sync->list);
}

/* --- the list --------------------------------------------------------------------------------- */

/* Which contents there are already: a table with open addressing. */
struct seen {
    uint8_t (*hashes)[RG_SYNC_HASH_NBYTES];
    uint8_t *used;
    size_t mask;
};

/* Whether it was there; it is now. */
static bool see(struct seen *seen, const uint8_t *hash)
{
    size_t at;

    memcpy(&at, hash, sizeof(at));
    for (;; at++) {
        size_t i = at & seen->mask;
        if (!seen->used[i]) {
            seen->used[i] = 1;
            memcpy(seen->hashes[i], hash, RG_SYNC_HASH_NBYTES);
            return false;
        }
        if (memcmp(seen->hashes[i], hash, RG_SYNC_HASH_NBYTES) == 0)
            return true;
    }
}

static int look_at_link(const char *full, struct rg_sync_entry *entry, bool *ret_leave)
{
    ssize_t n = readlink(full, entry->target, sizeof(entry->target));

    if (n < 0)
        return -errno;
    *ret_leave = n == 0 || n == sizeof(entry->target);
    entry->target[*ret_leave ? 0 : n] = '\0';
    *ret_leave |= leads_out(entry->path, entry->target);
    entry->kind = RG_SYNC_LINK;
    return 0;
}

static int look_at(struct rg_sync *sync, const char *path, struct seen *seen, struct rg_buf *part)
{
    static struct rg_sync_entry entry;
    rg_autofree char *full = rg_strf("%s/%s", sync->dir, path), *copy = strdup(path);
    struct item item = { .path = copy };
    bool stays = strlen(path) > RG_SYNC_PATH_MAX;
    struct stat st;
    int r = 0;

    if (!full || !copy)
        return -ENOMEM;
    if (lstat(full, &st) < 0)
        return errno == ENOENT ? 0 : -errno; /* it went meanwhile */
    memset(&entry, 0, sizeof(entry));
    snprintf(entry.path, sizeof(entry.path), "%s", path);
    if (S_ISREG(st.st_mode) && !stays) {
        r = read_file(sync->dir, &item, &entry);
        entry.kind = r == 0 && entry.nbytes && see(seen, entry.hash) ? RG_SYNC_AGAIN : RG_SYNC_FILE;
        sync->nfiles += r == 0;
        sync->nbytes += entry.nbytes;
    } else if (S_ISDIR(st.st_mode)) {
        entry.kind = RG_SYNC_DIR;
    } else if (S_ISLNK(st.st_mode) && !stays) {
        r = look_at_link(full, &entry, &stays);
    } else {
        stays = true;
    }
    if (r < 0 || stays)
        return r < 0 ? r : leave(sync, path);
    copy = NULL;
    r = add_item(sync, &entry, &item, part);
    free(item.path);
    return r;
}

static int look_at_all(struct rg_sync *sync, const struct rg_strv *paths, struct rg_error *err)
{
    rg_autobuf struct rg_buf part = RG_BUF_INIT;
    size_t size = 16;

    while (size < 2 * paths->count)
        size *= 2;
    rg_autofree void *hashes = calloc(size, RG_SYNC_HASH_NBYTES);
    rg_autofree uint8_t *used = calloc(size, 1);
    struct seen seen = { hashes, used, size - 1 };
    sync->items = calloc(paths->count + 1, sizeof(*sync->items));
    int r = hashes && used && sync->items ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < paths->count; i++) {
        r = look_at(sync, paths->v[i], &seen, &part);
        if (r == -EBUSY)
            return rg_error_set(err, EBUSY, "--sync: %s/%s changes while it is read: let what "
                                "writes it end first, or name it in .gitignore", sync->dir,
                                paths->v[i]);
        if (r < 0)
            return rg_error_set(err, -r, "--sync: %s/%s cannot be read (%s): make it readable, or "
                                "name it in .gitignore", sync->dir, paths->v[i], strerror(-r));
    }
    if (rg_buf_nbytes(&part))
        rg_frame_put(&sync->list, RG_SYNC_LIST, rg_buf_bytes(&part), rg_buf_nbytes(&part));
    rg_frame_put(&sync->list, RG_SYNC_LISTED, NULL, 0);
    r = r < 0 ? r : rg_buf_status(&sync->list);
    return r < 0 ? rg_error_memory(err) : 0;
}

/* Before anything is read. */
static int check_size(const struct rg_sync *sync, const struct rg_strv *paths,
                      uint64_t *ret_nbytes, struct rg_error *err)
{
    struct largest largest = { .path = { NULL } };
    uint64_t nbytes = 0;

    for (size_t i = 0; i < paths->count; i++) {
        rg_autofree char *full = rg_strf("%s/%s", sync->dir, paths->v[i]);
        struct stat st;
        if (!full || lstat(full, &st) < 0 || !S_ISREG(st.st_mode))
            continue;
        nbytes += (uint64_t) st.st_size;
        note_large(&largest, paths->v[i], (uint64_t) st.st_size);
    }
    *ret_nbytes = nbytes;
    return nbytes > RG_SYNC_NBYTES_MAX ? refuse_size(sync->dir, nbytes, &largest, err) : 0;
}

bool rg_sync_is_in(const char *path, const char *dir)
{
    size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

    return strncmp(path, dir, n) == 0 && (!path[n] || path[n] == '/');
}

/* What the job writes, and does so while it starts, is none of what it began with. Where it writes
 * into the directory itself, or one above, its files cannot be told from the others. */
static void leave_out(const struct rg_sync *sync, const struct rg_strv *without,
                      struct rg_strv *paths)
{
    size_t count = 0;
    struct stat out[2], st;
    int nout = 0;

    for (int fd = 1; fd <= 2; fd++)
        nout += fstat(fd, &out[nout]) == 0 && S_ISREG(out[nout].st_mode);
    for (size_t i = 0; i < paths->count; i++) {
        rg_autofree char *full = rg_strf("%s/%s", sync->dir, paths->v[i]);
        bool ours = false;
        for (size_t k = 0; full && k < without->count; k++)
            ours |= rg_sync_is_in(full, without->v[k]) && !rg_sync_is_in(sync->dir, without->v[k]);
        for (int k = 0; full && k < nout && lstat(full, &st) == 0; k++)
            ours |= st.st_dev == out[k].st_dev && st.st_ino == out[k].st_ino;
        if (ours)
            free(paths->v[i]);
        else
            paths->v[count++] = paths->v[i];
    }
    if (paths->count)
        paths->v[count] = NULL;
    paths->count = count;
}

static int list(struct rg_sync *sync, const struct rg_strv *without,
                void (*say)(void *arg, const char *text), void *arg, struct rg_error *err)
{
    struct rg_sync_names names;
    uint64_t nbytes = 0;
    int r = rg_sync_list_names(sync->dir, GIT_MS, &names, err);
    rg_autostrv struct rg_strv paths = names.paths;
    char text[RG_ERROR_TEXT_MAX], size[32];

    sync->by_git = names.by_git;
    if (r == -EFBIG || paths.count > RG_SYNC_ENTRIES_MAX)
        return refuse_count(sync->dir, &paths, err);
    if (r < 0)
        return err->errnum ? rg_error_prepend(err, "--sync") : rg_error_memory(err);
    leave_out(sync, without, &paths);
    if (!paths.count)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_USAGE, "--sync: %s has nothing to send%s",
                                 sync->dir, !names.by_git ? ""
                                 : " that git lists: does a .gitignore name all of it?");
    r = check_size(sync, &paths, &nbytes, err);
    if (r == 0 && nbytes > TELL_NBYTES && say) {
        snprintf(text, sizeof(text), "--sync: reading %zu files, %s", paths.count,
                 rg_size_text(nbytes, size, sizeof(size)));
        say(arg, text);
    }
    r = r < 0 ? r : look_at_all(sync, &paths, err);
    if (r == 0 && sync->nbytes > RG_SYNC_NBYTES_MAX)
        r = rg_error_set(err, EFBIG, "--sync: %s grows while it is read", sync->dir);
    return r;
}

/* --- the object ------------------------------------------------------------------------------- */

/* Where cwd is in dir; "" where it is not below it. The caller frees. */
static char *place_in(const char *dir, const char *cwd)
{
    size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);
    rg_autofree char *real = realpath(cwd, NULL);

    return strdup(real && strncmp(real, dir, n) == 0 && real[n] == '/' ? real + n + 1 : "");
}

/* Keys and caches lie there, and whoever starts a job in it, or above, has not thought of them. */
static bool has_home(const char *dir)
{
    rg_autofree char *home = getenv("HOME") ? realpath(getenv("HOME"), NULL) : NULL;

    return strcmp(dir, "/") == 0 || (home && rg_sync_is_in(home, dir));
}

int rg_sync_create(const char *dir, const char *cwd, const struct rg_strv *without,
                   void (*say)(void *arg, const char *text), void *arg, struct rg_sync **ret_sync,
                   struct rg_error *err)
{
    rg_cleanup(rg_sync_cleanup) struct rg_sync *sync = calloc(1, sizeof(*sync));
    struct stat st;

    if (!sync)
        return rg_error_memory(err);
    sync->marker = (struct rg_sync_marker) RG_SYNC_MARKER_INIT;
    sync->dir = realpath(dir, NULL);
    if (!sync->dir || stat(sync->dir, &st) < 0)
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE, "--sync %s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return rg_error_set_exit(err, ENOTDIR, RG_EXIT_USAGE, "--sync %s: not a directory", dir);
    if (has_home(sync->dir))
        return rg_error_set_exit(err, EPERM, RG_EXIT_USAGE, "--sync %s: the home directory is not "
                                 "sent, nor one above it, as keys and caches are in it: name one "
                                 "in it that has the project alone", sync->dir);
    sync->sub = place_in(sync->dir, cwd);
    int r = sync->sub ? list(sync, without, say, arg, err) : rg_error_memory(err);
    if (r == 0)
        *ret_sync = rg_steal_ptr(&sync);
    return r;
}

void rg_sync_destroy(struct rg_sync *sync)
{
    if (!sync)
        return;
    rg_sync_marker_remove(sync->dir, &sync->marker);
    for (uint32_t i = 0; i < sync->count; i++)
        free(sync->items[i].path);
    free(sync->items);
    rg_strv_fini(&sync->decided);
    rg_buf_fini(&sync->list);
    free(sync->first_left);
    free(sync->dir);
    free(sync->sub);
    free(sync);
}

void rg_sync_cleanup(struct rg_sync **sync)
{
    rg_sync_destroy(*sync);
}

const char *rg_sync_dir(const struct rg_sync *sync)
{
    return sync->dir;
}

const char *rg_sync_sub(const struct rg_sync *sync)
{
    return sync->sub;
}

uint64_t rg_sync_nbytes(const struct rg_sync *sync)
{
    return sync->nbytes;
}

const char *rg_sync_text(const struct rg_sync *sync, char *buf, size_t room)
{
    char size[32], left[128] = "";

    if (sync->nleft)
        snprintf(left, sizeof(left), "; %u link%s out of it or special files stay here, %.60s "
                 "first", sync->nleft, sync->nleft == 1 ? "" : "s",
                 sync->first_left ? sync->first_left : "");
    snprintf(buf, room, "%u file%s, %s, %s%s", sync->nfiles, sync->nfiles == 1 ? "" : "s",
             rg_size_text(sync->nbytes, size, sizeof(size)),
             sync->by_git ? "as git lists them" : "all but .git, as it is in no git repository",
             left);
    return buf;
}

/* --- to a host -------------------------------------------------------------------------------- */

static uint8_t decision(const struct rg_sync *sync, const char *host)
{
    const char *word = rg_env_get(&sync->decided, host);

    return word ? (uint8_t) (*word - '0') : RG_SYNC_ASK;
}

int rg_sync_put_head(struct rg_sync *sync, const char *host, bool contained, struct rg_buf *buf,
                     bool *ret_marked)
{
    rg_autobuf struct rg_buf payload = RG_BUF_INIT;
    struct rg_sync_head head = { .dir = sync->dir, .sub = sync->sub, .nbytes = sync->nbytes,
                                 .nentries = sync->count, .contained = contained,
                                 .decided = decision(sync, host) };

    *ret_marked = head.decided == RG_SYNC_ASK;
    if (*ret_marked && sync->nmarked++ == 0)
        rg_sync_marker_make(sync->dir, &sync->marker); /* without one, no host finds it */
    head.marker = sync->marker.name;
    head.token = (struct rg_span){ sync->marker.token, sizeof(sync->marker.token) };
    rg_codec_encode(rg_sync_head_fields, &head, &payload);
    rg_frame_put(buf, RG_SYNC_HEAD, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
    return rg_buf_status(buf);
}

void rg_sync_unmark(struct rg_sync *sync)
{
    if (--sync->nmarked == 0)
        rg_sync_marker_remove(sync->dir, &sync->marker);
}

int rg_sync_decide(struct rg_sync *sync, const char *host, bool in_place)
{
    return rg_env_setf(&sync->decided, host, "%d", in_place ? RG_SYNC_IN_PLACE : RG_SYNC_COPY);
}

const struct rg_buf *rg_sync_list(const struct rg_sync *sync)
{
    return &sync->list;
}

uint32_t rg_sync_count(const struct rg_sync *sync)
{
    return sync->count;
}

uint64_t rg_sync_entry_nbytes(const struct rg_sync *sync, uint32_t i)
{
    return sync->items[i].nbytes;
}

static int changed(const struct rg_sync *sync, const char *path, struct rg_error *err)
{
    return rg_error_set(err, EBUSY, "%s/%s has changed since the job began, and other hosts may "
                        "have the old one: start the job again", sync->dir, path);
}

int rg_sync_put_data(const struct rg_sync *sync, uint32_t i, uint64_t offset, struct rg_buf *buf,
                     struct rg_error *err)
{
    static uint8_t bytes[4 + RG_SYNC_CHUNK_MAX];
    const struct item *item = &sync->items[i];
    struct stat st;
    rg_autoclose int fd = open_file(sync->dir, item->path, &st);
    struct identity id = fd >= 0 ? identity_of(&st) : item->id;

    if (fd == -ENOENT || fd == -EBUSY || (fd >= 0 && !is_same(&id, &item->id)))
        return changed(sync, item->path, err);
    if (fd < 0)
        return rg_error_set(err, -fd, "%s/%s: %s", sync->dir, item->path, strerror(-fd));
    ssize_t n = pread(fd, bytes + 4, RG_SYNC_CHUNK_MAX, (off_t) offset);
    if (n <= 0)
        return n < 0 ? rg_error_set(err, errno, "%s/%s: %s", sync->dir, item->path,
                                    strerror(errno))
                     : changed(sync, item->path, err);
    for (int k = 0; k < 4; k++)
        bytes[k] = (uint8_t) (i >> 8 * k);
    rg_frame_put(buf, RG_SYNC_DATA, bytes, 4 + (size_t) n);
    int r = rg_buf_status(buf);
    return r < 0 ? rg_error_memory(err) : (int) n;
}
