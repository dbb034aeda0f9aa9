/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the messages between ranks and agents. */
#include "wire/rankmsg.h"

#include <sodium.h>
#include <string.h>

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

const struct rg_field rg_rankmsg_cut_off_fields[] = {
    FIELD(rg_rankmsg_cut_off, U32, rank),
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

void rg_rank_token_format(const uint8_t token[RG_RANK_TOKEN_NBYTES], char *ret_text)
{
    sodium_bin2hex(ret_text, RG_RANK_TOKEN_TEXT, token, RG_RANK_TOKEN_NBYTES);
}

int rg_rank_token_parse(const char *text, uint8_t ret_token[RG_RANK_TOKEN_NBYTES])
{
    uint8_t token[RG_RANK_TOKEN_NBYTES];
    size_t length = text ? strlen(text) : 0, nbytes = 0;
    bool good = length == 2 * sizeof(token) &&
                sodium_hex2bin(token, sizeof(token), text, length, NULL, &nbytes, NULL) == 0 &&
                nbytes == sizeof(token);

    if (good)
        memcpy(ret_token, token, sizeof(token));
    sodium_memzero(token, sizeof(token));
    return good ? 0 : -EINVAL;
}
