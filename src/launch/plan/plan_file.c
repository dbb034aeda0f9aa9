/* SPDX-License-Identifier: Apache-2.0 */
/* One table of the fields serves writing and reading, so that they cannot differ. */
#include "launch/plan/plan_file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/exitcode.h"
#include "base/fd.h"

#define MAGIC "reigen-p"
#define MAGIC_NBYTES 8
#define HEAD_NBYTES (MAGIC_NBYTES + 8)
#define NAME_NBYTES 26
#define TEXT_MAX (1u << 20)
#define LIST_MAX 65536
#define PORT_MAX 65535
#define CPUS_MAX 65536

enum kind {
    NUMBER, /* int, or an enum: min to max */
    BOOL,
    U64,
    TEXT,   /* char *, of max bytes; NULL where min is 0 */
    CHARS,  /* char[max] with its NUL */
    STRV,   /* struct rg_strv, of max texts */
    ARRAY,  /* pointer to elements of a table's; its number is the size_t, or the int, at count */
    INTS,   /* int *, NULL where min is 0; the int at count is their number, and is there already */
};

enum part { NONE, HOST, ROLE, ROLE_PORT, RANGE, PLAN_RANK, PLAN_HOST };

/* Names lie in it, and parts are numbers, because each pointer costs the agent a relocation; and
 * there are so many that each byte counts. */
struct entry {
    char name[NAME_NBYTES];
    uint8_t kind : 4;
    uint8_t min : 1;
    uint8_t count_is_int : 1;
    uint8_t part;
    uint16_t offset, count;
    uint32_t max;
};

/* offsetof, of a member with that many bytes. */
#define AT(type, member, nbytes)                                                               \
    (uint16_t) (offsetof(struct type, member) +                                                \
                0 * sizeof(char[sizeof(((struct type *) NULL)->member) == (nbytes) ? 1 : -1]))
#define NUMBER_OF(type, member, low, high)                                                     \
    { .name = #member, .kind = NUMBER, .offset = AT(type, member, sizeof(int)), .min = (low),  \
      .max = (high) }
#define TEXT_OF(type, member, must)                                                            \
    { .name = #member, .kind = TEXT, .offset = AT(type, member, sizeof(char *)), .min = (must), \
      .max = TEXT_MAX }
#define WORDS_OF(type, member)                                                                 \
    { .name = #member, .kind = STRV, .max = LIST_MAX,                                          \
      .offset = AT(type, member, sizeof(struct rg_strv)) }
#define ELEMENTS_OF(type, member, number, of, as_int, high)                                    \
    { .name = #member, .kind = ARRAY, .part = (of), .count_is_int = (as_int), .max = (high),   \
      .offset = AT(type, member, sizeof(void *)),                                              \
      .count = AT(type, number, (as_int) ? sizeof(int) : sizeof(size_t)) }
#define INT(member, low, high) NUMBER_OF(rg_planned, member, low, high)
#define STRING(member) TEXT_OF(rg_planned, member, 0)
#define FLAG(member) { .name = #member, .kind = BOOL, .offset = AT(rg_planned, member, 1) }
#define LONG(member) { .name = #member, .kind = U64, .offset = AT(rg_planned, member, 8) }
#define WORDS(member) WORDS_OF(rg_planned, member)
#define ELEMENTS(member, number, of, as_int, high)                                             \
    ELEMENTS_OF(rg_planned, member, number, of, as_int, high)
#define INTS_OF(member, number, must)                                                          \
    { .name = #member, .kind = INTS, .offset = AT(rg_planned, member, sizeof(int *)),          \
      .count = AT(rg_planned, number, sizeof(int)), .min = (must), .max = RG_JOB_RANKS_MAX }
/* By another name, as its own is one of the longest. */
#define NAMED(its_name, kind_of, member, type, high)                                           \
    { .name = its_name, .kind = kind_of, .offset = AT(rg_planned, member, sizeof(type)),     \
      .max = (high) }

/* job.file_text is none of them: it may hold secrets, and only its platform's driver reads it. Nor
 * are job.chaos, job.sync, job.notify, job.metrics and job.detach: such a job is not written
 * down. */
static const struct entry planned_entries[] = {
    WORDS(job.command),
    STRING(job.title),
    STRING(job.cwd),
    STRING(job.file_name),
    ELEMENTS(job.roles, job.nroles, ROLE, false, RG_JOB_ROLES_MAX),
    INT(job.np, 0, RG_JOB_RANKS_MAX),
    INT(job.ranks_per_host, 0, RG_JOB_SLOTS_MAX),
    ELEMENTS(job.hosts, job.nhosts, HOST, false, RG_JOB_HOSTS_MAX),
    INT(job.map, 0, RG_MAP_NODE),
    INT(job.bind, 0, RG_BIND_SOCKET),
    FLAG(job.oversubscribe),
    STRING(job.on),
    WORDS(job.settings),
    FLAG(job.submit),
    FLAG(job.elastic.on),
    FLAG(job.elastic.restarts),
    INT(job.elastic.min_np, 0, RG_JOB_RANKS_MAX),
    INT(job.elastic.max_np, 0, RG_JOB_RANKS_MAX),
    INT(job.elastic.spares, 0, RG_JOB_RANKS_MAX),
    STRING(job.elastic.discovery),
    NAMED("elastic.slots_per_host", NUMBER, job.elastic.slots_per_host, int, RG_JOB_SLOTS_MAX),
    LONG(job.elastic.discovery_ms),
    LONG(job.elastic.timeout_ms),
    INT(job.elastic.reset_limit, 0, RG_ELASTIC_NO_LIMIT),
    NAMED("elastic.cooldown_min_ms", U64, job.elastic.cooldown_min_ms, uint64_t, 0),
    NAMED("elastic.cooldown_max_ms", U64, job.elastic.cooldown_max_ms, uint64_t, 0),
    INT(job.engine, 0, RG_ENGINE_SCRIPT),
    WORDS(job.engine_options),
    STRING(job.container.image),
    STRING(job.container.name),
    STRING(job.container.runtime),
    WORDS(job.container.mounts),
    WORDS(job.container.options),
    LONG(job.container.shm_nbytes),
    STRING(job.container.gpus),
    STRING(job.container.network),
    STRING(job.container.user),
    INT(job.container.pull, 0, RG_PULL_NEVER),
    INT(job.container.inject, 0, RG_INJECT_NO),
    FLAG(job.container.privileged),
    FLAG(job.container.ibdevices),
    NAMED("place.host_index", NUMBER, job.container.place.host_index, int, RG_JOB_HOSTS_MAX),
    NAMED("place.one_host", BOOL, job.container.place.one_host, bool, 0),
    STRING(job.container.place.cwd),
    NAMED("place.cwd_is_sent", BOOL, job.container.place.cwd_is_sent, bool, 0),
    STRING(job.container.place.term),
    NAMED("place.launcher", TEXT, job.container.place.launcher, char *, TEXT_MAX),
    NAMED("place.bundle_digest", TEXT, job.container.place.bundle_digest, char *, TEXT_MAX),
    NAMED("place.bundle_nbytes", U64, job.container.place.bundle_nbytes, uint64_t, 0),
    NAMED("place.bundle_error", TEXT, job.container.place.bundle_error, char *, TEXT_MAX),
    INT(job.metrics_port, 0, PORT_MAX),
    INT(job.ssh_port, 0, PORT_MAX),
    STRING(job.ssh_identity),
    WORDS(job.ssh_options),
    INT(job.hosts_come, 0, RG_HOSTS_RETURN),
    INT(job.ports.first, 0, PORT_MAX),
    INT(job.ports.last, 0, PORT_MAX),
    WORDS(job.network_interfaces),
    WORDS(job.require),
    WORDS(job.env),
    WORDS(job.share_env),
    FLAG(job.tf_config),
    LONG(job.timeout_ms),
    LONG(job.start_timeout_ms),
    LONG(job.deadlock_ms),
    LONG(job.grace_ms),
    LONG(job.notice_ms),
    INT(job.max_restarts, 0, RG_JOB_RESTARTS_MAX),
    FLAG(job.restart_always),
    LONG(job.lease_ms),
    STRING(job.output_dir),
    STRING(job.record),
    INT(job.tag, 0, RG_TAG_HOROVOD),
    FLAG(job.timestamps),
    INT(job.zone_min, 0, 2 * RG_JOB_DAY_MIN),
    FLAG(job.json),
    ELEMENTS(job.show.range, job.show.count, RANGE, false, RG_JOB_RANKS_MAX),
    INT(job.stdin_mode, 0, RG_STDIN_NONE),
    INT(job.stdin_rank, 0, RG_JOB_RANKS_MAX),
    FLAG(job.pty),
    FLAG(job.dry_run),
    INT(job.verbose, 0, LIST_MAX),
    ELEMENTS(plan.ranks, plan.nranks, PLAN_RANK, true, RG_JOB_RANKS_MAX),
    INT(plan.np, 0, RG_JOB_RANKS_MAX),
    STRING(plan.engine),
    INTS_OF(plan.by_host, plan.nranks, 1),
    ELEMENTS(plan.hosts, plan.nhosts, PLAN_HOST, true, RG_JOB_HOSTS_MAX),
    { .name = "plan.job_id", .kind = CHARS, .offset = offsetof(struct rg_planned, plan.job_id),
      .max = sizeof(((struct rg_plan *) NULL)->job_id) },
    INT(plan.master_port, 0, PORT_MAX),
    INTS_OF(plan.tf_ports, plan.nranks, 0),
    INT(plan.ntask_ports, 0, 0), /* they are found where tasks run */
    INTS_OF(plan.task_ports, plan.ntask_ports, 0),
    WORDS(notes),
    FLAG(display_map),
    FLAG(report_bindings),
    FLAG(quiet),
};

static const struct entry host_entries[] = {
    TEXT_OF(rg_host, name, 1),
    NUMBER_OF(rg_host, nslots, 0, RG_JOB_RANKS_MAX),
    TEXT_OF(rg_host, user, 0),
};

static const struct entry role_port_entries[] = {
    TEXT_OF(rg_role_port, label, 1),
    NUMBER_OF(rg_role_port, begin, 0, PORT_MAX),
    NUMBER_OF(rg_role_port, count, 0, RG_ROLE_PORTS_MAX),
};

static const struct entry role_entries[] = {
    TEXT_OF(rg_role, name, 1),
    NUMBER_OF(rg_role, ntasks, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_role, min_failed, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_role, min_succeeded, 0, RG_JOB_RANKS_MAX),
    ELEMENTS_OF(rg_role, ports, nports, ROLE_PORT, false, RG_ROLE_PORTS_MAX),
    WORDS_OF(rg_role, env),
};

struct range {
    int first, last;
};

static const struct entry range_entries[] = {
    NUMBER_OF(range, first, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(range, last, 0, RG_JOB_RANKS_MAX),
};

static const struct entry plan_rank_entries[] = {
    TEXT_OF(rg_plan_rank, task, 0),
    NUMBER_OF(rg_plan_rank, rank, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_rank, host, 0, RG_JOB_HOSTS_MAX),
    NUMBER_OF(rg_plan_rank, local_rank, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_rank, local_size, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_rank, cross_rank, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_rank, cross_size, 0, RG_JOB_RANKS_MAX),
    TEXT_OF(rg_plan_rank, cpus, 0),
    NUMBER_OF(rg_plan_rank, ncpus, 0, CPUS_MAX),
};

static const struct entry plan_host_entries[] = {
    TEXT_OF(rg_plan_host, name, 1),
    TEXT_OF(rg_plan_host, user, 0),
    NUMBER_OF(rg_plan_host, nslots, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_host, ncores, 0, CPUS_MAX),
    NUMBER_OF(rg_plan_host, first_rank_index, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_host, nranks, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_host, nplanned, 1, RG_JOB_RANKS_MAX),
    TEXT_OF(rg_plan_host, address, 0),
};

#define PART(entries, type) { entries, sizeof(type), rg_array_len(entries) }

static const struct part_of {
    const struct entry *entries;
    uint16_t nbytes, nentries;
} parts[] = {
    [HOST] = PART(host_entries, struct rg_host),
    [ROLE] = PART(role_entries, struct rg_role),
    [ROLE_PORT] = PART(role_port_entries, struct rg_role_port),
    [RANGE] = PART(range_entries, struct range),
    [PLAN_RANK] = PART(plan_rank_entries, struct rg_plan_rank),
    [PLAN_HOST] = PART(plan_host_entries, struct rg_plan_host),
};

_Static_assert(sizeof(struct range) == sizeof(*((struct rg_ranks *) NULL)->range), "as there");

static size_t count_of(const struct entry *e, const char *object)
{
    return e->count_is_int || e->kind == INTS ? (size_t) *(const int *) (object + e->count)
                                              : *(const size_t *) (object + e->count);
}

/* --- one pass over the fields, either way ----------------------------------------------------- */

/* The fields are appended to buf; or, where that is NULL, taken from reader. */
struct pass {
    struct rg_buf *buf;
    struct rg_reader reader;
    size_t nbytes; /* of the file that is read */
    struct rg_error *err;
};

static int no_memory(struct pass *pass)
{
    return rg_error_set(pass->err, ENOMEM, "out of memory");
}

/* left: where the field begins, in bytes that were left to read. */
static int refuse(struct pass *pass, const char *name, size_t left, const char *why)
{
    if (pass->buf)
        return rg_error_set_exit(pass->err, E2BIG, RG_EXIT_USAGE,
                                 "a plan cannot be written: %s %s", name, why);
    return rg_error_set_exit(pass->err, EBADMSG, RG_EXIT_USAGE,
                             "the plan is damaged at byte %zu: %s %s", pass->nbytes - left, name,
                             pass->reader.bad ? "is cut short" : why);
}

/* Write the value and return it, or return the one that is read. */
static uint32_t pass_u32(struct pass *pass, uint32_t value)
{
    if (!pass->buf)
        return rg_reader_u32(&pass->reader);
    rg_buf_put_u32(pass->buf, value);
    return value;
}

static int pass_number(struct pass *pass, const struct entry *e, int *value)
{
    size_t left = pass->reader.nbytes;
    uint32_t n = pass_u32(pass, (uint32_t) *value);

    if (pass->reader.bad || n > e->max || n < e->min)
        return refuse(pass, e->name, left, "is beyond its limits");
    if (!pass->buf)
        *value = (int) n;
    return 0;
}

/* How many elements follow. */
static int pass_count(struct pass *pass, const struct entry *e, size_t *count)
{
    size_t left = pass->reader.nbytes;
    uint32_t n = pass_u32(pass, (uint32_t) *count);

    if (pass->reader.bad || *count > e->max || n > e->max)
        return refuse(pass, e->name, left, "has too many items");
    *count = n;
    return 0;
}

static int pass_text(struct pass *pass, const struct entry *e, char **text)
{
    size_t left = pass->reader.nbytes, nbytes = pass->buf && *text ? strlen(*text) : 0;
    uint32_t max = e->kind == STRV ? TEXT_MAX : e->max;
    uint32_t length = pass_u32(pass, *text ? (uint32_t) nbytes + 1 : 0);

    if (!pass->reader.bad && length == 0 && e->kind == TEXT && !e->min)
        return 0;
    if (pass->reader.bad || length == 0 || nbytes > max || length - 1 > max)
        return refuse(pass, e->name, left, length ? "is too long" : "is missing");
    if (pass->buf) {
        rg_buf_put(pass->buf, *text, nbytes);
        return 0;
    }
    const uint8_t *bytes = rg_reader_bytes(&pass->reader, length - 1);
    if (!bytes || memchr(bytes, 0, length - 1))
        return refuse(pass, e->name, left, "holds a NUL");
    *text = calloc(1, length);
    if (!*text)
        return no_memory(pass);
    memcpy(*text, bytes, length - 1);
    return 0;
}

static int pass_chars(struct pass *pass, const struct entry *e, char *chars)
{
    struct entry shorter = *e;
    char *text = pass->buf ? chars : NULL;

    shorter.max--;
    int r = pass_text(pass, &shorter, &text);
    if (r == 0 && !pass->buf) {
        strcpy(chars, text);
        free(text);
    }
    return r;
}

static int pass_words(struct pass *pass, const struct entry *e, struct rg_strv *words)
{
    size_t count = words->count;
    int r = pass_count(pass, e, &count);

    for (size_t i = 0; r == 0 && i < count; i++) {
        char *text = pass->buf ? words->v[i] : NULL;
        r = pass_text(pass, e, &text);
        if (r == 0 && !pass->buf && rg_strv_take(words, text) < 0)
            r = no_memory(pass);
    }
    return r;
}

/* The same, and room for those that are read: each is some bytes, which must be there. */
static int pass_room(struct pass *pass, const struct entry *e, size_t nbytes, void **array,
                     size_t *count)
{
    size_t left = pass->reader.nbytes;
    int r = pass_count(pass, e, count);

    if (r < 0 || pass->buf)
        return r;
    if (*count > pass->reader.nbytes)
        return refuse(pass, e->name, left, "has too many items");
    *array = *count ? calloc(*count, nbytes) : NULL;
    return *count && !*array ? no_memory(pass) : 0;
}

static int pass_entries(struct pass *pass, const struct entry *entries, size_t count,
                        char *object);

static int pass_array(struct pass *pass, const struct entry *e, char *object)
{
    const struct part_of *part = &parts[e->part];
    size_t count = count_of(e, object), nbytes = part->nbytes;
    void **array = (void **) (object + e->offset);
    int r = pass_room(pass, e, nbytes, array, &count);

    if (r < 0)
        return r;
    if (!pass->buf && e->count_is_int)
        *(int *) (object + e->count) = (int) count;
    else if (!pass->buf)
        *(size_t *) (object + e->count) = count;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = pass_entries(pass, part->entries, part->nentries, (char *) *array + i * nbytes);
    return r;
}

static int pass_ints(struct pass *pass, const struct entry *e, char *object)
{
    const struct entry element = { .name = "a number for each rank", .max = e->max };
    void **array = (void **) (object + e->offset);
    size_t left = pass->reader.nbytes, count = *array ? count_of(e, object) : 0;
    int r = pass_room(pass, e, sizeof(int), array, &count);

    if (r == 0 && count != count_of(e, object) && (count || e->min))
        r = refuse(pass, e->name, left, "is not one for each rank");
    for (size_t i = 0; r == 0 && i < count; i++)
        r = pass_number(pass, &element, (int *) *array + i);
    return r;
}

static int pass_entry(struct pass *pass, const struct entry *e, char *object)
{
    size_t left = pass->reader.nbytes;
    void *p = object + e->offset;
    int flag, r;

    switch ((enum kind) e->kind) {
    case NUMBER:
        return pass_number(pass, e, p);
    case BOOL:
        flag = *(bool *) p;
        r = pass_number(pass, &(struct entry){ .name = "a flag", .max = 1 }, &flag);
        if (!pass->buf)
            *(bool *) p = flag;
        return r;
    case U64:
        if (pass->buf)
            rg_buf_put_u64(pass->buf, *(uint64_t *) p);
        else
            *(uint64_t *) p = rg_reader_u64(&pass->reader);
        return pass->reader.bad ? refuse(pass, e->name, left, "") : 0;
    case TEXT:
        return pass_text(pass, e, p);
    case CHARS:
        return pass_chars(pass, e, p);
    case STRV:
        return pass_words(pass, e, p);
    case ARRAY:
        return pass_array(pass, e, object);
    case INTS:
        return pass_ints(pass, e, object);
    }
    return 0;
}

static int pass_entries(struct pass *pass, const struct entry *entries, size_t count,
                        char *object)
{
    int r = 0;

    for (const struct entry *e = entries; r == 0 && e < entries + count; e++)
        r = pass_entry(pass, e, object);
    return r;
}

/* --- writing ---------------------------------------------------------------------------------- */

int rg_planned_encode(const struct rg_planned *planned, struct rg_buf *buf, struct rg_error *err)
{
    rg_autobuf struct rg_buf body = RG_BUF_INIT;
    struct pass pass = { .buf = &body, .err = err };
    int r = pass_entries(&pass, planned_entries, rg_array_len(planned_entries),
                         (char *) planned); /* which is only read */

    if (r == 0 && rg_buf_nbytes(&body) > RG_PLAN_FILE_MAX - HEAD_NBYTES)
        return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE, "a plan cannot be written: it has more "
                                 "than %u bytes", RG_PLAN_FILE_MAX);
    rg_buf_put(buf, MAGIC, MAGIC_NBYTES);
    rg_buf_put_u32(buf, RG_PLAN_FILE_VERSION);
    rg_buf_put_u32(buf, (uint32_t) rg_buf_nbytes(&body));
    rg_buf_put(buf, rg_buf_bytes(&body), rg_buf_nbytes(&body));
    if (r == 0 && (rg_buf_status(&body) < 0 || rg_buf_status(buf) < 0))
        r = no_memory(&pass);
    return r;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* by_host[next] is rank number local of this host. */
static bool fits_rank(const struct rg_plan *plan, int h, int next, int local)
{
    int rank = plan->by_host[next];
    const struct rg_plan_rank *r = &plan->ranks[rank < plan->nranks ? rank : 0];

    return rank < plan->nranks && r->rank == rank && r->host == h && r->local_rank == local &&
           r->local_size == plan->hosts[h].nranks && r->cross_rank < r->cross_size &&
           r->cross_size <= plan->nhosts;
}

/* Numbers that are indices have what they point to, and sizes are those of what is there. */
static bool fits_together(const struct rg_plan *plan)
{
    int next = 0;

    if (!plan->nhosts)
        return !plan->nranks && !*plan->job_id;
    if (!plan->nranks || !*plan->job_id ||
        plan->job_id[strspn(plan->job_id, "abcdefghijklmnopqrstuvwxyz0123456789-")])
        return false;
    for (int h = 0; h < plan->nhosts; h++) {
        const struct rg_plan_host *host = &plan->hosts[h];
        if (host->nranks > plan->nranks - next || (host->nranks && host->first_rank_index != next))
            return false;
        for (int first = next; next < first + host->nranks; next++) {
            if (!fits_rank(plan, h, next, next - first))
                return false;
        }
    }
    return next == plan->nranks;
}

/* Where there are roles, each rank is a task of one. */
static bool fits_roles(const struct rg_job *job, const struct rg_plan *plan)
{
    if (!job->nroles || !plan->nranks)
        return true;
    for (int i = 0; i < plan->nranks; i++) {
        if (!plan->ranks[i].task)
            return false;
    }
    return rg_job_ntasks(job) == plan->nranks;
}

static int take_head(struct pass *pass)
{
    const uint8_t *magic = rg_reader_bytes(&pass->reader, MAGIC_NBYTES);

    if (!magic || memcmp(magic, MAGIC, MAGIC_NBYTES) != 0)
        return rg_error_set_exit(pass->err, EBADMSG, RG_EXIT_USAGE, "it is no plan of Reigen's");
    uint32_t version = rg_reader_u32(&pass->reader), length = rg_reader_u32(&pass->reader);
    if (!pass->reader.bad && version != RG_PLAN_FILE_VERSION)
        return rg_error_set_exit(pass->err, EPROTONOSUPPORT, RG_EXIT_USAGE,
                                 "another version of Reigen has written the plan (its version is "
                                 "%u, here it is %d); write and run it by one version", version,
                                 RG_PLAN_FILE_VERSION);
    if (pass->reader.bad || length != pass->reader.nbytes)
        return rg_error_set_exit(pass->err, EBADMSG, RG_EXIT_USAGE,
                                 "the plan is %s: it has %zu bytes of %zu",
                                 pass->reader.bad || length > pass->reader.nbytes
                                     ? "cut short" : "damaged",
                                 pass->nbytes, (size_t) length + HEAD_NBYTES);
    return 0;
}

int rg_planned_decode(const void *bytes, size_t nbytes, struct rg_planned *ret_planned,
                      struct rg_error *err)
{
    struct pass pass = { NULL, rg_reader_make(bytes, nbytes), nbytes, err };
    struct rg_planned planned = { 0 };
    int r = take_head(&pass);

    if (r == 0)
        r = pass_entries(&pass, planned_entries, rg_array_len(planned_entries),
                         (char *) &planned);
    if (r == 0 && pass.reader.nbytes)
        r = refuse(&pass, "the end", pass.reader.nbytes, "does not come");
    if (r == 0 && (!fits_together(&planned.plan) || !fits_roles(&planned.job, &planned.plan)))
        r = rg_error_set_exit(err, EBADMSG, RG_EXIT_USAGE,
                              "the plan is damaged: its ranks and hosts do not fit together");
    planned.plan.room_hosts = planned.plan.nhosts;
    planned.plan.room_ranks = planned.plan.nranks;
    if (r < 0)
        rg_planned_fini(&planned);
    else
        *ret_planned = planned;
    return r;
}

/* --- the whole -------------------------------------------------------------------------------- */

void rg_planned_fini(struct rg_planned *planned)
{
    rg_job_fini(&planned->job);
    rg_plan_fini(&planned->plan);
    rg_strv_fini(&planned->notes);
}

/* A file that was there may be open to others. What is no file, as /dev/null, is everybody's. */
static int keep_to_ourselves(int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) && fchmod(fd, 0600) < 0 ? -errno : 0;
}

int rg_planned_write(const struct rg_planned *planned, const char *path, struct rg_error *err)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    int r = rg_planned_encode(planned, &buf, err);

    if (r < 0)
        return r;
    rg_autoclose int fd = rg_open_to_write(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r = fd < 0 ? fd : keep_to_ourselves(fd);
    if (r == 0)
        r = rg_write_all(fd, rg_buf_bytes(&buf), rg_buf_nbytes(&buf));
    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_USAGE, "cannot write the plan %s: %s", path,
                                 fd < 0 ? rg_open_to_write_why(fd) : strerror(-r));
    return 0;
}

int rg_planned_read(const char *path, struct rg_planned *ret_planned, struct rg_error *err)
{
    rg_autofree char *data = NULL;
    size_t nbytes;
    /* Who can write it can run anything as us. */
    int r = rg_read_trusted("the plan", path, RG_TRUST_UNCHANGED, RG_PLAN_FILE_MAX, &data, &nbytes,
                            err);

    if (r < 0) {
        if (err)
            err->exit_code = r == -EPERM ? RG_EXIT_NO_PERMISSION : RG_EXIT_USAGE;
        return r;
    }
    r = rg_planned_decode(data, nbytes, ret_planned, err);
    return r < 0 ? rg_error_prepend(err, path) : 0;
}
