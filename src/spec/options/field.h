/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tables of options have in common: where the value of an option goes. In most rows a kind of
 * value and a member of the struct that the options fill say all, and no handler is needed.
 *
 * Thread rule: any thread, one object at a time. Nothing blocks.
 */
#ifndef RG_SPEC_OPTIONS_FIELD_H
#define RG_SPEC_OPTIONS_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum rg_field_kind {
    RG_FIELD_NONE,
    RG_FIELD_FLAG, /* bool: whether the value is "true", "1" or NULL */
    RG_FIELD_INT,  /* int: a whole number from min to max */
    RG_FIELD_TEXT, /* char *, the object's: anything but nothing */
    RG_FIELD_TIME, /* uint64_t, ms: a duration */
    RG_FIELD_SIZE, /* uint64_t, bytes: a size */
    RG_FIELD_LIST, /* struct rg_strv: one more item, not empty; at most max, if that is not 0 */
};

struct rg_field {
    enum rg_field_kind kind;
    size_t offset; /* of the member in the object */
    int64_t min, max;
};

/* Judge the value, and put it into the object's member. what names it in errors ("--np"). 0;
 * -EINVAL, -ERANGE, -E2BIG, -ENOMEM with err, and the member stays as it was. */
int rg_field_set(const struct rg_field *field, void *object, const char *what, const char *value,
                 struct rg_error *err);

/* An option of a command that takes the place of a script: "--name=value" or "--name value". */
struct rg_script_option {
    const char *name;      /* without its two dashes; NULL ends a table */
    const char *arg;       /* what the value is called; ends in ",..." for a list; NULL: no value */
    bool optional;         /* only --name=value takes it */
    const char *completes; /* as in struct rg_option */
    const char *help;      /* one or more sentences */
    /* Judge the value and keep it in the object of the command's. value is NULL where there is
     * none. 0 or -errno with err. NULL: field says it all. */
    int (*apply)(void *object, const char *what, const char *value, struct rg_error *err);
    struct rg_field field;
};

/* The option that a word of the command line is ("-h" is --help), and its value if that is
 * attached, else NULL. NULL: it is none. */
const struct rg_script_option *rg_script_option_find(const struct rg_script_option *options,
                                                     const char *word, const char **ret_value);
/* The name of the option that a word nearly has ("--daemn", "--hots=x"); NULL: none is near. */
const char *rg_script_option_nearest(const struct rg_script_option *options, const char *word);

#endif
