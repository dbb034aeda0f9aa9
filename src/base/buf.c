/* SPDX-License-Identifier: Apache-2.0 */
/* Frames, texts and files grow piece by piece; with sticky errors only the end has to be
 * checked. */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SMALLEST 256

void rg_buf_fini(struct rg_buf *buf)
{
    if (!buf)
        return;
    free(buf->data);
    *buf = (struct rg_buf) RG_BUF_INIT;
}

void rg_buf_wipe(struct rg_buf *buf)
{
    if (buf && buf->data)
        explicit_bzero(buf->data, buf->capacity);
    rg_buf_fini(buf);
}

int rg_buf_status(const struct rg_buf *buf)
{
    return buf->status;
}

static void compact(struct rg_buf *buf)
{
    if (buf->start == 0)
        return;
    size_t nbytes = rg_buf_nbytes(buf);

    if (nbytes > 0)
        memmove(buf->data, buf->data + buf->start, nbytes);
    buf->start = 0;
    buf->end = nbytes;
}

static int grow(struct rg_buf *buf, size_t wanted)
{
    size_t capacity = buf->capacity ? buf->capacity : SMALLEST;

    while (capacity < wanted)
        capacity *= 2;
    uint8_t *data = realloc(buf->data, capacity);

    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->capacity = capacity;
    return 0;
}

uint8_t *rg_buf_reserve(struct rg_buf *buf, size_t nbytes)
{
    size_t held = rg_buf_nbytes(buf);

    if (buf->status < 0)
        return NULL;
    if (nbytes > RG_BUF_MAX || held > RG_BUF_MAX - nbytes) {
        buf->status = -EMSGSIZE;
        return NULL;
    }
    if (buf->data && nbytes <= buf->capacity - buf->end)
        return buf->data + buf->end;
    /* Moving the rest to the front costs no more than what was consumed before it. */
    if (buf->start >= held)
        compact(buf);
    if (!buf->data || nbytes > buf->capacity - buf->end)
        buf->status = grow(buf, buf->end + nbytes);
    return buf->status < 0 ? NULL : buf->data + buf->end;
}

void rg_buf_commit(struct rg_buf *buf, size_t nbytes)
{
    assert(nbytes <= buf->capacity - buf->end);
    buf->end += nbytes;
}

void rg_buf_consume(struct rg_buf *buf, size_t nbytes)
{
    assert(nbytes <= rg_buf_nbytes(buf));
    buf->start += nbytes;
    if (buf->start == buf->end)
        buf->start = buf->end = 0;
}

void rg_buf_clear(struct rg_buf *buf)
{
    buf->start = buf->end = 0;
    buf->status = 0;
}

void rg_buf_put(struct rg_buf *buf, const void *bytes, size_t nbytes)
{
    uint8_t *to = rg_buf_reserve(buf, nbytes);

    if (!to || nbytes == 0)
        return;
    memcpy(to, bytes, nbytes);
    rg_buf_commit(buf, nbytes);
}

static void put_le(struct rg_buf *buf, uint64_t value, size_t nbytes)
{
    uint8_t bytes[8];

    for (size_t i = 0; i < nbytes; i++)
        bytes[i] = (uint8_t) (value >> (8 * i));
    rg_buf_put(buf, bytes, nbytes);
}

void rg_buf_put_u8(struct rg_buf *buf, uint8_t value)
{
    put_le(buf, value, 1);
}

void rg_buf_put_u16(struct rg_buf *buf, uint16_t value)
{
    put_le(buf, value, 2);
}

void rg_buf_put_u32(struct rg_buf *buf, uint32_t value)
{
    put_le(buf, value, 4);
}

void rg_buf_put_u64(struct rg_buf *buf, uint64_t value)
{
    put_le(buf, value, 8);
}

void rg_buf_put_str(struct rg_buf *buf, const char *text)
{
    rg_buf_put_span(buf, text, text ? strlen(text) : 0);
}

void rg_buf_put_span(struct rg_buf *buf, const void *bytes, size_t nbytes)
{
    if (buf->status == 0 && nbytes > RG_BUF_MAX)
        buf->status = -EMSGSIZE;
    rg_buf_put_u32(buf, (uint32_t) nbytes);
    rg_buf_put(buf, bytes, nbytes);
}

static int print_at(struct rg_buf *buf, size_t room, const char *fmt, va_list args)
{
    va_list copy;

    va_copy(copy, args);
    int n = vsnprintf((char *) buf->data + buf->end, room, fmt, copy);
    va_end(copy);
    return n;
}

void rg_buf_printf(struct rg_buf *buf, const char *fmt, ...)
{
    va_list args;

    if (!rg_buf_reserve(buf, 1))
        return;
    va_start(args, fmt);
    size_t room = buf->capacity - buf->end;
    int n = print_at(buf, room, fmt, args);

    if (n < 0)
        buf->status = -EMSGSIZE;
    else if ((size_t) n >= room && rg_buf_reserve(buf, (size_t) n + 1))
        print_at(buf, (size_t) n + 1, fmt, args);
    va_end(args);
    if (buf->status == 0)
        rg_buf_commit(buf, (size_t) n);
}

const char *rg_buf_text(struct rg_buf *buf)
{
    uint8_t *end = rg_buf_reserve(buf, 1);

    if (!end)
        return "";
    *end = '\0';
    return (const char *) rg_buf_bytes(buf);
}

const uint8_t *rg_reader_bytes(struct rg_reader *reader, size_t nbytes)
{
    static const uint8_t nothing[1];

    if (reader->bad || nbytes > reader->nbytes) {
        reader->bad = true;
        reader->nbytes = 0;
        return NULL;
    }
    const uint8_t *bytes = reader->data;

    if (nbytes == 0)
        return bytes ? bytes : nothing;
    reader->data += nbytes;
    reader->nbytes -= nbytes;
    return bytes;
}

static uint64_t read_le(struct rg_reader *reader, size_t nbytes)
{
    const uint8_t *bytes = rg_reader_bytes(reader, nbytes);
    uint64_t value = 0;

    for (size_t i = 0; bytes && i < nbytes; i++)
        value |= (uint64_t) bytes[i] << (8 * i);
    return value;
}

uint8_t rg_reader_u8(struct rg_reader *reader)
{
    return (uint8_t) read_le(reader, 1);
}

uint16_t rg_reader_u16(struct rg_reader *reader)
{
    return (uint16_t) read_le(reader, 2);
}

uint32_t rg_reader_u32(struct rg_reader *reader)
{
    return (uint32_t) read_le(reader, 4);
}

uint64_t rg_reader_u64(struct rg_reader *reader)
{
    return read_le(reader, 8);
}

const uint8_t *rg_reader_span(struct rg_reader *reader, size_t max_nbytes, size_t *ret_nbytes)
{
    size_t nbytes = rg_reader_u32(reader);

    if (nbytes > max_nbytes)
        reader->bad = true;
    const uint8_t *bytes = rg_reader_bytes(reader, nbytes);

    *ret_nbytes = bytes ? nbytes : 0;
    return bytes;
}

char *rg_reader_str(struct rg_reader *reader, size_t max_nbytes)
{
    size_t nbytes;
    const uint8_t *bytes = rg_reader_span(reader, max_nbytes, &nbytes);

    if (!bytes)
        return NULL;
    if (memchr(bytes, '\0', nbytes)) {
        reader->bad = true;
        reader->nbytes = 0;
        return NULL;
    }
    char *text = malloc(nbytes + 1);

    if (text) {
        memcpy(text, bytes, nbytes);
        text[nbytes] = '\0';
    }
    return text;
}

int rg_reader_done(const struct rg_reader *reader)
{
    return reader->bad || reader->nbytes != 0 ? -EBADMSG : 0;
}

void *rg_grown(void *array, size_t *capacity, size_t n, size_t each)
{
    size_t more = *capacity ? *capacity : 16;
    char *bigger;

    if (array && n <= *capacity)
        return array;
    while (more < n)
        if (__builtin_mul_overflow(more, 2, &more))
            return NULL;
    bigger = reallocarray(array, more, each);
    if (!bigger)
        return NULL;
    memset(bigger + *capacity * each, 0, (more - *capacity) * each);
    *capacity = more;
    return bigger;
}
