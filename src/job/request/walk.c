/* SPDX-License-Identifier: Apache-2.0 */
/* An option is one word or several, in the user's own order. */
#include "job/request/walk.h"

#include <stdio.h>
#include <string.h>

static int unknown_option(const char *arg, const char *name, struct rg_error *err)
{
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    size_t count;
    const struct rg_option *all = rg_options(&count);

    for (size_t i = 0; i < count; i++)
        if (rg_option_names(all[i].name, all[i].aliases, &words) < 0)
            return rg_error_memory(err);
    const char *near = rg_str_nearest(name, (const char *const *) words.v);

    /* A beginning that only one option has is as good a guess. */
    for (size_t i = 0, hits = 0; !near && strlen(name) > 2 && i <= count; i++) {
        if (i < count && rg_str_starts(all[i].name, name))
            hits++;
        else if (i == count && hits == 1)
            for (size_t k = 0; k < count && !near; k++)
                near = rg_str_starts(all[k].name, name) ? all[k].name : NULL;
    }
    if (near)
        return rg_error_set(err, EINVAL, "unknown option %.80s; did you mean %s%s?", arg,
                            strlen(near) > 2 ? "--" : "-", near);
    return rg_error_set(err, EINVAL,
                        "unknown option %.80s; put -- in front of a command that begins "
                        "with a dash",
                        arg);
}

int rg_walk_values(struct rg_walk *walk, int nvalues, const char *attached, const char *called,
                   struct rg_error *err)
{
    int more = nvalues - (attached != NULL);

    if (more < 0)
        return rg_error_set(err, EINVAL, "%s=%.80s: %s takes no value", walk->what, attached,
                            walk->what);
    /* "--" ends the options, and is nobody's value. */
    if (walk->next + more > walk->argc || (more && strcmp(walk->argv[walk->next], "--") == 0))
        return rg_error_set(err, EINVAL, "%s needs %s: %s %s", walk->what,
                            nvalues == 2 ? "two values" : "a value", walk->what, called);
    walk->value = attached ? attached : nvalues ? walk->argv[walk->next] : NULL;
    walk->second = nvalues == 2 ? walk->argv[walk->next + more - 1] : NULL;
    walk->next += more;
    return 0;
}

static int take_value(struct rg_walk *walk, const char *attached, struct rg_error *err)
{
    const struct rg_option *o = walk->option;
    bool toggle = o && o->file == RG_FILE_BOOL && attached;
    int nvalues = !o ? walk->foreign->nvalues : o->optional || toggle ? -1 : o->arg != NULL;
    const char *first = attached ? attached
                        : walk->next < walk->argc ? walk->argv[walk->next] : "";

    if (nvalues == 2 && strchr(first, '='))
        nvalues = 1;
    if (toggle && strcmp(attached, "true") != 0 && strcmp(attached, "false") != 0)
        return rg_error_set(err, EINVAL, "%s=%.80s: %s takes no value but true and false",
                            walk->what, attached, walk->what);
    if (nvalues < 0)
        nvalues = attached != NULL;
    int rc = rg_walk_values(walk, nvalues, attached,
                            o ? o->arg : nvalues == 2 ? "NAME VALUE" : "VALUE", err);
    if (rc == 0 && o && !nvalues)
        walk->value = "true";
    return rc;
}

/* mpiexec's `-env NAME VALUE`, and not our `--env NAME=VALUE` or `--env NAME`. */
static bool is_env_pair(const struct rg_walk *walk)
{
    return walk->next + 2 < walk->argc && strcmp(walk->argv[walk->next], "-env") == 0 &&
           !strchr(walk->argv[walk->next + 1], '=');
}

int rg_walk_take(struct rg_walk *walk, const struct rg_flag *flag, struct rg_error *err)
{
    bool pair = is_env_pair(walk);
    const char *arg = walk->argv[walk->next++];
    struct rg_flag genv;

    if (pair && rg_flag_find("-genv", &genv))
        flag = &genv;
    walk->option = flag->option;
    walk->foreign = flag->foreign;
    snprintf(walk->what, sizeof walk->what, "%.*s", (int) flag->name_nbytes, arg);
    /* What is refused is refused whatever follows it. */
    if (flag->foreign && !flag->foreign->option && !flag->foreign->apply)
        return rg_foreign_apply(NULL, flag->foreign, walk->what, NULL, NULL, err);
    return take_value(walk, flag->attached, err);
}

const char *rg_walk_look(struct rg_walk *walk)
{
    const char *arg = walk->next < walk->argc ? walk->argv[walk->next] : "";

    walk->exact = strcmp(arg, "--") == 0;
    walk->next += walk->exact;
    return arg[0] == '-' && arg[1] && !walk->exact ? arg : NULL;
}

int rg_walk_next(struct rg_walk *walk, struct rg_error *err)
{
    const char *arg = rg_walk_look(walk);

    if (!arg)
        return 0;
    struct rg_flag flag;

    if (rg_flag_find(arg, &flag)) {
        int rc = rg_walk_take(walk, &flag, err);
        return rc < 0 ? rc : 1;
    }
    const char *text = arg + (arg[1] == '-' ? 2 : 1);
    size_t n = strcspn(text, "=");
    char name[RG_WALK_NAME_MAX] = "";

    if (n < sizeof name)
        memcpy(name, text, n);
    walk->unknown = arg;
    return unknown_option(arg, name, err);
}

int rg_walk_apply(const struct rg_walk *walk, struct rg_request *request, struct rg_error *err)
{
    return walk->option
               ? rg_option_apply(walk->option, request, walk->what, walk->value, err)
               : rg_foreign_apply(request, walk->foreign, walk->what, walk->value, walk->second,
                                  err);
}
