/* SPDX-License-Identifier: Apache-2.0 */
/* -H lists, host files, sets of ranks, and files of variables. */
#include "fuzz.h"
#include "job/envfile.h"
#include "job/hostlist.h"

static void must_be_sound(const struct rg_job *job)
{
    must(job->nhosts <= RG_JOB_HOSTS_MAX);
    for (size_t i = 0; i < job->nhosts; i++) {
        must(job->hosts[i].name[0] && strlen(job->hosts[i].name) <= RG_HOST_NAME_MAX);
        must(job->hosts[i].nslots >= 0 && job->hosts[i].nslots <= RG_JOB_SLOTS_MAX);
        rg_host_is_local(job->hosts[i].name);
    }
}

static void try_ranks(const char *text)
{
    struct rg_ranks ranks = { 0 };

    if (rg_ranks_parse(text, &ranks, NULL) < 0) {
        must(!ranks.range && !ranks.count);
        return;
    }
    must(ranks.count > 0);
    for (size_t i = 0; i < ranks.count; i++) {
        must(ranks.range[i].first <= ranks.range[i].last);
        must(i == 0 || ranks.range[i].first > ranks.range[i - 1].last + 1);
        must(rg_ranks_has(&ranks, ranks.range[i].last));
    }
    rg_ranks_fini(&ranks);
}

static void try_variables(const char *text, size_t nbytes)
{
    struct rg_strv entries = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    must(rg_envfile_parse("file", text, nbytes, &entries, &err) == 0 || err.text[0]);
    for (size_t i = 0; i < entries.count; i++)
        must(entries.v[i][0] && !strpbrk(entries.v[i], "\n") &&
             rg_env_check_name("entry", entries.v[i], &err) == 0);
    rg_strv_fini(&entries);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_job list, file;
    char buf[4096];
    const char *text = text_of(data, nbytes, buf, sizeof(buf));

    rg_job_init(&list);
    rg_job_init(&file);
    must(rg_hostlist_parse(&list, "-H", text, &err) == 0 || err.text[0]);
    err = (struct rg_error) RG_ERROR_INIT;
    must(rg_hostfile_parse(&file, "hosts", text, strlen(text), &err) == 0 || err.text[0]);
    must_be_sound(&list);
    must_be_sound(&file);
    try_ranks(text);
    try_variables((const char *) data, nbytes);
    rg_job_fini(&list);
    rg_job_fini(&file);
    return 0;
}
