/* SPDX-License-Identifier: Apache-2.0 */
/* The lines by which an agent learns its job: what is taken is whole, a refusal has a reason. */
#include "agent/start/lines.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static char text[RG_AGENT_LINES_MAX + 1];
    struct rg_agent_lines boot = { .link_fd = -2 };
    struct rg_error err = RG_ERROR_INIT;
    int rc = rg_agent_lines_parse(text_of(data, nbytes, text, sizeof(text)), &boot, &err);

    if (rc < 0) {
        must(*err.text != '\0' && boot.link_fd == -2);
        return 0;
    }
    must((boot.link_fd >= 3 && boot.link_write_fd == boot.link_fd) ||
         (boot.link_fd == 0 && boot.link_write_fd == 1) || (boot.link_fd == -1 && *boot.dial));
    must(!*boot.dial || boot.link_fd == -1);
    must(strlen(boot.dial) <= RG_AGENT_LINES_DIAL_MAX && strlen(boot.place) <= RG_AUTH_PLACE_MAX &&
         strlen(boot.announce) <= RG_AGENT_LINES_ANNOUNCE_MAX);
    must(*boot.job_id && strlen(boot.job_id) <= RG_JOB_ID_MAX);
    return 0;
}
