/* SPDX-License-Identifier: Apache-2.0 */
/* One table drives encoding, decoding, tests, fuzzing and the page of the protocol. */
#include "wire/msg.h"

#include <string.h>

#define FIELD(type, kind, member) RG_FIELD(kind, struct rg_msg_##type, member)
#define END RG_FIELD_LAST

static const struct rg_field empty_fields[] = { END };

static const struct rg_field hello_fields[] = {
    FIELD(hello, STR, version), FIELD(hello, U32, pid),     FIELD(hello, U32, uid),
    FIELD(hello, U32, ncores),  FIELD(hello, STR, hostname), FIELD(hello, STR, boot_id),
    FIELD(hello, STRV, addresses), FIELD(hello, U64, netns), FIELD(hello, U64, instance),
    FIELD(hello, U32, free_port), END,
};

static const struct rg_field setup_fields[] = {
    FIELD(setup, STR, host),       FIELD(setup, U32, size),       FIELD(setup, STRV, command),
    FIELD(setup, STR, cwd),        FIELD(setup, U8, inherit_env), FIELD(setup, STRV, env),
    FIELD(setup, STRV, secret_env), FIELD(setup, U64, lease_ms),  FIELD(setup, U32, output_window),
    FIELD(setup, U32, host_index), FIELD(setup, STRV, hosts),     FIELD(setup, STRV, tasks),
    FIELD(setup, STR, engine),
    FIELD(setup, STRV, engine_options), FIELD(setup, U32, np),    FIELD(setup, STR, network),
    FIELD(setup, STR, interface),  FIELD(setup, U8, resident),    FIELD(setup, U8, bind),
    FIELD(setup, U8, oversubscribe), FIELD(setup, STR, bundle), FIELD(setup, U64, bundle_nbytes),
    FIELD(setup, STR, bundle_error), FIELD(setup, U8, bundle_first),
    FIELD(setup, U8, elastic), FIELD(setup, STR, script), FIELD(setup, U8, sync), END,
};

static const struct rg_field rank_fields[] = {
    FIELD(rank, U32, rank), FIELD(rank, STRV, env), FIELD(rank, U8, takes_input),
    FIELD(rank, U8, pty), FIELD(rank, U32, rows),
    FIELD(rank, U32, columns), END,
};

static const struct rg_field started_fields[] = {
    FIELD(started, U32, rank), FIELD(started, U32, pid), FIELD(started, STR, cpus), END,
};

static const struct rg_field not_started_fields[] = {
    FIELD(not_started, U32, rank), FIELD(not_started, U32, errnum),
    FIELD(not_started, U32, exit_code), FIELD(not_started, STR, text), END,
};

static const struct rg_field output_fields[] = {
    FIELD(output, U32, rank), FIELD(output, U8, stream), FIELD(output, SPAN, data), END,
};

static const struct rg_field bytes_fields[] = { FIELD(bytes, U64, nbytes), END };
static const struct rg_field data_fields[] = { FIELD(data, SPAN, data), END };
static const struct rg_field sync_said_fields[] = {
    FIELD(sync_said, U32, type), FIELD(sync_said, SPAN, data), END,
};

static const struct rg_field exited_fields[] = {
    FIELD(exited, U32, rank), FIELD(exited, I32, status), FIELD(exited, U8, oom),
    FIELD(exited, U32, signalled), FIELD(exited, U8, in_runtime), FIELD(exited, U32, cut_by),
    FIELD(exited, STR, memory), FIELD(exited, STR, sshd_host), FIELD(exited, U32, sshd_port), END,
};

static const struct rg_field fence_fields[] = {
    FIELD(fence, U32, rank), FIELD(fence, U32, generation), FIELD(fence, U32, timeout_ms),
    FIELD(fence, SPAN, blob), FIELD(fence, U32, epoch), END,
};

static const struct rg_field peer_died_fields[] = {
    FIELD(peer_died, U32, rank), FIELD(peer_died, U32, host), FIELD(peer_died, U8, end),
    FIELD(peer_died, I32, value), FIELD(peer_died, U8, oom), FIELD(peer_died, U32, epoch),
    FIELD(peer_died, STR, name), END,
};

static const struct rg_field meet_fields[] = {
    FIELD(meet, U32, rank), FIELD(meet, U32, epoch), FIELD(meet, U8, failed), END,
};

static const struct rg_field rank_id_fields[] = { FIELD(rank_id, U32, rank), END };

static const struct rg_field epoch_fields[] = {
    FIELD(epoch, U32, epoch), FIELD(epoch, U32, size), FIELD(epoch, U8, sync),
    FIELD(epoch, SPAN, seats), END,
};

static const struct rg_field signal_rank_fields[] = {
    FIELD(signal_rank, U32, rank), FIELD(signal_rank, U32, signo), END,
};

static const struct rg_field note_fields[] = {
    FIELD(note, U32, rank), FIELD(note, U32, level), FIELD(note, STR, text), END,
};

static const struct rg_field signal_fields[] = { FIELD(signal, U32, signo), END };

static const struct rg_field resize_fields[] = {
    FIELD(resize, U32, rows), FIELD(resize, U32, columns), END,
};

static const struct rg_field remote_open_fields[] = {
    FIELD(remote_open, U32, id), FIELD(remote_open, STR, host), FIELD(remote_open, STR, command),
    END,
};

static const struct rg_field remote_data_fields[] = {
    FIELD(remote_data, U32, id), FIELD(remote_data, U8, stream), FIELD(remote_data, SPAN, data),
    END,
};

static const struct rg_field remote_credit_fields[] = {
    FIELD(remote_credit, U32, id), FIELD(remote_credit, U8, stream),
    FIELD(remote_credit, U32, nbytes), END,
};

static const struct rg_field remote_id_fields[] = { FIELD(remote_id, U32, id), END };

static const struct rg_field remote_exit_fields[] = {
    FIELD(remote_exit, U32, id), FIELD(remote_exit, I32, status), FIELD(remote_exit, STR, text),
    END,
};

static const struct rg_field listen_fields[] = {
    FIELD(listen, U32, first), FIELD(listen, U32, last),
    FIELD(listen, U32, ntask_ports), END,
};

static const struct rg_field listening_fields[] = {
    FIELD(listening, U32, port), FIELD(listening, SPAN, task_ports), END,
};

static const struct rg_field probe_fields[] = {
    FIELD(probe, U32, limit_ms), FIELD(probe, STRV, targets), END,
};

static const struct rg_field probed_fields[] = {
    FIELD(probed, U32, index), FIELD(probed, U32, errnum), FIELD(probed, U32, rtt_us), END,
};

static const struct rg_field clock_fields[] = { FIELD(clock, U64, realtime_ns), END };
static const struct rg_field inspect_fields[] = { FIELD(inspect, U32, limit_ms), END };
static const struct rg_field inspected_fields[] = { FIELD(inspected, STR, text), END };

static const struct rg_field bye_fields[] = { FIELD(bye, U32, nleft), END };
static const struct rg_field verdict_fields[] = { FIELD(verdict, U32, exit_code), END };

const struct rg_msg_info rg_msgs[] = {
    { RG_MSG_HELLO, true, "HELLO", hello_fields },
    { RG_MSG_STARTED, true, "STARTED", started_fields },
    { RG_MSG_NOT_STARTED, true, "NOT_STARTED", not_started_fields },
    { RG_MSG_OUTPUT, true, "OUTPUT", output_fields },
    { RG_MSG_INPUT_CREDIT, true, "INPUT_CREDIT", bytes_fields },
    { RG_MSG_INPUT_CLOSED, true, "INPUT_CLOSED", empty_fields },
    { RG_MSG_EXITED, true, "EXITED", exited_fields },
    { RG_MSG_FENCE, true, "FENCE", fence_fields },
    { RG_MSG_NOTE, true, "NOTE", note_fields },
    { RG_MSG_STOPPING, true, "STOPPING", signal_fields },
    { RG_MSG_PONG, true, "PONG", empty_fields },
    { RG_MSG_BYE, true, "BYE", bye_fields },
    { RG_MSG_PROBED, true, "PROBED", probed_fields },
    { RG_MSG_CLOCK, true, "CLOCK", clock_fields },
    { RG_MSG_INSPECTED, true, "INSPECTED", inspected_fields },
    { RG_MSG_LISTENING, true, "LISTENING", listening_fields },
    { RG_MSG_BUNDLE_WANTED, true, "BUNDLE_WANTED", bytes_fields },
    { RG_MSG_MEET, true, "MEET", meet_fields },
    { RG_MSG_ELASTIC, true, "ELASTIC", rank_id_fields },
    { RG_MSG_NUMBERS, true, "NUMBERS", rg_rankmsg_numbers_fields },
    { RG_MSG_SYNC_SAID, true, "SYNC_SAID", sync_said_fields },
    { RG_MSG_REMOTE_OPEN, true, "REMOTE_OPEN", remote_open_fields },
    { RG_MSG_REMOTE_DATA, true, "REMOTE_DATA", remote_data_fields },
    { RG_MSG_REMOTE_CREDIT, true, "REMOTE_CREDIT", remote_credit_fields },
    { RG_MSG_REMOTE_CLOSE, true, "REMOTE_CLOSE", remote_id_fields },
    { RG_MSG_REMOTE_EXIT, true, "REMOTE_EXIT", remote_exit_fields },
    { RG_MSG_SETUP, false, "SETUP", setup_fields },
    { RG_MSG_RANK, false, "RANK", rank_fields },
    { RG_MSG_START, false, "START", empty_fields },
    { RG_MSG_CREDIT, false, "CREDIT", bytes_fields },
    { RG_MSG_INPUT, false, "INPUT", data_fields },
    { RG_MSG_INPUT_EOF, false, "INPUT_EOF", empty_fields },
    { RG_MSG_SIGNAL, false, "SIGNAL", signal_fields },
    { RG_MSG_KILL, false, "KILL", empty_fields },
    { RG_MSG_RESIZE, false, "RESIZE", resize_fields },
    { RG_MSG_PAUSE, false, "PAUSE", empty_fields },
    { RG_MSG_RESUME, false, "RESUME", empty_fields },
    { RG_MSG_PING, false, "PING", empty_fields },
    { RG_MSG_FENCE_DONE, false, "FENCE_DONE", rg_rankmsg_fence_done_fields },
    { RG_MSG_FENCE_FAILED, false, "FENCE_FAILED", rg_rankmsg_fence_failed_fields },
    { RG_MSG_PEER_DIED, false, "PEER_DIED", peer_died_fields },
    { RG_MSG_PROBE, false, "PROBE", probe_fields },
    { RG_MSG_INSPECT, false, "INSPECT", inspect_fields },
    { RG_MSG_LISTEN, false, "LISTEN", listen_fields },
    { RG_MSG_BUNDLE, false, "BUNDLE", data_fields },
    { RG_MSG_SYNC, false, "SYNC", data_fields },
    { RG_MSG_VERDICT, false, "VERDICT", verdict_fields },
    { RG_MSG_EPOCH, false, "EPOCH", epoch_fields },
    { RG_MSG_UPDATE, false, "UPDATE", rg_rankmsg_update_fields },
    { RG_MSG_SIGNAL_RANK, false, "SIGNAL_RANK", signal_rank_fields },
    { RG_MSG_RELEASE, false, "RELEASE", empty_fields },
    { RG_MSG_REMOTE_START, false, "REMOTE_START", remote_open_fields },
    { RG_MSG_REMOTE_PUT, false, "REMOTE_PUT", remote_data_fields },
    { RG_MSG_REMOTE_GRANT, false, "REMOTE_GRANT", remote_credit_fields },
    { RG_MSG_REMOTE_HANGUP, false, "REMOTE_HANGUP", remote_id_fields },
    { RG_MSG_REMOTE_ENDED, false, "REMOTE_ENDED", remote_exit_fields },
};
const size_t rg_msgs_count = rg_array_len(rg_msgs);

const struct rg_msg_info *rg_msg_find(uint16_t type)
{
    for (size_t i = 0; i < rg_msgs_count; i++) {
        if (rg_msgs[i].type == type)
            return &rg_msgs[i];
    }
    return NULL;
}

int rg_msg_decode(bool from_agent, uint16_t type, const uint8_t *payload, size_t nbytes,
                  uint32_t *ret_host, union rg_msg *ret_msg)
{
    const struct rg_msg_info *info = rg_msg_find(type);
    struct rg_reader reader = rg_reader_make(payload, nbytes);
    uint32_t host = rg_reader_u32(&reader);

    if (!info || info->from_agent != from_agent || nbytes < sizeof(host))
        return -EBADMSG;
    memset(ret_msg, 0, sizeof(*ret_msg));
    *ret_host = host;
    return rg_codec_decode(info->fields, payload + sizeof(host), nbytes - sizeof(host), ret_msg);
}

void rg_msg_clear(uint16_t type, union rg_msg *msg)
{
    const struct rg_msg_info *info = rg_msg_find(type);

    if (info)
        rg_codec_clear(info->fields, msg);
}

int rg_msg_send(struct rg_channel *channel, uint32_t host, enum rg_msg_type type,
                const void *object)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;

    if (!channel)
        return -ENOTCONN;
    rg_buf_put_u32(&buf, host);
    if (object)
        rg_codec_encode(rg_msg_find(type)->fields, object, &buf);
    int r = rg_buf_status(&buf);
    return r < 0 ? r : rg_channel_send(channel, type, rg_buf_bytes(&buf), rg_buf_nbytes(&buf));
}
