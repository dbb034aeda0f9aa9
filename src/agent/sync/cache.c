/* SPDX-License-Identifier: Apache-2.0 */
/* Contents that jobs of this user have brought to the host, by their hash: of a directory only
 * what changed is sent again. A copy is taken, and never a link, as ranks may write to theirs. */
#include "agent/sync/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/fd.h"
#include "base/str.h"

#define FOLDER "files"
#define FRESH ".new-"
#define CACHE_MAX (4ull << 30)
#define HALF_MADE_S 3600
#define HEX_NBYTES (2 * RG_SYNC_HASH_NBYTES + 1)

int rg_sync_cache_open(int base_fd)
{
    struct stat st;

    if (mkdirat(base_fd, FOLDER, 0700) < 0 && errno != EEXIST)
        return -errno;
    rg_autoclose int fd = openat(base_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (st.st_uid != geteuid() || (st.st_mode & 077))
        return -EPERM;
    flock(fd, LOCK_SH); /* what cannot lock is not bounded safely, but works */
    return rg_steal_fd(&fd);
}

static void name_of(const uint8_t *hash, char hex[HEX_NBYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < RG_SYNC_HASH_NBYTES; i++) {
        hex[2 * i] = digits[hash[i] >> 4];
        hex[2 * i + 1] = digits[hash[i] & 15];
    }
    hex[HEX_NBYTES - 1] = '\0';
}

/* 0; -EBADMSG: what was copied is not it; -errno of writing. */
static int copy(int fd, const struct rg_sync_entry *entry, int out_fd)
{
    static uint8_t bytes[RG_SYNC_FRAME_MAX];
    uint8_t hash[RG_SYNC_HASH_NBYTES];
    crypto_hash_sha256_state state;
    uint64_t nbytes = 0;
    ssize_t n;

    crypto_hash_sha256_init(&state);
    while ((n = read(fd, bytes, sizeof(bytes))) > 0 || (n < 0 && errno == EINTR)) {
        nbytes += n > 0 ? (uint64_t) n : 0;
        if (nbytes > entry->nbytes)
            return -EBADMSG;
        crypto_hash_sha256_update(&state, bytes, n > 0 ? (unsigned long long) n : 0);
        int r = n > 0 ? rg_write_all(out_fd, bytes, (size_t) n) : 0;
        if (r < 0)
            return r;
    }
    crypto_hash_sha256_final(&state, hash);
    return n < 0 || nbytes != entry->nbytes || memcmp(hash, entry->hash, sizeof(hash)) != 0
               ? -EBADMSG : 0;
}

int rg_sync_cache_take(int cache_fd, const struct rg_sync_entry *entry, int out_fd)
{
    char name[HEX_NBYTES];
    struct stat st;

    name_of(entry->hash, name);
    rg_autoclose int fd = openat(cache_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -ENOENT;
    int r = fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ? -EBADMSG : copy(fd, entry, out_fd);
    if (r == 0)
        futimens(fd, NULL); /* when it was last used: see bound */
    if (r != -EBADMSG)
        return r;
    unlinkat(cache_fd, name, 0);
    return ftruncate(out_fd, 0) < 0 || lseek(out_fd, 0, SEEK_SET) < 0 ? -errno : -ENOENT;
}

int rg_sync_cache_begin(int cache_fd, struct rg_sync_fresh *fresh)
{
    uint64_t random = 0;

    if (getrandom(&random, sizeof(random), 0) < 0)
        return -errno;
    snprintf(fresh->name, sizeof(fresh->name), FRESH "%016llx", (unsigned long long) random);
    crypto_hash_sha256_init(&fresh->state);
    fresh->fd = openat(cache_fd, fresh->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                       0600);
    return fresh->fd < 0 ? -errno : 0;
}

int rg_sync_cache_add(struct rg_sync_fresh *fresh, const uint8_t *data, size_t nbytes)
{
    crypto_hash_sha256_update(&fresh->state, data, nbytes);
    return rg_write_all(fresh->fd, data, nbytes);
}

int rg_sync_cache_end(int cache_fd, struct rg_sync_fresh *fresh, const uint8_t *hash)
{
    uint8_t have[RG_SYNC_HASH_NBYTES];
    char name[HEX_NBYTES];

    crypto_hash_sha256_final(&fresh->state, have);
    name_of(have, name);
    int r = close(rg_steal_fd(&fresh->fd)) < 0 ? -errno : 0; /* a network's disk may be full now */
    if (r == 0 && hash)
        r = memcmp(have, hash, sizeof(have)) != 0 ? -EBADMSG : 0;
    if (r == 0 && hash && renameat(cache_fd, fresh->name, cache_fd, name) == 0)
        return 0;
    r = r < 0 ? r : -errno;
    unlinkat(cache_fd, fresh->name, 0);
    return r;
}

/* Remove what was not used for so long, until no more than max is there. What is there now. */
static uint64_t bound(int cache_fd, time_t unused_s, uint64_t max, uint64_t have)
{
    rg_autodir DIR *list = fdopendir(dup(cache_fd));
    uint64_t total = 0;
    time_t now = time(NULL);
    struct stat st;

    if (list)
        rewinddir(list); /* the duplicate is where the last one has stopped */
    for (struct dirent *entry; list && (entry = readdir(list));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            fstatat(cache_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        bool half = rg_str_starts(name, FRESH) && now - st.st_mtime > HALF_MADE_S;
        long long unused = llabs((long long) now - st.st_mtime); /* clocks were wrong, too */
        bool old = unused > unused_s && have > max && !rg_str_starts(name, FRESH);
        if ((half || old) && unlinkat(cache_fd, name, 0) == 0)
            have -= have < (uint64_t) st.st_size ? have : (uint64_t) st.st_size;
        else
            total += (uint64_t) st.st_size;
    }
    return total;
}

void rg_sync_cache_bound(int cache_fd, uint64_t max)
{
    static const time_t steps_s[] = { 7 * 24 * 3600, 24 * 3600, 3600, 60 };
    struct statvfs fs;

    if (flock(cache_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return;
    max = max < CACHE_MAX ? max : CACHE_MAX;
    if (fstatvfs(cache_fd, &fs) == 0 && (uint64_t) fs.f_blocks * fs.f_frsize / 4 < max)
        max = (uint64_t) fs.f_blocks * fs.f_frsize / 4;
    uint64_t have = bound(cache_fd, 30 * 24 * 3600, 0, UINT64_MAX);
    for (size_t i = 0; have > max && i < rg_array_len(steps_s); i++)
        have = bound(cache_fd, steps_s[i], max, have);
    flock(cache_fd, LOCK_SH);
}
