/* SPDX-License-Identifier: Apache-2.0 */
/* Of each rank something is kept, as nobody knows which of them will be asked for. */
#include "head/record/tails.h"

#include <string.h>

#include "base/json.h"

#define NBYTES_MAX (1u << 20) /* of all of them, about */
#define LEAST 256             /* of a rank */

size_t rg_record_tails_room(int nranks)
{
    size_t room = NBYTES_MAX / ((size_t) nranks + 1);

    return room < LEAST ? LEAST : room;
}

/* Of a line as much as there is room for, without half a character. */
static size_t fit(const char *line, size_t room)
{
    size_t n = strnlen(line, room);

    while (n > 0 && n == room && ((unsigned char) line[n] & 0xc0) == 0x80)
        room = --n;
    return n;
}

void rg_record_tails_put(struct rg_buf *text, int place, int number, const char *host,
                         const char *const *lines, size_t nlines, size_t room)
{
    size_t first = nlines, nbytes = 0;

    while (first > 0 && (first == nlines || nbytes + strlen(lines[first - 1]) <= room))
        nbytes += strlen(lines[--first]);
    rg_buf_printf(text, "{\"place\":%d,\"rank\":%d,\"host\":", place, number);
    rg_json_put_text(text, host);
    rg_buf_printf(text, ",\"lines\":[");
    for (size_t i = first; i < nlines; i++) {
        rg_buf_printf(text, i > first ? "," : "");
        rg_json_put_bytes(text, lines[i], fit(lines[i], room));
    }
    rg_buf_printf(text, "]}\n");
}
