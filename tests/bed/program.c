/* SPDX-License-Identifier: Apache-2.0 */
/* The one program of images without a shell: says where and as whom it runs.
 *
 * usage: program [SECONDS [STATUS]]     sleeps, then ends with the status
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char host[256] = "";
    const char *rank = getenv("REIGEN_RANK");
    gethostname(host, sizeof host - 1);
    printf("program rank %s host %s uid %d gid %d pid %d\n", rank ? rank : "-", host,
           (int)getuid(), (int)getgid(), (int)getpid());
    fflush(stdout);
    if (argc > 1)
        usleep((useconds_t)(atof(argv[1]) * 1e6)); /* patient: asked for */
    return argc > 2 ? atoi(argv[2]) : 0;
}
