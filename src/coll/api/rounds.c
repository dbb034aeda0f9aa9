/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks say in a round, as bytes of an allgather: they come from other processes. */
#include "coll/api/rounds.h"

#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "coll/api/call.h"

#define ROUND_NAME "reigen.process_sets"

static void put_word(struct rg_buf *buf, const struct rg_set_word *word)
{
    rg_autobuf struct rg_buf body = RG_BUF_INIT;

    rg_buf_put_u8(&body, (uint8_t) word->verb);
    rg_buf_put_u32(&body, (uint32_t) -word->status);
    rg_buf_put_str(&body, word->text ? word->text : "");
    rg_buf_put(&body, word->data, word->nbytes);
    rg_buf_put_u32(buf, (uint32_t) rg_buf_nbytes(&body));
    rg_buf_put(buf, rg_buf_bytes(&body), rg_buf_nbytes(&body));
}

/* The word's text is copied to *text, which moves on. */
static int get_word(struct rg_reader *all, struct rg_set_word *ret_word, char **text)
{
    uint32_t nbytes = rg_reader_u32(all);
    const uint8_t *body = rg_reader_bytes(all, nbytes);
    struct rg_reader reader = rg_reader_make(body, body ? nbytes : 0);
    uint32_t verb = rg_reader_u8(&reader), errnum = rg_reader_u32(&reader);
    rg_autofree char *copy = rg_reader_str(&reader, RG_ERROR_TEXT_MAX);

    if (!body || reader.bad || !copy || verb < RG_SET_ADD || verb > RG_SET_REMOVE || errnum > 4095)
        return -EBADMSG;
    strcpy(*text, copy);
    *ret_word = (struct rg_set_word){ .verb = (enum rg_set_verb) verb,
                                      .status = -(int) errnum,
                                      .text = *text,
                                      .data = reader.data,
                                      .nbytes = reader.nbytes };
    *text += strlen(copy) + 1;
    return 0;
}

/* Parts of all ranks, end to end: copied, so that the operation can go. */
static int take_words(const struct rg_op *op, int size, struct rg_set_word *words,
                      void **ret_memory)
{
    size_t nbytes = op->tensors[0].result_nbytes;
    char *memory = malloc(2 * nbytes + 1), *text = memory ? memory + nbytes : NULL;
    struct rg_reader reader;
    int r = 0;

    if (!memory)
        return -ENOMEM;
    memcpy(memory, op->tensors[0].result, nbytes);
    reader = rg_reader_make((const uint8_t *) memory, nbytes);
    for (int i = 0; i < size && r == 0; i++)
        r = get_word(&reader, &words[i], &text);
    if (r < 0)
        free(memory);
    else
        *ret_memory = memory;
    return r;
}

int rg_sets_round(struct rg_progress *world, const struct rg_set_word *mine,
                  struct rg_set_word *words, void **ret_memory, struct rg_error *err)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    const char *name = ROUND_NAME;
    const int64_t *shape;
    const void *in;
    int64_t nbytes;
    int ndim = 1, r;
    struct rg_call call = { .kind = REIGEN_ALLGATHER, .n = 1, .names = &name, .ins = &in,
                            .dtype = REIGEN_UINT8, .shapes = &shape, .ndims = &ndim,
                            .waits = true };
    struct rg_op *op = NULL;

    put_word(&buf, mine);
    if (rg_buf_status(&buf) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    nbytes = (int64_t) rg_buf_nbytes(&buf);
    shape = &nbytes;
    in = rg_buf_bytes(&buf);
    r = rg_call_submit(world, &call, NULL, &op, err);
    if (r < 0)
        return r;
    rg_progress_wait(world, op, RG_NEVER_NS);
    r = op->status;
    if (r < 0)
        rg_error_set(err, -r, "%s", op->text ? op->text : "out of memory");
    else if ((r = take_words(op, world->team->size, words, ret_memory)) < 0)
        rg_error_set(err, -r, r == -ENOMEM ? "out of memory" : "a rank said what cannot be read");
    rg_op_unref(op);
    return r;
}
