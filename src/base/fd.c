/* SPDX-License-Identifier: Apache-2.0 */
/* The system's calls may be interrupted or do less than was asked; these do not. */
#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/time.h"

/* Editors of other systems put it in front of a text in UTF-8. */
static const char byte_order_mark[] = "\xef\xbb\xbf";
#define MARK_NBYTES (sizeof(byte_order_mark) - 1)

#define READ_NBYTES 4000 /* of most files all, and a first buffer of 4 KiB */

int rg_fd_set_nonblock(int fd, bool on)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;

    if (wanted != flags && fcntl(fd, F_SETFL, wanted) < 0)
        return -errno;
    return 0;
}

void rg_cleanup_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

void rg_fd_close_above(int last)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned) last + 1, ~0u, 0u) == 0)
        return;
#endif
    for (int fd = last + 1; fd < 1024; fd++)
        close(fd);
}

int rg_fd_wait(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd pfd = { .fd = fd, .events = events };

    for (;;) {
        uint64_t now_ns = rg_now_ns();
        uint64_t left_ms = deadline_ns > now_ns ? (deadline_ns - now_ns) / RG_NS_PER_MS + 1 : 0;
        int n = poll(&pfd, 1, left_ms > INT_MAX ? INT_MAX : (int) left_ms);

        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (rg_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
    }
}

int rg_read_all(int fd, void *data, size_t nbytes)
{
    uint8_t *p = data;

    while (nbytes > 0) {
        ssize_t n = read(fd, p, nbytes);

        if (n == 0)
            return -EPIPE;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        nbytes -= (size_t) n;
    }
    return 0;
}

int rg_write_all(int fd, const void *data, size_t nbytes)
{
    const uint8_t *p = data;

    while (nbytes > 0) {
        ssize_t n = write(fd, p, nbytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        nbytes -= (size_t) n;
    }
    return 0;
}

int rg_pipe(int ret_fds[2])
{
    return pipe2(ret_fds, O_CLOEXEC) < 0 ? -errno : 0;
}

int rg_socketpair(int ret_fds[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_fds) < 0 ? -errno : 0;
}

socklen_t rg_unix_address(const char *name, struct sockaddr_un *ret_address)
{
    size_t length = strlen(name);

    *ret_address = (struct sockaddr_un) { .sun_family = AF_UNIX };
    if (length >= sizeof(ret_address->sun_path))
        return 0;
    memcpy(ret_address->sun_path, name, length);
    if (*name == '@')
        ret_address->sun_path[0] = '\0';
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length + (*name != '@'));
}

int rg_read_fd(int fd, size_t max_nbytes, char **ret_data, size_t *ret_nbytes)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    ssize_t n = 1;

    while (n > 0 || (n < 0 && errno == EINTR)) {
        uint8_t *room = rg_buf_reserve(&text, READ_NBYTES);
        if (!room)
            return rg_buf_status(&text);
        n = read(fd, room, READ_NBYTES);
        if (n > 0)
            rg_buf_commit(&text, (size_t) n);
        if (rg_buf_nbytes(&text) > max_nbytes)
            return -EFBIG;
    }
    if (n < 0)
        return -errno;
    if (ret_nbytes)
        *ret_nbytes = rg_buf_nbytes(&text);
    rg_buf_text(&text);
    if (rg_buf_status(&text) < 0)
        return rg_buf_status(&text);
    *ret_data = (char *) rg_steal_ptr(&text.data);
    return 0;
}

int rg_read_file(const char *path, size_t max_nbytes, char **ret_data, size_t *ret_nbytes)
{
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -errno : rg_read_fd(fd, max_nbytes, ret_data, ret_nbytes);
}

char *rg_skip_byte_order_mark(char *text)
{
    return text + (strncmp(text, byte_order_mark, MARK_NBYTES) == 0 ? MARK_NBYTES : 0);
}

int rg_read_named(const char *what, const char *path, size_t max_nbytes, char **ret_data,
                  size_t *ret_nbytes, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    size_t nbytes = 0;
    int rc = rg_read_file(path, max_nbytes, &text, &nbytes);

    if (rc < 0)
        return rg_error_set_exit(err, -rc, RG_EXIT_USAGE, "cannot read %s %s: %s", what, path,
                                 strerror(-rc));
    size_t mark = (size_t) (rg_skip_byte_order_mark(text) - text);

    nbytes -= mark;
    memmove(text, text + mark, nbytes + 1);
    *ret_data = rg_steal_ptr(&text);
    if (ret_nbytes)
        *ret_nbytes = nbytes;
    return 0;
}

int rg_read_regular(const char *path, bool follow, size_t max_nbytes, char **ret_data,
                    size_t *ret_nbytes)
{
    struct stat st;

    if (fstatat(AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (st.st_size > (off_t) max_nbytes)
        return -EFBIG;
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                                         (follow ? 0 : O_NOFOLLOW));
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? rg_read_fd(fd, max_nbytes, ret_data, ret_nbytes) : -EINVAL;
}

static int make_one(const char *path, mode_t mode, struct rg_error *err)
{
    struct stat st;

    if (mkdir(path, mode) == 0)
        return 0;
    int errnum = errno;

    /* An existing parent on a read-only file system gives EROFS, not EEXIST. */
    if (stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return 0;
        errnum = ENOTDIR;
    }
    return rg_error_set(err, errnum, "cannot make directory %s: %s", path, strerror(errnum));
}

int rg_mkdir_all(const char *path, mode_t mode, struct rg_error *err)
{
    rg_autofree char *part = strdup(path);

    if (!part)
        return rg_error_set(err, ENOMEM, "cannot make directory %s: out of memory", path);
    if (!*part)
        return rg_error_set(err, ENOENT, "cannot make a directory: its name is empty");
    for (char *p = part + 1; *p; p++) {
        if (*p != '/' || p[-1] == '/')
            continue;
        *p = '\0';
        int rc = make_one(part, mode, err);

        if (rc < 0)
            return rc;
        *p = '/';
    }
    return make_one(part, mode, err);
}

/* Numbers of linux/magic.h, which not every C library's headers come with. */
bool rg_fd_is_local(int fd)
{
    static const uint32_t local[] = {
        0x0000ef53, /* ext2, ext3, ext4 */
        0x58465342, /* xfs */
        0x9123683e, /* btrfs */
        0x2fc12fc1, /* zfs */
        0xf2f52010, /* f2fs */
        0xca451a4e, /* bcachefs */
        0x3153464a, /* jfs */
        0x01021994, /* tmpfs */
        0x858458f6, /* ramfs */
        0x794c7630, /* overlayfs */
    };
    struct statfs fs;

    if (fstatfs(fd, &fs) < 0)
        return false;
    for (size_t i = 0; i < rg_array_len(local); i++) {
        if ((uint32_t) fs.f_type == local[i])
            return true;
    }
    return false;
}

bool rg_accept_pauses(const struct rg_acceptor *acceptor)
{
    return acceptor->resume_ns > 0 && rg_now_ns() < acceptor->resume_ns;
}

int rg_accept(struct rg_acceptor *acceptor, int listen_fd, bool *ret_tell)
{
    int fd;

    *ret_tell = false;
    if (rg_accept_pauses(acceptor))
        return -EMFILE;
    fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    acceptor->resume_ns = 0;
    if (fd >= 0)
        return fd;
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        return -errno;
    acceptor->resume_ns = rg_now_ns() + RG_ACCEPT_PAUSE_MS * RG_NS_PER_MS;
    *ret_tell = !acceptor->told;
    acceptor->told = true;
    return -EMFILE;
}

/* --- files in folders that others can write --------------------------------------------------- */

/* A name in /tmp may be anybody's: who opens it looks at what has been opened. */
static bool is_ours(uid_t uid)
{
    return uid == geteuid() || uid == 0;
}

static int judge(const struct stat *st, mode_t forbidden, const char *what, const char *path,
                 struct rg_error *err)
{
    const char *others = forbidden & 0044 ? "read" : "write";

    if (!S_ISREG(st->st_mode))
        return rg_error_set(err, EINVAL, "%s %s: not a regular file", what, path);
    if (!is_ours(st->st_uid))
        return rg_error_set(err, EPERM, "%s %s: it belongs to somebody else (uid %u); use a copy "
                            "of your own", what, path, (unsigned) st->st_uid);
    if (st->st_mode & forbidden)
        return rg_error_set(err, EPERM, "%s %s: others can %s it (mode %03o): chmod %s %s", what,
                            path, others, (unsigned) st->st_mode & 0777,
                            forbidden & 0044 ? "600" : "go-w", path);
    return 0;
}

int rg_read_trusted(const char *what, const char *path, mode_t forbidden, size_t max_nbytes,
                    char **ret_data, size_t *ret_nbytes, struct rg_error *err)
{
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

    if (r == 0 && (r = judge(&st, forbidden, what, path, err)) < 0)
        return r;
    r = r < 0 ? r : rg_read_fd(fd, max_nbytes, ret_data, ret_nbytes);
    return r < 0 ? rg_error_set(err, -r, "cannot read %s %s: %s", what, path, strerror(-r)) : 0;
}

/* The folder, and the name in it; NULL: path has none, or there is no memory. */
static const char *split(const char *path, char **ret_dir)
{
    const char *slash = strrchr(path, '/');

    *ret_dir = !slash ? strdup(".") : slash == path ? strdup("/")
                                                    : strndup(path, (size_t) (slash - path));
    return *ret_dir ? (slash ? slash + 1 : path) : NULL;
}

/* In a folder that others can write. */
static int open_shared(int dir, const struct stat *folder, const char *name, int flags,
                       mode_t mode)
{
    uid_t owner = folder->st_uid;
    struct stat st;
    int how = (flags & ~O_TRUNC) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    rg_autoclose int fd = openat(dir, name, how, mode);

    int errnum = errno;

    if (fd < 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        bool ours = is_ours(st.st_uid) || st.st_uid == owner;
        bool stays = folder->st_mode & S_ISVTX; /* what is ours, whoever comes between two looks */
        if (ours && stays && errnum == ELOOP)
            return openat(dir, name, flags, mode);
        /* The kernel itself may have kept us from it. */
        errnum = ours && errnum != ELOOP ? errnum : EPERM;
    }
    if (fd < 0)
        return errno = errnum, -1;
    bool theirs = fstat(fd, &st) < 0 || (!is_ours(st.st_uid) && st.st_uid != owner);
    if (theirs || (S_ISREG(st.st_mode) && st.st_nlink > 1))
        return errno = EPERM, -1;
    if (((flags & O_TRUNC) && S_ISREG(st.st_mode) && ftruncate(fd, 0) < 0) ||
        (!(flags & O_NONBLOCK) && rg_fd_set_nonblock(fd, false) < 0))
        return -1;
    return rg_steal_fd(&fd);
}

int rg_open_to_write(const char *path, int flags, mode_t mode)
{
    rg_autofree char *folder = NULL;
    const char *name = split(path, &folder);
    rg_autoclose int dir = name ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    struct stat st;
    int fd;

    if (!name)
        return -ENOMEM;
    if (dir < 0 || fstat(dir, &st) < 0 || !(st.st_mode & S_IWOTH))
        fd = open(path, flags, mode);
    else
        fd = open_shared(dir, &st, name, flags, mode);
    return fd < 0 ? -errno : fd;
}

const char *rg_open_to_write_why(int r)
{
    if (r == -ENXIO)
        return "it is a fifo that nobody reads, or a socket";
    return r != -EPERM ? strerror(-r)
                       : "others can write its folder, and it is somebody else's file or link, or "
                         "has a second name; use a folder of your own";
}
