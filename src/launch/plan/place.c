/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks elsewhere need what is only here: where the launcher is, and Reigen's Python packages. */
#include "launch/plan/place.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/fd.h"
#include "container/bundle.h"
#include "base/exitcode.h"
#include "base/process/self.h"
#include "wire/crypto/crypto.h"

#define DIGEST_NBYTES 16 /* of the hash */

char *rg_place_launcher(int pid)
{
    rg_autofree char *stat_text = NULL;
    char path[64], host[256] = "";
    char *field = NULL;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid ? pid : (int) getpid());
    if (rg_read_file(path, 4096, &stat_text, NULL) < 0 || gethostname(host, sizeof(host) - 1) < 0)
        return NULL;
    /* The program's name, in parentheses, may hold anything; the start is the 20th field after. */
    char *rest = strrchr(stat_text, ')');
    for (int i = 0; rest && i < 21; i++) {
        field = strtok_r(i == 0 ? rest : NULL, " ", &rest);
        if (i == 1 && field && *field == 'Z') /* ended; its parent has not asked yet */
            return NULL;
    }
    return field ? rg_strf("%s:%d:%s", host, pid ? pid : (int) getpid(), field) : NULL;
}

/* --- the bundle ------------------------------------------------------------------------------- */

static bool has_packages(const char *dir)
{
    rg_autofree char *path = rg_strf("%s/reigen/__init__.py", dir);

    return path && access(path, R_OK) == 0;
}

/* prefix/lib/python3.N/{site,dist}-packages */
static char *find_in_prefix(const char *prefix)
{
    static const char *const folders[] = { "site-packages", "dist-packages" };
    rg_autofree char *lib = rg_strf("%s/lib", prefix);
    DIR *dir = lib ? opendir(lib) : NULL;
    char *found = NULL;

    for (struct dirent *entry; !found && dir && (entry = readdir(dir));) {
        for (size_t i = 0; !found && i < 2 && rg_str_starts(entry->d_name, "python3"); i++) {
            char *path = rg_strf("%s/%s/%s", lib, entry->d_name, folders[i]);
            if (path && has_packages(path))
                found = path;
            else
                free(path);
        }
    }
    if (dir)
        closedir(dir);
    return found;
}

/* In a build tree the libraries lie elsewhere than the packages. */
static int add_built(const char *bin, struct rg_bundle_files *files)
{
    static const char *const built[][2] = {
        { "coll", "libreigen.so" },
        { "coll", "libreigen_mpi_ompi.so" },
        { "coll", "libreigen_mpi_mpich.so" },
        { "coll", "libreigen_mpi_abi.so" },
        { "../bindings/jax", "libreigen_jax.so" },
        { "../bindings/tensorflow", "libreigen_tensorflow.so" },
    };
    int r = 0;

    for (size_t i = 0; r == 0 && i < rg_array_len(built); i++) {
        rg_autofree char *source = rg_strf("%s/../%s/%s", bin, built[i][0], built[i][1]);
        rg_autofree char *name = rg_strf("reigen/%s", built[i][1]);
        if (!source || !name)
            return -ENOMEM;
        if (access(source, R_OK) == 0)
            r = rg_bundle_add(files, name, source);
    }
    return r;
}

static int list_files(struct rg_bundle_files *files, struct rg_error *err)
{
    char bin[PATH_MAX] = "";

    rg_self_folder(bin);
    rg_autofree char *prefix = rg_strf("%s/..", bin);
    rg_autofree char *tree = rg_strf("%s/../../../bindings/python", bin);
    rg_autofree char *package = rg_strf("%s/../..", bin);
    if (!prefix || !tree || !package)
        return rg_error_set(err, ENOMEM, "out of memory");
    rg_autofree char *installed = find_in_prefix(prefix);
    if (installed)
        return rg_bundle_list(installed, files, err);
    if (has_packages(package))
        return rg_bundle_list(package, files, err);
    if (!has_packages(tree))
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "Reigen's Python packages are neither below %s nor below %s/lib",
                                 package, prefix);
    int r = rg_bundle_list(tree, files, err);
    if (r == 0 && (r = add_built(bin, files)) < 0)
        rg_error_set(err, -r, "out of memory");
    return r;
}

/* Names, sizes and times stand for the contents: hundreds of files need not be read for a job whose
 * hosts have them already. */
static int describe(const struct rg_bundle_files *files, struct rg_container_place *place)
{
    uint8_t hash[crypto_hash_sha256_BYTES];
    char hex[2 * DIGEST_NBYTES + 1];
    crypto_hash_sha256_state state;
    uint64_t nbytes = strlen(RG_BUNDLE_MAGIC);
    struct utsname machine;
    struct stat st;

    if (rg_crypto_init() < 0 || uname(&machine) < 0)
        return -ENOSYS;
    crypto_hash_sha256_init(&state);
    for (size_t i = 0; i < files->names.count; i++) {
        const char *name = files->names.v[i], *source = files->sources.v[i];
        uint64_t size;
        int r = stat(source, &st) < 0 ? -errno : rg_bundle_measure(source, &st, &size);
        if (r < 0)
            return r;
        int64_t facts[] = { st.st_size, st.st_mtim.tv_sec, st.st_mtim.tv_nsec };
        crypto_hash_sha256_update(&state, (const uint8_t *) name, strlen(name) + 1);
        crypto_hash_sha256_update(&state, (const uint8_t *) facts, sizeof(facts));
        nbytes += 2 + strlen(name) + 1 + 4 + size;
    }
    crypto_hash_sha256_final(&state, hash);
    sodium_bin2hex(hex, sizeof(hex), hash, DIGEST_NBYTES);
    free(place->bundle_digest);
    place->bundle_digest = rg_strf("%s-%s", machine.machine, hex);
    place->bundle_nbytes = nbytes;
    return place->bundle_digest ? 0 : -ENOMEM;
}

bool rg_place_sends_bundle(const struct rg_job *job)
{
    return job->container.place.bundle_digest &&
           (!job->container.image || rg_container_by_slurm(&job->container));
}

int rg_place_pack_bundle(const struct rg_container_place *place, struct rg_buf *buf,
                      struct rg_error *err)
{
    rg_cleanup(rg_bundle_files_fini) struct rg_bundle_files files = { RG_STRV_INIT, RG_STRV_INIT };
    size_t before = rg_buf_nbytes(buf);
    int r = list_files(&files, err);

    if (r == 0)
        r = rg_bundle_pack(&files, buf, err);
    if (r == 0 && rg_buf_nbytes(buf) - before != place->bundle_nbytes)
        r = rg_error_set(err, ESTALE, "Reigen's Python packages have changed just now; try again");
    return r;
}

static int find_bundle(struct rg_container *container, struct rg_error *err)
{
    rg_cleanup(rg_bundle_files_fini) struct rg_bundle_files files = { RG_STRV_INIT, RG_STRV_INIT };
    struct rg_error cause = RG_ERROR_INIT;

    if (container->inject == RG_INJECT_NO)
        return 0;
    int r = list_files(&files, &cause);
    if (r == 0 && (r = describe(&files, &container->place)) < 0)
        rg_error_set(&cause, -r, "Reigen's Python packages: %s", strerror(-r));
    if (r == 0)
        return 0;
    free(container->place.bundle_error);
    container->place.bundle_error = strdup(cause.text);
    /* In a pod they came with the plan. */
    if (container->inject == RG_INJECT_AUTO || container->place.bundle_digest)
        return 0;
    if (err)
        *err = cause;
    return rg_error_prepend(err, "--inject-runtime");
}

int rg_place_job(struct rg_job *job, bool elsewhere, struct rg_error *err)
{
    struct rg_container_place *place = &job->container.place;
    char cwd[PATH_MAX];

    if (!job->container.image)
        return elsewhere || job->container.inject == RG_INJECT_YES
                   ? find_bundle(&job->container, err)
                   : 0;
    free(place->launcher);
    place->launcher = rg_place_launcher(0);
    free(place->term);
    place->term = job->pty && getenv("TERM") ? strdup(getenv("TERM")) : NULL;
    free(place->cwd);
    place->cwd = NULL;
#ifndef RG_AGENT
    place->cwd_is_sent = job->sync;
#endif
    if (!job->cwd && getcwd(cwd, sizeof(cwd)) && !(place->cwd = strdup(cwd)))
        return rg_error_set(err, ENOMEM, "out of memory");
    return find_bundle(&job->container, err);
}
