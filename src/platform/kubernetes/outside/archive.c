/* SPDX-License-Identifier: Apache-2.0 */
/* Packing our Python packages takes a tenth of a second, which each job's start would wait for; so
 * the result is kept, in the user's cache, until the installation is another one. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "container/bundle.h"
#include "container/lz4.h"
#include "platform/kubernetes/outside/internal.h"
#include "launch/plan/place.h"
#include "wire/crypto/crypto.h"

#define HASH_NBYTES 32
#define KEPT "packages-packed" /* the digest of what is packed, a line's end, a hash, the block */

/* A directory of this user's alone, below a home that is there; false: none. */
static bool find_cache(char *path, size_t room)
{
    const char *own = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool by_own = own && *own == '/';
    struct stat st;
    int n = snprintf(path, room, "%s%s", by_own ? own : home && *home == '/' ? home : "",
                     by_own ? "" : "/.cache");

    if (n >= (int) room - 64 || (!by_own && (!home || access(home, W_OK) < 0)))
        return false;
    mkdir(path, 0700);
    strcat(path, "/reigen");
    mkdir(path, 0700);
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 022) == 0;
}

static void hash_of(const void *data, size_t nbytes, uint8_t ret_hash[HASH_NBYTES])
{
    crypto_hash_sha256(ret_hash, data, nbytes);
}

/* True: it was kept, whole, and stands in packed now. */
static bool read_kept(const char *path, const char *digest, struct rg_buf *packed)
{
    rg_autofree char *data = NULL;
    size_t nbytes, head = strlen(digest) + 1 + HASH_NBYTES;
    uint8_t hash[HASH_NBYTES];

    if (rg_read_regular(path, false, RG_LZ4_BOUND(RG_BUNDLE_MAX), &data, &nbytes) < 0 ||
        nbytes <= head || !rg_str_starts(data, digest) || data[strlen(digest)] != '\n')
        return false;
    hash_of(data + head, nbytes - head, hash);
    if (memcmp(hash, data + head - HASH_NBYTES, HASH_NBYTES) != 0)
        return false;
    rg_buf_put(packed, data + head, nbytes - head);
    return rg_buf_status(packed) == 0;
}

/* Whole under its name, or not at all. */
static void write_kept(const char *path, const char *digest, const struct rg_buf *packed)
{
    rg_autofree char *fresh = rg_strf("%s.%d", path, (int) getpid());
    uint8_t hash[HASH_NBYTES];

    if (!fresh)
        return;
    unlink(fresh);
    rg_autoclose int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    hash_of(rg_buf_bytes(packed), rg_buf_nbytes(packed), hash);
    if (fd < 0)
        return;
    if (rg_write_all(fd, digest, strlen(digest)) < 0 || rg_write_all(fd, "\n", 1) < 0 ||
        rg_write_all(fd, hash, sizeof(hash)) < 0 ||
        rg_write_all(fd, rg_buf_bytes(packed), rg_buf_nbytes(packed)) < 0 ||
        rename(fresh, path) < 0)
        unlink(fresh);
}

int kube_pack_bundle(const struct rg_container_place *place, struct rg_buf *packed,
                     struct rg_error *err)
{
    rg_autobuf struct rg_buf archive = RG_BUF_INIT;
    char path[PATH_MAX];
    bool keeps = find_cache(path, sizeof(path));

    if (keeps)
        strcat(path, "/" KEPT);
    if (keeps && read_kept(path, place->bundle_digest, packed))
        return 0;
    int r = rg_place_pack_bundle(place, &archive, err);
    if (r == 0 && rg_lz4_pack(rg_buf_bytes(&archive), rg_buf_nbytes(&archive), packed) < 0)
        r = rg_error_memory(err);
    if (r == 0 && keeps)
        write_kept(path, place->bundle_digest, packed);
    return r;
}
