/* SPDX-License-Identifier: Apache-2.0 */
/* Reigen links with no libcurl: the functions of the one that is there are looked up, once. */
#include "platform/common/http/curl_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "base/process/self.h"
#include "base/str.h"

static struct rg_curl_library the_library;
static void *the_handle;

static int bind_library(void *handle, struct rg_error *err)
{
    const struct { const char *name; void *to; } functions[] = {
        { "curl_easy_init", &the_library.easy_init },
        { "curl_easy_setopt", &the_library.easy_setopt },
        { "curl_easy_getinfo", &the_library.easy_getinfo },
        { "curl_easy_cleanup", &the_library.easy_cleanup },
        { "curl_easy_strerror", &the_library.easy_strerror },
        { "curl_multi_init", &the_library.multi_init },
        { "curl_multi_setopt", &the_library.multi_setopt },
        { "curl_multi_add_handle", &the_library.multi_add_handle },
        { "curl_multi_remove_handle", &the_library.multi_remove_handle },
        { "curl_multi_socket_action", &the_library.multi_socket_action },
        { "curl_multi_info_read", &the_library.multi_info_read },
        { "curl_multi_cleanup", &the_library.multi_cleanup },
        { "curl_slist_append", &the_library.slist_append },
        { "curl_slist_free_all", &the_library.slist_free_all },
    };

    for (size_t i = 0; i < rg_array_len(functions); i++) {
        void *function = dlsym(handle, functions[i].name);

        if (!function)
            return rg_error_set_exit(err, ENOTSUP, RG_EXIT_UNAVAILABLE,
                                     "libcurl here has no function %s: install a newer one",
                                     functions[i].name);
        memcpy(functions[i].to, &function, sizeof(function));
    }
    return 0;
}

/* That of conda, say, which has this program in bin and libcurl in lib. */
static void *open_beside(void)
{
    char folder[PATH_MAX];
    rg_autofree char *path = rg_self_folder(folder) < 0
                                 ? NULL : rg_strf("%s/../lib/libcurl.so.4", folder);

    return path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void *open_library(void)
{
    static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };
    void *handle = NULL;

    for (size_t i = 0; i < rg_array_len(names) && !handle; i++)
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return handle ? handle : open_beside();
}

int rg_curl_library_load(const struct rg_curl_library **ret_library, struct rg_error *err)
{
    void *handle = the_handle ? the_handle : open_library();

    if (!handle)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "there is no libcurl.so.4 here: install libcurl (Debian and "
                                 "Ubuntu: libcurl4, Alpine and Fedora: libcurl)");
    int r = the_handle ? 0 : bind_library(handle, err);

    if (r < 0)
        return r;
    the_handle = handle;
    *ret_library = &the_library;
    return 0;
}
