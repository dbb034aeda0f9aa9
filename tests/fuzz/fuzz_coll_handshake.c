/* SPDX-License-Identifier: Apache-2.0 */
/* The first bytes on a data socket, from one who does not know the key: nobody gets in. */
#include "fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

#include "coll/net/handshake.h"

static void handshake_at(struct rg_handshake *handshake, int fds[2], const uint8_t *data,
                         size_t nbytes)
{
    ssize_t sent = nbytes > 0 ? send(fds[1], data, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

    must(sent >= 0);
    shutdown(fds[1], SHUT_WR);
    must(rg_handshake_step(handshake) < 0);
    rg_handshake_fini(handshake);
    close(fds[0]);
    close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static const uint8_t key[RG_AUTH_KEY_NBYTES] = { 4, 5, 6 };
    struct rg_handshake handshake;
    int fds[2];

    if (nbytes > 4096)
        return 0;
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    rg_handshake_answer(&handshake, fds[0], key, 1);
    handshake_at(&handshake, fds, data, nbytes);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    must(rg_handshake_dial(&handshake, fds[0], key, 7, 0, 1) == 0);
    handshake_at(&handshake, fds, data, nbytes);
    return 0;
}
