/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/rankmsg.h"

#define FIELD(type, kind, member) { #member, RG_FIELD_##kind, offsetof(struct type, member) }
#define END { NULL, RG_FIELD_END, 0 }

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
    END,
};

const struct rg_field rg_rankmsg_fence_fields[] = {
    FIELD(rg_rankmsg_fence, U32, generation),
    FIELD(rg_rankmsg_fence, U32, timeout_ms),
    FIELD(rg_rankmsg_fence, SPAN, blob),
    END,
};

const struct rg_field rg_rankmsg_fence_done_fields[] = {
    FIELD(rg_rankmsg_fence_done, U32, generation),
    FIELD(rg_rankmsg_fence_done, SPAN, blobs),
    END,
};

const struct rg_field rg_rankmsg_fence_failed_fields[] = {
    FIELD(rg_rankmsg_fence_failed, U32, generation),
    FIELD(rg_rankmsg_fence_failed, U32, errnum),
    FIELD(rg_rankmsg_fence_failed, STR, text),
    END,
};

const struct rg_field rg_rankmsg_peer_died_fields[] = {
    FIELD(rg_rankmsg_peer_died, U32, rank),
    FIELD(rg_rankmsg_peer_died, STR, text),
    END,
};

const struct rg_field rg_rankmsg_note_fields[] = {
    FIELD(rg_rankmsg_note, U32, level),
    FIELD(rg_rankmsg_note, STR, text),
    END,
};

const struct rg_field rg_rankmsg_remote_fields[] = {
    FIELD(rg_rankmsg_remote, U32, version),
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
