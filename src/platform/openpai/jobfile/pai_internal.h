/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share: a file as a tree whose values can be found in the text
 * again, and the parts of reading, judging and converting.
 *
 * Thread rule: as pai.h says.
 */
#ifndef RG_PLATFORM_OPENPAI_JOBFILE_PAI_INTERNAL_H
#define RG_PLATFORM_OPENPAI_JOBFILE_PAI_INTERNAL_H

#include <libfyaml.h>

#include "platform/openpai/jobfile/pai.h"

#define RG_PAI_PLUGINS "com.microsoft.pai.runtimeplugin"
#define RG_PAI_RDMA "paiAzRDMA"
#define RG_PAI_COUNTS_V1 "minFailedTaskCount minSucceededTaskCount" /* v1's, of a role */
#define RG_PAI_SHM_V1 64
#define RG_PAI_SHM_V2 512
#define RG_PAI_MEMORY_V1 100

/* A file that is being judged. */
struct rg_pai_check {
    struct rg_pai_findings *found;
    struct fy_document *places; /* the text once more, for where things stand; NULL: not YAML */
    char *masked;               /* what places was made of, which it keeps looking at */
    json_t *tree;               /* the file's values, NULL: it could not be read */
    json_t *dates;              /* those texts of the tree that YAML takes for dates, a list */
    bool commented;             /* it is JSON with comments */
    int version;
};

/* A value's place in the tree: the steps from the root to it, each on the stack of its caller. */
struct rg_pai_at {
    const struct rg_pai_at *up; /* NULL: the root */
    const char *key;            /* in a mapping; NULL: in a list */
    size_t index;
    json_t *value; /* borrowed; NULL: it is not there */
};

struct rg_pai_at rg_pai_at_key(const struct rg_pai_at *up, const char *key);
struct rg_pai_at rg_pai_at_index(const struct rg_pai_at *up, size_t index);
/* A value's integer, which may be written as 2.0; loose: or as a text, as v1 takes it. RG_PAI_NONE:
 * it is none. */
int64_t rg_pai_int(const json_t *value, bool loose);
/* That of a member, loosely; other, where there is none. */
int64_t rg_pai_at_int(const struct rg_pai_at *at, const char *key, int64_t other);

enum rg_pai_weight {
    RG_PAI_WARNING,
    RG_PAI_BETTERED, /* a warning that converting repairs */
    RG_PAI_MENDED, /* an error that converting repairs */
    RG_PAI_ERROR,
};

/* One more finding about what stands there. what NULL: the value itself. */
void rg_pai_report(struct rg_pai_check *check, const struct rg_pai_at *at,
                   enum rg_pai_weight weight, const char *what, const char *rule,
                   const char *remedy);

/* The same of what converting repairs, as a warning; instead, or NULL, is what may stand there. */
void rg_pai_suggest(struct rg_pai_check *check, const struct rg_pai_at *at, const char *instead,
                    const char *rule, const char *remedy);

/* Whether it is one of check->dates. */
bool rg_pai_is_date(const struct rg_pai_check *check, const json_t *value);

/* Read the text into check->tree, check->places and check->version; what is no JSON or YAML becomes
 * a finding. The text must stay until rg_pai_tree_fini. As rg_pai_read. */
int rg_pai_tree_load(struct rg_pai_check *check, const char *path, const char *text, size_t nbytes,
                     struct rg_error *err);
void rg_pai_tree_fini(struct rg_pai_check *check);

/* Every field by itself, as the server's schema. */
void rg_pai_judge_fields(struct rg_pai_check *check);
/* Fields together, and what the server takes though it will not do. */
void rg_pai_judge_traps(struct rg_pai_check *check);

/* Whether v2 takes it for the name of a port. */
bool rg_pai_is_port_v2(const char *label);
/* Whether a text is not empty and consists of these characters alone. */
bool rg_pai_is_of(const char *text, const char *characters);
#define RG_PAI_LOWER "abcdefghijklmnopqrstuvwxyz"
#define RG_PAI_DIGITS "0123456789"
#define RG_PAI_WORD RG_PAI_LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ" RG_PAI_DIGITS
/* What the server of v2 makes of a role's name: lower case, and only [a-z0-9]. On the heap. */
char *rg_pai_short_name(const char *name);
/* A command that sleeps for some seconds before it does something, in the hope that others are up
 * by then: "sleep N &&"; and in the head's role ";" or a line break, too, or the sleep alone where
 * more commands follow. In other roles such a sleep may be there to keep a task alive. */
struct rg_pai_hope {
    const char *rest;   /* of the command, behind the sleep and what joins it; "" where none is */
    int length;         /* of the number, with its unit */
    const char *number; /* "1000", "5m", in the command */
    int64_t wait_s;     /* how long to wait at most, where something waits instead */
    bool joined;        /* by && */
};
bool rg_pai_hope_find(const char *command, bool more, bool is_head, struct rg_pai_hope *ret_hope);
/* The same of the first command of the job's role. */
bool rg_pai_hope_of(const struct rg_pai *job, size_t role, struct rg_pai_hope *ret_hope);
/* Whether a command's last part never ends: sleep infinity, tail -f /dev/null. */
bool rg_pai_sleeps_forever(const char *command);
/* Whether a command waits for the other tasks by wait-workers or by our loop. */
bool rg_pai_waits(const char *command);
/* The index of the role whose task 0 is the head: master, else the first. */
size_t rg_pai_head(const struct rg_pai *job);
/* Whether v2's ssh plugin waits for all tasks before any command of the role runs. */
bool rg_pai_has_barrier(const json_t *extras, const char *role);
#define RG_PAI_BARRIER_MINUTES 30 /* the least that we let it wait; by itself it waits 5 hours */

#define RG_PAI_NAME_MAX 1024 /* of a template; YAML has no longer keys */

/* What a template "<% $kind.name %>" names; whole is from "<%" to behind "%>". */
struct rg_pai_template {
    const char *whole;
    size_t nbytes;
    char kind[16]; /* "parameters"; "" where it is written otherwise */
    char name[RG_PAI_NAME_MAX]; /* what follows the dot: "x", "uri[0]" */
};
/* The first one in text. False: there is none. */
bool rg_pai_template_next(const char *text, struct rg_pai_template *ret_template);

/* The value that it names, borrowed; NULL: it names none, or a secret. */
const json_t *rg_pai_template_value(const struct rg_pai *job, const struct rg_pai_role *role,
                                    const struct rg_pai_template *found);
/* The commands that the deployment which counts has for a role, such as its "preCommands",
 * borrowed; NULL: none. */
const json_t *rg_pai_deployed(const struct rg_pai *job, const char *role, const char *which);

/* One more role or port, empty, or NULL: out of memory. */
struct rg_pai_role *rg_pai_add_role(struct rg_pai *job);
struct rg_pai_port *rg_pai_add_port(struct rg_pai_role *role, const char *label, int64_t begin,
                                    int64_t count);

/* A conversion that is under way. */
struct rg_pai_convert {
    const struct rg_pai *from;
    struct rg_pai *to;
    struct rg_strv *words;
    struct rg_error *err;
};

/* One more sentence for people; the path of a field comes first. */
void rg_pai_word(struct rg_pai_convert *c, const char *fmt, ...) rg_printf(2, 3);
/* What cannot be done: -EINVAL, exit_code 2. */
int rg_pai_refuse(struct rg_pai_convert *c, const char *fmt, ...) rg_printf(2, 3);

/* rg_pai_rename for one command of the role `whose`: *text, on the heap, is replaced, and people
 * are told. 0 or -ENOMEM. */
int rg_pai_rename_in(struct rg_pai_convert *c, const char *whose, char **text);

/* What is left to do for the other version: c->to has copies of the name, the cluster, the roles
 * and their numbers, with names repaired. Each as rg_pai_convert. */
int rg_pai_to_v1(struct rg_pai_convert *c);
int rg_pai_to_v2(struct rg_pai_convert *c);
/* A text of several lines as one line that does the same, without comments, on the heap, in
 * *ret_line. 0; -EINVAL: that cannot be said safely, and *ret_line is the line that is in the way,
 * "" where there is none; -ENOMEM. */
int rg_pai_one_line(const char *text, char **ret_line);
/* Whether a comment is the end of a command, so that what is joined to its line is lost. */
bool rg_pai_ends_in_comment(const char *text);
/* A command with the names that roles and ports have in to, where it has had those of from in its
 * hosts and variables: "ps_server-0", "$PAI_HOST_IP_ps_server_0". Roles and their ports have the
 * same order in both. On the heap, or NULL: out of memory. */
char *rg_pai_rename(const struct rg_pai *from, const struct rg_pai *to, const char *text);
/* "export NAME=...", on the heap, for a parameter of the job; NULL: it is no name of a shell's, or
 * no single value, or looks like a template. Out of memory is NULL, too. */
char *rg_pai_export(const char *name, const json_t *value);
/* A single value as the server writes it into a command, on the heap; NULL: it is none. Numbers are
 * JavaScript's: 2 for 2.0, 1e+21. */
char *rg_pai_value_text(const json_t *value);
/* Whether it is a whole number that JavaScript does not know for certain. */
bool rg_pai_is_rounded(const json_t *value);

#endif
