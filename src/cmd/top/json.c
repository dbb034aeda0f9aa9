/* SPDX-License-Identifier: Apache-2.0 */
/* Programs read numbers: units are those of reigen status --json, and what is not known is null. */
#include "cmd/top/json.h"

#include "base/time.h"
#include "head/console/json.h"

static json_t *real(double value, bool known)
{
    return known ? json_real(value) : json_null();
}

/* What ranks, hosts and all of them have. */
static void put_numbers(json_t *object, const struct rg_top_numbers *n)
{
    json_object_set_new(object, "age_s", json_real(n->age_s));
    json_object_set_new(object, "steps", json_integer((json_int_t) n->steps));
    json_object_set_new(object, "steps_per_s", real(n->steps_per_s, n->rated));
    json_object_set_new(object, "communication", real(n->communication, n->rated));
    json_object_set_new(object, "waiting", real(n->waiting, n->rated));
    json_object_set_new(object, "causing", real(n->causing, n->rated));
    json_object_set_new(object, "bytes_per_s", real(n->bytes_per_s, n->rated));
    json_object_set_new(object, "operations_per_s", real(n->operations_per_s, n->rated));
    json_object_set_new(object, "cpu", real(n->cpu, n->rated));
    json_object_set_new(object, "resident_bytes",
                        n->resident > 0 ? json_integer((json_int_t) n->resident) : json_null());
}

static json_t *name_of(const struct rg_top_reading *reading, int host)
{
    return host < 0 ? json_null() : rg_json_text(reading->hosts[host].name);
}

static json_t *late(const struct rg_top_reading *reading)
{
    json_t *object = json_object();

    if (reading->late_rank < 0 && reading->late_host < 0) {
        json_decref(object);
        return json_null();
    }
    json_object_set_new(object, "host", name_of(reading, reading->late_host));
    json_object_set_new(object, "rank",
                        reading->late_rank < 0
                            ? json_null()
                            : json_integer(reading->ranks[reading->late_rank].rank));
    json_object_set_new(object, "causing", json_real(reading->late_causing));
    return object;
}

static json_t *text_or_null(const char *text)
{
    return text ? rg_json_text(text) : json_null();
}

static json_t *why_late(const struct rg_top_why *why)
{
    const struct rg_lateness *diagnosis = &why->diagnosis;
    json_t *object;

    if (!diagnosis->cause)
        return json_null();
    object = json_object();
    json_object_set_new(object, "cause", json_string(rg_cause_name(diagnosis->cause)));
    json_object_set_new(object, "rank", diagnosis->late.rank < 0
                                            ? json_null()
                                            : json_integer(diagnosis->late.rank));
    json_object_set_new(object, "host", text_or_null(why->host));
    json_object_set_new(object, "to", text_or_null(why->to));
    json_object_set_new(object, "share", json_real(diagnosis->share));
    json_object_set_new(object, "value", json_real(diagnosis->value));
    json_object_set_new(object, "usual", json_real(diagnosis->usual));
    return object;
}

static json_t *hosts(const struct rg_top_reading *reading)
{
    json_t *list = json_array();

    for (size_t h = 0; h < reading->nhosts; h++) {
        const struct rg_top_host *host = &reading->hosts[h];
        json_t *one = json_object();
        json_object_set_new(one, "host", rg_json_text(host->name));
        json_object_set_new(one, "ranks", json_integer((json_int_t) host->nranks));
        if (host->nranks)
            put_numbers(one, &host->n);
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *ranks(const struct rg_top_reading *reading)
{
    json_t *list = json_array();

    for (size_t i = 0; i < reading->nranks; i++) {
        const struct rg_top_rank *rank = &reading->ranks[i];
        json_t *one = json_object();
        json_object_set_new(one, "rank", json_integer(rank->rank));
        json_object_set_new(one, "host", name_of(reading, rank->host));
        put_numbers(one, &rank->n);
        json_array_append_new(list, one);
    }
    return list;
}

json_t *rg_top_json(const struct rg_top_watch *watch)
{
    const struct rg_top_reading *reading = &watch->reading;
    const struct rg_registry_job *job = &watch->job;
    uint64_t now_s = rg_wall_ns() / RG_NS_PER_S;
    json_t *object = json_object();

    json_object_set_new(object, "job", rg_json_text(job->id));
    json_object_set_new(object, "time", json_integer((json_int_t) now_s));
    json_object_set_new(object, "state",
                        json_string(watch->over ? "ended"
                                    : rg_top_watch_is_stale(watch) ? "silent"
                                    : rg_registry_starts(job) ? "starting" : "running"));
    json_object_set_new(object, "exit_code",
                        watch->over && job->exit_code >= 0 ? json_integer(job->exit_code)
                                                           : json_null());
    json_object_set_new(object, "elapsed_s",
                        json_integer((json_int_t) (now_s > job->began_s ? now_s - job->began_s
                                                                        : 0)));
    if (reading->nranks)
        put_numbers(object, &reading->all);
    json_object_set_new(object, "waited_for", late(reading));
    json_object_set_new(object, "diagnosis", why_late(&reading->why));
    json_object_set_new(object, "hosts", hosts(reading));
    json_object_set_new(object, "ranks", ranks(reading));
    return object;
}
