/* SPDX-License-Identifier: Apache-2.0 */
/* A record from anywhere: its three files, between which stands a form feed. What can be read is
 * shown on a page, in which nothing of it is markup. */
#include "cmd/report/compare.h"
#include "cmd/report/page.h"
#include "fuzz.h"

static void check_page(const struct rg_report_run *run,
                       void (*put)(struct rg_buf *page, const struct rg_report_run *run))
{
    rg_autobuf struct rg_buf page = RG_BUF_INIT;

    put(&page, run);
    must(rg_buf_status(&page) == 0);
    const char *text = rg_buf_text(&page);
    must(!strstr(text, "<script") && !strstr(text, "<img") && strstr(text, "</html>\n"));
    for (; *text; text++)
        must((unsigned char) *text >= 0x20 || *text == '\n' || *text == '\t');
}

static void compare(struct rg_buf *page, const struct rg_report_run *run)
{
    rg_report_compare(page, run, run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    rg_autofree char *text = calloc(1, nbytes + 1);
    struct rg_recorded record = { 0 };
    struct rg_figures figures = { 0 };
    struct rg_error err = RG_ERROR_INIT;
    char *rest = text;

    must(text != NULL);
    memcpy(text, data, nbytes);
    const char *events = strsep(&rest, "\f"), *samples = strsep(&rest, "\f");
    int r = rg_recorded_parse(events, samples ? samples : "", rest ? rest : "", &record, &err);
    must(r == 0 || (r == -EBADMSG && err.exit_code == 2 && *err.text));
    if (r < 0)
        return 0;
    must(rg_figures_make(&record, &figures) == 0 && figures.npoints <= record.nsamples);
    const struct rg_report_run run = { &record, &figures, "DIR", NULL, false };
    check_page(&run, rg_report_page);
    check_page(&run, compare);
    rg_figures_fini(&figures);
    rg_recorded_fini(&record);
    return 0;
}
