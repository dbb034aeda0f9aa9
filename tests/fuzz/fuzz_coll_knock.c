/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes on a data socket, from one who does not know the key: nobody gets in. */
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "coll/net/knock.h"

static void knock_at(struct rg_knock *knock, int fds[2], const uint8_t *data, size_t nbytes)
{
    ssize_t sent = nbytes > 0 ? send(fds[1], data, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

    must(sent >= 0);
    shutdown(fds[1], SHUT_WR);
    must(rg_knock_step(knock) < 0);
    rg_knock_fini(knock);
    close(fds[0]);
    close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const uint8_t key[RG_AUTH_KEY_NBYTES] = { 4, 5, 6 };
    struct rg_knock knock;
    int fds[2];

    if (nbytes > 4096)
        return 0;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    rg_knock_answer(&knock, fds[0], key, 1);
    knock_at(&knock, fds, data, nbytes);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    must(rg_knock_dial(&knock, fds[0], key, 7, 0, 1) == 0);
    knock_at(&knock, fds, data, nbytes);
    return 0;
}
