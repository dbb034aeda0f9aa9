/* SPDX-License-Identifier: Apache-2.0 */
/* Where libreigen.so is depends on how Reigen was installed: by make, pip, a package, or not. */
#include "cmd/bench/measure/runtime.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/process/self.h"
#include "base/str.h"

#define NAME "libreigen.so"

/* Relative to the program's folder: the build tree, what make install made, and pip. */
static const char *const places[] = {
    "../coll/" NAME,
    "../lib/" NAME,
    "../lib/python3*/site-packages/reigen/" NAME,
    "../lib/python3*/dist-packages/reigen/" NAME,
    "../" NAME,
};

static bool find_beside(char ret_path[PATH_MAX])
{
    char folder[PATH_MAX];
    bool known = rg_self_folder(folder) == 0, found = false;

    for (size_t i = 0; known && !found && i < rg_array_len(places); i++) {
        rg_autofree char *pattern = rg_strf("%s/%s", folder, places[i]);
        glob_t matches;
        if (!pattern || glob(pattern, 0, NULL, &matches) != 0)
            continue;
        found = snprintf(ret_path, PATH_MAX, "%s", matches.gl_pathv[0]) < PATH_MAX;
        globfree(&matches);
    }
    return found;
}

/* Where the launcher has brought the runtime to a host, its packages are in PYTHONPATH. */
static bool find_in_pythonpath(char ret_path[PATH_MAX])
{
    const char *paths = getenv("PYTHONPATH");

    for (const char *p = paths ? paths : ""; *p;) {
        int n = (int) strcspn(p, ":");
        if (n > 0 && snprintf(ret_path, PATH_MAX, "%.*s/reigen/" NAME, n, p) < PATH_MAX &&
            access(ret_path, R_OK) == 0)
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

static int look_up(struct rg_bench_runtime *runtime, void *library, struct rg_error *err)
{
    const char *missing = NULL;

#define LOOK_UP(name)                                                    \
    *(void **) &runtime->name = dlsym(library, "reigen_" #name);         \
    missing = !runtime->name && !missing ? "reigen_" #name : missing;
    RG_BENCH_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
    if (!missing)
        return 0;
    return rg_error_set_exit(err, ENOTSUP, RG_EXIT_UNAVAILABLE,
                             "%s: it has no %s, and this program is version " RG_VERSION
                             "; name the library of the same version in REIGEN_LIBRARY",
                             runtime->path, missing);
}

int rg_bench_runtime_load(struct rg_bench_runtime *ret_runtime, struct rg_error *err)
{
    struct rg_bench_runtime runtime = { .path = NAME };
    const char *named = getenv("REIGEN_LIBRARY");

    if (named && *named)
        snprintf(runtime.path, sizeof(runtime.path), "%s", named);
    else if (!find_beside(runtime.path) && !find_in_pythonpath(runtime.path))
        snprintf(runtime.path, sizeof(runtime.path), NAME);
    void *library = dlopen(runtime.path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "libreigen.so cannot be loaded: %.600s; install Reigen on this "
                                 "host, or name the library in REIGEN_LIBRARY", dlerror());
    int r = look_up(&runtime, library, err);
    if (r == 0)
        *ret_runtime = runtime;
    return r;
}
