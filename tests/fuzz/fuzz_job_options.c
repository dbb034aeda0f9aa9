/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: each line of the input is one argument. Options that read files or run a
 * program are left out. */
#include "fuzz.h"
#include "platform/drivers.h"
#include "job/request/request.h"

#define ARGC_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_request request;
    char buf[4096];
    char *argv[ARGC_MAX + 1] = { (char *) "run" };
    int argc = 1;

    rg_drivers_init();
    text_of(data, nbytes, buf, sizeof(buf));
    if (strstr(buf, "file") || strstr(buf, "config") || strstr(buf, "-f") ||
        strstr(buf, "discovery"))
        return 0;
    for (char *rest = buf, *arg; argc < ARGC_MAX && (arg = strsep(&rest, "\n"));)
        argv[argc++] = arg;
    rg_request_init(&request);
    int rc = rg_request_parse(&request, argc, argv, &err);

    if (rc < 0)
        must(err.text[0] && err.errnum == -rc && err.exit_code == 2);
    else if (!request.help && !request.version)
        must(request.job.command.count > 0 && rg_job_check(&request.job, NULL) == 0);
    rg_request_fini(&request);
    return 0;
}
