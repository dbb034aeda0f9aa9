/* SPDX-License-Identifier: Apache-2.0 */
/* The two languages of PMI, as text, where a test can speak them. */
#include "coll/boot/pm/pmi_wire.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static int scan_line(const char *bytes, size_t nbytes, size_t *ret_begin, size_t *ret_total)
{
    const char *end = memchr(bytes, '\n', nbytes);

    if (!end)
        return nbytes > RG_PMI_MESSAGE_MAX ? -EBADMSG : 0;
    if (end - bytes >= RG_PMI_MESSAGE_MAX)
        return -EBADMSG;
    *ret_begin = 0;
    *ret_total = (size_t) (end - bytes) + 1;
    return 1;
}

/* The number may stand at either end of its six characters. */
static int scan_length(const char *bytes, size_t nbytes, size_t *ret_begin, size_t *ret_total)
{
    size_t i = 0, length = 0;

    if (nbytes < RG_PMI_LENGTH_NBYTES)
        return 0;
    while (i < RG_PMI_LENGTH_NBYTES && bytes[i] == ' ')
        i++;
    if (i == RG_PMI_LENGTH_NBYTES)
        return -EBADMSG;
    while (i < RG_PMI_LENGTH_NBYTES && bytes[i] >= '0' && bytes[i] <= '9')
        length = length * 10 + (size_t) (bytes[i++] - '0');
    while (i < RG_PMI_LENGTH_NBYTES && bytes[i] == ' ')
        i++;
    if (i < RG_PMI_LENGTH_NBYTES || length == 0 || length > RG_PMI_MESSAGE_MAX)
        return -EBADMSG;
    if (nbytes - RG_PMI_LENGTH_NBYTES < length)
        return 0;
    *ret_begin = RG_PMI_LENGTH_NBYTES;
    *ret_total = RG_PMI_LENGTH_NBYTES + length;
    return 1;
}

int rg_pmi_scan(enum rg_pmi_version version, const char *bytes, size_t nbytes, size_t *ret_begin,
                size_t *ret_total)
{
    if (nbytes == 0)
        return 0;
    return version == RG_PMI_2 ? scan_length(bytes, nbytes, ret_begin, ret_total)
                               : scan_line(bytes, nbytes, ret_begin, ret_total);
}

/* End the word that begins at text, and return where the next one begins. In PMI-2 a doubled
 * separator stands for itself. */
static char *end_word(enum rg_pmi_version version, char *text)
{
    char *to = text;

    for (;; text++) {
        if (version == RG_PMI_2 && text[0] == ';' && text[1] == ';')
            text++;
        else if (*text == '\0' || *text == (version == RG_PMI_2 ? ';' : ' '))
            break;
        *to++ = *text;
    }
    char *next = *text ? text + 1 : text;

    *to = '\0';
    return next;
}

int rg_pmi_parse(enum rg_pmi_version version, char *text, size_t nbytes,
                 struct rg_pmi_message *ret_message)
{
    struct rg_pmi_message message;
    char *end = text + nbytes;

    message.npairs = 0;
    if (memchr(text, '\0', nbytes))
        return -EBADMSG;
    if (version == RG_PMI_1 && nbytes > 0 && end[-1] == '\n')
        end--;
    *end = '\0';
    while (*text) {
        char *word = text, *equals;

        text = end_word(version, word);
        if (!*word)
            continue; /* two blanks, or one at the end */
        equals = strchr(word, '=');
        if (!equals || message.npairs == RG_PMI_PAIRS_MAX)
            return -EBADMSG;
        *equals = '\0';
        message.pairs[message.npairs].key = word;
        message.pairs[message.npairs++].value = equals + 1;
    }
    if (message.npairs == 0 || strcmp(message.pairs[0].key, "cmd") != 0)
        return -EBADMSG;
    *ret_message = message;
    return 0;
}

const char *rg_pmi_value(const struct rg_pmi_message *message, const char *key)
{
    for (int i = 0; i < message->npairs; i++)
        if (strcmp(message->pairs[i].key, key) == 0)
            return message->pairs[i].value;
    return NULL;
}

bool rg_pmi_succeeded(const struct rg_pmi_message *message, const char *command)
{
    const char *rc = rg_pmi_value(message, "rc"), *found = rg_pmi_value(message, "found");

    return strcmp(message->pairs[0].value, command) == 0 && (!rc || strcmp(rc, "0") == 0) &&
           (!found || strcasecmp(found, "TRUE") == 0);
}
