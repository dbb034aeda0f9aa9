/* SPDX-License-Identifier: Apache-2.0 */
/* reigen horovodrun, and horovodrun itself: Horovod's command line, then what reigen run does. */
#include "cmd/compat/checkbuild.h"
#include "cmd/compat/compat.h"
#include "cmd/common/exit.h"
#include "cmd/run/run.h"
#include "cmd/common/terminal.h"
#include "base/exitcode.h"
#include "spec/horovodrun/horovodrun.h"

static int print_build(void)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_checkbuild_print(&text);
    return rg_print(rg_buf_text(&text));
}

static int refuse_elastic(const struct rg_horovodrun *run)
{
    struct rg_error err = RG_ERROR_INIT;

    rg_error_set_exit(&err, ENOTSUP, RG_EXIT_UNAVAILABLE,
                      "elastic jobs (%s) come with a later version of Reigen; this one runs a "
                      "fixed number of ranks: leave the elastic flags out, and give -np and -H",
                      run->elastic.discovery_script ? "--host-discovery-script" : "--min-np");
    return rg_fail(&err, "horovodrun");
}

int rg_cmd_horovodrun(int argc, char **argv)
{
    rg_cleanup(rg_horovodrun_fini) struct rg_horovodrun run;
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    rg_horovodrun_init(&run);
    if (rg_horovodrun_parse(&run, argc, argv, &err) < 0)
        return rg_fail(&err, "horovodrun");
    if (run.request.help)
        return RG_COMMAND_HELP;
    if (run.request.version)
        return rg_print(RG_HVD_VERSION "\n");
    if (run.check_build)
        return print_build();
    if (rg_horovodrun_is_elastic(&run))
        return refuse_elastic(&run);
    rg_run_say_remarks(&run.request);
    return rg_run_request(&run.request, &(struct rg_run_as){ "horovodrun", true, open[0] });
}
