/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tables of options have in common: which member of a struct takes the value of an option. In
 * most rows that member and the kind of its values say all, and no handler is needed.
 *
 * Thread rule: any thread, one object at a time. Nothing blocks.
 */
#ifndef RG_JOB_OPTIONS_MEMBER_H
#define RG_JOB_OPTIONS_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum rg_member_kind {
    RG_MEMBER_NONE,
    RG_MEMBER_FLAG,  /* whether the value is "true", "1" or NULL */
    RG_MEMBER_INT,   /* a whole number from min to max */
    RG_MEMBER_TEXT,  /* the object's: anything but nothing */
    RG_MEMBER_WORD,  /* the value itself, borrowed; NULL: it is empty, which min 1 refuses */
    RG_MEMBER_TIME,  /* a duration, in ms */
    RG_MEMBER_SIZE,  /* in bytes */
    RG_MEMBER_LIST,  /* one more item, not empty; at most max, if that is not 0 */
    RG_MEMBER_ITEMS, /* as rg_items_parse */
};

/* What type the member of each kind has. */
#define RG_MEMBER_TYPE_FLAG bool
#define RG_MEMBER_TYPE_INT int
#define RG_MEMBER_TYPE_TEXT char *
#define RG_MEMBER_TYPE_WORD const char *
#define RG_MEMBER_TYPE_TIME uint64_t
#define RG_MEMBER_TYPE_SIZE uint64_t
#define RG_MEMBER_TYPE_LIST struct rg_strv
#define RG_MEMBER_TYPE_ITEMS struct rg_strv

struct rg_member {
    enum rg_member_kind kind;
    size_t offset; /* in the object */
    int64_t min, max;
};

/* One of a struct's members: RG_MEMBER(INT, struct s, port, 1, 65535). Where the member has not the
 * type of its kind, this does not compile. */
#define RG_MEMBER(kind, object, name, min, max)                                              \
    { RG_MEMBER_##kind,                                                                      \
      _Generic(&((object *) NULL)->name, RG_MEMBER_TYPE_##kind *: offsetof(object, name)),   \
      min, max }

/* Judge the value, and put it into the object's member. what names it in errors ("--np"). 0;
 * -EINVAL, -ERANGE, -E2BIG, -ENOMEM with err, and the member stays as it was (but for ITEMS). */
int rg_member_set(const struct rg_member *member, void *object, const char *what,
                  const char *value, struct rg_error *err);

/* "A,B" in the place of what the list had. Empty items say nothing. At most max, if that is not 0.
 * 0, -EINVAL, -ENOMEM with err. */
int rg_items_parse(const char *what, const char *value, size_t max, struct rg_strv *list,
                   struct rg_error *err);

/* An option of a command that takes the place of a script: "--name=value" or "--name value". */
struct rg_script_option {
    const char *name;      /* without its two dashes; NULL ends a table */
    const char *arg;       /* what the value is called; ends in ",..." for a list; NULL: no value */
    bool optional;         /* only --name=value takes it */
    const char *completes; /* as in struct rg_option */
    const char *help;      /* one or more sentences */
    /* Judge the value and keep it in the object of the command's. value is NULL where there is
     * none. 0 or -errno with err. NULL: member says it all. */
    int (*apply)(void *object, const char *what, const char *value, struct rg_error *err);
    struct rg_member member;
};

/* The option that a word of the command line is ("-h" is --help), and its value if that is
 * attached, else NULL. NULL: it is none. */
const struct rg_script_option *rg_script_option_find(const struct rg_script_option *options,
                                                     const char *word, const char **ret_value);
/*
 * The option at argv[*i], with its value, which may be the next word: *i is then moved to that.
 * command is put in front of it in errors ("bench --group"). 1: it is taken; 0: none of the table;
 * -EINVAL, -ERANGE, -ENOMEM with err: its value is missing, or not good.
 */
int rg_script_option_take(const struct rg_script_option *options, const char *command,
                          char *const *argv, int *i, void *object, struct rg_error *err);
/* The name of the option that a word nearly has ("--daemn", "--hots=x"); NULL: none is near. */
const char *rg_script_option_nearest(const struct rg_script_option *options, const char *word);
/* A word that rg_script_option_take did not take: -EINVAL, with err's suggestion where an option is
 * near, or the remark that the command takes options only. */
int rg_script_option_refuse(const struct rg_script_option *options, const char *command,
                            const char *word, struct rg_error *err);

#endif
