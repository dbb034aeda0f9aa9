/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's unpacking of its constants as a program of its own, for test_unpack.py. Standard
 * input is what tools/pack_agent.py puts in their place, standard output what came of it.
 */
#include <signal.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE (64 << 10)
#define ROOM (16 * PAGE)

alignas(PAGE) uint8_t rg_constants[ROOM];
extern uint8_t rg_constants_end[];
__asm__(".globl rg_constants_end\n.set rg_constants_end, rg_constants + 1048576\n");

void rg_unpack(void);
void rg_after_unpack(void);

/* Where the agent's own beginning would go on. */
void rg_after_unpack(void)
{
    abort();
}

static void on_fault(int signo)
{
    (void) signo;
    _exit(0);
}

/* usage: unpack NBYTES: so many come out. It ends with 0 if they cannot be written any more. */
int main(int argc, char **argv)
{
    size_t nbytes = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;

    if (fread(rg_constants, 1, ROOM, stdin) == 0 || nbytes > ROOM)
        return 2;
    rg_unpack();
    if (fwrite(rg_constants, 1, nbytes, stdout) != nbytes || fflush(stdout) != 0)
        return 3;
    signal(SIGSEGV, on_fault);
    *(volatile uint8_t *) rg_constants = 1;
    return 1;
}
