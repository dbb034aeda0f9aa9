/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The job's file. Both roles run the same command, one line, as API v1 loses line breaks: it brings
 * the plan, and in v2 the key, into the environment, finds reigen-agent, and becomes `pod`.
 *
 * What is secret stands among the secrets of protocol v2, which the server masks when it shows the
 * file, and which it writes into the commands where these name it. API v1 has nothing of that kind,
 * so its tasks make the key of the job's ssh key, and --share-env is refused.
 */
#include <stdio.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/json.h"
#include "platform/openpai/outside/internal.h"
#include "platform/openpai/jobfile/pai.h"
#include "platform/openpai/jobfile/prologue.h"
#include "wire/crypto/crypto.h"
#include "wire/link.h"

#define IMAGE "image" /* the name of v2's prerequisite */
#define BASE64 sodium_base64_VARIANT_ORIGINAL
#define OURS PAI_KEY_SECRET " REIGEN_KEY REIGEN_PLAN" /* no secret of the user's is called so */
#define MAKE_KEY "head -c 32 /dev/urandom | od -An -v -tx1 | tr -d ' \\n'"

static int no_memory(struct rg_error *err)
{
    return rg_error_memory(err);
}

/* --- the command ------------------------------------------------------------------------------ */

/* What the tasks' agents are to read. */
static int put_plan(const struct rg_planned *planned, struct rg_buf *text, struct rg_error *err)
{
    RG_AUTO_PLANNED struct rg_planned theirs = { .quiet = false };
    rg_autobuf struct rg_buf plan = RG_BUF_INIT;
    int r = rg_planned_send(planned, &theirs, err);

    if (r == 0) {
        theirs.job.container.inject = RG_INJECT_NO; /* nothing can be brought along */
        theirs.job.max_restarts = 0;                /* OpenPAI begins all tasks again */
        r = rg_planned_encode(&theirs, &plan, err);
    }
    if (r < 0)
        return r;
    size_t room = sodium_base64_encoded_len(rg_buf_nbytes(&plan), BASE64);
    if (room > PAI_PLAN_MAX)
        return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE,
                                 "the job's plan has %zu bytes, and a task's environment takes %u "
                                 "of it: give shorter lists of --env, or a file in the image",
                                 room, PAI_PLAN_MAX);
    char *to = (char *) rg_buf_reserve(text, room);
    if (!to)
        return no_memory(err);
    sodium_bin2base64(to, room, rg_buf_bytes(&plan), rg_buf_nbytes(&plan), BASE64);
    rg_buf_commit(text, room - 1);
    return 0;
}

static int put_command(const struct rg_planned *planned, int version, struct rg_buf *text,
                       struct rg_error *err)
{
    rg_buf_printf(text, "export REIGEN_PLAN=");
    int r = put_plan(planned, text, err);

    if (r < 0)
        return r;
    if (version == 2)
        rg_buf_printf(text, " REIGEN_KEY=<%% $secrets." PAI_KEY_SECRET " %%>");
    for (size_t i = 0; i < planned->job.share_env.count; i++)
        rg_buf_printf(text, " %s=<%% $secrets.%s %%>", planned->job.share_env.v[i],
                      planned->job.share_env.v[i]);
    rg_buf_printf(text, "; ");
    rg_pai_agent_prologue(&(struct rg_pai_agent_source){
                              .path = pai_option(&planned->job, "agent-path"),
                              .url = pai_option(&planned->job, "agent-url") },
                          text);
    rg_buf_printf(text, "exec \"$AGENT\" pod");
    return rg_buf_status(text) < 0 ? no_memory(err) : 0;
}

/* --- secrets ---------------------------------------------------------------------------------- */

/* As a word of the shell's, since it is written into a command as it is. */
static char *quoted(const char *value)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, "'");
    for (const char *p = value; *p; p++)
        rg_buf_printf(&text, *p == '\'' ? "'\\''" : "%c", *p);
    rg_buf_printf(&text, "'");
    char *copy = rg_buf_status(&text) == 0 ? strdup(rg_buf_text(&text)) : NULL;
    if (text.data)
        sodium_memzero(text.data, text.capacity);
    return copy;
}

static int add_shared(json_t *secrets, const char *name, bool real, struct rg_error *err)
{
    const char *value = getenv(name);

    if (rg_str_has_word(OURS, name))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "--share-env %s: Reigen itself hands a value on by this name; "
                                 "give yours another one", name);
    if (value && (!rg_json_is_text(value, strlen(value)) || strstr(value, "<%")))
        return rg_error_set_exit(err, EILSEQ, RG_EXIT_USAGE,
                                 "--share-env %s: the value of %s is not UTF-8, or has <%% in it, "
                                 "which OpenPAI takes for a template: encode it, as base64 for "
                                 "one", name, name);
    rg_autofree char *text = real ? quoted(value ? value : "")
                                  : rg_strf("the value of %s, between apostrophes", name);
    int r = text ? json_object_set_new(secrets, name, json_string(text)) : -1;
    if (text)
        sodium_memzero(text, strlen(text));
    return r < 0 ? no_memory(err) : 0;
}

static int add_secrets(const struct rg_job *job, bool real, json_t *secrets, struct rg_error *err)
{
    uint8_t key[RG_KEY_NBYTES];
    char hex[2 * RG_KEY_NBYTES + 1];
    int r;

    if (rg_key_generate(key) < 0)
        return rg_error_set(err, ENOSYS, "the system gives no random numbers");
    rg_key_format(key, hex);
    r = json_object_set_new(secrets, PAI_KEY_SECRET,
                            json_string(real ? hex : RG_PAI_KEY_PLACE));
    sodium_memzero(key, sizeof(key));
    sodium_memzero(hex, sizeof(hex));
    for (size_t i = 0; r == 0 && i < job->share_env.count; i++)
        r = add_shared(secrets, job->share_env.v[i], real, err);
    return r == -1 ? no_memory(err) : r;
}

/* --- the job ---------------------------------------------------------------------------------- */

static int add_port(struct rg_pai_role *role, struct rg_error *err)
{
    struct rg_pai_port *ports = calloc(1, sizeof(*ports));
    char *label = strdup(PAI_PORT);

    if (!ports || !label) {
        free(ports);
        free(label);
        return no_memory(err);
    }
    *ports = (struct rg_pai_port){ .label = label, .count = 1 };
    role->ports = ports;
    role->nports = role->ports_capacity = 1;
    return 0;
}

/* The first role has a task, the other one the rest, of which an elastic job may lose any. */
static int fill_role(struct rg_pai_role *role, const struct rg_pai *job, bool elastic,
                     const struct pai_wants *wants, bool rdma, struct rg_error *err)
{
    bool master = role == job->roles;

    role->name = strdup(master ? PAI_MASTER : PAI_WORKER);
    role->cpu = wants->cpu;
    role->gpu = wants->gpu;
    role->memory_mb = wants->memory_mb;
    role->shm_mb = wants->shm_mb;
    role->min_failed = elastic && !master ? RG_PAI_NONE : 1;
    role->min_succeeded = master ? 1 : RG_PAI_NONE;
    role->rest = json_object();
    if (job->version == 2)
        role->image = strdup(IMAGE);
    if (job->version == 2 && rdma)
        json_object_set_new(role->rest, "extraContainerOptions",
                            json_pack("{s:b}", "infiniband", 1));
    /* API v1 knows nothing of that kind. */
    if (job->version == 2 && elastic && !master)
        json_object_set_new(role->rest, "taskRetryCount", json_integer(PAI_TASK_RETRIES));
    if (!role->name || !role->rest || (job->version == 2 && !role->image))
        return no_memory(err);
    return add_port(role, err);
}

static int fill_roles(const struct rg_planned *planned, struct rg_pai *job, struct rg_error *err)
{
    rg_autobuf struct rg_buf command = RG_BUF_INIT;
    struct pai_wants wants = { .cpu = 1 };
    int rdma = pai_rdma_of(&planned->job, job->version, err);
    int r = rdma < 0 ? rdma : pai_wants_of(&planned->job, &wants, err);

    r = r < 0 ? r : put_command(planned, job->version, &command, err);
    if (r < 0)
        return r;
    size_t nroles = planned->plan.nhosts > 1 ? 2 : 1;
    job->roles = calloc(nroles, sizeof(*job->roles));
    job->nroles = job->roles_capacity = job->roles ? nroles : 0;
    for (size_t i = 0; r == 0 && i < job->nroles; i++) {
        job->roles[i].tasks = i ? planned->plan.nhosts - 1 : 1;
        r = fill_role(&job->roles[i], job, planned->job.elastic.on, &wants, rdma, err);
        if (r == 0 && rg_strv_add(&job->roles[i].commands, rg_buf_text(&command)) < 0)
            r = no_memory(err);
    }
    if (r == 0 && job->version == 1 && rdma)
        job->env = json_pack("{s:b}", "paiAzRDMA", 1);
    return r == 0 && !job->roles ? no_memory(err) : r;
}

/* What one version says in its own way. */
static int fill_version(const struct rg_job *wish, struct rg_pai *job, bool secrets,
                        struct rg_error *err)
{
    const char *image = wish->container.image;

    job->rest = json_object();
    if (job->version == 1) {
        job->image = strdup(image);
        return job->rest && job->image ? 0 : no_memory(err);
    }
    json_t *values = json_object();
    int r = values ? add_secrets(wish, secrets, values, err) : no_memory(err);
    json_object_set_new(job->rest, "secrets", values);
    if (r == 0 &&
        json_object_set_new(job->rest, "prerequisites",
                            json_pack("[{s:s, s:s, s:s}]", "type", "dockerimage", "name", IMAGE,
                                      "uri", image)) < 0)
        return no_memory(err);
    return r;
}

static int fill(const struct rg_planned *planned, struct rg_pai *job, bool secrets,
                struct rg_error *err)
{
    const struct rg_job *wish = &planned->job;
    const char *cluster = pai_option(wish, "virtual-cluster");

    job->name = strdup(pai_option(wish, "name"));
    job->cluster = cluster ? strdup(cluster) : NULL;
    if (!job->name || (cluster && !job->cluster))
        return no_memory(err);
    if (wish->max_restarts)
        job->retries = wish->max_restarts;
    int r = fill_version(wish, job, secrets, err);
    return r < 0 ? r : fill_roles(planned, job, err);
}

static void put_comment(const struct rg_job *job, struct rg_buf *text)
{
    rg_buf_printf(text, "# The secrets are not in this file. Put in, for " PAI_KEY_SECRET ", what "
                  "this prints:\n#   " MAKE_KEY "\n");
    for (size_t i = 0; i < job->share_env.count; i++)
        rg_buf_printf(text, "# and the value of %s as a word of the shell's: '...'\n",
                      job->share_env.v[i]);
}

int pai_file_put(const struct rg_planned *planned, int version, bool secrets, struct rg_buf *text,
                 struct rg_strv *words, struct rg_error *err)
{
    rg_cleanup(rg_pai_fini) struct rg_pai job = RG_PAI_INIT;

    if (planned->job.file_text)
        return pai_own_put(&planned->job, version, secrets, text, words, err);
    if (version == 1 && planned->job.share_env.count)
        return rg_error_set_exit(err, ENOTSUP, RG_EXIT_USAGE,
                                 "--share-env %s: this server takes API v1, whose files everybody "
                                 "can read and which knows no secrets; put it on a storage that "
                                 "only you can read", planned->job.share_env.v[0]);
    job.version = version;
    int r = fill(planned, &job, secrets, err);
    if (r < 0)
        return r;
    if (version == 2 && !secrets)
        put_comment(&planned->job, text);
    return rg_pai_write(&job, text) < 0 ? no_memory(err) : 0;
}
