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

void begin_mpi(void)
{
    const char *name = getenv("TEST_MPI"), *level = getenv("TEST_MPI_LEVEL");
    int (*init)(int *, char ***, int, int *), given;

    if (!name || finalize)
        return;
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

    if (!library)
        fail("%s", dlerror());
    *(void **) &init = dlsym(library, "MPI_Init_thread");
    *(void **) &finalize = dlsym(library, "MPI_Finalize");
    if (!init || !finalize || init(NULL, NULL, level ? atoi(level) : 3, &given) != 0)
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
