/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks say in a round, as bytes of an allgather, which come from other processes; and the
 * boot whose fences rounds are. Its identity follows from the world's; deaths and notes are the
 * world's.
 */
#include "coll/api/rounds.h"

#include <stdio.h>
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
        rg_error_set(err, -r, "%s", rg_call_cause(op));
    else if ((r = take_words(op, world->team->size, words, ret_memory)) < 0)
        rg_error_set(err, -r, r == -ENOMEM ? "out of memory" : "a rank said what cannot be read");
    rg_op_unref(op);
    return r;
}

/* ---- the boot of a process set */

struct set_boot {
    struct rg_progress *world;
    const int *ranks;          /* of the world, n of them */
    int n;
    struct rg_set_word words[]; /* by rank of the world */
};

/* The members' blobs, in one allocation. */
static int copy_blobs(const struct set_boot *boot, struct rg_blob *ret_blobs, struct rg_error *err)
{
    for (int i = 0; i < boot->n; i++) {
        const struct rg_set_word *word = &boot->words[boot->ranks[i]];

        if (word->verb != RG_SET_FENCE)
            return rg_error_set(err, word->status < 0 ? -word->status : EPROTO, "rank %d: %s",
                                boot->ranks[i], word->status < 0 ? word->text : "is elsewhere");
        ret_blobs[i] = (struct rg_blob){ (uint8_t *) (uintptr_t) word->data, word->nbytes };
    }
    return rg_blobs_gather(ret_blobs, boot->n) < 0 ? rg_error_set(err, ENOMEM, "out of memory")
                                                       : 0;
}

static int fence(void *state, const void *blob, size_t nbytes, uint64_t deadline_ns,
                 struct rg_blob *ret_blobs, struct rg_error *err)
{
    struct set_boot *boot = state;
    struct rg_set_word mine = { .verb = RG_SET_FENCE, .data = blob, .nbytes = nbytes };
    void *memory = NULL;
    int r = rg_sets_round(boot->world, &mine, boot->words, &memory, err);

    (void) deadline_ns; /* a rank that does not come is reported as a stall, and may come yet */
    if (r == 0)
        r = copy_blobs(boot, ret_blobs, err);
    free(memory);
    return r;
}

/* Whoever waits for other members waits in vain once the world has failed or is left. */
static int poll_start(void *state, int *ret_rank, struct rg_error *err)
{
    const struct set_boot *boot = state;
    const char *text = NULL;
    int r = rg_progress_abort_cause(boot->world, &text);

    (void) ret_rank;
    if (r == 0)
        return 0;
    rg_error_set(err, -r, "%s", text);
    return -EHOSTDOWN;
}

static void close_set(void *state, bool goodbye)
{
    (void) goodbye;
    free(state);
}

static const struct rg_boot_ops set_ops = {
    .name = "set",
    .fences_alone = true,
    .fence = fence,
    .poll_start = poll_start,
    .close = close_set,
};

int rg_set_boot(struct rg_progress *world, int id, const int *ranks, int nranks, int me,
                struct rg_boot **ret_boot, struct rg_error *err)
{
    struct rg_boot_identity identity = RG_BOOT_IDENTITY_INIT;
    size_t size = (size_t) world->team->size;
    struct set_boot *boot = calloc(1, sizeof(*boot) + size * sizeof(boot->words[0]));
    char purpose[64];

    if (!boot)
        return rg_error_set(err, ENOMEM, "out of memory");
    boot->world = world;
    boot->ranks = ranks;
    boot->n = nranks;
    identity.rank = me;
    identity.size = nranks;
    identity.has_key = true;
    identity.world_ranks = ranks;
    snprintf(purpose, sizeof(purpose), "reigen process set %d", id);
    rg_key_derive(world->team->data_key, purpose, identity.key);
    if (rg_boot_make(&set_ops, boot, &identity, ret_boot) < 0) {
        free(boot);
        return rg_error_set(err, ENOMEM, "out of memory");
    }
    return 0;
}
