/* SPDX-License-Identifier: Apache-2.0 */
/* Keys out of what a terminal in raw mode sends. Thread rule: pure functions. */
#ifndef RG_CMD_TOP_KEYS_H
#define RG_CMD_TOP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Others are their own characters: 'q', '\r'. */
enum rg_top_special {
    RG_TOP_KEY_NONE = 256, /* a sequence that means nothing here */
    RG_TOP_KEY_UP,
    RG_TOP_KEY_DOWN,
    RG_TOP_KEY_PAGE_UP,
    RG_TOP_KEY_PAGE_DOWN,
    RG_TOP_KEY_HOME,
    RG_TOP_KEY_END,
    RG_TOP_KEY_ESCAPE
};

/* The key that bytes begin with, and how many of them it takes; 0: more have to come, or, where
 * none come for a moment (whole), it is Esc alone. */
size_t rg_top_key(const uint8_t *bytes, size_t nbytes, bool whole, int *ret_key);

#endif
