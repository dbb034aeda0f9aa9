/* SPDX-License-Identifier: Apache-2.0 */
/* Horovod hands --mpi-args on to mpirun. Here they are read as mpirun would read them: what reigen
 * run has, too, is obeyed, and of the rest the user is told. */
#include <string.h>

#include "job/horovodrun/horovodrun.h"
#include "job/options/apply.h"
#include "job/request/launchers.h"
#include "job/request/request.h"
#include "job/shellwords.h"

#define WORDS_MAX 4096

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1];
}

/* The option in words->v[*i], and the words behind it that are no options. */
static int ignore(struct rg_horovodrun *run, const char *what, const struct rg_strv *words,
                  size_t *i, const char *why, struct rg_error *err)
{
    rg_autofree char *option = strdup(words->v[(*i)++]);

    while (option && *i < words->count && !is_option(words->v[*i])) {
        char *longer = rg_strf("%s %s", option, words->v[(*i)++]);
        free(option);
        option = longer;
    }
    return option && rg_request_note(&run->request, "%s: %s: ignored; %s", what, option, why) >= 0
               ? 0 : rg_error_memory(err);
}

/* One that is refused where it is an option of reigen run's own. */
static bool is_refused(const struct rg_flag *flag)
{
    return flag->foreign && !flag->foreign->option && !flag->foreign->apply;
}

static int take(struct rg_horovodrun *run, const char *what, const struct rg_strv *words,
                size_t *i, struct rg_error *err)
{
    const char *word = words->v[*i];
    int next = (int) *i;
    struct rg_flag flag;

    if (!is_option(word) || strcmp(word, "--") == 0)
        return rg_error_set(err, EINVAL, "%s: \"%.80s\" is no option; mpirun would take it for the "
                            "program, which stands behind all flags", what, word);
    if (!rg_flag_find(word, &flag))
        return ignore(run, what, words, i, "nothing here has this option", err);
    if (rg_flag_is_vain(&flag, words->v[*i + 1]))
        return ignore(run, what, words, i, "MPI's parameters mean nothing here", err);
    if (is_refused(&flag))
        return ignore(run, what, words, i, flag.foreign->text, err);
    int rc = rg_request_take_flag(&run->request, (int) words->count, words->v, &next, err);

    *i = (size_t) next;
    return rc < 0 ? rg_error_prepend(err, "%s", what) : 0;
}

int rg_hvd_take_mpi_args(struct rg_horovodrun *run, const char *what, const char *text,
                         struct rg_error *err)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    int rc = rg_shell_split(what, text, WORDS_MAX, &words, err);

    for (size_t i = 0; rc == 0 && i < words.count;)
        rc = take(run, what, &words, &i, err);
    return rc;
}
