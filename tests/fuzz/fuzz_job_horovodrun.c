/* SPDX-License-Identifier: Apache-2.0 */
/* horovodrun's command line: each line of the input is one argument. Flags that read files or run
 * a program are left out. */
#include "fuzz.h"
#include "platform/drivers.h"
#include "job/horovodrun/horovodrun.h"

#define ARGC_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_horovodrun run;
    char buf[4096];
    char *argv[ARGC_MAX + 1] = { (char *) "horovodrun" };
    int argc = 1;

    rg_drivers_init();
    text_of(data, nbytes, buf, sizeof(buf));
    if (strstr(buf, "hostf") || strstr(buf, "host-") || strstr(buf, "con"))
        return 0;
    for (char *rest = buf, *arg; argc < ARGC_MAX && (arg = strsep(&rest, "\n"));)
        argv[argc++] = arg;
    rg_horovodrun_init(&run);
    int rc = rg_horovodrun_parse(&run, argc, argv, &err);

    if (rc < 0)
        must(err.text[0] && err.errnum == -rc && err.exit_code == 2);
    else if (!run.request.help && !run.request.version && !run.check_build)
        must(run.request.job.command.count > 0 && rg_job_check(&run.request.job, NULL) == 0);
    rg_horovodrun_fini(&run);
    return 0;
}
