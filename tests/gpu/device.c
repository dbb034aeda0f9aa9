/* SPDX-License-Identifier: Apache-2.0 */
/* The few functions of the driver that the programs here need (device.h). */
#include "device.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* field, symbol, arguments; all give the driver's result, 0 for success. */
#define FUNCTIONS(line)                                                                            \
    line(init, "cuInit", (unsigned))                                                               \
    line(version, "cuDriverGetVersion", (int *))                                                   \
    line(count, "cuDeviceGetCount", (int *))                                                       \
    line(get, "cuDeviceGet", (int *, int))                                                         \
    line(retain, "cuDevicePrimaryCtxRetain", (void **, int))                                       \
    line(use, "cuCtxSetCurrent", (void *))                                                         \
    line(stream, "cuStreamCreate", (void **, unsigned))                                            \
    line(wait, "cuStreamSynchronize", (void *))                                                    \
    line(alloc, "cuMemAlloc_v2", (void **, size_t))                                                \
    line(free, "cuMemFree_v2", (void *))                                                           \
    line(pinned, "cuMemHostAlloc", (void **, size_t, unsigned))                                    \
    line(copy, "cuMemcpyAsync", (void *, const void *, size_t, void *))

static struct {
#define FIELD(field, symbol, args) int(*field) args;
    FUNCTIONS(FIELD)
    int (*name)(char *, int, int); /* NULL where there is none */
    void *at;
    int ndevices;
    char text[DEVICE_TEXT_MAX];
} cuda;

static const char *find_functions(void *library)
{
#define BIND(field, symbol, args)                                                                  \
    *(void **) &cuda.field = dlsym(library, symbol);                                               \
    if (!cuda.field)                                                                               \
        return "libcuda.so.1 has no " symbol ": the driver is too old";
    FUNCTIONS(BIND)
    *(void **) &cuda.name = dlsym(library, "cuDeviceGetName");
    return NULL;
}

static const char *why(const char *call, int result)
{
    snprintf(cuda.text, sizeof(cuda.text), "%s gave %d", call, result);
    return cuda.text;
}

const char *device_open(int device)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL), *context;
    char name[64] = "a GPU";
    const char *missing;
    int r, number, version = 0;

    if (!library)
        return "there is no libcuda.so.1, the GPU's driver";
    missing = find_functions(library);
    if (missing)
        return missing;
    if ((r = cuda.init(0)) || (r = cuda.count(&cuda.ndevices)))
        return why("the driver shows no GPU: cuInit", r);
    if (device >= cuda.ndevices)
        return "the driver shows no such GPU";
    if ((r = cuda.get(&number, device)) || (r = cuda.retain(&context, number)) ||
        (r = cuda.use(context)) || (r = cuda.stream(&cuda.at, 1)))
        return why("the GPU does not start: the driver", r);
    cuda.version(&version);
    if (cuda.name)
        cuda.name(name, sizeof(name), number);
    snprintf(cuda.text, sizeof(cuda.text), "%s, driver for CUDA %d.%d", name, version / 1000,
             version % 1000 / 10);
    return NULL;
}

int device_count(void)
{
    return cuda.ndevices;
}

const char *device_name(void)
{
    return cuda.text;
}

void *device_stream(void)
{
    return cuda.at;
}

static void must(const char *what, int result)
{
    if (!result)
        return;
    fprintf(stderr, "gpu: %s gave %d\n", what, result);
    _exit(1);
}

void *device_alloc(size_t nbytes)
{
    void *at = NULL;

    must("cuMemAlloc", cuda.alloc(&at, nbytes ? nbytes : 1));
    return at;
}

void device_free(void *at)
{
    if (at)
        must("cuMemFree", cuda.free(at));
}

void *device_pinned(size_t nbytes)
{
    void *at = NULL;

    must("cuMemHostAlloc", cuda.pinned(&at, nbytes ? nbytes : 1, 0));
    return at;
}

void device_copy(void *to, const void *from, size_t nbytes)
{
    if (nbytes)
        must("cuMemcpyAsync", cuda.copy(to, from, nbytes, cuda.at));
}

void device_wait(void)
{
    must("cuStreamSynchronize", cuda.wait(cuda.at));
}

double device_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* ---- ranks */

/* A port that nobody listens on now. */
static int free_port(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(at);

    if (fd < 0 || bind(fd, (struct sockaddr *) &at, size) < 0 ||
        getsockname(fd, (struct sockaddr *) &at, &size) < 0)
        at.sin_port = htons(29577);
    close(fd);
    return ntohs(at.sin_port);
}

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

int device_ranks(int n, int (*fn)(int rank, int n, void *arg), void *arg)
{
    int port = free_port(), bad = 0, status;

    fflush(NULL);
    for (int rank = 0; rank < n; rank++) {
        pid_t child = fork();

        if (child < 0)
            return 1;
        if (child)
            continue;
        set_number("RANK", rank);
        set_number("LOCAL_RANK", rank);
        set_number("WORLD_SIZE", n);
        set_number("LOCAL_WORLD_SIZE", n);
        set_number("MASTER_PORT", port);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        bad = fn(rank, n, arg);
        fflush(NULL);
        _exit(bad);
    }
    for (int i = 0; i < n; i++)
        bad |= wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status);
    return bad;
}
