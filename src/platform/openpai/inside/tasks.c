/* SPDX-License-Identifier: Apache-2.0 */
/* Variables come from two generations of servers, from people who try a job at home, and from
 * images that set their own: each is judged when it is read. */
#include "platform/openpai/inside/tasks.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "job/job.h"

#define HEAD_ROLE "master"
#define VARIABLE_MAX 256
#define KEY_FILE_MAX 65536
#define ROLES_MAX 1024
#define POD_GRACE_S 30 /* of a pod that does not say it */

static const char *const role_names[] = { "PAI_CURRENT_TASK_ROLE_NAME", "PAI_TASK_ROLE_NAME",
                                          NULL };
static const char *const index_names[] = { "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX",
                                           "PAI_TASK_INDEX", "PAI_TASK_ROLE_INDEX", NULL };
static const char *const list_names[] = { "PAI_TASK_ROLE_LIST", "PAI_JOB_TASK_ROLE_LIST", NULL };
/* Of the own role, where nothing tells of each. */
static const char *const gpu_names[] = { "PAI_RESOURCE", "PAI_CURRENT_TASK_ROLE_GPU_COUNT",
                                         "PAI_TASK_GPU_NUM", NULL };

void rg_tasks_fini(struct rg_tasks *tasks)
{
    rg_strv_fini(&tasks->names);
    free(rg_steal_ptr(&tasks->nslots));
}

/* --- variables -------------------------------------------------------------------------------- */

static const char *value_of(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* The first that is set; ret_name tells which, or the first of all. */
static const char *find(const char *const *names, const char **ret_name)
{
    for (*ret_name = names[0]; *names; names++) {
        if (value_of(*names))
            return value_of(*ret_name = *names);
    }
    return NULL;
}

static const char *valuef(char name[VARIABLE_MAX], const char *fmt, ...) rg_printf(2, 3);

static const char *valuef(char name[VARIABLE_MAX], const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    int n = vsnprintf(name, VARIABLE_MAX, fmt, args);
    va_end(args);
    return n < VARIABLE_MAX ? value_of(name) : NULL;
}

static int missing(const char *name, const char *what, struct rg_error *err)
{
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                             "%s is not set, which tells %s: OpenPAI sets it in each task of a "
                             "job", name, what);
}

static int number(const char *name, const char *text, int64_t min, int64_t max, int64_t *ret_n,
                  struct rg_error *err)
{
    int r = rg_parse_int(name, text, min, max, ret_n, err);

    if (r < 0 && err)
        err->exit_code = RG_EXIT_USAGE;
    return r;
}

bool rg_tasks_here(void)
{
    const char *name;

    return find(role_names, &name) != NULL;
}

uint64_t rg_tasks_notice_ms(void)
{
    return value_of("FC_POD_UID") ? rg_job_notice_ms(POD_GRACE_S) : 0;
}

/* --- roles ------------------------------------------------------------------------------------ */

static int read_roles(struct rg_strv *roles, struct rg_error *err)
{
    const char *name, *list = find(list_names, &name);

    if (!list)
        return missing(name, "the job's roles", err);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
        size_t n = strcspn(p, ",");
        if (!n || n > RG_TASKS_NAME_MAX || strcspn(p, " \t\n/") < n || roles->count == ROLES_MAX)
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "%s %.200s: no list of roles, as \"master,worker\" is one",
                                     name, list);
        rg_strv_take(roles, strndup(p, n));
    }
    return rg_strv_status(roles) < 0 ? rg_error_memory(err) : 0;
}

/* How many tasks a role has. */
static int count_tasks(const char *role, int *ret_count, struct rg_error *err)
{
    char name[VARIABLE_MAX], list_name[VARIABLE_MAX];
    const char *text = valuef(name, "PAI_TASK_ROLE_TASK_COUNT_%s", role);
    const char *list = valuef(list_name, "PAI_TASK_ROLE_%s_HOST_LIST", role);
    int64_t n = 1;

    if (!text && !list)
        return missing(name, "how many tasks the role has", err);
    if (text) {
        int r = number(name, text, 0, RG_JOB_HOSTS_MAX, &n, err);
        if (r < 0)
            return r;
    }
    for (const char *p = list; !text && *p; p++)
        n += *p == ',';
    *ret_count = (int) n;
    return 0;
}

/* What the role's tasks have as slots: numbers that are none count as 0. */
static int count_slots(const char *role)
{
    char name[VARIABLE_MAX], first[16];
    const char *which, *text = valuef(name, "PAI_RESOURCE_%s", role);
    int64_t n = 0;

    if (!text)
        text = find(gpu_names, &which);
    if (text && strcspn(text, ",") < sizeof(first)) {
        snprintf(first, sizeof(first), "%.*s", (int) strcspn(text, ","), text);
        rg_parse_int("", first, 0, RG_JOB_SLOTS_MAX, &n, NULL);
    }
    return n > 0 ? (int) n : 1;
}

static int add_task(struct rg_tasks *tasks, const char *role, int index, int nslots,
                    struct rg_error *err)
{
    char name[VARIABLE_MAX];
    size_t n = tasks->names.count;

    if (n == RG_JOB_HOSTS_MAX)
        return rg_error_set_exit(err, E2BIG, RG_EXIT_USAGE,
                                 "a job on OpenPAI with more than %d tasks", RG_JOB_HOSTS_MAX);
    if (snprintf(name, sizeof(name), "%s-%d", role, index) > RG_TASKS_NAME_MAX)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "the role %s: a task's name has at most %d characters", role,
                                 RG_TASKS_NAME_MAX);
    if (rg_grow(&tasks->nslots, &tasks->capacity, n + 1) < 0 ||
        rg_strv_add(&tasks->names, name) < 0)
        return rg_error_memory(err);
    tasks->nslots[n] = nslots;
    tasks->ssh &= n == 0 || valuef(name, "PAI_PORT_LIST_%s_%d_ssh", role, index) != NULL;
    return 0;
}

static int add_roles(struct rg_tasks *tasks, const struct rg_strv *roles, const char *head,
                     struct rg_error *err)
{
    int r = add_task(tasks, head, 0, count_slots(head), err);

    for (size_t i = 0; r == 0 && i < roles->count; i++) {
        int count = 0, nslots = count_slots(roles->v[i]);
        r = count_tasks(roles->v[i], &count, err);
        for (int k = strcmp(roles->v[i], head) == 0; r == 0 && k < count; k++)
            r = add_task(tasks, roles->v[i], k, nslots, err);
    }
    return r;
}

static const char *head_of(const struct rg_strv *roles)
{
    return rg_strv_has(roles, HEAD_ROLE) ? HEAD_ROLE : roles->v[0];
}

static int find_own(struct rg_tasks *tasks, struct rg_error *err)
{
    const char *role_name, *index_name, *role = find(role_names, &role_name);
    const char *text = find(index_names, &index_name);
    char name[VARIABLE_MAX];
    int64_t index = 0;

    if (!role || !text)
        return missing(role ? index_name : role_name, "which task this is", err);
    int r = number(index_name, text, 0, RG_JOB_HOSTS_MAX, &index, err);
    if (r < 0)
        return r;
    snprintf(name, sizeof(name), "%.*s-%d", RG_TASKS_NAME_MAX, role, (int) index);
    for (tasks->own = 0; tasks->own < tasks->names.count; tasks->own++) {
        if (strcmp(tasks->names.v[tasks->own], name) == 0)
            return 0;
    }
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                             "%s %s with %s %s: PAI_TASK_ROLE_LIST and "
                             "PAI_TASK_ROLE_TASK_COUNT_* tell of no such task",
                             role_name, role, index_name, text);
}

int rg_tasks_read(struct rg_tasks *tasks, struct rg_error *err)
{
    rg_autostrv struct rg_strv roles = RG_STRV_INIT;
    int r = read_roles(&roles, err);

    if (r < 0)
        return r;
    tasks->ssh = true;
    r = add_roles(tasks, &roles, head_of(&roles), err);
    return r < 0 ? r : find_own(tasks, err);
}

/* --- the head --------------------------------------------------------------------------------- */

/* The first of the ports of this label that the head's task has. */
static int find_port(const char *head, const char *label, int *ret_port, struct rg_error *err)
{
    char name[VARIABLE_MAX], first[8];
    const char *text = valuef(name, "PAI_PORT_LIST_%s_0_%s", head, label);
    int64_t port = 0;

    if (!text)
        text = valuef(name, "PAI_%s_0_%s_PORT", head, label);
    if (!text)
        return -ENOENT;
    snprintf(first, sizeof(first), "%.*s", (int) strcspn(text, ","), text);
    int r = number(name, first, 1, UINT16_MAX, &port, err);
    *ret_port = (int) port;
    return r;
}

int rg_tasks_port(int *ret_port, struct rg_error *err)
{
    rg_autostrv struct rg_strv roles = RG_STRV_INIT;
    const char *own = value_of(RG_TASKS_PORT);
    int64_t port = 0;
    int r;

    if (own) {
        r = number(RG_TASKS_PORT, own, 1, UINT16_MAX, &port, err);
        if (r == 0)
            *ret_port = (int) port;
        return r;
    }
    r = read_roles(&roles, err);
    if (r < 0)
        return r;
    r = find_port(head_of(&roles), "reigen", ret_port, err);
    if (r == -ENOENT)
        r = find_port(head_of(&roles), "http", ret_port, err);
    if (r == -ENOENT)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "neither PAI_PORT_LIST_%s_0_reigen nor PAI_PORT_LIST_%s_0_http is "
                                 "set, so the head's port is not known: give its role a port of "
                                 "the label reigen, or set " RG_TASKS_PORT " in all tasks",
                                 head_of(&roles), head_of(&roles));
    return r;
}

int rg_tasks_head(char ret_address[RG_TASKS_ADDRESS_MAX], struct rg_error *err)
{
    rg_autostrv struct rg_strv roles = RG_STRV_INIT;
    char name[VARIABLE_MAX], list_name[VARIABLE_MAX], ip[INET6_ADDRSTRLEN] = "";
    uint8_t bytes[sizeof(struct in6_addr)];
    int port = 0, r = read_roles(&roles, err);

    if (r == 0)
        r = rg_tasks_port(&port, err);
    if (r < 0)
        return r;
    const char *text = valuef(name, "PAI_HOST_IP_%s_0", head_of(&roles));
    const char *list = valuef(list_name, "PAI_TASK_ROLE_%s_HOST_LIST", head_of(&roles));
    if (!text && !list)
        return missing(name, "the head's address", err);
    /* "10.0.0.1:4321,10.0.0.2:4321" */
    snprintf(ip, sizeof(ip), "%.*s", (int) (text ? strlen(text) : strcspn(list, ":,")),
             text ? text : list);
    bool six = inet_pton(AF_INET6, ip, bytes) == 1;
    if (!six && inet_pton(AF_INET, ip, bytes) != 1)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s %.60s: not an address",
                                 text ? name : list_name, text ? text : list);
    snprintf(ret_address, RG_TASKS_ADDRESS_MAX, six ? "[%s]:%d" : "%s:%d", ip, port);
    return 0;
}

/* --- the key ---------------------------------------------------------------------------------- */

static void forget(char *text, size_t nbytes)
{
    if (text)
        explicit_bzero(text, nbytes);
    free(text);
}

/* Other texts were taken until they could be guessed. */
static int no_key(const char *variable, const char *path, struct rg_error *err)
{
    return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                             "%s%s: a key is 64 hexadecimal digits, as `" RG_TASKS_KEY_COMMAND
                             "` prints them; no other text is taken, as it could be guessed",
                             variable, path);
}

static int key_of_file(const char *path, uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err)
{
    char *text = NULL;
    size_t nbytes = 0;
    int r = rg_read_named("REIGEN_KEY_FILE", path, KEY_FILE_MAX, &text, &nbytes, err);

    if (r < 0)
        return r;
    r = rg_key_parse(text, ret_key);
    forget(text, nbytes);
    return r < 0 ? no_key("REIGEN_KEY_FILE ", path, err) : 0;
}

/* API v1's: PAI_JOB_NAME is "user~job" there, and in protocol v2 too, which has no such file. */
static int key_of_ssh(uint8_t ret_key[RG_KEY_NBYTES])
{
    const char *homes[] = { getenv("HOME"), "/root" }, *name = value_of("PAI_JOB_NAME");

    for (size_t i = 0; name && !strchr(name, '/') && i < rg_array_len(homes); i++) {
        rg_autofree char *path = homes[i] ? rg_strf("%s/.ssh/%s", homes[i], name) : NULL;
        char *text = NULL;
        size_t nbytes = 0;
        if (!path || rg_read_file(path, KEY_FILE_MAX, &text, &nbytes) < 0)
            continue;
        bool found = nbytes > 0;
        if (found)
            rg_key_extract(text, nbytes, name, ret_key);
        forget(text, nbytes);
        if (found)
            return 0;
    }
    return -ENOENT;
}

int rg_tasks_key(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err)
{
    const char *text = value_of("REIGEN_KEY"), *path = value_of("REIGEN_KEY_FILE");

    if (text)
        return rg_key_parse(text, ret_key) < 0 ? no_key("REIGEN_KEY", "", err) : 0;
    if (path)
        return key_of_file(path, ret_key, err);
    if (key_of_ssh(ret_key) == 0)
        return 0;
    return rg_error_set_exit(err, ENOENT, RG_EXIT_USAGE,
                             "no key, by which the hosts of a job know each other: set REIGEN_KEY "
                             "to the same 64 hexadecimal digits on all of them, as `"
                             RG_TASKS_KEY_COMMAND "` prints them, or REIGEN_KEY_FILE to a file "
                             "that has them; in OpenPAI's protocol v2, export "
                             "REIGEN_KEY='<%% $secrets.reigenKey %%>'");
}

void rg_tasks_forget(const char *name)
{
    char *value = getenv(name);

    if (value)
        explicit_bzero(value, strlen(value));
    unsetenv(name);
}

int rg_tasks_take_key(uint8_t ret_key[RG_KEY_NBYTES], struct rg_error *err)
{
    static uint8_t *held;
    uint8_t key[RG_KEY_NBYTES];
    int r = held ? 0 : rg_tasks_key(key, err);

    if (r == 0 && !held && !(held = rg_key_hold(key)))
        r = rg_error_memory(err);
    explicit_bzero(key, sizeof(key));
    rg_tasks_forget("REIGEN_KEY");
    if (r == 0)
        memcpy(ret_key, held, RG_KEY_NBYTES);
    return r;
}
