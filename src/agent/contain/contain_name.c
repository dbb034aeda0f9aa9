/* SPDX-License-Identifier: Apache-2.0 */
/* Who has the name that the user has given our container. */
#include <string.h>

#include "agent/contain/contain.h"
#include "base/exitcode.h"
#include "base/spawn.h"

#define INSPECT_MS 5000

/* What our own containers are labelled with (container/oci.c), and what anybody's have. */
static const char format[] = "{{index .Config.Labels \"reigen.job\"}}|"
                             "{{index .Config.Labels \"reigen.user\"}}|"
                             "{{.State.Running}}|{{.Config.Image}}";

int rg_contain_explain_name(const struct rg_contain *contain, const char *program,
                            struct rg_error *err)
{
    const char *name = contain->container.name;
    const char *const argv[] = { program, "container", "inspect", "--format", format, name, NULL };
    char said[RG_CONTAIN_SAID_MAX];

    if (rg_capture(argv, NULL, true, INSPECT_MS, said, sizeof(said)) != 0)
        return -ENOENT;
    said[strcspn(said, "\n")] = '\0';
    char *rest = said, *job = strsep(&rest, "|"), *user = strsep(&rest, "|");
    const char *state = strsep(&rest, "|");
    bool runs = state && strcmp(state, "true") == 0;
    if (!rest)
        return -ENOENT;
    if (!*job)
        return rg_error_set_exit(err, EEXIST, RG_EXIT_CONTAINER,
                                 "a container named %s is there already, %s, of the image %.100s, "
                                 "which is none of Reigen's: give another --dockname, or remove it "
                                 "if it is yours (%s rm --force %s)",
                                 name, runs ? "running" : "stopped", rest, contain->host.program,
                                 name);
    if (strtol(user, NULL, 10) != (long) getuid())
        return rg_error_set_exit(err, EEXIST, RG_EXIT_CONTAINER,
                                 "a container named %s is there already, of a job of the user %s: "
                                 "give another --dockname", name, user);
    return rg_error_set_exit(err, EEXIST, RG_EXIT_CONTAINER,
                             "your job %s has a container named %s here: wait for that job, end it "
                             "(reigen jobs, or squeue --me on Slurm), or give another --dockname",
                             job, name);
}
