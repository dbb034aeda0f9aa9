/* SPDX-License-Identifier: Apache-2.0 */
/* A file of the model, and the value of REIGEN_ALGORITHM: the first byte says which. */
#include "base/buf.h"
#include "fuzz.h"
#include "model/model.h"

static void try_file(const char *text)
{
    struct rg_model model = rg_model_assumed, back = rg_model_assumed;
    struct rg_error err = RG_ERROR_INIT;
    rg_autobuf struct rg_buf written = RG_BUF_INIT;
    const struct rg_model_task task = { RG_MODEL_ALLREDUCE, 5, 3, SIZE_MAX };

    if (rg_model_parse("file", text, &model, &err) < 0) {
        must(err.text[0] && memcmp(&model, &rg_model_assumed, sizeof(model)) == 0);
        return;
    }
    rg_model_format(&model, &written);
    must(rg_model_parse("file", rg_buf_text(&written), &back, NULL) == 0);
    must(memcmp(&model, &back, sizeof(model)) == 0);
    must(rg_model_choose(&model, &task, RG_ALGORITHM_AUTO).ns < RG_MODEL_NEVER);
}

static void try_algorithms(const char *text)
{
    enum rg_algorithm wanted[RG_MODEL_NKINDS] = { RG_ALGORITHM_AUTO };
    struct rg_error err = RG_ERROR_INIT;
    int r = rg_algorithms_parse("REIGEN_ALGORITHM", text, wanted, &err);

    must(r == 0 || (r == -EINVAL && err.text[0]));
    for (int kind = 0; kind < RG_MODEL_NKINDS; kind++)
        must(wanted[kind] == RG_ALGORITHM_AUTO ||
             (r == 0 && rg_algorithm_does(wanted[kind], (enum rg_model_kind) kind)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char buf[2048];

    if (nbytes == 0)
        return 0;
    const char *text = text_of(data + 1, nbytes - 1, buf, sizeof(buf));
    if (data[0] == 'a')
        try_algorithms(text);
    else
        try_file(text);
    return 0;
}
