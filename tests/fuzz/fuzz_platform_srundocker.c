/* SPDX-License-Identifier: Apache-2.0 */
/* srun_docker.sh's command line (one argument a line), and the words of --dockopts. */
#include "fuzz.h"
#include "platform/slurm/srundocker/srundocker.h"

#define ARGS_MAX 64

static void must_be_sound(const struct rg_srundocker *s)
{
    must(s->script && *s->script);
    must((s->container && *s->container && *s->container != '-') ||
         (s->runtime && strcmp(s->runtime, "none") == 0));
    must(s->slots_per_node >= 0 && s->slots_per_node <= RG_JOB_SLOTS_MAX);
    must(s->sshdport >= 0 && s->sshdport <= 65535);
    for (size_t i = 0; i < s->datamnts.count; i++)
        must(s->datamnts.v[i][0] == '/' && !strchr(s->datamnts.v[i], ':'));
    for (size_t i = 0; i < s->envlist.count; i++)
        must(s->envlist.v[i][0] && !strchr(s->envlist.v[i], '='));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    rg_cleanup(rg_srundocker_fini) struct rg_srundocker s;
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;
    char buf[4096], *argv[ARGS_MAX + 1] = { "srun-docker" }, *rest = buf;
    int argc = 1;

    text_of(data, nbytes, buf, sizeof buf);
    must(rg_srundocker_split("--dockopts", buf, &words, &err) == 0 || err.text[0]);
    for (size_t i = 0; i < words.count; i++)
        must(strlen(words.v[i]) <= strlen(buf));
    while (rest && argc < ARGS_MAX)
        argv[argc++] = strsep(&rest, "\n");
    rg_srundocker_init(&s);
    err = (struct rg_error) RG_ERROR_INIT;
    if (rg_srundocker_parse(&s, argc, argv, &err) < 0)
        must(err.text[0]);
    else if (!s.help)
        must_be_sound(&s);
    return 0;
}
