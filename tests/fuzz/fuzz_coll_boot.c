/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank reads while it meets the others: rank messages, the blobs of a fence, the facts of a
 * rank. The first byte says which. */
#include "fuzz.h"
#include "coll/ground/blob.h"
#include "coll/team/team_parts.h"
#include "wire/rankmsg.h"

enum { NRANKS = 3, NMESSAGES = 7 };

static void message(unsigned which, const uint8_t *data, size_t nbytes)
{
    static const struct rg_field *const tables[NMESSAGES] = {
        rg_rankmsg_hello_fields,        rg_rankmsg_welcome_fields,   rg_rankmsg_fence_fields,
        rg_rankmsg_fence_done_fields,   rg_rankmsg_fence_failed_fields,
        rg_rankmsg_peer_died_fields,    rg_rankmsg_note_fields };
    uint64_t object[16] = { 0 };

    if (rg_codec_decode(tables[which], data, nbytes, object) == 0) {
        rg_autobuf struct rg_buf back = RG_BUF_INIT;

        rg_codec_encode(tables[which], object, &back);
        must(rg_buf_nbytes(&back) == nbytes && memcmp(back.data, data, nbytes) == 0);
        rg_codec_clear(tables[which], object);
    }
    for (size_t i = 0; i < rg_array_len(object); i++)
        must(object[i] == 0);
}

static void blobs(const uint8_t *data, size_t nbytes)
{
    struct rg_blob found[NRANKS] = { 0 };
    size_t total = 0;

    if (rg_blobs_split(data, nbytes, NRANKS, RG_RANKMSG_BLOB_MAX, found) < 0) {
        must(found[0].data == NULL);
        return;
    }
    for (int i = 0; i < NRANKS; i++) {
        must(found[i].nbytes <= RG_RANKMSG_BLOB_MAX && found[i].data == found[0].data + total);
        total += found[i].nbytes;
    }
    must(total + 4 * NRANKS == nbytes);
    free(found[0].data);
}

static void facts(const uint8_t *data, size_t nbytes)
{
    struct rg_reader reader = rg_reader_make(data, nbytes);
    rg_autobuf struct rg_buf back = RG_BUF_INIT;
    struct rg_rank_info found;

    if (rg_rank_info_get(&reader, &found) < 0)
        return;
    must(found.addresses.count <= RG_TEAM_ADDRESSES_MAX);
    rg_rank_info_put(&found, &back);
    must(rg_buf_nbytes(&back) == nbytes);
    rg_rank_info_fini(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    unsigned which = nbytes > 0 ? data[0] % (NMESSAGES + 2) : 0;

    if (nbytes == 0)
        return 0;
    if (which < NMESSAGES)
        message(which, data + 1, nbytes - 1);
    else if (which == NMESSAGES)
        blobs(data + 1, nbytes - 1);
    else
        facts(data + 1, nbytes - 1);
    return 0;
}
