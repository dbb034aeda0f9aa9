/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user wants in every job: the file ~/.config/reigen/config, with usual values of options,
 * and named profiles of them. docs/config.md describes it.
 *
 *   # a comment
 *   [defaults]
 *   timeout = 12h
 *   [profile cluster-a]
 *   hosts = node1:4,node2:4
 *   env = NCCL_DEBUG=INFO
 *   env = OMP_NUM_THREADS=4
 *
 * A key is an option's name in a job file (rg_option_key), and its value is all that follows '='
 * but for blanks around it. It is read strictly: what is unknown or stands twice is an error with
 * file, line, and the nearest name. Values are judged by the options' own handlers, once they are
 * applied.
 *
 * Job files and the command line win over it, and so does the environment variable that an option
 * has (struct rg_option's variable). Only commands that ask for it have it (struct rg_request's
 * configured): those that stand in for other programs mean what these programs mean.
 *
 * Thread rule: an object belongs to one thread. rg_config_read blocks on a file, rg_config_apply
 * and rg_config_take_hosts on those that the options name.
 */
#ifndef RG_JOB_CONFIG_CONFIG_H
#define RG_JOB_CONFIG_CONFIG_H

#include <stddef.h>

#include "job/options/options.h"

#define RG_CONFIG_NBYTES_MAX (1u << 20)
#define RG_CONFIG_ENTRIES_MAX 4096
#define RG_CONFIG_PROFILES_MAX 256
#define RG_CONFIG_DEFAULTS (-1) /* in the place of a profile's number */

/* The variables: another file, or none where it is empty; and the profile where --profile names
 * none. */
#define RG_CONFIG_FILE "REIGEN_CONFIG"
#define RG_CONFIG_PROFILE "REIGEN_PROFILE"

struct rg_config_entry {
    const struct rg_option *option;
    char *value; /* not empty */
    int line;    /* from 1 */
    int profile; /* its number among the profiles, or RG_CONFIG_DEFAULTS */
};

struct rg_config {
    char *path; /* where the file is, or would be; NULL: nowhere */
    bool found; /* it is there */
    bool denied; /* it may be there, but this user must not look */
    struct rg_config_entry *entries; /* in the order of the file */
    size_t count;
    struct rg_strv profiles; /* their names */
};

#define RG_CONFIG_INIT { .path = NULL }

void rg_config_fini(struct rg_config *config);
#define RG_AUTO_CONFIG rg_cleanup(rg_config_fini)

/* Add what the text says. path names it in errors. 0; -EINVAL (exit_code 2), -ENOMEM with err; then
 * what came before is there. */
int rg_config_parse(struct rg_config *config, const char *path, const char *text, size_t nbytes,
                    struct rg_error *err);

/* Find the file, and read it. One that others can write, or that belongs to somebody else, is
 * refused, since it says what is run (-EPERM, exit_code 77). 0, also where there is none, or where
 * REIGEN_CONFIG does not name it and this user has no right to look: HOME may be somebody else's.
 * Else as rg_config_parse, or -errno where it cannot be read. */
int rg_config_read(struct rg_config *config, struct rg_error *err);

/* The number of the profile of this name, or that of REIGEN_PROFILE where name is NULL;
 * RG_CONFIG_DEFAULTS where that says nothing, too. 0; -EINVAL with err: there is no such. */
int rg_config_choose(const struct rg_config *config, const char *name, int *ret_profile,
                     struct rg_error *err);

/* Put the defaults into the request, and then the profile. An entry whose option has a variable
 * that is set is left out. Hosts, and the files and scripts that name them, are kept for
 * rg_config_take_hosts. 0 or -errno with err, which names file and line. */
int rg_config_apply(const struct rg_config *config, int profile, struct rg_request *request,
                    struct rg_error *err);

/* Look at what rg_config_apply has kept of hosts, unless others have replaced it. The same. */
int rg_config_take_hosts(struct rg_request *request, struct rg_error *err);

/* Whether hosts of the configuration would count: not where a later word than theirs names a
 * platform that has hosts of its own. */
bool rg_config_hosts_count(const struct rg_request *request);

/* Whether the entry's value counts with this profile, which the request has: it is the profile's,
 * or one of the defaults that the profile does not replace; and it is not of hosts that do not
 * count, or that a variable replaces. */
bool rg_config_counts(const struct rg_config *config, const struct rg_config_entry *entry,
                      int profile, const struct rg_request *request);

/* The option's value by its environment variable, which wins over the file's; or NULL. That of the
 * hosts counts on platforms that reach any host. */
const char *rg_config_variable(const struct rg_option *option, const struct rg_request *request);

#endif
