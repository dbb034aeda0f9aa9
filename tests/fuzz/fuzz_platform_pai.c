/* SPDX-License-Identifier: Apache-2.0 */
/* OpenPAI's job files: what is read without errors can be written and read again, and converted to
 * either version, or it is refused. */
#include "fuzz.h"
#include "platform/openpai/jobfile/pai.h"
#include "platform/openpai/jobfile/prologue.h"

/* What is written reads again as what was written; is_whole: and has no errors. */
static void must_stay(const struct rg_pai *job, bool is_whole)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT, again = RG_BUF_INIT;
    struct rg_pai back = RG_PAI_INIT;
    struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    struct rg_error err = RG_ERROR_INIT;

    must(rg_pai_write(job, &text) == 0);
    must(rg_pai_read("job", rg_buf_text(&text), rg_buf_nbytes(&text), &back, &found, &err) == 0);
    must(found.nfatal == 0 && (!is_whole || found.nerrors == 0));
    must(back.version == job->version && rg_pai_write(&back, &again) == 0);
    must(strcmp(rg_buf_text(&text), rg_buf_text(&again)) == 0);
    rg_pai_findings_fini(&found);
    rg_pai_fini(&back);
}

static void must_mend(const struct rg_pai *from, struct rg_pai *to, struct rg_strv *words)
{
    static const struct rg_pai_agent_source nowhere = { NULL, NULL };

    must_stay(to, true);
    must(rg_pai_mend_waits(from, to, from->nroles % 2 ? RG_PAI_WAIT_SHELL : RG_PAI_WAIT_REIGEN,
                           &nowhere, words) == 0);
    must_stay(to, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_pai job = RG_PAI_INIT;
    struct rg_pai_findings found = RG_PAI_FINDINGS_INIT;
    struct rg_error err = RG_ERROR_INIT;
    char buf[1000]; /* YAML has no keys of more than 1024 bytes */
    const char *text = text_of(data, nbytes, buf, sizeof(buf));
    int r = rg_pai_read("job", text, strlen(text), &job, &found, &err);

    must(r == 0 || err.errnum > 0);
    for (size_t i = 0; i < found.count; i++)
        must(found.v[i].line > 0 && found.v[i].column > 0 && *found.v[i].rule);
    if (r == 0 && found.nfatal == 0)
        must_stay(&job, false);
    for (int version = 1; r == 0 && found.nfatal == 0 && version <= 2; version++) {
        struct rg_pai to = RG_PAI_INIT;
        struct rg_strv words = RG_STRV_INIT;
        if (rg_pai_convert(&job, version, &to, &words, &err) == 0)
            must_mend(&job, &to, &words);
        else
            must(err.errnum == EINVAL && *err.text);
        rg_strv_fini(&words);
        rg_pai_fini(&to);
    }
    rg_pai_findings_fini(&found);
    rg_pai_fini(&job);
    return 0;
}
