/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the frames between ranks and agents, and a death in words. */
#include "wire/rankmsg.h"

#include <stdio.h>
#include <string.h>

#define FIELD(type, kind, member) RG_FIELD(kind, struct type, member)
#define END RG_FIELD_LAST

const struct rg_field rg_rankmsg_hello_fields[] = {
    FIELD(rg_rankmsg_hello, U32, version),
    FIELD(rg_rankmsg_hello, U32, rank),
    FIELD(rg_rankmsg_hello, U32, pid),
    FIELD(rg_rankmsg_hello, SPAN, token),
    END,
};

const struct rg_field rg_rankmsg_welcome_fields[] = {
    FIELD(rg_rankmsg_welcome, U32, size),
    FIELD(rg_rankmsg_welcome, U32, local_size),
    FIELD(rg_rankmsg_welcome, SPAN, key),
    FIELD(rg_rankmsg_welcome, U8, elastic),
    END,
};

const struct rg_field rg_rankmsg_meet_fields[] = {
    FIELD(rg_rankmsg_meet, U32, epoch),
    FIELD(rg_rankmsg_meet, U8, failed),
    END,
};

const struct rg_field rg_rankmsg_epoch_fields[] = {
    FIELD(rg_rankmsg_epoch, U32, epoch),
    FIELD(rg_rankmsg_epoch, U32, rank),
    FIELD(rg_rankmsg_epoch, U32, size),
    FIELD(rg_rankmsg_epoch, U32, local_rank),
    FIELD(rg_rankmsg_epoch, U32, local_size),
    FIELD(rg_rankmsg_epoch, U32, cross_rank),
    FIELD(rg_rankmsg_epoch, U32, cross_size),
    FIELD(rg_rankmsg_epoch, U8, sync),
    FIELD(rg_rankmsg_epoch, SPAN, key),
    END,
};

const struct rg_field rg_rankmsg_update_fields[] = {
    FIELD(rg_rankmsg_update, U64, stamp),
    FIELD(rg_rankmsg_update, U32, result),
    END,
};

const struct rg_field rg_rankmsg_fence_fields[] = {
    FIELD(rg_rankmsg_fence, U32, generation),
    FIELD(rg_rankmsg_fence, U32, timeout_ms),
    FIELD(rg_rankmsg_fence, SPAN, blob),
    FIELD(rg_rankmsg_fence, U32, epoch),
    END,
};

const struct rg_field rg_rankmsg_fence_done_fields[] = {
    FIELD(rg_rankmsg_fence_done, U32, generation),
    FIELD(rg_rankmsg_fence_done, U32, left),
    FIELD(rg_rankmsg_fence_done, SPAN, blobs),
    FIELD(rg_rankmsg_fence_done, U32, epoch),
    END,
};

const struct rg_field rg_rankmsg_fence_failed_fields[] = {
    FIELD(rg_rankmsg_fence_failed, U32, generation),
    FIELD(rg_rankmsg_fence_failed, U32, errnum),
    FIELD(rg_rankmsg_fence_failed, STR, text),
    FIELD(rg_rankmsg_fence_failed, U32, epoch),
    END,
};

const struct rg_field rg_rankmsg_peer_died_fields[] = {
    FIELD(rg_rankmsg_peer_died, U32, rank),
    FIELD(rg_rankmsg_peer_died, STR, host),
    FIELD(rg_rankmsg_peer_died, U8, end),
    FIELD(rg_rankmsg_peer_died, I32, value),
    FIELD(rg_rankmsg_peer_died, U8, oom),
    FIELD(rg_rankmsg_peer_died, STR, text),
    END,
};

const struct rg_field rg_rankmsg_note_fields[] = {
    FIELD(rg_rankmsg_note, U32, level),
    FIELD(rg_rankmsg_note, STR, text),
    END,
};

const struct rg_field rg_rankmsg_cut_off_fields[] = {
    FIELD(rg_rankmsg_cut_off, U32, rank),
    END,
};

const struct rg_field rg_rankmsg_numbers_fields[] = {
    FIELD(rg_rankmsg_numbers, U32, epoch),
    FIELD(rg_rankmsg_numbers, U32, row_nbytes),
    FIELD(rg_rankmsg_numbers, SPAN, ranks),
    END,
};

const struct rg_field rg_rankmsg_taken_fields[] = {
    FIELD(rg_rankmsg_taken, U32, pid),
    END,
};

const struct rg_field rg_rankmsg_remote_fields[] = {
    FIELD(rg_rankmsg_remote, U32, version),
    FIELD(rg_rankmsg_remote, SPAN, token),
    FIELD(rg_rankmsg_remote, STR, host),
    FIELD(rg_rankmsg_remote, STR, command),
    END,
};

const struct rg_field rg_rankmsg_data_fields[] = {
    FIELD(rg_rankmsg_data, U8, stream),
    FIELD(rg_rankmsg_data, SPAN, data),
    END,
};

const struct rg_field rg_rankmsg_credit_fields[] = {
    FIELD(rg_rankmsg_credit, U8, stream),
    FIELD(rg_rankmsg_credit, U32, nbytes),
    END,
};

const struct rg_field rg_rankmsg_exit_fields[] = {
    FIELD(rg_rankmsg_exit, I32, status),
    FIELD(rg_rankmsg_exit, STR, text),
    END,
};

size_t rg_rankmsg_frame_max(void *arg, uint16_t type)
{
    (void) arg;
    (void) type;
    return RG_RANKMSG_PAYLOAD_MAX;
}

const char *rg_death_text(const struct rg_rankmsg_peer_died *died, char *text, size_t nbytes)
{
    int n = snprintf(text, nbytes, "rank %u on %.255s: ", died->rank, died->host ? died->host : "");
    size_t used = n > 0 && (size_t) n < nbytes ? (size_t) n : 0;

    switch (died->end) {
    case RG_DEATH_EXIT:
        snprintf(text + used, nbytes - used, "exit code %d%s%s", died->value,
                 died->value ? "" : ", without reigen_shutdown",
                 died->oom ? ", after one of its processes was killed because memory ran out" : "");
        break;
    case RG_DEATH_SIGNAL:
        snprintf(text + used, nbytes - used, "signal %d (%s)%s", died->value,
                 strsignal(died->value), died->oom ? ", because memory ran out" : "");
        break;
    case RG_DEATH_NOT_STARTED:
        snprintf(text + used, nbytes - used, "could not be started: %s", strerror(died->value));
        break;
    case RG_DEATH_LOST: snprintf(text + used, nbytes - used, "lost with its host"); break;
    default: snprintf(text, nbytes, "%s", died->text ? died->text : ""); break;
    }
    return text;
}
