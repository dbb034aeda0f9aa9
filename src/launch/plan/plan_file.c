/* SPDX-License-Identifier: Apache-2.0 */
/* One table of the fields serves writing and reading, so that they cannot differ. */
#include "launch/plan/plan_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/exitcode.h"
#include "base/fd.h"

#define MAGIC "reigen-p"
#define MAGIC_NBYTES 8
#define HEAD_NBYTES (MAGIC_NBYTES + 8)
#define NAME_NBYTES 36
#define TEXT_MAX (1u << 20)
#define LIST_MAX 65536
#define PORT_MAX 65535
#define CPUS_MAX 65536

enum kind {
    END,
    NUMBER, /* int, or an enum: min to max */
    BOOL,
    U64,
    TEXT,   /* char *, of max bytes; NULL where min is 0 */
    CHARS,  /* char[max] with its NUL */
    STRV,   /* struct rg_strv, of max texts */
    ARRAY,  /* pointer to elements of a table's; its number is the size_t, or the int, at count */
    INTS,   /* int *, NULL where min is 0; the int at count is their number, and is there already */
};

enum part { NONE, HOST, RANGE, PLAN_RANK, PLAN_HOST };

/* Names lie in it, and parts are numbers, because each pointer costs the agent a relocation. */
struct entry {
    char name[NAME_NBYTES];
    uint8_t kind;
    uint8_t part;
    bool count_is_int;
    uint16_t offset, count;
    int32_t min;
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
#define INT(member, low, high) NUMBER_OF(rg_planned, member, low, high)
#define STRING(member) TEXT_OF(rg_planned, member, 0)
#define FLAG(member) { .name = #member, .kind = BOOL, .offset = AT(rg_planned, member, 1) }
#define LONG(member) { .name = #member, .kind = U64, .offset = AT(rg_planned, member, 8) }
#define WORDS(member)                                                                          \
    { .name = #member, .kind = STRV, .max = LIST_MAX,                                          \
      .offset = AT(rg_planned, member, sizeof(struct rg_strv)) }
#define ELEMENTS(member, number, of, as_int, high)                                             \
    { .name = #member, .kind = ARRAY, .part = (of), .count_is_int = (as_int), .max = (high),   \
      .offset = AT(rg_planned, member, sizeof(void *)),                                        \
      .count = AT(rg_planned, number, (as_int) ? sizeof(int) : sizeof(size_t)) }
#define INTS_OF(member, number, must)                                                          \
    { .name = #member, .kind = INTS, .offset = AT(rg_planned, member, sizeof(int *)),          \
      .count = AT(rg_planned, number, sizeof(int)), .min = (must), .max = RG_JOB_RANKS_MAX }

static const struct entry planned_entries[] = {
    WORDS(job.command),
    STRING(job.title),
    STRING(job.cwd),
    INT(job.np, 0, RG_JOB_RANKS_MAX),
    INT(job.ranks_per_host, 0, RG_JOB_SLOTS_MAX),
    ELEMENTS(job.hosts, job.nhosts, HOST, false, RG_JOB_HOSTS_MAX),
    INT(job.map, 0, RG_MAP_NODE),
    INT(job.bind, 0, RG_BIND_SOCKET),
    FLAG(job.oversubscribe),
    STRING(job.on),
    WORDS(job.settings),
    FLAG(job.submit),
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
    INT(job.container.place.host_index, 0, RG_JOB_HOSTS_MAX),
    FLAG(job.container.place.one_host),
    STRING(job.container.place.cwd),
    STRING(job.container.place.term),
    STRING(job.container.place.launcher),
    STRING(job.container.place.bundle_digest),
    LONG(job.container.place.bundle_nbytes),
    STRING(job.container.place.bundle_error),
    INT(job.ssh_port, 0, PORT_MAX),
    STRING(job.ssh_identity),
    WORDS(job.ssh_options),
    INT(job.ports.first, 0, PORT_MAX),
    INT(job.ports.last, 0, PORT_MAX),
    WORDS(job.network_interfaces),
    WORDS(job.require),
    WORDS(job.env),
    WORDS(job.share_env),
    FLAG(job.tf_config),
    LONG(job.timeout_ms),
    LONG(job.start_timeout_ms),
    LONG(job.grace_ms),
    INT(job.max_restarts, 0, RG_JOB_RESTARTS_MAX),
    LONG(job.lease_ms),
    STRING(job.output_dir),
    INT(job.tag, 0, RG_TAG_HOROVOD),
    FLAG(job.timestamps),
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
    WORDS(notes),
    FLAG(display_map),
    FLAG(report_bindings),
    FLAG(quiet),
    { .kind = END },
};

static const struct entry host_entries[] = {
    TEXT_OF(rg_host, name, 1),
    NUMBER_OF(rg_host, nslots, 0, RG_JOB_RANKS_MAX),
    TEXT_OF(rg_host, user, 0),
    { .kind = END },
};

struct range {
    int first, last;
};

static const struct entry range_entries[] = {
    NUMBER_OF(range, first, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(range, last, 0, RG_JOB_RANKS_MAX),
    { .kind = END },
};

static const struct entry plan_rank_entries[] = {
    NUMBER_OF(rg_plan_rank, rank, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_rank, host, 0, RG_JOB_HOSTS_MAX),
    NUMBER_OF(rg_plan_rank, local_rank, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_rank, local_size, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_rank, cross_rank, 0, RG_JOB_RANKS_MAX),
    NUMBER_OF(rg_plan_rank, cross_size, 0, RG_JOB_RANKS_MAX),
    TEXT_OF(rg_plan_rank, cpus, 0),
    NUMBER_OF(rg_plan_rank, ncpus, 0, CPUS_MAX),
    { .kind = END },
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
    { .kind = END },
};

static const struct {
    const struct entry *entries;
    size_t nbytes;
} parts[] = {
    [HOST] = { host_entries, sizeof(struct rg_host) },
    [RANGE] = { range_entries, sizeof(struct range) },
    [PLAN_RANK] = { plan_rank_entries, sizeof(struct rg_plan_rank) },
    [PLAN_HOST] = { plan_host_entries, sizeof(struct rg_plan_host) },
};

_Static_assert(sizeof(struct range) == sizeof(*((struct rg_ranks *) NULL)->range), "as there");

static size_t count_of(const struct entry *e, const char *object)
{
    return e->count_is_int || e->kind == INTS ? (size_t) *(const int *) (object + e->count)
                                              : *(const size_t *) (object + e->count);
}

/* --- writing ---------------------------------------------------------------------------------- */

static int refuse(const struct entry *e, const char *why, struct rg_error *err)
{
    return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE, "a plan cannot be written: %s %s", e->name,
                             why);
}

static void put_text(const char *text, struct rg_buf *buf)
{
    size_t nbytes = text ? strlen(text) : 0;

    rg_buf_put_u32(buf, text ? (uint32_t) nbytes + 1 : 0);
    rg_buf_put(buf, text, nbytes);
}

static int put_words(const struct entry *e, const struct rg_strv *words, struct rg_buf *buf,
                     struct rg_error *err)
{
    if (words->count > e->max)
        return refuse(e, "has too many items", err);
    rg_buf_put_u32(buf, (uint32_t) words->count);
    for (size_t i = 0; i < words->count; i++) {
        if (strlen(words->v[i]) > TEXT_MAX)
            return refuse(e, "is too long", err);
        put_text(words->v[i], buf);
    }
    return 0;
}

static int put_number(const struct entry *e, int value, struct rg_buf *buf, struct rg_error *err)
{
    if (value < e->min || (uint32_t) value > e->max)
        return refuse(e, "is beyond its limits", err);
    rg_buf_put_u32(buf, (uint32_t) value);
    return 0;
}

static void put_ints(const int *ints, size_t count, struct rg_buf *buf)
{
    rg_buf_put_u32(buf, ints ? (uint32_t) count : 0);
    for (size_t i = 0; ints && i < count; i++)
        rg_buf_put_u32(buf, (uint32_t) ints[i]);
}

static int put_entries(const struct entry *entries, const char *object, struct rg_buf *buf,
                       struct rg_error *err);

static int put_array(const struct entry *e, const char *object, struct rg_buf *buf,
                     struct rg_error *err)
{
    const char *elements = *(char *const *) (object + e->offset);
    size_t count = count_of(e, object);
    int r = 0;

    if (count > e->max)
        return refuse(e, "has too many items", err);
    rg_buf_put_u32(buf, (uint32_t) count);
    for (size_t i = 0; r == 0 && i < count; i++)
        r = put_entries(parts[e->part].entries, elements + i * parts[e->part].nbytes, buf, err);
    return r;
}

static int put_entry(const struct entry *e, const char *object, struct rg_buf *buf,
                     struct rg_error *err)
{
    const void *p = object + e->offset;
    const char *text = e->kind == TEXT ? *(char *const *) p : p;

    switch ((enum kind) e->kind) {
    case NUMBER:
        return put_number(e, *(const int *) p, buf, err);
    case BOOL:
        rg_buf_put_u32(buf, *(const bool *) p);
        return 0;
    case U64:
        rg_buf_put_u64(buf, *(const uint64_t *) p);
        return 0;
    case TEXT:
        if (text ? strlen(text) > e->max : e->min > 0)
            return refuse(e, text ? "is too long" : "is missing", err);
        put_text(text, buf);
        return 0;
    case CHARS:
        put_text(text, buf);
        return 0;
    case STRV:
        return put_words(e, p, buf, err);
    case ARRAY:
        return put_array(e, object, buf, err);
    case INTS:
        put_ints(*(int *const *) p, count_of(e, object), buf);
        return 0;
    case END:
        break;
    }
    return 0;
}

static int put_entries(const struct entry *entries, const char *object, struct rg_buf *buf,
                       struct rg_error *err)
{
    int r = 0;

    for (const struct entry *e = entries; r == 0 && e->kind != END; e++)
        r = put_entry(e, object, buf, err);
    return r;
}

int rg_planned_encode(const struct rg_planned *planned, struct rg_buf *buf, struct rg_error *err)
{
    rg_autobuf struct rg_buf body = RG_BUF_INIT;
    int r = put_entries(planned_entries, (const char *) planned, &body, err);

    if (r == 0 && rg_buf_nbytes(&body) > RG_PLAN_FILE_MAX - HEAD_NBYTES)
        return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE, "a plan cannot be written: it has more "
                                 "than %u bytes", RG_PLAN_FILE_MAX);
    rg_buf_put(buf, MAGIC, MAGIC_NBYTES);
    rg_buf_put_u32(buf, RG_PLAN_FILE_VERSION);
    rg_buf_put_u32(buf, (uint32_t) rg_buf_nbytes(&body));
    rg_buf_put(buf, rg_buf_bytes(&body), rg_buf_nbytes(&body));
    if (r == 0 && (rg_buf_status(&body) < 0 || rg_buf_status(buf) < 0))
        r = rg_error_set(err, ENOMEM, "out of memory");
    return r;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct source {
    struct rg_reader reader;
    size_t nbytes; /* of the file */
    struct rg_error *err;
};

static int no_memory(struct source *source)
{
    return rg_error_set(source->err, ENOMEM, "out of memory");
}

/* before: where the field begins, in bytes that were left. */
static int damaged(struct source *source, const char *name, size_t before, const char *how)
{
    return rg_error_set_exit(source->err, EBADMSG, RG_EXIT_USAGE,
                             "the plan is damaged at byte %zu: %s %s", source->nbytes - before,
                             name, source->reader.bad ? "is cut short" : how);
}

/* 0, -EBADMSG, -ENOMEM. */
static int take_text(struct source *source, const struct entry *e, char **ret_text)
{
    size_t before = source->reader.nbytes;
    uint32_t length = rg_reader_u32(&source->reader);
    uint32_t max = e->kind == STRV ? TEXT_MAX : e->max;

    if (!source->reader.bad && length == 0 && e->kind == TEXT && !e->min)
        return 0;
    if (source->reader.bad || length == 0 || length - 1 > max)
        return damaged(source, e->name, before, length ? "is too long" : "is missing");
    const uint8_t *bytes = rg_reader_bytes(&source->reader, length - 1);
    if (!bytes || memchr(bytes, 0, length - 1))
        return damaged(source, e->name, before, "holds a NUL");
    *ret_text = malloc(length);
    if (!*ret_text)
        return no_memory(source);
    memcpy(*ret_text, bytes, length - 1);
    (*ret_text)[length - 1] = '\0';
    return 0;
}

static int take_words(struct source *source, const struct entry *e, struct rg_strv *words)
{
    size_t before = source->reader.nbytes;
    uint32_t count = rg_reader_u32(&source->reader);
    int r = 0;

    if (source->reader.bad || count > e->max)
        return damaged(source, e->name, before, "has too many items");
    for (uint32_t i = 0; r == 0 && i < count; i++) {
        char *text = NULL;
        r = take_text(source, e, &text);
        if (r == 0 && rg_strv_take(words, text) < 0)
            r = no_memory(source);
    }
    return r;
}

static int take_number(struct source *source, const struct entry *e, int *ret_value)
{
    size_t before = source->reader.nbytes;
    uint32_t value = rg_reader_u32(&source->reader);

    if (source->reader.bad || value > e->max || (int) value < e->min)
        return damaged(source, e->name, before, "is beyond its limits");
    *ret_value = (int) value;
    return 0;
}

static int take_chars(struct source *source, const struct entry *e, char *chars)
{
    rg_autofree char *text = NULL;
    struct entry shorter = *e;

    shorter.max--;
    int r = take_text(source, &shorter, &text);
    if (r == 0)
        memcpy(chars, text, strlen(text) + 1);
    return r;
}

/* Room for count elements, each of which is some bytes that must be there. */
static int take_count(struct source *source, const struct entry *e, size_t nbytes, void **ret_room,
                      size_t *ret_count)
{
    size_t before = source->reader.nbytes;
    uint32_t count = rg_reader_u32(&source->reader);

    if (source->reader.bad || count > e->max || count > source->reader.nbytes)
        return damaged(source, e->name, before, "has too many items");
    *ret_room = count ? calloc(count, nbytes) : NULL;
    if (count && !*ret_room)
        return no_memory(source);
    *ret_count = count;
    return 0;
}

static int take_entries(struct source *source, const struct entry *entries, char *object);

static int take_array(struct source *source, const struct entry *e, char *object)
{
    size_t count = 0, nbytes = parts[e->part].nbytes;
    void *room = NULL;
    int r = take_count(source, e, nbytes, &room, &count);

    *(void **) (object + e->offset) = room;
    if (e->count_is_int)
        *(int *) (object + e->count) = (int) count;
    else
        *(size_t *) (object + e->count) = count;
    for (size_t i = 0; r == 0 && i < count; i++)
        r = take_entries(source, parts[e->part].entries, (char *) room + i * nbytes);
    return r;
}

static int take_ints(struct source *source, const struct entry *e, char *object)
{
    size_t count = 0, before = source->reader.nbytes;
    void *room = NULL;
    int r = take_count(source, e, sizeof(int), &room, &count);

    *(void **) (object + e->offset) = room;
    if (r == 0 && count != count_of(e, object) && (count || e->min))
        r = damaged(source, e->name, before, "is not one for each rank");
    for (size_t i = 0; r == 0 && i < count; i++)
        r = take_number(source, &(struct entry){ .name = "a number for each rank", .max = e->max },
                        (int *) room + i);
    return r;
}

static int take_entry(struct source *source, const struct entry *e, char *object)
{
    size_t before = source->reader.nbytes;
    void *p = object + e->offset;
    int flag = 0, r;

    switch ((enum kind) e->kind) {
    case NUMBER:
        return take_number(source, e, p);
    case BOOL:
        r = take_number(source, &(struct entry){ .name = "a flag", .max = 1 }, &flag);
        *(bool *) p = flag;
        return r;
    case U64:
        *(uint64_t *) p = rg_reader_u64(&source->reader);
        return source->reader.bad ? damaged(source, e->name, before, "") : 0;
    case TEXT:
        return take_text(source, e, p);
    case CHARS:
        return take_chars(source, e, p);
    case STRV:
        return take_words(source, e, p);
    case ARRAY:
        return take_array(source, e, object);
    case INTS:
        return take_ints(source, e, object);
    case END:
        break;
    }
    return 0;
}

static int take_entries(struct source *source, const struct entry *entries, char *object)
{
    int r = 0;

    for (const struct entry *e = entries; r == 0 && e->kind != END; e++)
        r = take_entry(source, e, object);
    return r;
}

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

static int take_head(struct source *source)
{
    const uint8_t *magic = rg_reader_bytes(&source->reader, MAGIC_NBYTES);

    if (!magic || memcmp(magic, MAGIC, MAGIC_NBYTES) != 0)
        return rg_error_set_exit(source->err, EBADMSG, RG_EXIT_USAGE, "it is no plan of Reigen's");
    uint32_t version = rg_reader_u32(&source->reader), length = rg_reader_u32(&source->reader);
    if (!source->reader.bad && version != RG_PLAN_FILE_VERSION)
        return rg_error_set_exit(source->err, EPROTONOSUPPORT, RG_EXIT_USAGE,
                                 "another version of Reigen has written the plan (its version is "
                                 "%u, here it is %d); write and run it by one version", version,
                                 RG_PLAN_FILE_VERSION);
    if (source->reader.bad || length != source->reader.nbytes)
        return rg_error_set_exit(source->err, EBADMSG, RG_EXIT_USAGE,
                                 "the plan is %s: it has %zu bytes of %zu",
                                 source->reader.bad || length > source->reader.nbytes
                                     ? "cut short" : "damaged",
                                 source->nbytes, (size_t) length + HEAD_NBYTES);
    return 0;
}

int rg_planned_decode(const void *bytes, size_t nbytes, struct rg_planned *ret_planned,
                      struct rg_error *err)
{
    struct source source = { rg_reader_make(bytes, nbytes), nbytes, err };
    struct rg_planned planned = { 0 };
    int r = take_head(&source);

    if (r == 0)
        r = take_entries(&source, planned_entries, (char *) &planned);
    if (r == 0 && source.reader.nbytes)
        r = damaged(&source, "the end", source.reader.nbytes, "does not come");
    if (r == 0 && !fits_together(&planned.plan))
        r = rg_error_set_exit(err, EBADMSG, RG_EXIT_USAGE,
                              "the plan is damaged: its ranks and hosts do not fit together");
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

int rg_planned_write(const struct rg_planned *planned, const char *path, struct rg_error *err)
{
    rg_autobuf struct rg_buf buf = RG_BUF_INIT;
    int r = rg_planned_encode(planned, &buf, err);

    if (r < 0)
        return r;
    rg_autoclose int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r = fd < 0 || fchmod(fd, 0600) < 0 ? -errno
                                       : rg_write_all(fd, rg_buf_bytes(&buf), rg_buf_nbytes(&buf));
    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_USAGE, "cannot write the plan %s: %s", path,
                                 strerror(-r));
    return 0;
}

int rg_planned_read(const char *path, struct rg_planned *ret_planned, struct rg_error *err)
{
    rg_autofree char *data = NULL;
    size_t nbytes;
    int r = rg_read_file(path, RG_PLAN_FILE_MAX, &data, &nbytes);

    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_USAGE, "cannot read the plan %s: %s", path,
                                 strerror(-r));
    r = rg_planned_decode(data, nbytes, ret_planned, err);
    return r < 0 ? rg_error_prepend(err, path) : 0;
}
