/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <dlfcn.h>

static int (*finalize)(void);

/* Not after a failure: the other ranks would not come. */
static void end_mpi(int status, void *arg)
{
    (void) arg;
    if (status == 0)
        finalize();
}

/* The library's own number for a level of 0 to 3: the standard ABI's are others. */
static int wanted_level(void *library)
{
    static const int standard[] = { 0, 1024, 2048, 4096 };
    const char *value = getenv("TEST_MPI_LEVEL");
    int (*ask)(int *, int *), major = 0, minor = 0, level = value ? atoi(value) : 3;

    *(void **) &ask = dlsym(library, "MPI_Abi_get_version");
    if (level < 0 || level > 3)
        fail("TEST_MPI_LEVEL=%d", level);
    return ask && ask(&major, &minor) == 0 && major > 0 ? standard[level] : level;
}

void begin_mpi(void)
{
    const char *name = getenv("TEST_MPI");
    int (*init)(int *, char ***, int, int *), given;

    if (!name || finalize)
        return;
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

    if (!library)
        fail("%s", dlerror());
    *(void **) &init = dlsym(library, "MPI_Init_thread");
    *(void **) &finalize = dlsym(library, "MPI_Finalize");
    if (!init || !finalize || init(NULL, NULL, wanted_level(library), &given) != 0)
        fail("%s: MPI_Init_thread failed", name);
    on_exit(end_mpi, NULL);
}

void say_planes(void)
{
    const char *line = reigen_describe();

    for (; getenv("TEST_PLANES") && *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, "plane ", 6) == 0)
            say("%.*s", (int) strcspn(line, "\n"), line);
}
