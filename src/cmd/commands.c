/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/commands.h"

#include <stddef.h>

#include "cmd/exit.h"

int rg_cmd_version(int argc, char **argv)
{
    (void) argc, (void) argv;
    return rg_print("reigen " RG_VERSION "\n");
}

const struct rg_command rg_commands[] = {
    { "run", "[OPTION...] [--] COMMAND [ARGUMENT...]", NULL,
      "Run copies of a command, together. `reigen run --help` lists its options.", rg_cmd_run },
    { "horovodrun", "-np N [FLAG...] COMMAND [ARGUMENT...]", NULL,
      "The same with horovodrun's flags. `horovodrun --help` lists them.", rg_cmd_horovodrun },
    { "explain", "[CODE]", NULL, "Say what an exit code means, and what to do.", rg_cmd_explain },
    { "man", "[PAGE]", "reigen reigen-run reigen-explain reigen-job horovodrun",
      "Print a manual page: reigen, reigen-run, reigen-explain, reigen-job or horovodrun.",
      rg_cmd_man },
    { "completion", "SHELL", "bash zsh fish",
      "Print completion for bash, zsh or fish: eval \"$(reigen completion bash)\".",
      rg_cmd_completion },
    { "version", "", NULL, "Print reigen's version.", rg_cmd_version },
    { "help", "[COMMAND]", "run horovodrun explain man completion version",
      "Print this, or a command's help.", rg_cmd_help },
    { NULL, NULL, NULL, NULL, NULL }
};
