/* SPDX-License-Identifier: Apache-2.0 */
/* What other launchers' servers answer: PMI's messages, HTTP, and the place that rank 0 has written
 * into Horovod's rendezvous. The first byte says which. */
#include "fuzz.h"
#include "coll/boot/pm/pmi.h"
#include "coll/boot/env/rendezvous.h"

static void pmi(enum rg_pmi_version version, const char *bytes, size_t nbytes)
{
    static char text[RG_PMI_MESSAGE_MAX + 1];
    struct rg_pmi_message message;
    size_t begin, total;

    if (rg_pmi_scan(version, bytes, nbytes, &begin, &total) != 1)
        return;
    must(begin <= total && total <= nbytes && total - begin <= RG_PMI_MESSAGE_MAX);
    memcpy(text, bytes + begin, total - begin);
    if (rg_pmi_parse(version, text, total - begin, &message) < 0)
        return;
    must(message.npairs >= 1 && message.npairs <= RG_PMI_PAIRS_MAX);
    for (int i = 0; i < message.npairs; i++) {
        const char *value = message.pairs[i].value;

        must(message.pairs[i].key >= text && value > message.pairs[i].key);
        must(value + strlen(value) <= text + (total - begin));
        must(rg_pmi_value(&message, message.pairs[i].key) != NULL);
    }
    must(strcmp(rg_pmi_value(&message, "cmd"), message.pairs[0].value) == 0);
    rg_pmi_succeeded(&message, "get_result");
}

static void http(const char *bytes, size_t nbytes)
{
    struct rg_http_answer answer, early;

    if (rg_http_parse(bytes, nbytes, true, &answer) != 1)
        return;
    must(answer.status >= 100 && answer.status <= 599);
    must(answer.body <= nbytes && answer.body_nbytes <= nbytes - answer.body);
    must(answer.body + answer.body_nbytes <= RG_HTTP_ANSWER_MAX);
    /* What was whole before the end of the connection is the same after it. */
    if (rg_http_parse(bytes, nbytes, false, &early) == 1)
        must(early.body == answer.body && early.body_nbytes == answer.body_nbytes);
}

static void place(const char *bytes, size_t nbytes)
{
    struct rg_endpoint found, back;
    char text[RG_ENDPOINT_MAX];

    if (rg_endpoint_parse(bytes, nbytes, &found) < 0)
        return;
    rg_endpoint_format(&found, text);
    must(rg_endpoint_parse(text, strlen(text), &back) == 0);
    must(strcmp(back.address, found.address) == 0 && back.port == found.port &&
         strcmp(back.nonce, found.nonce) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    const char *text = (const char *) data + 1;

    if (nbytes == 0)
        return 0;
    if (data[0] % 4 < 2)
        pmi(data[0] % 4 == 0 ? RG_PMI_1 : RG_PMI_2, text, nbytes - 1);
    else if (data[0] % 4 == 2)
        http(text, nbytes - 1);
    else
        place(text, nbytes - 1);
    return 0;
}
