/* SPDX-License-Identifier: Apache-2.0 */
/* Esc is a key, and how the sequences of others begin: only time tells them apart. */
#include "cmd/top/keys.h"

#define ESCAPE 0x1b

/* Of "ESC [ 5 ~" and the like; number: 0 where there was none. */
static int special(uint8_t final, int number)
{
    switch (final) {
    case 'A': return RG_TOP_KEY_UP;
    case 'B': return RG_TOP_KEY_DOWN;
    case 'H': return RG_TOP_KEY_HOME;
    case 'F': return RG_TOP_KEY_END;
    case '~':
        return number == 5                  ? RG_TOP_KEY_PAGE_UP
               : number == 6                ? RG_TOP_KEY_PAGE_DOWN
               : number == 1 || number == 7 ? RG_TOP_KEY_HOME
               : number == 4 || number == 8 ? RG_TOP_KEY_END
                                            : RG_TOP_KEY_NONE;
    default: return RG_TOP_KEY_NONE;
    }
}

size_t rg_top_key(const uint8_t *bytes, size_t nbytes, bool whole, int *ret_key)
{
    int number = 0;
    size_t n = 2;

    if (!nbytes)
        return 0;
    if (bytes[0] != ESCAPE) {
        *ret_key = bytes[0];
        return 1;
    }
    if (nbytes > 1 && bytes[1] != '[' && bytes[1] != 'O') { /* Esc, and another key behind it */
        *ret_key = RG_TOP_KEY_ESCAPE;
        return 1;
    }
    while (n < nbytes && !(bytes[n] >= 0x40 && bytes[n] <= 0x7e)) {
        if (bytes[n] >= '0' && bytes[n] <= '9' && number < 100)
            number = 10 * number + bytes[n] - '0';
        n++;
    }
    if (n < nbytes) {
        *ret_key = special(bytes[n], number);
        return n + 1;
    }
    *ret_key = RG_TOP_KEY_ESCAPE;
    return whole ? nbytes : 0;
}
