/* SPDX-License-Identifier: Apache-2.0 */
/* People look codes up: one table is behind reigen explain, the man pages and the docs. */
#include "base/exitcode.h"

#include "base/cleanup.h"

static const struct rg_exit_info table[] = {
    {RG_EXIT_OK, "Every rank ended with 0.", "Nothing to do.", false},
    {1, "A rank's own exit code, that of the rank that failed first.",
     "The verdict names the rank and shows its last lines; what the code means is the program's "
     "business.",
     false},
    {RG_EXIT_USAGE, "An option is wrong, or a job or host file is broken.",
     "The message names the value and what is allowed. A rank of yours may also end with 2: then "
     "the verdict names it.",
     false},
    {RG_EXIT_UNAVAILABLE,
     "The platform or a host was not available before the start.",
     "The message names the host and the remedy: a wrong name, a program that is not installed "
     "there, a refused login. Run again once that is repaired; unchanged only where it says that a "
     "host or a service is busy or starting.",
     false},
    {RG_EXIT_INTERNAL, "Reigen itself failed, or there was no memory.",
     "Run again with --verbose --verbose and report what it prints.", false},
    {RG_EXIT_OUTPUT_LOST, "Output could not be written.",
     "The message names the file or stream: a full disk under --output-dir, or a reader that "
     "closed standard output. Make room and run again.",
     false},
    {RG_EXIT_PREEMPTED,
     "The job was ended from outside: cancelled, out of time, or preempted.",
     "The verdict says by what. Cancelled (scancel, or its container was stopped): it is "
     "somebody's wish. Time limit: ask for more time (--time), and go on from the last "
     "checkpoint. Preempted or requeued: run it again, unchanged, from the last checkpoint.",
     false},
    {RG_EXIT_HOST_LOST, "A host, or the agent on it, was lost while the job ran.",
     "The verdict names the host. Run again, from the last checkpoint; without that host if it "
     "stays away.",
     true},
    {RG_EXIT_NO_PERMISSION, "The system refused what the job needs.",
     "The message names the file or the right. Get it, or run as a user who has it.", false},
    {RG_EXIT_RESET_LIMIT,
     "Hosts of an elastic job came or went once more than --reset-limit permits.",
     "Give a higher limit, or find out why hosts change so often. After the loss of a rank that is "
     "one too many the code is the rank's.",
     false},
    {RG_EXIT_DEADLOCK,
     "All ranks waited for each other, and nothing else ran in them, for --deadlock-timeout.",
     "The verdict names what each rank called and its line. All ranks must call the same "
     "operations: look for a branch that differs between them.",
     false},
    {RG_EXIT_TIMEOUT,
     "The job was not ready within --start-timeout, or ran longer than --timeout.",
     "The message says which, and which host was waited for. Give more time or find what is slow; "
     "unchanged, it helps to try again only where a host was busy for a while.",
     false},
    {RG_EXIT_CONTAINER, "The container runtime failed.",
     "The message names the host, what the runtime said, and the remedy: a wrong name of the "
     "image, a registry that wants a login, no right to use the runtime, an option that it does "
     "not know, a full disk. Run again once that is repaired; unchanged only where a registry or "
     "the daemon did not answer.",
     false},
    {RG_EXIT_NOT_EXECUTABLE, "The command was found but cannot be executed.",
     "Make it executable (chmod +x), or name its interpreter: python train.py.", false},
    {RG_EXIT_NOT_FOUND, "The command was not found.",
     "Check its spelling and PATH, on the host that the verdict names.", false},
    {RG_EXIT_SIGNAL, "128 + n: the rank that failed first was ended by signal n.",
     "137 is SIGKILL, often the kernel's answer to too little memory (the verdict says so if it is "
     "known); 139 is SIGSEGV, a crash; 130 and 143 are SIGINT and SIGTERM, someone's wish.",
     false},
};

const struct rg_exit_info *rg_exit_table(size_t *ret_count)
{
    *ret_count = rg_array_len(table);
    return table;
}

const struct rg_exit_info *rg_exit_find(int code)
{
    const struct rg_exit_info *rank = &table[1];

    for (size_t i = 0; i < rg_array_len(table); i++) {
        if (table[i].code == code)
            return &table[i];
    }
    return code > RG_EXIT_SIGNAL && code <= RG_EXIT_SIGNAL + 64 ? &table[rg_array_len(table) - 1]
                                                                : rank;
}

/* They stand by themselves: the agent says them, and explains nothing. */
static const struct {
    int code;
    const char *name;
} names[] = {
    { RG_EXIT_OK, "ok" }, { 1, "rank" }, { RG_EXIT_USAGE, "usage" },
    { RG_EXIT_UNAVAILABLE, "unavailable" }, { RG_EXIT_INTERNAL, "internal" },
    { RG_EXIT_OUTPUT_LOST, "output-lost" }, { RG_EXIT_PREEMPTED, "ended-outside" },
    { RG_EXIT_HOST_LOST, "host-lost" }, { RG_EXIT_NO_PERMISSION, "no-permission" },
    { RG_EXIT_RESET_LIMIT, "reset-limit" }, { RG_EXIT_DEADLOCK, "deadlock" },
    { RG_EXIT_TIMEOUT, "timeout" }, { RG_EXIT_CONTAINER, "container" },
    { RG_EXIT_NOT_EXECUTABLE, "not-executable" }, { RG_EXIT_NOT_FOUND, "not-found" },
    { RG_EXIT_SIGNAL, "signal" },
};

const char *rg_exit_name(int code)
{
    if (code > RG_EXIT_SIGNAL && code <= RG_EXIT_SIGNAL + 64)
        code = RG_EXIT_SIGNAL;
    for (size_t i = 0; i < rg_array_len(names); i++) {
        if (names[i].code == code)
            return names[i].name;
    }
    return names[1].name;
}
