/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's side of the bundle: see bundle.h. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "container/bundle.h"

#define DEPTH_MAX 16

void rg_bundle_files_fini(struct rg_bundle_files *files)
{
    rg_strv_fini(&files->names);
    rg_strv_fini(&files->sources);
}

int rg_bundle_add(struct rg_bundle_files *files, const char *name, const char *source)
{
    int r = rg_strv_add(&files->names, name);

    return r < 0 ? r : rg_strv_add(&files->sources, source);
}

static bool is_wanted(const char *name)
{
    const char *dot = strrchr(name, '.');

    return *name != '.' && strcmp(name, "__pycache__") != 0 &&
           !(dot && strcmp(dot, ".pyc") == 0) && strlen(name) < RG_BUNDLE_PATH_MAX;
}

/* Sorted, so that equal directories make equal archives. */
static int list_below(const char *dir, const char *name, int depth, struct rg_bundle_files *files)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, name);
    struct dirent **entries;
    struct stat st;

    if (!path)
        return -ENOMEM;
    if (stat(path, &st) < 0)
        return -errno;
    if (S_ISREG(st.st_mode) && files->names.count < RG_BUNDLE_FILES_MAX &&
        strlen(name) <= RG_BUNDLE_PATH_MAX)
        return rg_bundle_add(files, name, path);
    if (!S_ISDIR(st.st_mode))
        return S_ISREG(st.st_mode) ? -E2BIG : 0;
    int count = depth < DEPTH_MAX ? scandir(path, &entries, NULL, alphasort) : 0;
    int r = count < 0 ? -errno : 0;
    for (int i = 0; i < count; i++) {
        rg_autofree char *child = rg_strf("%s/%s", name, entries[i]->d_name);
        if (r == 0 && is_wanted(entries[i]->d_name))
            r = child ? list_below(dir, child, depth + 1, files) : -ENOMEM;
        free(entries[i]);
    }
    if (count >= 0 && depth < DEPTH_MAX)
        free(entries);
    return r;
}

int rg_bundle_list(const char *dir, struct rg_bundle_files *ret_files, struct rg_error *err)
{
    struct rg_bundle_files files = { RG_STRV_INIT, RG_STRV_INIT };
    int r = list_below(dir, "reigen", 0, &files);

    if (r == 0)
        r = list_below(dir, "horovod", 0, &files);
    if (r < 0) {
        rg_bundle_files_fini(&files);
        return rg_error_set(err, -r, "Reigen's Python packages in %s: %s", dir, strerror(-r));
    }
    *ret_files = files;
    return 0;
}

int rg_bundle_pack(const struct rg_bundle_files *files, struct rg_buf *buf, struct rg_error *err)
{
    rg_buf_put(buf, RG_BUNDLE_MAGIC, strlen(RG_BUNDLE_MAGIC));
    for (size_t i = 0; i < files->names.count; i++) {
        const char *name = files->names.v[i], *source = files->sources.v[i];
        rg_autofree char *data = NULL;
        struct stat st;
        size_t nbytes;
        int r = rg_read_file(source, RG_BUNDLE_MAX, &data, &nbytes);
        if (r < 0)
            return rg_error_set(err, -r, "%s: %s", source, strerror(-r));
        rg_buf_put_u16(buf, (uint16_t) strlen(name));
        rg_buf_put(buf, name, strlen(name));
        rg_buf_put_u8(buf, stat(source, &st) == 0 && (st.st_mode & 0100));
        rg_buf_put_span(buf, data, nbytes);
        if (rg_buf_nbytes(buf) > RG_BUNDLE_MAX)
            return rg_error_set(err, EFBIG, "Reigen's Python packages are larger than %u bytes",
                                RG_BUNDLE_MAX);
    }
    int r = rg_buf_status(buf);

    return r < 0 ? rg_error_set(err, -r, "the archive of Reigen's packages: %s", strerror(-r)) : 0;
}
