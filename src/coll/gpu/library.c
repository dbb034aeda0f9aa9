/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch brings NCCL along in a package of its own, which is in no path of the system's loader: it
 * is found by where PyTorch itself was loaded from. */
#include "coll/gpu/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is looked for among the files of the process, and what has been found. */
struct neighbour {
    const struct rg_library_place *place;
    char path[PATH_MAX];
};

/* "/x/torch/lib/libtorch.so" has "torch/lib" in it: "/x/nvidia/nccl/lib/libnccl.so.2". */
static int look_beside(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct neighbour *found = arg;
    const struct rg_library_place *place = found->place;
    const char *at = strstr(info->dlpi_name, place->beside), *end;
    int length;

    (void) size;
    if (!at || at == info->dlpi_name || at[-1] != '/')
        return 0;
    end = at + strlen(place->beside);
    if (end[0] != '/' || strchr(end + 1, '/'))
        return 0;
    length = (int) (at - info->dlpi_name);
    return snprintf(found->path, sizeof(found->path), "%.*s%s/%s", length, info->dlpi_name,
                    place->below, place->soname) < (int) sizeof(found->path);
}

void *rg_library_open(const struct rg_library_place *place, struct rg_error *err)
{
    const char *named = place->variable ? getenv(place->variable) : NULL;
    struct neighbour found = { .place = place };
    void *handle;

    if (named && named[0]) {
        handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            rg_error_set(err, ENOENT, "%s=%s cannot be loaded: %s", place->variable, named,
                         dlerror());
        return handle;
    }
    handle = dlopen(place->soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!handle && place->beside && dl_iterate_phdr(look_beside, &found) > 0)
        handle = dlopen(found.path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        handle = dlopen(place->soname, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        rg_error_set(err, ENOENT, "%s is not there: %s%s%s", place->soname, dlerror(),
                     place->variable ? "; its file can be given in " : "",
                     place->variable ? place->variable : "");
    return handle;
}

int rg_library_bind(void *handle, const char *soname, const struct rg_library_function *functions,
                    size_t n, void *table, struct rg_error *err)
{
    for (size_t i = 0; i < n; i++) {
        void *function = dlsym(handle, functions[i].symbol);

        if (!function && functions[i].needed)
            return rg_error_set(err, ENOTSUP, "%s is too old: it has no function %s", soname,
                                functions[i].symbol);
        memcpy((char *) table + functions[i].offset, &function, sizeof(function));
    }
    return 0;
}
