/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes: a growing buffer to write into, and a checked reader through which every byte from
 * outside is read. Integers are little-endian on every wire and in every file of ours.
 *
 * The writer keeps a sticky error: after -ENOMEM or -EMSGSIZE further writes do nothing, and
 * rg_buf_status tells once at the end. The reader is sticky too: a read past the end returns 0 or
 * an empty span and marks the reader bad; check rg_reader_done at the end. Hence decoders are
 * straight-line code.
 *
 * Thread rule: an object belongs to one thread at a time. Nothing blocks.
 */
#ifndef RG_BASE_BUF_H
#define RG_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct rg_buf {
    uint8_t *data; /* owned; the readable bytes are data[start] .. data[end - 1] */
    size_t start;
    size_t end;
    size_t capacity;
    int status; /* 0, or the first error */
};

#define RG_BUF_INIT { NULL, 0, 0, 0, 0 }
#define RG_BUF_MAX (1u << 30) /* no buffer of ours grows beyond 1 GiB */

/* Free the memory and leave an empty buffer; NULL is fine. */
void rg_buf_fini(struct rg_buf *buf);
/* The same, for what held a secret: all that was ever in it is overwritten first. NULL is fine. */
void rg_buf_wipe(struct rg_buf *buf);
#define rg_autobuf rg_cleanup(rg_buf_fini)

static inline const uint8_t *rg_buf_bytes(const struct rg_buf *buf)
{
    return buf->data ? buf->data + buf->start : NULL;
}

static inline size_t rg_buf_nbytes(const struct rg_buf *buf)
{
    return buf->end - buf->start;
}

/* 0, -ENOMEM, or -EMSGSIZE when RG_BUF_MAX would be passed. */
int rg_buf_status(const struct rg_buf *buf);

/* Room for nbytes more at the end; returns where to write, or NULL (status is set). Follow with
 * rg_buf_commit of the bytes really written. */
uint8_t *rg_buf_reserve(struct rg_buf *buf, size_t nbytes);
void rg_buf_commit(struct rg_buf *buf, size_t nbytes);

/* Drop nbytes (at most rg_buf_nbytes) from the front. */
void rg_buf_consume(struct rg_buf *buf, size_t nbytes);
void rg_buf_clear(struct rg_buf *buf);

void rg_buf_put(struct rg_buf *buf, const void *bytes, size_t nbytes);
void rg_buf_put_u8(struct rg_buf *buf, uint8_t value);
void rg_buf_put_u16(struct rg_buf *buf, uint16_t value);
void rg_buf_put_u32(struct rg_buf *buf, uint32_t value);
void rg_buf_put_u64(struct rg_buf *buf, uint64_t value);
/* u32 length and bytes; NULL is written as the empty string. */
void rg_buf_put_str(struct rg_buf *buf, const char *text);
void rg_buf_put_span(struct rg_buf *buf, const void *bytes, size_t nbytes);
/* Text without a length, for building strings; rg_buf_text terminates it and returns it, still
 * owned by the buffer ("" after an error). */
void rg_buf_printf(struct rg_buf *buf, const char *fmt, ...) rg_printf(2, 3);
const char *rg_buf_text(struct rg_buf *buf);

struct rg_reader {
    const uint8_t *data; /* borrowed */
    size_t nbytes;       /* what is left */
    bool bad;
};

static inline struct rg_reader rg_reader_make(const void *data, size_t nbytes)
{
    return (struct rg_reader){ data, nbytes, false };
}

uint8_t rg_reader_u8(struct rg_reader *reader);
uint16_t rg_reader_u16(struct rg_reader *reader);
uint32_t rg_reader_u32(struct rg_reader *reader);
uint64_t rg_reader_u64(struct rg_reader *reader);
/* nbytes raw bytes, borrowed; NULL when there are fewer. */
const uint8_t *rg_reader_bytes(struct rg_reader *reader, size_t nbytes);
/* A u32 length and that many bytes, borrowed, at most max_nbytes (else bad). */
const uint8_t *rg_reader_span(struct rg_reader *reader, size_t max_nbytes, size_t *ret_nbytes);
/* As rg_reader_span, copied, with a NUL; a NUL inside is bad. NULL when bad or out of memory;
 * the caller frees. */
char *rg_reader_str(struct rg_reader *reader, size_t max_nbytes);
/* 0 when everything was read exactly to the end, else -EBADMSG. */
int rg_reader_done(const struct rg_reader *reader);

/* An array of other things: room for n elements in *array, which holds *capacity (a size_t) of them
 * now; what is new is zero. The array stays the caller's, and may move. 0; -ENOMEM: nothing has
 * changed. */
#define rg_grow(array, capacity, n)                                    \
    ({                                                                 \
        void *_v = rg_grown(*(array), capacity, n, sizeof(**(array))); \
        if (_v)                                                        \
            *(array) = _v;                                             \
        _v ? 0 : -ENOMEM;                                              \
    })
/* The array, where it is now, or NULL: out of memory. */
void *rg_grown(void *array, size_t *capacity, size_t n, size_t each);

#endif
