/* SPDX-License-Identifier: Apache-2.0 */
/* What comes as the record of a job from where its head runs: whatever it says, its files lie in
 * the text, one behind the other. */
#include "cmd/jobs/copy.h"
#include "fuzz.h"
#include "head/record/files.h"

static void must_be_name(const char *name)
{
    must(strcmp(name, RG_RECORD_EVENTS) == 0 || strcmp(name, RG_RECORD_SAMPLES) == 0 ||
         strcmp(name, RG_RECORD_TAILS) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_jobs_record_file file;
    char buf[4096];
    int r;

    text_of(data, nbytes, buf, sizeof buf);
    const char *text = buf, *before = text, *end = buf + strlen(buf);
    while ((r = rg_jobs_record_next(&text, &file)) > 0) {
        must_be_name(file.name);
        must(file.bytes > before && file.bytes + file.nbytes == text && text <= end);
        before = text;
    }
    must(r == 0 || r == -EPROTO);
    must(text == before);
    return 0;
}
