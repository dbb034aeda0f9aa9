/* SPDX-License-Identifier: Apache-2.0 */
/* horovodrun's configuration file. */
#include "fuzz.h"
#include "platform/drivers.h"
#include "job/horovodrun/horovodrun.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_horovodrun run;
    char buf[4096];
    const char *text = text_of(data, nbytes, buf, sizeof(buf));

    rg_drivers_init();
    rg_horovodrun_init(&run);
    if (rg_hvd_file_parse(&run, "horovod.yaml", text, strlen(text), &err) < 0)
        must(err.errnum > 0 && (err.errnum == ENOMEM || rg_str_starts(err.text, "horovod.yaml:")));
    for (size_t i = 0; i < run.request.job.env.count; i++)
        must(strchr(run.request.job.env.v[i], '=') != NULL);
    must(!run.request.job.np && !run.request.job.nhosts);
    rg_horovodrun_fini(&run);
    return 0;
}
