/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts and images that lack our Python packages get them as one archive. */
#include "container/bundle.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

#define DEPTH_MAX 16

/* --- packing, in the launcher ----------------------------------------------------------------- */

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
    struct dirent **entries = NULL;
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

/* A library is for this kind of machine, so that its integers are ours. */
size_t rg_bundle_trim(uint8_t *data, size_t nbytes)
{
    Elf64_Ehdr header;
    Elf64_Phdr part;
    uint64_t end = sizeof(header);

    if (nbytes < end || memcmp(data, ELFMAG, SELFMAG) != 0 || data[EI_CLASS] != ELFCLASS64)
        return nbytes;
    memcpy(&header, data, sizeof(header));
    for (int i = 0; i < header.e_phnum; i++) {
        uint64_t at = header.e_phoff + (uint64_t) i * sizeof(part);
        if (at > nbytes || nbytes - at < sizeof(part))
            return nbytes;
        memcpy(&part, data + at, sizeof(part));
        if (part.p_offset > nbytes || part.p_filesz > nbytes - part.p_offset)
            return nbytes;
        if (part.p_offset + part.p_filesz > end)
            end = part.p_offset + part.p_filesz;
    }
    header.e_shoff = 0;
    header.e_shnum = header.e_shstrndx = 0;
    memcpy(data, &header, sizeof(header));
    return end;
}

static bool is_library(const char *path)
{
    size_t length = strlen(path);

    return length > 3 && strcmp(path + length - 3, ".so") == 0;
}

static int read_wanted(const char *source, char **ret_data, size_t *ret_nbytes)
{
    int r = rg_read_file(source, RG_BUNDLE_MAX, ret_data, ret_nbytes);

    if (r == 0 && is_library(source))
        *ret_nbytes = rg_bundle_trim((uint8_t *) *ret_data, *ret_nbytes);
    return r;
}

int rg_bundle_measure(const char *source, const struct stat *st, uint64_t *ret_nbytes)
{
    rg_autofree char *data = NULL;
    size_t nbytes = (size_t) st->st_size;
    int r = is_library(source) ? read_wanted(source, &data, &nbytes) : 0;

    if (r == 0)
        *ret_nbytes = nbytes;
    return r;
}

int rg_bundle_pack(const struct rg_bundle_files *files, struct rg_buf *buf, struct rg_error *err)
{
    rg_buf_put(buf, RG_BUNDLE_MAGIC, strlen(RG_BUNDLE_MAGIC));
    for (size_t i = 0; i < files->names.count; i++) {
        const char *name = files->names.v[i], *source = files->sources.v[i];
        rg_autofree char *data = NULL;
        struct stat st;
        size_t nbytes;
        int r = read_wanted(source, &data, &nbytes);
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

/* --- unpacking, on the host ------------------------------------------------------------------- */

/* Every component a plain name: nothing that leads up, out, or to the same place twice. */
static bool path_is_plain(const char *path)
{
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 0 || *p == '.')
            return false;
        p += n;
        if (!*p)
            return true;
    }
}

static int make_parents(char *path, size_t nbase)
{
    for (char *slash = strchr(path + nbase + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int r = mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
        *slash = '/';
        if (r < 0)
            return r;
    }
    return 0;
}

static int write_file(const char *dir, const struct rg_bundle_entry *entry)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, entry->name);

    if (!path)
        return -ENOMEM;
    int r = make_parents(path, strlen(dir));
    if (r < 0)
        return r;
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                               entry->executable ? 0755 : 0644);
    return fd < 0 ? -errno : rg_write_all(fd, entry->data, entry->nbytes);
}

int rg_bundle_read(struct rg_reader *reader, struct rg_bundle_entry *ret_entry,
                   struct rg_error *err)
{
    struct rg_bundle_entry entry = { .name = "" };
    size_t length = rg_reader_u16(reader);
    const uint8_t *bytes = length <= RG_BUNDLE_PATH_MAX ? rg_reader_bytes(reader, length) : NULL;

    entry.executable = rg_reader_u8(reader) == 1;
    entry.data = rg_reader_span(reader, RG_BUNDLE_MAX, &entry.nbytes);
    if (!bytes || reader->bad || memchr(bytes, '\0', length))
        return rg_error_set(err, EBADMSG, "the archive is damaged");
    memcpy(entry.name, bytes, length);
    if (!path_is_plain(entry.name))
        return rg_error_set(err, EBADMSG, "the archive has a file '%s'", entry.name);
    *ret_entry = entry;
    return 0;
}

static int unpack_file(struct rg_reader *reader, const char *dir, struct rg_error *err)
{
    struct rg_bundle_entry entry;
    int r = rg_bundle_read(reader, &entry, err);

    if (r < 0)
        return r;
    r = write_file(dir, &entry);
    return r < 0 ? rg_error_set(err, -r, "%s/%s: %s", dir, entry.name, strerror(-r)) : 0;
}

int rg_bundle_unpack(const uint8_t *data, size_t nbytes, const char *dir, struct rg_error *err)
{
    struct rg_reader reader = rg_reader_make(data, nbytes);
    const uint8_t *head = rg_reader_bytes(&reader, strlen(RG_BUNDLE_MAGIC));
    int r = rg_mkdir_all(dir, 0755, err);

    if (r == 0 && (!head || memcmp(head, RG_BUNDLE_MAGIC, strlen(RG_BUNDLE_MAGIC)) != 0))
        r = rg_error_set(err, EBADMSG, "no archive of ours");
    for (int i = 0; r == 0 && reader.nbytes > 0; i++) {
        if (i == RG_BUNDLE_FILES_MAX)
            return rg_error_set(err, EBADMSG, "more than %d files", RG_BUNDLE_FILES_MAX);
        r = unpack_file(&reader, dir, err);
    }
    return r;
}
