/* SPDX-License-Identifier: Apache-2.0 */
/* A connection in clear fed with the input in parts, as a socket gives them: the first byte says
 * how long they are. Cut at other places the same bytes are the same frames. */
#include <unistd.h>

#include "base/fd.h"
#include "fuzz.h"
#include "wire/conn.h"

#define SHORT_MAX 64
#define LONG_MAX 4096
#define INPUT_MAX 16384 /* what a socket holds while nobody reads */

struct seen {
    int frames;
    uint64_t digest;
};

static size_t frame_max(void *arg, uint16_t type)
{
    (void) arg;
    return type % 2 ? LONG_MAX : SHORT_MAX;
}

static int on_frame(void *arg, uint16_t type, const uint8_t *payload, size_t nbytes)
{
    struct seen *seen = arg;

    must(nbytes <= frame_max(NULL, type));
    seen->frames++;
    seen->digest = seen->digest * 31 + type;
    for (size_t i = 0; i < nbytes; i++)
        seen->digest = seen->digest * 31 + payload[i];
    return type == 0xFFFF ? -EPROTO : 0;
}

static struct seen feed(const uint8_t *data, size_t nbytes, size_t part, int *ret_status)
{
    static const struct rg_conn_ops ops = { on_frame, frame_max, .secret = true };
    struct seen seen = { 0 };
    struct rg_conn conn;
    int fds[2], r = 0;

    must(rg_socketpair(fds) == 0 && rg_conn_init(&conn, fds[0], &ops, &seen, NULL) == 0);
    for (size_t at = 0; at < nbytes && r == 0; at += part) {
        size_t n = nbytes - at < part ? nbytes - at : part;

        must(write(fds[1], data + at, n) == (ssize_t) n);
        r = rg_conn_pump(&conn, NULL);
        must(rg_buf_nbytes(&conn.in) < 6 + LONG_MAX || r < 0);
    }
    must(r == 0 || r == -EBADMSG || r == -EPROTO);
    rg_conn_fini(&conn);
    close(fds[1]);
    *ret_status = r;
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    int one = 0, other = 0;

    if (nbytes < 2 || nbytes > INPUT_MAX)
        return 0;
    struct seen whole = feed(data + 1, nbytes - 1, nbytes, &one);
    struct seen parts = feed(data + 1, nbytes - 1, 1 + data[0], &other);

    must(one == other && whole.frames == parts.frames && whole.digest == parts.digest);
    return 0;
}
