/* SPDX-License-Identifier: Apache-2.0 */
/* A model that was saved, or something else: what can be read is written, and the same is read
 * again. */
#include <math.h>

#include "cmd/simulate/modelfile.h"
#include "fuzz.h"

static void check_same(const struct rg_modelfile *file)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_modelfile again;
    struct rg_error err = RG_ERROR_INIT;

    rg_modelfile_put(&text, file);
    must(rg_buf_status(&text) == 0);
    must(rg_modelfile_parse(rg_buf_text(&text), &again, &err) == 0);
    must(again.profile.nops == file->profile.nops && again.nranks == file->nranks);
    for (size_t i = 0; i < again.profile.nops; i++)
        must(again.profile.ops[i].nbytes == file->profile.ops[i].nbytes &&
             again.profile.ops[i].waits == file->profile.ops[i].waits);
    rg_modelfile_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    rg_autofree char *text = calloc(1, nbytes + 1);
    struct rg_modelfile file;
    struct rg_error err = RG_ERROR_INIT;

    must(text != NULL);
    memcpy(text, data, nbytes);
    if (rg_modelfile_parse(text, &file, &err) < 0) {
        must(*err.text);
        return 0;
    }
    must(file.profile.nops > 0 && file.profile.ops[0].waits && file.nranks > 0);
    must(isfinite(file.profile.compute_s) && file.profile.compute_s >= 0);
    check_same(&file);
    rg_modelfile_fini(&file);
    return 0;
}
