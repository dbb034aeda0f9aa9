/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every message between launcher and agent, and every frame between rank and agent: the first byte
 * chooses which. What is taken is written again byte by byte.
 */
#include "fuzz.h"
#include "wire/msg.h"
#include "wire/rankmsg.h"

static const struct rg_field *const rank_frames[] = {
    rg_rankmsg_hello_fields,        rg_rankmsg_welcome_fields,   rg_rankmsg_fence_fields,
    rg_rankmsg_fence_done_fields,   rg_rankmsg_fence_failed_fields,
    rg_rankmsg_peer_died_fields,    rg_rankmsg_note_fields,      rg_rankmsg_remote_fields,
    rg_rankmsg_data_fields,         rg_rankmsg_credit_fields,    rg_rankmsg_exit_fields,
    rg_rankmsg_meet_fields,         rg_rankmsg_epoch_fields,     rg_rankmsg_update_fields,
    rg_rankmsg_numbers_fields,
};

union rank_frame {
    struct rg_rankmsg_hello hello;
    struct rg_rankmsg_welcome welcome;
    struct rg_rankmsg_fence fence;
    struct rg_rankmsg_fence_done fence_done;
    struct rg_rankmsg_fence_failed fence_failed;
    struct rg_rankmsg_peer_died peer_died;
    struct rg_rankmsg_note note;
    struct rg_rankmsg_remote remote;
    struct rg_rankmsg_data data;
    struct rg_rankmsg_credit credit;
    struct rg_rankmsg_exit exit;
    struct rg_rankmsg_meet meet;
    struct rg_rankmsg_epoch epoch;
    struct rg_rankmsg_update update;
    struct rg_rankmsg_numbers numbers;
};

static void check_same(const struct rg_field *fields, const void *object, const uint8_t *data,
                       size_t nbytes)
{
    rg_autobuf struct rg_buf again = RG_BUF_INIT;

    rg_codec_encode(fields, object, &again);
    must(rg_buf_status(&again) == 0 && rg_buf_nbytes(&again) == nbytes);
    must(nbytes == 0 || memcmp(rg_buf_bytes(&again), data, nbytes) == 0);
}

static void try_message(uint16_t type, const uint8_t *data, size_t nbytes)
{
    const struct rg_msg_info *info = rg_msg_find(type);
    union rg_msg msg;
    uint32_t host;

    must(rg_msg_decode(info ? !info->from_agent : true, type, data, nbytes, &host, &msg) ==
         -EBADMSG);
    if (!info)
        return;
    int rc = rg_msg_decode(info->from_agent, type, data, nbytes, &host, &msg);
    must(rc == 0 || rc == -EBADMSG);
    if (rc < 0)
        return;
    check_same(info->fields, &msg, data + sizeof(host), nbytes - sizeof(host));
    rg_msg_clear(type, &msg);
}

static void try_rank_frame(const struct rg_field *fields, const uint8_t *data, size_t nbytes)
{
    union rank_frame frame;

    memset(&frame, 0, sizeof(frame));
    if (rg_codec_decode(fields, data, nbytes, &frame) < 0)
        return;
    check_same(fields, &frame, data, nbytes);
    rg_codec_clear(fields, &frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    if (nbytes == 0)
        return 0;
    if (data[0] < 128)
        try_message(data[0], data + 1, nbytes - 1);
    else
        try_rank_frame(rank_frames[data[0] % rg_array_len(rank_frames)], data + 1, nbytes - 1);
    return 0;
}
