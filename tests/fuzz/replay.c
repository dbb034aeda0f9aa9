/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a fuzz target without libFuzzer: every file of a corpus as it is, every truncation of it,
 * and copies with damaged bytes. usage: fuzz_x FILE|DIRECTORY...
 *
 * Truncations end at the end of a malloc'ed block, so that reading past them is seen by ASan.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_NBYTES_MAX (1u << 20)
#define PREFIXES_MAX 2048u
#define DAMAGES_MAX 512u /* the same ones each time: libFuzzer looks for others */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

static unsigned long ninputs;
static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void run_copy(const uint8_t *data, size_t nbytes, size_t ndamages)
{
    uint8_t *copy = malloc(nbytes ? nbytes : 1);

    if (!copy)
        abort();
    if (nbytes)
        memcpy(copy, data, nbytes);
    for (size_t i = 0; nbytes && i < ndamages; i++) {
        uint64_t r = next_random();
        copy[r % nbytes] = (r >> 40) & 1 ? (uint8_t)(r >> 32) : (uint8_t)-((r >> 32) & 1);
    }
    LLVMFuzzerTestOneInput(copy, nbytes);
    free(copy);
    ninputs++;
}

static void run_bytes(const uint8_t *data, size_t nbytes)
{
    size_t step = nbytes / PREFIXES_MAX + 1;

    run_copy(data, nbytes, 0);
    for (size_t n = 0; n < nbytes; n += step)
        run_copy(data, n, 0);
    for (size_t i = 0; i < DAMAGES_MAX; i++)
        run_copy(data, nbytes, 1 + i % 4);
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(FILE_NBYTES_MAX);
    size_t nbytes = 0;

    if (f && data)
        nbytes = fread(data, 1, FILE_NBYTES_MAX, f);
    int failed = !f || !data || ferror(f);
    if (failed)
        fprintf(stderr, "%s: cannot read\n", path);
    else
        run_bytes(data, nbytes);
    if (f)
        fclose(f);
    free(data);
    return failed;
}

static int run_path(const char *path)
{
    struct stat st;
    struct dirent *e;
    char name[4096];
    int failed = 0;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return run_file(path);
    DIR *dir = opendir(path);
    if (!dir) {
        fprintf(stderr, "%s: cannot open\n", path);
        return 1;
    }
    while ((e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        failed |= run_file(name);
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++)
        failed |= run_path(argv[i]);
    if (!ninputs) {
        fprintf(stderr, "no input: the corpus is empty\n");
        failed = 1;
    }
    printf("%lu inputs\n", ninputs);
    return failed;
}
