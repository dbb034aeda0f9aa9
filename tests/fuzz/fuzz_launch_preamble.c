/* SPDX-License-Identifier: Apache-2.0 */
/* What a host says before its agent does: nothing is taken beyond the line "link", lines are
 * understood alike however the bytes are cut, and texts hold nothing a terminal would act on. Of a
 * dialogue nothing is asked twice, and nothing after its end. */
#include "fuzz.h"
#include "launch/host/dialogue.h"
#include "launch/host/driver.h"
#include "launch/host/preamble.h"

#define LINES_MAX 64

struct seen {
    enum rg_preamble_kind kinds[LINES_MAX];
    size_t lengths[LINES_MAX];
    int count, r;
    size_t taken;
};

static void look_at(const struct rg_preamble_line *line)
{
    for (const char *p = line->text; *p; p++)
        must((unsigned char) *p >= 0x20 && *p != 0x7f);
    must(strlen(line->text) <= RG_PREAMBLE_LINE_MAX);
    if (line->kind == RG_PREAMBLE_ERROR)
        must(line->exit_code >= 1 && line->exit_code <= 255);
    if (line->kind == RG_PREAMBLE_PHASE)
        must(line->phase >= RG_PHASE_STARTING && line->phase <= RG_PHASE_CONNECTING);
}

static void walk(const uint8_t *data, size_t nbytes, size_t step, struct seen *seen)
{
    static struct rg_preamble preamble;
    struct rg_preamble_line line;
    char quote[RG_PREAMBLE_NOISE_MAX], all[RG_PREAMBLE_QUOTE_MAX];

    memset(&preamble, 0, sizeof(preamble));
    while (seen->taken < nbytes && seen->count < LINES_MAX) {
        size_t left = nbytes - seen->taken;
        size_t n = rg_preamble_peek(data + seen->taken, left < step ? left : step);
        must(n > 0 && n <= left);
        seen->r = rg_preamble_feed(&preamble, data + seen->taken, n, &line);
        if (seen->r < 0)
            break;
        seen->taken += n;
        if (seen->r == 0)
            continue;
        must(data[seen->taken - 1] == '\n');
        look_at(&line);
        seen->kinds[seen->count] = line.kind;
        seen->lengths[seen->count++] = strlen(line.text);
        if (line.kind == RG_PREAMBLE_LINK)
            break;
    }
    must(strlen(rg_preamble_quote(&preamble, quote, sizeof(quote))) < sizeof(quote));
    must(strlen(preamble.noise) <= RG_PREAMBLE_NOISE_MAX);
    must(strlen(preamble.head) <= RG_PREAMBLE_HEAD_MAX);
    for (const char *p = rg_preamble_quote_all(&preamble, all, sizeof(all)); *p; p++)
        must((unsigned char) *p >= 0x20 && *p != 0x7f && p < all + sizeof(all));
}

static struct {
    int agents, boots, bundles, ends;
} asked;

static void send_agent(void *arg, const struct rg_agent_file *agent)
{
    (void) arg;
    must(agent->data && !asked.agents++ && !asked.boots && !asked.ends);
}

static void send_boot(void *arg)
{
    (void) arg;
    must(!asked.boots++ && !asked.ends);
}

static void send_bundle(void *arg)
{
    (void) arg;
    must(asked.boots && !asked.bundles++ && !asked.ends);
}

static void on_error(void *arg, const struct rg_error *err, bool said)
{
    (void) arg, (void) said;
    must(!asked.ends++ && err->errnum && err->exit_code);
}

static void on_link(void *arg)
{
    (void) arg;
    must(asked.boots && !asked.ends++);
}

static void on_phase(void *arg, int host, int phase, const char *reason)
{
    (void) arg, (void) phase;
    must(host == 1 && reason && !asked.ends);
}

static void on_note(void *arg, int host, const char *text)
{
    (void) arg;
    must(host == 1 && text && !asked.ends);
}

static void talk(const uint8_t *data, size_t nbytes)
{
    static const struct rg_dialogue_ops ops = { send_agent, send_boot, send_bundle, on_error,
                                                on_link };
    static const struct rg_driver_events events = { .on_phase = on_phase, .on_note = on_note };
    static const struct rg_job job = { .container.place.bundle_digest = (char *) "d" };
    static struct rg_dialogue dialogue;
    struct rg_dialogue_shared shared = {
        .o = { .job = &job, .events = &events },
        .agents[0] = { .machine = "x86_64", .data = (uint8_t *) "x" },
    };

    memset(&asked, 0, sizeof(asked));
    dialogue = (struct rg_dialogue){ .shared = &shared, .ops = &ops, .host = 1 };
    for (size_t taken = 0; taken < nbytes;) {
        size_t n = rg_preamble_peek(data + taken, nbytes - taken);
        int r = rg_dialogue_feed(&dialogue, data + taken, n);
        must(r <= 1 && (r >= 0 || asked.ends));
        taken += n;
    }
    rg_strv_fini(&shared.notes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct seen whole = { .count = 0 }, bytewise = { .count = 0 };

    walk(data, nbytes, nbytes ? nbytes : 1, &whole);
    walk(data, nbytes, 1, &bytewise);
    must(whole.count == bytewise.count && (whole.r < 0) == (bytewise.r < 0));
    for (int i = 0; i < whole.count; i++)
        must(whole.kinds[i] == bytewise.kinds[i] && whole.lengths[i] == bytewise.lengths[i]);
    talk(data, nbytes);
    return 0;
}
