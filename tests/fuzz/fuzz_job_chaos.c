/* SPDX-License-Identifier: Apache-2.0 */
/* --chaos: what is taken is sound, is written as it may be read again, and names whom and when. */
#include "fuzz.h"
#include "job/chaos/chaos.h"

static void print_all(const struct rg_chaos *chaos, struct rg_buf *text)
{
    for (size_t i = 0; i < chaos->count; i++) {
        rg_buf_printf(text, "%s", i ? "," : "");
        rg_chaos_print(&chaos->events[i], text);
    }
}

static void must_be_sound(const struct rg_chaos *chaos)
{
    must(chaos->count > 0 && chaos->count <= RG_CHAOS_EVENTS_MAX);
    for (size_t i = 0; i < chaos->count; i++) {
        const struct rg_chaos_event *event = &chaos->events[i];
        must(event->verb < RG_CHAOS_VERBS && event->rank >= 0 && event->rank < RG_JOB_RANKS_MAX);
        must(event->who != RG_CHAOS_ON_HOST || event->host[0]);
        must(!event->step || event->who == RG_CHAOS_RANK);
        must(!event->before_ms || event->before_ms > event->at_ms);
        must(event->code >= 0 && event->code <= 255);
        must(!event->happened && !event->missed);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static struct rg_chaos chaos, again;
    struct rg_error err = RG_ERROR_INIT;
    rg_autobuf struct rg_buf first = RG_BUF_INIT, second = RG_BUF_INIT;
    char buf[8192];
    const char *text = text_of(data, nbytes, buf, sizeof(buf));

    if (rg_chaos_parse("--chaos", text, &chaos, &err) < 0) {
        must(err.text[0]);
        return 0;
    }
    must_be_sound(&chaos);
    print_all(&chaos, &first);
    must(rg_chaos_parse("--chaos", rg_buf_text(&first), &again, &err) == 0);
    print_all(&again, &second);
    must(strcmp(rg_buf_text(&first), rg_buf_text(&second)) == 0);
    rg_chaos_draw(&chaos, 3);
    must(!rg_chaos_is_open(&chaos));
    rg_chaos_put_variable(&chaos, &second);
    return 0;
}
