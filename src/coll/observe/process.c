/* SPDX-License-Identifier: Apache-2.0 */
/* Reading /proc/PID. */
#include "coll/observe/process.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"

static const char *state_name(char state)
{
    switch (state) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "waiting for a device or file system";
    case 'T': return "stopped (SIGSTOP or Ctrl-Z)";
    case 't': return "stopped by a debugger";
    case 'Z': return "a zombie: it has died";
    default: return "in an unknown state";
    }
}

void rg_proc_state_read(pid_t pid, struct rg_proc_state *ret_process)
{
    char path[64];
    rg_autofree char *stat = NULL;
    rg_autofree char *wchan = NULL;
    const char *after;

    *ret_process = (struct rg_proc_state){ 'X', "gone", "" };
    snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
    if (rg_read_file(path, 4096, &stat, NULL) < 0)
        return;
    after = strrchr(stat, ')');
    ret_process->state = after && after[1] ? after[2] : '?';
    ret_process->word = state_name(ret_process->state);
    snprintf(path, sizeof(path), "/proc/%d/wchan", (int) pid);
    if (rg_read_file(path, 256, &wchan, NULL) == 0 && wchan[0] && strcmp(wchan, "0") != 0)
        snprintf(ret_process->where, sizeof(ret_process->where), "%s", wchan);
}
