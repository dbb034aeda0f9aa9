/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of --sync: it reads frames and blocks as it likes, while the agent goes on. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "agent/store/store.h"
#include "agent/sync/internal.h"
#include "base/error.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/time.h"

#define ROOM_PER_ENTRY 4096 /* bytes that a small file takes */

struct receive {
    struct rg_buf in;          /* what was read, from the frame on that is being looked at */
    struct rg_frame frame;
    uint64_t taken, told;
    struct rg_sync_head head;  /* owned */
    struct rg_buf list;        /* the payloads of all LISTs */
    uint8_t *wanted;           /* a bit for each entry */
    struct rg_sync_entry entry;/* the one that is being looked at */
    char base[PATH_MAX], name[NAME_MAX + 1];
    int base_fd, lock_fd, tree_fd, cache_fd;
    struct stat begun;         /* of the copy, when nothing was in it */
    struct rg_error err;
};

/* --- frames ----------------------------------------------------------------------------------- */

static int say_bytes(uint16_t type, const void *payload, size_t nbytes)
{
    rg_autobuf struct rg_buf out = RG_BUF_INIT;

    rg_frame_put(&out, type, payload, nbytes);
    int r = rg_buf_status(&out);
    return r < 0 ? r : rg_write_all(1, rg_buf_bytes(&out), rg_buf_nbytes(&out));
}

static int say(uint16_t type, const struct rg_field *fields, const void *object)
{
    rg_autobuf struct rg_buf payload = RG_BUF_INIT;

    rg_codec_encode(fields, object, &payload);
    int r = rg_buf_status(&payload);
    return r < 0 ? r : say_bytes(type, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
}

static int tell_taken(struct receive *in, size_t nbytes)
{
    rg_autobuf struct rg_buf payload = RG_BUF_INIT;

    in->taken += nbytes;
    if (in->taken - in->told < RG_SYNC_STEP)
        return 0;
    in->told = in->taken;
    rg_buf_put_u64(&payload, in->taken);
    return say_bytes(RG_SYNC_TAKEN, rg_buf_bytes(&payload), rg_buf_nbytes(&payload));
}

static bool frame_is_whole(struct receive *in)
{
    return rg_frame_peek(&in->in, &in->frame) && in->frame.payload;
}

/* The next frame, until the one after it. 0; -EPIPE: the agent, or the job, has no use for us any
 * more; -errno. */
static int next(struct receive *in)
{
    if (in->frame.payload)
        rg_frame_drop(&in->in, &in->frame);
    in->frame.payload = NULL;
    while (!frame_is_whole(in)) {
        if (rg_buf_nbytes(&in->in) >= RG_FRAME_HEAD_NBYTES && in->frame.nbytes > RG_SYNC_FRAME_MAX)
            return -EBADMSG;
        uint8_t *room = rg_buf_reserve(&in->in, RG_SYNC_STEP);
        ssize_t n = room ? read(0, room, RG_SYNC_STEP) : -1;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return !room ? -ENOMEM : n < 0 ? -errno : -EPIPE;
        rg_buf_commit(&in->in, (size_t) n);
        int r = tell_taken(in, (size_t) n);
        if (r < 0)
            return r;
    }
    return 0;
}

static int next_of(struct receive *in, uint16_t type)
{
    int r = next(in);

    return r < 0 ? r : in->frame.type == type ? 0 : -EBADMSG;
}

/* --- is it here? ------------------------------------------------------------------------------ */

/* Names prove nothing: a file that the launcher has just made does. */
static bool marker_is_here(const struct rg_sync_head *head)
{
    uint8_t token[RG_SYNC_TOKEN_NBYTES + 1];

    if (!rg_sync_path_is_plain(head->marker, strlen(head->marker)) ||
        head->token.nbytes != RG_SYNC_TOKEN_NBYTES)
        return false;
    rg_autoclose int dir_fd = open(head->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    rg_autoclose int fd = dir_fd < 0 ? -1
                                     : openat(dir_fd, head->marker,
                                              O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && read(fd, token, sizeof(token)) == RG_SYNC_TOKEN_NBYTES &&
           memcmp(token, head->token.data, RG_SYNC_TOKEN_NBYTES) == 0;
}

static int read_head(struct receive *in)
{
    int r = next_of(in, RG_SYNC_HEAD);

    if (r == 0)
        r = rg_codec_decode(rg_sync_head_fields, in->frame.payload, in->frame.nbytes, &in->head);
    if (r == 0 && (in->head.nentries > RG_SYNC_ENTRIES_MAX ||
                   in->head.nbytes > RG_SYNC_NBYTES_MAX || in->head.decided > RG_SYNC_COPY ||
                   (*in->head.sub && !rg_sync_path_is_plain(in->head.sub, strlen(in->head.sub)))))
        r = -EBADMSG;
    return r;
}

/* --- where the copy goes ---------------------------------------------------------------------- */

static bool is_own_disk(const char *path)
{
    struct stat root, st;

    return stat("/", &root) < 0 || stat(path, &st) < 0 || root.st_dev == st.st_dev;
}

/* Whether there is enough room in it; says what it lacks. Without why: whether all of it may go to
 * the cache as well. */
static bool has_room(struct receive *in, struct rg_buf *why)
{
    uint64_t need = in->head.nbytes + (uint64_t) in->head.nentries * ROOM_PER_ENTRY;
    char want[32], have[32];
    struct statvfs fs;

    if (fstatvfs(in->base_fd, &fs) < 0)
        return false;
    need = why ? need : 2 * need;
    bool fits = (uint64_t) fs.f_bavail * fs.f_frsize >= need;
    if (fits || !why)
        return fits;
    rg_buf_printf(why, "; %s has %s free, and %s are needed", in->base,
                  rg_size_text((uint64_t) fs.f_bavail * fs.f_frsize, have, sizeof(have)),
                  rg_size_text(need, want, sizeof(want)));
    return false;
}

/* What other jobs have left goes first, and their contents in the cache if it must. */
static bool makes_room(struct receive *in, struct rg_buf *why)
{
    rg_sync_sweep_in(in->base_fd);
    in->cache_fd = rg_sync_cache_open(in->base_fd);
    if (in->cache_fd < 0)
        return true; /* make_place says why */
    if (!has_room(in, NULL))
        rg_sync_cache_bound(in->cache_fd, 0);
    return has_room(in, why);
}

static int choose_base(struct receive *in)
{
    static const enum rg_store_place places[] = { RG_STORE_VAR_TMP, RG_STORE_HOME, RG_STORE_TMP };
    rg_autobuf struct rg_buf why = RG_BUF_INIT;

    for (size_t i = 0; i < rg_array_len(places); i++) {
        if (in->head.contained && places[i] != RG_STORE_HOME)
            continue;
        if (!rg_store_place(places[i], in->base, sizeof(in->base)) ||
            !rg_store_is_good(in->base) || (in->head.contained && is_own_disk(in->base)))
            continue;
        in->base_fd = rg_sync_base(places[i], in->base);
        if (in->base_fd >= 0 && makes_room(in, &why))
            return 0;
        rg_cleanup_close(&in->cache_fd);
        rg_cleanup_close(&in->base_fd);
        in->cache_fd = in->base_fd = -1;
    }
    return rg_error_set(&in->err, ENOSPC, "no place takes the copy: %s%s",
                        in->head.contained ? "the home directory must be mounted in the container"
                                           : "/var/tmp, ~/.cache or /tmp must be writable, let "
                                             "programs run, and have room",
                        rg_buf_text(&why));
}

/* Locked before it has the name under which others look whether it is locked. */
static int make_folder(struct receive *in)
{
    char path[PATH_MAX + 16], name[NAME_MAX + 1];

    snprintf(path, sizeof(path), "%s/." RG_SYNC_JOB "XXXXXX", in->base);
    if (!mkdtemp(path))
        return -errno;
    snprintf(name, sizeof(name), "%s", strrchr(path, '/') + 1);
    snprintf(in->name, sizeof(in->name), "%s", name + 1);
    in->lock_fd = rg_store_open_below(in->base_fd, name);
    if (in->lock_fd >= 0 && flock(in->lock_fd, LOCK_SH | LOCK_NB) == 0 &&
        mkdirat(in->lock_fd, RG_SYNC_WORK, 0755) == 0 &&
        renameat(in->base_fd, name, in->base_fd, in->name) == 0) {
        in->tree_fd = rg_store_open_below(in->lock_fd, RG_SYNC_WORK);
        return in->tree_fd < 0                      ? in->tree_fd
               : fstat(in->tree_fd, &in->begun) < 0 ? -errno
                                                    : 0;
    }
    int r = errno ? -errno : -EIO;
    *in->name = '\0';
    rg_sync_remove(in->base_fd, name);
    return r;
}

static int make_place(struct receive *in)
{
    int r = choose_base(in);

    if (r < 0)
        return r;
    r = in->cache_fd < 0 ? in->cache_fd : make_folder(in);
    return r < 0 ? rg_error_set(&in->err, -r, "%s: %s", in->base, strerror(-r)) : 0;
}

/* --- the copy --------------------------------------------------------------------------------- */

/* errnum, with the entry's name; of a full disk, what it lacks. */
static int fail_at(struct receive *in, int r)
{
    char have[32] = "nothing";
    struct statvfs fs;

    if (r >= 0 || r == -EPIPE || in->err.errnum)
        return r;
    if (r == -EBADMSG)
        return rg_error_set(&in->err, EBADMSG, "what the launcher sent is damaged, at %.500s",
                            in->entry.path);
    if ((r == -ENOSPC || r == -EDQUOT) && fstatvfs(in->base_fd, &fs) == 0)
        return rg_error_set(&in->err, -r, "no room in %s for %.300s: %s; it has %s free. Make "
                            "room there, or send less", in->base, in->entry.path, strerror(-r),
                            rg_size_text((uint64_t) fs.f_bavail * fs.f_frsize, have,
                                         sizeof(have)));
    return rg_error_set(&in->err, -r, "%.500s in %s: %s", in->entry.path, in->base, strerror(-r));
}

static bool bit(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

/* From the cache. -ENOENT: it is not there, and the file that was made is empty. */
static int take_file(struct receive *in, bool is_there)
{
    rg_autoclose int fd = rg_sync_tree_create(in->tree_fd, in->entry.path, is_there);
    int r = fd < 0                ? fd
            : in->entry.nbytes > 0 ? rg_sync_cache_take(in->cache_fd, &in->entry, fd)
                                   : 0;

    return r < 0 ? r : rg_sync_tree_settle(fd, &in->entry);
}

static int make_entry(struct receive *in)
{
    switch (in->entry.kind) {
    case RG_SYNC_DIR: return rg_sync_tree_mkdir(in->tree_fd, in->entry.path);
    case RG_SYNC_LINK:
        return rg_sync_tree_link(in->tree_fd, in->entry.path, in->entry.target);
    default: return take_file(in, false);
    }
}

static int receive_file(struct receive *in, uint32_t index)
{
    struct rg_sync_fresh fresh;
    uint64_t have = 0;
    int r = rg_sync_cache_begin(in->cache_fd, &fresh);

    if (r < 0)
        return r;
    while (r == 0 && have < in->entry.nbytes) {
        struct rg_reader reader;
        if ((r = next_of(in, RG_SYNC_DATA)) < 0)
            break;
        reader = rg_reader_make(in->frame.payload, in->frame.nbytes);
        if (rg_reader_u32(&reader) != index || reader.bad || !reader.nbytes ||
            reader.nbytes > in->entry.nbytes - have) {
            r = -EBADMSG;
            break;
        }
        r = rg_sync_cache_add(&fresh, reader.data, reader.nbytes);
        have += reader.nbytes;
    }
    int ended = rg_sync_cache_end(in->cache_fd, &fresh, r == 0 ? in->entry.hash : NULL);
    return r < 0 ? r : ended;
}

enum pass { FROM_CACHE, FROM_LAUNCHER, SAME_AGAIN };

static int pass_entry(struct receive *in, enum pass pass, uint32_t i)
{
    bool again = in->entry.kind == RG_SYNC_AGAIN;
    int r = 0;

    if (pass == FROM_CACHE && !again) {
        r = make_entry(in);
        if (r == -ENOENT && in->entry.kind == RG_SYNC_FILE) {
            in->wanted[i / 8] |= (uint8_t) (1 << i % 8);
            r = 0;
        }
    } else if (pass == FROM_LAUNCHER && bit(in->wanted, i)) {
        r = receive_file(in, i);
        r = r < 0 ? r : take_file(in, true);
    } else if (pass == SAME_AGAIN && again) {
        r = take_file(in, false);
    }
    return r;
}

static int walk(struct receive *in, enum pass pass)
{
    struct rg_reader reader = rg_reader_make(rg_buf_bytes(&in->list), rg_buf_nbytes(&in->list));
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < in->head.nentries; i++) {
        r = rg_sync_entry_read(&reader, &in->entry);
        r = r < 0 ? r : pass_entry(in, pass, i);
    }
    return fail_at(in, r == 0 ? rg_reader_done(&reader) : r);
}

static int read_list(struct receive *in)
{
    int r;

    while ((r = next(in)) == 0 && in->frame.type == RG_SYNC_LIST) {
        rg_buf_put(&in->list, in->frame.payload, in->frame.nbytes);
        if (rg_buf_status(&in->list) < 0)
            return -ENOMEM;
        if (rg_buf_nbytes(&in->list) > (uint64_t) in->head.nentries * RG_SYNC_ENTRY_MAX)
            return -EBADMSG;
    }
    return r < 0 ? r : in->frame.type == RG_SYNC_LISTED ? 0 : -EBADMSG;
}

/* The clock of a file system goes in steps: later than the stamp is only what comes after one. */
static int stamp(struct receive *in)
{
    const struct timespec times[2] = { { 0, UTIME_OMIT }, in->begun.st_ctim };
    struct timespec first = { 0, 0 };
    struct stat st;

    for (int i = 0; i < 400; i++) {
        rg_autoclose int fd = openat(in->lock_fd, i ? "later" : RG_SYNC_STAMP,
                                     O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0 || futimens(fd, times) < 0 || fstat(fd, &st) < 0)
            return -errno;
        if (i == 0)
            first = st.st_ctim;
        else if (st.st_ctim.tv_sec != first.tv_sec || st.st_ctim.tv_nsec != first.tv_nsec)
            break;
        rg_sleep_ms(i < 20 ? 1 : 5);
    }
    unlinkat(in->lock_fd, "later", 0);
    return 0;
}

static int copy(struct receive *in)
{
    size_t nbits = (in->head.nentries + 7) / 8;
    int r = make_place(in);

    r = r < 0 ? r : read_list(in);
    in->wanted = calloc(nbits + 1, 1);
    r = r < 0 ? r : !in->wanted ? -ENOMEM : walk(in, FROM_CACHE);
    r = r < 0 ? r : say_bytes(RG_SYNC_WANT, in->wanted, nbits);
    r = r < 0 ? r : walk(in, FROM_LAUNCHER);
    r = r < 0 ? r : walk(in, SAME_AGAIN);
    if (r == 0 && *in->head.sub) /* an empty one, or one that git leaves out */
        r = rg_sync_tree_mkdir(in->tree_fd, in->head.sub);
    return r < 0 ? r : stamp(in);
}

/* --- the whole -------------------------------------------------------------------------------- */

static int say_done(const struct receive *in, bool in_place)
{
    char cwd[PATH_MAX], folder[PATH_MAX] = "";
    const char *sub = in->head.sub;

    if (!in_place)
        snprintf(folder, sizeof(folder), "%.*s/%s", PATH_MAX - 300, in->base, in->name);
    int n = snprintf(cwd, sizeof(cwd), "%s%s%s%s", in_place ? in->head.dir : folder,
                     in_place ? "" : "/" RG_SYNC_WORK, *sub ? "/" : "", sub);
    if (n >= (int) sizeof(cwd))
        return -ENAMETOOLONG;
    return say(RG_SYNC_DONE, rg_sync_done_fields, &(struct rg_sync_done){ cwd, folder });
}

static int receive(struct receive *in)
{
    int r = read_head(in);
    uint8_t in_place = in->head.decided == RG_SYNC_IN_PLACE;

    if (r < 0)
        return r;
    if (in->head.decided == RG_SYNC_ASK)
        in_place = marker_is_here(&in->head);
    r = say_bytes(RG_SYNC_PLACE, &in_place, 1);
    if (r == 0 && !in_place)
        r = copy(in);
    return r < 0 ? r : say_done(in, in_place);
}

/* Until the agent holds the lock itself, or has gone. */
static void wait_for_end(struct receive *in)
{
    while (next(in) == 0)
        ;
    if (in->lock_fd >= 0)
        close(rg_steal_fd(&in->lock_fd));
    rg_sync_sweep_in(in->base_fd); /* an agent that has gone before has not taken it over */
}

static void give_up(struct receive *in, int r)
{
    if (*in->name)
        rg_sync_remove(in->base_fd, in->name);
    fail_at(in, r);
    const struct rg_sync_failed failed = { (uint32_t) -r,
                                           *in->err.text ? in->err.text : strerror(-r) };
    if (r != -EPIPE)
        say(RG_SYNC_FAILED, rg_sync_failed_fields, &failed);
}

int rg_sync_main(void)
{
    static struct receive in;

    signal(SIGPIPE, SIG_IGN); /* an agent that is gone is an error like others */
    in = (struct receive){ .base_fd = -1, .lock_fd = -1, .tree_fd = -1, .cache_fd = -1 };
    int r = receive(&in);
    if (r == 0)
        wait_for_end(&in);
    else
        give_up(&in, r);
    if (in.cache_fd >= 0)
        rg_sync_cache_bound(in.cache_fd, UINT64_MAX);
    return r == 0 ? 0 : RG_EXIT_INTERNAL;
}
