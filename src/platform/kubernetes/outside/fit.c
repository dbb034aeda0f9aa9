/* SPDX-License-Identifier: Apache-2.0 */
/* How many of a job's pods each node would take: what the scheduler's usual filters say, from what
 * the API server tells of nodes and pods. All pods of a job are equal, so counting is enough. */
#include <stdio.h>
#include <string.h>

#include "platform/kubernetes/outside/fit.h"
#include "job/job.h"

/* --- quantities ------------------------------------------------------------------------------- */

static int64_t round_up(long double value)
{
    if (value >= (long double) KUBE_MILLI_MAX)
        return KUBE_MILLI_MAX;
    int64_t whole = value > 0 ? (int64_t) value : 0;
    return value - (long double) whole > 1e-6L ? whole + 1 : whole;
}

int64_t kube_milli(const char *text)
{
    static const char units[] = "kMGTPE";
    char *end;
    long double value = strtold(text, &end) * 1000;
    const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;

    if (end == text)
        return 0;
    if (*end == 'm' || *end == 'u' || *end == 'n')
        return round_up(value / (*end == 'm' ? 1e3L : *end == 'u' ? 1e6L : 1e9L));
    for (const char *u = units; unit && u <= unit; u++)
        value *= end[1] == 'i' ? 1024 : 1000;
    return round_up(value);
}

const char *kube_amount(const char *resource, int64_t milli, char *buf, size_t nbytes)
{
    static const char *const units[] = { "", "Ki", "Mi", "Gi", "Ti", "Pi" };
    bool bytes = strcmp(resource, "memory") == 0 || rg_str_starts(resource, "hugepages-") ||
                 strcmp(resource, "ephemeral-storage") == 0;
    double value = (double) milli / 1e3;
    size_t unit = 0;

    for (; bytes && value >= 1024 && unit + 1 < rg_array_len(units); unit++)
        value /= 1024;
    if (bytes)
        snprintf(buf, nbytes, "%.*f%s", value - (double) (int64_t) value < 0.05 ? 0 : 1, value,
                 units[unit]);
    else
        snprintf(buf, nbytes, milli % 1000 ? "%lldm" : "%lld",
                 (long long) (milli % 1000 ? milli : milli / 1000));
    return buf;
}

static int64_t get(const json_t *amounts, const char *name)
{
    return json_integer_value(json_object_get(amounts, name));
}

static void set(json_t *amounts, const char *name, int64_t milli)
{
    int64_t most = milli < KUBE_MILLI_MAX ? milli : KUBE_MILLI_MAX;

    json_object_set_new(amounts, name, json_integer(most));
}

static void add(json_t *sum, const json_t *more, int sign)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *) more, name, value)
        set(sum, name, get(sum, name) + sign * json_integer_value(value));
}

static void raise_to(json_t *sum, const json_t *least)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *) least, name, value) {
        if (get(sum, name) < json_integer_value(value))
            set(sum, name, json_integer_value(value));
    }
}

static json_t *read_amounts(const json_t *quantities)
{
    json_t *amounts = json_object(), *value;
    const char *name;

    json_object_foreach((json_t *) quantities, name, value) {
        char number[32] = "";
        if (json_is_number(value))
            snprintf(number, sizeof(number), "%.17g", json_number_value(value));
        set(amounts, name, kube_milli(json_is_string(value) ? json_string_value(value) : number));
    }
    return amounts;
}

/* Where a limit is said and no request, the request is the same. */
static json_t *of_container(const json_t *container, const char *part)
{
    json_t *amounts = read_amounts(kube_at(container, "resources.limits"));

    if (strcmp(part, "requests") == 0) {
        KUBE_AUTO_JSON json_t *said = read_amounts(kube_at(container, "resources.requests"));
        json_object_update(amounts, said);
    }
    return amounts;
}

json_t *kube_pod_amounts(const json_t *spec, const char *part)
{
    KUBE_AUTO_JSON json_t *before = json_object(), *most = json_object();
    json_t *sum = json_object();
    const json_t *container;
    size_t i;

    json_array_foreach(json_object_get(spec, "initContainers"), i, container) {
        KUBE_AUTO_JSON json_t *own = of_container(container, part);
        bool stays = strcmp(kube_text(container, "restartPolicy"), "Always") == 0;
        add(own, before, 1);
        raise_to(most, own);
        if (stays)
            json_object_update(before, own);
    }
    json_array_foreach(json_object_get(spec, "containers"), i, container) {
        KUBE_AUTO_JSON json_t *own = of_container(container, part);
        add(sum, own, 1);
    }
    add(sum, before, 1);
    raise_to(sum, most);
    KUBE_AUTO_JSON json_t *whole = of_container(spec, part);
    if (json_object_get(spec, "resources"))
        json_object_update(sum, whole);
    KUBE_AUTO_JSON json_t *overhead = read_amounts(json_object_get(spec, "overhead"));
    if (json_object_size(sum))
        add(sum, overhead, 1);
    return sum;
}

/* --- which nodes will do ---------------------------------------------------------------------- */

static bool tolerates(const json_t *toleration, const json_t *taint)
{
    const char *key = kube_text(toleration, "key"), *effect = kube_text(toleration, "effect");
    bool exists = strcmp(kube_text(toleration, "operator"), "Exists") == 0;

    if (*effect && strcmp(effect, kube_text(taint, "effect")) != 0)
        return false;
    if (!*key)
        return exists;
    return strcmp(key, kube_text(taint, "key")) == 0 &&
           (exists || strcmp(kube_text(toleration, "value"), kube_text(taint, "value")) == 0);
}

/* The first taint that keeps the pods away, or NULL. */
static const json_t *find_taint(const json_t *node, const json_t *spec)
{
    const json_t *taint, *toleration;
    size_t i, k;

    json_array_foreach(kube_at(node, "spec.taints"), i, taint) {
        bool borne = strcmp(kube_text(taint, "effect"), "PreferNoSchedule") == 0;
        json_array_foreach(json_object_get(spec, "tolerations"), k, toleration)
            borne |= tolerates(toleration, taint);
        if (!borne)
            return taint;
    }
    return NULL;
}

/* Taints that the cluster sets itself, and takes away when their cause is gone. */
static const struct {
    const char *key, *why;
} passing[] = {
    { "node.kubernetes.io/not-ready", "it is not ready" },
    { "node.kubernetes.io/unreachable", "it is not ready" },
    { "node.kubernetes.io/network-unavailable", "it has no network" },
    { "node.kubernetes.io/disk-pressure", "it is short of disk space" },
    { "node.kubernetes.io/memory-pressure", "it is short of memory" },
    { "node.kubernetes.io/pid-pressure", "it is short of process ids" },
    { "node.kubernetes.io/unschedulable", "it is cordoned" },
};

static char *say_taint(const json_t *taint, bool *ret_passes)
{
    const char *key = kube_text(taint, "key"), *value = kube_text(taint, "value");

    for (size_t i = 0; i < rg_array_len(passing); i++) {
        *ret_passes = strcmp(passing[i].key, key) == 0;
        if (*ret_passes)
            return strdup(passing[i].why);
    }
    return rg_strf("taint %s%s%s:%s", key, *value ? "=" : "", value, kube_text(taint, "effect"));
}

static bool has_text(const json_t *list, const char *text)
{
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item) {
        if (json_is_string(item) && strcmp(json_string_value(item), text) == 0)
            return true;
    }
    return false;
}

/* An expression of a selector, about labels or fields. */
static bool fits_expression(const json_t *expression, const json_t *labels)
{
    const char *how = kube_text(expression, "operator");
    const char *value = json_string_value(json_object_get(labels, kube_text(expression, "key")));
    const json_t *values = json_object_get(expression, "values");
    const char *first = json_string_value(json_array_get(values, 0));

    if (strcmp(how, "Exists") == 0 || strcmp(how, "DoesNotExist") == 0)
        return (value != NULL) == (strcmp(how, "Exists") == 0);
    if (strcmp(how, "In") == 0)
        return value && has_text(values, value);
    if (strcmp(how, "NotIn") == 0)
        return !value || !has_text(values, value);
    if (!value || !first)
        return false;
    long long have = atoll(value), want = atoll(first);
    return strcmp(how, "Gt") == 0 ? have > want : strcmp(how, "Lt") == 0 && have < want;
}

static bool fit_all(const json_t *expressions, const json_t *labels)
{
    const json_t *expression;
    size_t i;

    json_array_foreach(expressions, i, expression) {
        if (!fits_expression(expression, labels))
            return false;
    }
    return true;
}

static bool fits_affinity(const json_t *node, const json_t *spec)
{
    const json_t *terms = kube_at(spec, "affinity.nodeAffinity."
                                        "requiredDuringSchedulingIgnoredDuringExecution."
                                        "nodeSelectorTerms"), *term;
    KUBE_AUTO_JSON json_t *fields = json_pack("{s:s}", "metadata.name",
                                              kube_text(node, "metadata.name"));
    size_t i;

    json_array_foreach(terms, i, term) {
        const json_t *labels = json_object_get(term, "matchExpressions"),
                     *names = json_object_get(term, "matchFields");
        if (json_array_size(labels) + json_array_size(names) > 0 &&
            fit_all(labels, kube_at(node, "metadata.labels")) && fit_all(names, fields))
            return true;
    }
    return json_array_size(terms) == 0;
}

/* Why the node takes no pod of the job, whatever runs there; NULL: it would. ret_passes: that will
 * be over some time. */
static char *find_obstacle(const json_t *node, const json_t *spec, bool *ret_passes)
{
    const json_t *taint = find_taint(node, spec);
    const json_t *labels = kube_at(node, "metadata.labels");
    const char *key, *name = kube_text(spec, "nodeName");
    json_t *value;

    if (*name && strcmp(name, kube_text(node, "metadata.name")) != 0)
        return rg_strf("the pods want node %s", name);
    json_object_foreach(json_object_get(spec, "nodeSelector"), key, value) {
        const char *has = json_string_value(json_object_get(labels, key));
        if (!has || strcmp(has, json_string_value(value) ? json_string_value(value) : "") != 0)
            return rg_strf("no label %s=%s", key, json_string_value(value));
    }
    if (!fits_affinity(node, spec))
        return strdup("the affinity asks for another one");
    return taint ? say_taint(taint, ret_passes) : NULL;
}

/* --- pods that keep others away --------------------------------------------------------------- */

static bool is_selected(const json_t *selector, const json_t *labels)
{
    const char *key;
    json_t *value;

    if (!json_is_object(selector))
        return false;
    json_object_foreach(json_object_get(selector, "matchLabels"), key, value) {
        const char *has = json_string_value(json_object_get(labels, key));
        if (!has || strcmp(has, json_string_value(value)) != 0)
            return false;
    }
    return fit_all(json_object_get(selector, "matchExpressions"), labels);
}

/* The label of nodes in whose domains there may be but one pod of the job, or NULL. */
static const char *find_apart(const struct kube_fit *fit)
{
    const json_t *terms = kube_at(fit->pod, "spec.affinity.podAntiAffinity."
                                            "requiredDuringSchedulingIgnoredDuringExecution");
    const json_t *term;
    size_t i;

    json_array_foreach(terms, i, term) {
        if (is_selected(json_object_get(term, "labelSelector"),
                        kube_at(fit->pod, "metadata.labels")))
            return kube_text(term, "topologyKey");
    }
    return NULL;
}

/* Host ports of a pod, as {"port": 1}. */
static json_t *host_ports(const json_t *spec)
{
    json_t *ports = json_object();
    const json_t *container, *port;
    size_t i, k;

    json_array_foreach(json_object_get(spec, "containers"), i, container) {
        json_array_foreach(json_object_get(container, "ports"), k, port) {
            const json_t *number = json_object_get(port, "hostPort");
            char text[24];
            snprintf(text, sizeof(text), "%lld", (long long) json_integer_value(number));
            if (number)
                json_object_set_new(ports, text, json_true());
        }
    }
    return ports;
}

/* --- one node --------------------------------------------------------------------------------- */

static bool is_of_node(const json_t *pod)
{
    const json_t *owner;
    size_t i;

    json_array_foreach(kube_at(pod, "metadata.ownerReferences"), i, owner) {
        if (rg_str_has_word("DaemonSet Node", kube_text(owner, "kind")))
            return true;
    }
    return false;
}

struct room {
    json_t *all, *now, *empty; /* what it has; what is left; and what would be, if nothing ran */
    bool port_taken;
};

/* pods: those of this node. */
static void fill_room(struct room *room, const json_t *node, const json_t *pods,
                      const json_t *ports)
{
    const char *port;
    const json_t *pod;
    json_t *value;
    size_t i;

    room->all = read_amounts(kube_at(node, "status.allocatable"));
    room->now = json_deep_copy(room->all);
    room->empty = json_deep_copy(room->all);
    json_array_foreach(pods, i, pod) {
        KUBE_AUTO_JSON json_t *takes = kube_pod_amounts(json_object_get(pod, "spec"), "requests");
        KUBE_AUTO_JSON json_t *its = host_ports(json_object_get(pod, "spec"));
        set(takes, "pods", 1000);
        add(room->now, takes, -1);
        if (is_of_node(pod))
            add(room->empty, takes, -1);
        json_object_foreach((json_t *) ports, port, value)
            room->port_taken |= json_object_get(its, port) != NULL;
    }
}

static void free_room(struct room *room)
{
    json_decref(room->all);
    json_decref(room->now);
    json_decref(room->empty);
}

/* How many go in, and what there is too little of for one more. */
static int count_in(const json_t *wanted, const json_t *left, int most, const char **ret_scarce)
{
    const char *name;
    json_t *value;

    *ret_scarce = NULL;
    json_object_foreach((json_t *) wanted, name, value) {
        int64_t each = json_integer_value(value), have = get(left, name);
        if (each <= 0)
            continue;
        int64_t fits = have > 0 ? have / each : 0;
        if (fits < most) {
            most = (int) fits;
            *ret_scarce = name;
        }
    }
    return most;
}

static char *say_scarce(const char *scarce, const struct room *room, const json_t *wanted, int nnow)
{
    int64_t left = get(room->now, scarce);
    char now[40], all[40], each[40];

    if (!get(room->all, scarce))
        return rg_strf("it has no %s", scarce);
    if (strcmp(scarce, "pods") == 0)
        return rg_strf("it may have no more pods");
    return rg_strf("%s: %s of %s free%s%s", scarce,
                   kube_amount(scarce, left > 0 ? left : 0, now, sizeof(now)),
                   kube_amount(scarce, get(room->all, scarce), all, sizeof(all)),
                   nnow ? "" : ", a pod wants ",
                   nnow ? "" : kube_amount(scarce, get(wanted, scarce), each, sizeof(each)));
}

static void judge_node(const struct kube_fit *fit, const json_t *node, const json_t *pods,
                       const json_t *wanted, struct rg_outlook *outlook)
{
    KUBE_AUTO_JSON json_t *ports = host_ports(json_object_get(fit->pod, "spec"));
    const char *name = kube_text(node, "metadata.name"), *scarce, *scarce_empty;
    bool passes = false;
    char *why = find_obstacle(node, json_object_get(fit->pod, "spec"), &passes);
    struct room room = { .port_taken = false };

    if (why && !passes) {
        rg_outlook_add_node(outlook, name, 0, 0, why);
        return;
    }
    fill_room(&room, node, pods, ports);
    int most = json_object_size(ports) ? 1 : fit->npods;
    int nempty = count_in(wanted, room.empty, most, &scarce_empty);
    int nnow = count_in(wanted, room.now, passes || room.port_taken ? 0 : most, &scarce);
    if (passes)
        scarce = NULL; /* said already */
    else if (room.port_taken)
        why = strdup("a pod there has the host's port");
    else if (scarce)
        why = say_scarce(scarce, &room, wanted, nnow);
    else
        why = strdup(most < fit->npods ? "one pod can have the host's port" : "");
    rg_outlook_add_node(outlook, name, nnow, nempty, why);
    free_room(&room);
}

/* --- all nodes -------------------------------------------------------------------------------- */

static const json_t *find_node(const json_t *nodes, const char *name)
{
    const json_t *node;
    size_t i;

    json_array_foreach(nodes, i, node) {
        if (strcmp(kube_text(node, "metadata.name"), name) == 0)
            return node;
    }
    return NULL;
}

static const char *domain_of(const struct kube_fit *fit, const char *node, const char *label)
{
    const char *domain = json_string_value(json_object_get(
        kube_at(find_node(fit->nodes, node), "metadata.labels"), label));

    return domain ? domain : "";
}

/* One pod in each domain, on the first of its nodes that takes one. */
static void keep_apart(const struct kube_fit *fit, const char *label, struct rg_outlook *outlook)
{
    KUBE_AUTO_JSON json_t *used = json_object(), *used_empty = json_object();

    for (size_t i = 0; i < outlook->nnodes; i++) {
        struct rg_outlook_node *node = &outlook->nodes[i];
        const char *domain = domain_of(fit, node->name, label);
        bool first = node->nnow && !json_object_get(used, domain);
        bool first_empty = node->nempty && !json_object_get(used_empty, domain);
        if (node->nnow > 0 && (node->nnow > 1 || !first)) {
            free(node->why);
            node->why = rg_strf("the affinity allows one pod for each %s", label);
            outlook->errnum = node->why ? outlook->errnum : ENOMEM;
        }
        node->nnow = first;
        node->nempty = first_empty;
        if (first)
            json_object_set_new(used, domain, json_true());
        if (first_empty)
            json_object_set_new(used_empty, domain, json_true());
    }
}

/* The pods that have not ended, by the names of their nodes. */
static json_t *sort_pods(const json_t *pods)
{
    json_t *by_node = json_object();
    json_t *pod;
    size_t i;

    json_array_foreach(pods, i, pod) {
        const char *name = kube_text(pod, "spec.nodeName");
        if (rg_str_has_word("Succeeded Failed", kube_text(pod, "status.phase")))
            continue;
        if (!json_object_get(by_node, name))
            json_object_set_new(by_node, name, json_array());
        json_array_append(json_object_get(by_node, name), pod);
    }
    return by_node;
}

void kube_fit_nodes(const struct kube_fit *fit, struct rg_outlook *outlook)
{
    KUBE_AUTO_JSON json_t *wanted = kube_pod_amounts(json_object_get(fit->pod, "spec"), "requests");
    KUBE_AUTO_JSON json_t *by_node = sort_pods(fit->pods);
    const char *apart = find_apart(fit);
    const json_t *node;
    size_t i;

    set(wanted, "pods", 1000);
    json_array_foreach(fit->nodes, i, node)
        judge_node(fit, node, json_object_get(by_node, kube_text(node, "metadata.name")), wanted,
                   outlook);
    rg_outlook_sort(outlook);
    if (apart)
        keep_apart(fit, apart, outlook);
}

int kube_fit_waiting(const struct kube_fit *fit)
{
    const json_t *pod;
    int count = 0;
    size_t i;

    json_array_foreach(fit->pods, i, pod) {
        count += !*kube_text(pod, "spec.nodeName") &&
                 strcmp(kube_text(pod, "status.phase"), "Pending") == 0 &&
                 !json_array_size(kube_at(pod, "spec.schedulingGates"));
    }
    return count;
}

/* --- quotas ----------------------------------------------------------------------------------- */

/* What the job takes of a quota's item, in thousandths; -1: nothing of it is the job's. */
static int64_t take_of_quota(const char *item, const struct kube_fit *fit, const json_t *requests,
                             const json_t *limits, const json_t *counts)
{
    const json_t *part = requests;
    const char *name = item;

    if (json_object_get(counts, item))
        return get(counts, item) * 1000;
    if (rg_str_starts(item, "limits."))
        part = limits;
    if (rg_str_starts(item, "limits.") || rg_str_starts(item, "requests."))
        name = strchr(item, '.') + 1;
    if (!json_object_get(part, name))
        return -1;
    int64_t each = get(part, name);
    return each > KUBE_MILLI_MAX / fit->npods ? KUBE_MILLI_MAX : each * fit->npods;
}

static enum rg_outlook_level judge_item(const char *quota, const char *item, int64_t hard,
                                        int64_t used, int64_t takes, struct rg_outlook *outlook)
{
    const char *resource = strchr(item, '.') && !strchr(item, '/') ? strchr(item, '.') + 1 : item;
    char h[40], u[40], t[40];

    if (takes <= hard - used)
        return RG_OUTLOOK_OK;
    kube_amount(resource, hard, h, sizeof(h));
    kube_amount(resource, used, u, sizeof(u));
    kube_amount(resource, takes, t, sizeof(t));
    bool never = takes > hard;
    if (never)
        rg_outlook_add(outlook, "quota", RG_OUTLOOK_REFUSED, RG_EXIT_UNAVAILABLE,
                       "%s allows %s %s, and the job wants %s; ask for less (--cpu, --memory, "
                       "--gpus, -np)", quota, item, h, t);
    else
        rg_outlook_add(outlook, "quota", RG_OUTLOOK_WAITS, 0,
                       "%s allows %s %s, of which %s is in use, and the job wants %s; wait until "
                       "others have ended, or ask for less", quota, item, h, u, t);
    return never ? RG_OUTLOOK_REFUSED : RG_OUTLOOK_WAITS;
}

void kube_fit_quotas(const struct kube_fit *fit, const json_t *quotas, const json_t *counts,
                     struct rg_outlook *outlook)
{
    const json_t *spec = json_object_get(fit->pod, "spec"), *quota;
    KUBE_AUTO_JSON json_t *requests = kube_pod_amounts(spec, "requests"),
                          *limits = kube_pod_amounts(spec, "limits");
    enum rg_outlook_level worst = RG_OUTLOOK_OK;
    const char *item;
    json_t *hard;
    size_t i;

    json_array_foreach(quotas, i, quota) {
        const char *name = kube_text(quota, "metadata.name");
        const json_t *used = kube_at(quota, "status.used");
        if (kube_at(quota, "spec.scopes") || kube_at(quota, "spec.scopeSelector")) {
            worst = worst > RG_OUTLOOK_UNKNOWN ? worst : RG_OUTLOOK_UNKNOWN;
            rg_outlook_add(outlook, "quota", RG_OUTLOOK_UNKNOWN, 0,
                           "%s is for some pods only; it was not looked at", name);
            continue;
        }
        json_object_foreach((json_t *) kube_at(quota, "spec.hard"), item, hard) {
            int64_t takes = take_of_quota(item, fit, requests, limits, counts);
            const char *text = json_string_value(json_object_get(used, item));
            enum rg_outlook_level level =
                takes < 0 ? RG_OUTLOOK_OK
                          : judge_item(name, item, kube_milli(json_string_value(hard)),
                                       kube_milli(text ? text : "0"), takes, outlook);
            worst = worst > level ? worst : level;
        }
    }
    if (worst == RG_OUTLOOK_OK && json_array_size(quotas))
        rg_outlook_add(outlook, "quota", RG_OUTLOOK_OK, 0, "the job stays within %zu quota%s",
                       json_array_size(quotas), json_array_size(quotas) == 1 ? "" : "s");
}
