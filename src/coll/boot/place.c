/* SPDX-License-Identifier: Apache-2.0 */
/* Without this, a child of a rank that calls init waits for ranks which have long met. */
#include "coll/boot/place.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/process/proctree.h"
#include "coll/boot/launchers.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u /* since Linux 6.3 */
#endif
#define ANCESTORS_MAX 64
#define NAME_MAX_NBYTES 96
/* Where a holder has its descriptor: at the first number from one of these on that is free, and no
 * further than so many. An ancestor may be a launcher with some descriptors for each rank; if each
 * rank looked at all of them, a thousand ranks would look at millions. Each first is the last below
 * a size of the kernel's table, whose growth makes a process with threads wait. */
static const int slots[] = { 48, 240, 1008, 4080, 65520 };
#define SLOTS_EACH 16

#define FNV_OFFSET 14695981039346656037ull
#define FNV_PRIME 1099511628211ull

/* FNV-1a (Fowler, Noll, Vo), the text's end included, so that "a","bc" is not "ab","c". */
static uint64_t hash(uint64_t h, const char *text)
{
    size_t nbytes = strlen(text) + 1;

    for (size_t i = 0; i < nbytes; i++)
        h = (h ^ (uint8_t) text[i]) * FNV_PRIME;
    return h;
}

/* What the descriptor is called, up to rank and size. */
static void name_place(const char *way, const char *const *variables, char ret[NAME_MAX_NBYTES])
{
    uint64_t h = hash(FNV_OFFSET, way);

    for (; *variables; variables++) {
        const char *value = rg_var(*variables);

        h = hash(h, value ? value : "");
    }
    snprintf(ret, NAME_MAX_NBYTES, "reigen-place-%016llx-", (unsigned long long) h);
}

/* The same at a number where descendants look for it; -EMFILE: all of these are in use. */
static int move(int take_fd)
{
    int moved = -1;

    for (size_t i = 0; i < rg_array_len(slots) && moved < 0; i++) {
        moved = fcntl(take_fd, F_DUPFD_CLOEXEC, slots[i]); /* EINVAL: beyond the limit */
        if (moved >= slots[i] + SLOTS_EACH) {
            close(moved);
            moved = -1;
        }
    }
    close(take_fd);
    return moved < 0 ? -EMFILE : moved;
}

int rg_place_take(const char *way, const char *const *variables, int rank, int size)
{
    char name[NAME_MAX_NBYTES];

    name_place(way, variables, name);
    size_t used = strlen(name);

    snprintf(name + used, sizeof(name) - used, "%d-%d", rank, size);
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL) /* an older kernel */
        fd = memfd_create(name, MFD_CLOEXEC);
    return fd < 0 ? -errno : move(fd);
}

/* What an open folder of descriptors shows at this number. */
static bool is_place(int dir, int number, const char *prefix, struct rg_place *ret)
{
    char name[16], text[NAME_MAX_NBYTES + 64];
    size_t nbytes = strlen(prefix);

    snprintf(name, sizeof(name), "%d", number);
    ssize_t n = readlinkat(dir, name, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    return strncmp(text, prefix, nbytes) == 0 &&
           sscanf(text + nbytes, "%d-%d", &ret->rank, &ret->size) == 2;
}

static bool holds(pid_t pid, const char *prefix, struct rg_place *ret)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd", (int) pid);
    rg_autoclose int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    ret->pid = pid;
    for (size_t i = 0; dir >= 0 && i < rg_array_len(slots); i++) {
        for (int n = slots[i]; n < slots[i] + SLOTS_EACH; n++) {
            if (is_place(dir, n, prefix, ret))
                return true;
        }
    }
    return false;
}

bool rg_place_is_taken(const char *way, const char *const *variables, struct rg_place *ret_holder)
{
    char name[NAME_MAX_NBYTES], prefix[NAME_MAX_NBYTES + 8];
    pid_t pid = getpid();

    name_place(way, variables, name);
    snprintf(prefix, sizeof(prefix), "/memfd:%s", name);
    for (int i = 0; i < ANCESTORS_MAX && (pid = rg_process_parent(pid)) > 0; i++) {
        if (holds(pid, prefix, ret_holder))
            return true;
    }
    return false;
}
