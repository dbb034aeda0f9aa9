/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A toy plane, in one file, that docs/planes.md points to: small allreduces of float32 over unix
 * datagrams, whose addresses the members tell each other out of band. It also takes "device"
 * memory, which the host cannot read: the test maps the same pages twice.
 */
#ifndef TEST_COLL_PLANE_DUMMY_H
#define TEST_COLL_PLANE_DUMMY_H

#include "coll/planes/plane.h"

enum { DUMMY_MAX_NBYTES = 2048, DUMMY_SCORE = 1000 };

extern const struct rg_plane_ops rg_plane_dummy;
extern int dummy_count; /* operations that it has begun in this process */

/* Where the device's memory can be read: at this distance from its address. */
extern ptrdiff_t dummy_device;

/* A device's stream: what is put there happens, in this order, when it is run. */
struct dummy_stream {
    struct dummy_work {
        void (*fn)(void *arg);
        void *arg;
    } works[8];
    int nworks;
};

void dummy_stream_put(struct dummy_stream *stream, void (*fn)(void *arg), void *arg);
void dummy_stream_run(struct dummy_stream *stream);

#endif
