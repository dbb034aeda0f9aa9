/* SPDX-License-Identifier: Apache-2.0 */
/* What another host's leader says of a stall, its words, and the text once more. */
#include <string.h>

#include "coll/observe/stall_facts.h"
#include "fuzz.h"

#define NRANKS 4

static const int theirs[] = { 1, 3 };

/* What was taken is said, and taken, without a change. */
static void must_be_the_same_again(const struct rg_stall_facts *facts)
{
    struct rg_stall_facts again;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    must(rg_stall_facts_init(&again, NRANKS, NULL) == 0);
    rg_stall_facts_put(facts, theirs, 2, &text);
    rg_stall_facts_take(&again, theirs, 2, rg_buf_text(&text));
    must(again.nops == facts->nops);
    for (int i = 0; i < again.nops; i++) {
        must(strcmp(again.ops[i].name, facts->ops[i].name) == 0);
        must(strcmp(again.ops[i].states, facts->ops[i].states) == 0);
        must(again.ops[i].age_ms == facts->ops[i].age_ms);
    }
    rg_stall_facts_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char buf[4096];
    const char *text = text_of(data, nbytes, buf, sizeof(buf));
    rg_autobuf struct rg_buf told = RG_BUF_INIT, list = RG_BUF_INIT;
    struct rg_stall_facts facts;

    must(rg_stall_facts_init(&facts, NRANKS, NULL) == 0);
    rg_stall_facts_take(&facts, theirs, 2, text);
    for (int i = 0; i < facts.nops; i++)
        must(strlen(facts.ops[i].states) == NRANKS && facts.ops[i].states[0] == RG_STALL_UNKNOWN);
    rg_stall_facts_tell(&facts, 1000, &told);
    rg_stall_facts_list(&facts, 1000, &list);
    must((rg_buf_nbytes(&told) == 0) == (rg_buf_nbytes(&list) == 0));
    must_be_the_same_again(&facts);
    rg_stall_facts_fini(&facts);
    return 0;
}
