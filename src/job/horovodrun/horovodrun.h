/* SPDX-License-Identifier: Apache-2.0 */
/*
 * horovodrun's command line and its YAML configuration file, as a job of Reigen's.
 *
 * One table holds every flag: how its value is judged, which variable it sets for the ranks, what
 * else it does, and what a user is told where it means nothing here. From it come parsing, the keys
 * of the configuration file, --help, the manual page, completion, and docs/horovodrun.md's list.
 *
 * Syntax, as argparse's: one dash or two, the value as the next argument or after '='; -H, -p and
 * -i also take it attached (-p22); a long name may be shortened as long as one flag has that
 * beginning. What is no flag of horovodrun's may be an option of reigen run, or a flag of another
 * launcher (job/request/launchers.h). The command begins at the first argument that is no flag, or
 * after `--`. The file is read before the flags, wherever --config-file stands, so that the command
 * line wins.
 *
 * Flags and their meaning: Horovod 0.28.1's documentation.
 *
 * Thread rule: constant tables; a struct rg_horovodrun belongs to one thread. Parsing blocks on
 * reading --config-file and --hostfile, and on --host-discovery-script.
 */
#ifndef RG_JOB_HOROVODRUN_HOROVODRUN_H
#define RG_JOB_HOROVODRUN_HOROVODRUN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "job/options/options.h"

#define RG_HVD_FILE_ITEMS_MAX 4096
#define RG_HVD_COUNT_MAX INT64_C(0x7fffffff)
#define RG_HVD_VERSION "0.28.1+reigen"

/* What an elastic job would be: 0 where the user said nothing. */
struct rg_hvd_elastic {
    int min_np, max_np;
    int timeout_s;                /* 600 where nothing was said */
    int reset_limit;              /* -1: none */
    int cooldown_min_s, cooldown_max_s;
};

/* What the user asked for. Owns all it points to. */
struct rg_horovodrun {
    struct rg_request request; /* the job; its config is --config-file; its notes are to be shown */
    struct rg_hvd_elastic elastic;
    bool check_build;          /* --check-build: nothing else was checked */
    char *interfaces;          /* "eth0,eth1", or NULL */
    /* Flags that exclude each other: the name of the one that was given, borrowed from the table */
    const char *controller, *where;
    bool has_start_timeout;
};

enum rg_hvd_group {
    RG_HVD_BASIC, /* what runs */
    RG_HVD_HOSTS,
    RG_HVD_TUNE,
    RG_HVD_AUTOTUNE,
    RG_HVD_ELASTIC,
    RG_HVD_TIMELINE,
    RG_HVD_STALL,
    RG_HVD_LIBRARY,
    RG_HVD_LOG,
    RG_HVD_CONTROLLER,
    RG_HVD_GROUP_COUNT
};

/* How a value is judged. */
enum rg_hvd_kind {
    RG_HVD_ON,     /* no value: "1"; from the file true or false: "1" or "0" */
    RG_HVD_OFF,    /* no value: "0" */
    RG_HVD_COUNT,  /* a whole number from 0 */
    RG_HVD_NUMBER, /* any number from 0 */
    RG_HVD_SHARE,  /* a number from 0 to 1 */
    RG_HVD_TEXT,   /* anything but nothing */
    RG_HVD_PAIR,   /* two whole numbers from 0; the handler gets "A B" */
};

struct rg_hvd_option {
    const char *name;      /* without dashes */
    const char *aliases;   /* other names, separated by spaces, or NULL */
    const char *key;       /* "section.key" in the file, or NULL */
    enum rg_hvd_group group;
    enum rg_hvd_kind kind;
    const char *arg;       /* what the value is called; NULL with ON and OFF */
    const char *completes; /* as in struct rg_option */
    const char *env;       /* the variable that ranks get with the value, or NULL */
    /* What else is to be done with a value that was judged, or NULL. 0 or -errno with err. */
    int (*apply)(struct rg_horovodrun *run, const struct rg_hvd_option *option, const char *what,
                 const char *value, struct rg_error *err);
    struct rg_member member; /* of struct rg_horovodrun, where there is no apply */
    const char *note;      /* told when it is used: why it does nothing here; or NULL */
    const char *help;      /* one or more sentences */
};

/* The table, in the order of --help. */
const struct rg_hvd_option *rg_hvd_options(size_t *ret_count);
/* The flag of this name or alias (without dashes), or NULL. */
const struct rg_hvd_option *rg_hvd_option_find(const char *name);
/* The flag that a key of the file ("section.key") stands for, or NULL. */
const struct rg_hvd_option *rg_hvd_option_find_key(const char *key);
const char *rg_hvd_group_title(int group);

void rg_horovodrun_init(struct rg_horovodrun *run);
void rg_horovodrun_fini(struct rg_horovodrun *run);

/* Read a command line: argv[0] is skipped. With --help, --version or --check-build nothing is
 * checked. 0; -EINVAL and others with err, exit_code 2 unless set; -ENOMEM. */
int rg_horovodrun_parse(struct rg_horovodrun *run, int argc, char *const *argv,
                        struct rg_error *err);

/* Judge one value and apply it; what names it in errors. Used by the two readers. */
int rg_hvd_apply(struct rg_horovodrun *run, const struct rg_hvd_option *option, const char *what,
                 const char *value, struct rg_error *err);

/* The value of --mpi-args or --binding-args, which what names: options of mpirun's, in words as a
 * shell's. Those that reigen run takes are obeyed; the others are remarks. 0; -EINVAL: a quote is
 * open, a word is no option, or a value is wrong; -ENOMEM. */
int rg_hvd_take_mpi_args(struct rg_horovodrun *run, const char *what, const char *text,
                         struct rg_error *err);

/* The file: a mapping of sections, each a mapping of keys to single values. Unknown keys and wrong
 * values are errors with path:line:column. 0; -EINVAL, -EFBIG (exit_code 2); -ENOMEM. */
int rg_hvd_file_parse(struct rg_horovodrun *run, const char *path, const char *text, size_t nbytes,
                      struct rg_error *err);
/* Read it first. Also -ENOENT, -EACCES, ...: exit_code 2. */
int rg_hvd_file_read(struct rg_horovodrun *run, const char *path, struct rg_error *err);

#endif
