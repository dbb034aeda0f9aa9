/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include <poll.h>
#include <sys/socket.h>

#include "coll/boot/manager.h"

static void answer(struct manager *m, int client, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void answer(struct manager *m, int client, const char *format, ...)
{
    char body[RG_PMI_MESSAGE_MAX], text[RG_PMI_MESSAGE_MAX + RG_PMI_LENGTH_NBYTES];
    bool framed = m->version == RG_PMI_2 && strncmp(format, "cmd=response_to_init", 20) != 0;
    va_list arguments;

    va_start(arguments, format);
    int n = vsnprintf(body, sizeof(body), format, arguments);

    va_end(arguments);
    n = framed ? snprintf(text, sizeof(text), "%-6d%s", n, body)
               : snprintf(text, sizeof(text), "%s", body);
    for (int i = 0; i < n; i += m->dribble ? 1 : n)
        if (send(m->ends[client], text + i, m->dribble ? 1 : (size_t) n, MSG_NOSIGNAL) < 0)
            return;
}

static void put(struct manager *m, const struct rg_pmi_message *message)
{
    const char *value = rg_pmi_value(message, "value");

    if (m->nkeys == MANAGER_KEYS_MAX)
        return;
    m->keys[m->nkeys] = strdup(rg_pmi_value(message, "key"));
    m->values[m->nkeys++] = strdup(value);
    if (strlen(value) > m->longest_value)
        m->longest_value = strlen(value);
}

static const char *get(const struct manager *m, const struct rg_pmi_message *message)
{
    for (int i = 0; i < m->nkeys; i++)
        if (strcmp(m->keys[i], rg_pmi_value(message, "key")) == 0)
            return m->values[i];
    return NULL;
}

static void barrier(struct manager *m, const char *text)
{
    if (++m->nwaiting < m->nclients)
        return;
    m->nwaiting = 0;
    for (int i = 0; i < m->nclients; i++)
        answer(m, i, "%s", text);
}

static void serve_1(struct manager *m, int client, const struct rg_pmi_message *message)
{
    const char *command = message->pairs[0].value;

    if (strcmp(command, "get_maxes") == 0) {
        answer(m, client, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%d\n", m->value_max);
    } else if (strcmp(command, "get_my_kvsname") == 0) {
        answer(m, client, "cmd=my_kvsname kvsname=kvs_7_0\n");
    } else if (strcmp(command, "put") == 0) {
        put(m, message);
        answer(m, client, "cmd=put_result rc=0 msg=success\n");
    } else if (strcmp(command, "get") == 0) {
        const char *value = get(m, message);

        answer(m, client, value ? "cmd=get_result rc=0 msg=success value=%s\n"
                                : "cmd=get_result rc=-1 msg=%s value=unknown\n",
               value ? value : "key_not_found");
    } else if (strcmp(command, "barrier_in") == 0) {
        barrier(m, "cmd=barrier_out\n");
    } else if (strcmp(command, "finalize") == 0) {
        m->nfinalized++;
        answer(m, client, "cmd=finalize_ack\n");
    }
}

static void serve_2(struct manager *m, int client, const struct rg_pmi_message *message)
{
    const char *command = message->pairs[0].value;

    if (strcmp(command, "fullinit") == 0) {
        answer(m, client, "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=%d;"
                          "size=%d;appnum=0;", client, m->nclients);
    } else if (strcmp(command, "job-getid") == 0) {
        answer(m, client, "cmd=job-getid-response;jobid=11.0;rc=0;");
    } else if (strcmp(command, "kvs-put") == 0) {
        put(m, message);
        answer(m, client, "cmd=kvs-put-response;rc=0;");
    } else if (strcmp(command, "kvs-get") == 0) {
        const char *value = get(m, message);

        answer(m, client, value ? "cmd=kvs-get-response;rc=0;found=TRUE;value=%s;"
                                : "cmd=kvs-get-response;rc=0;found=FALSE;errmsg=%s;",
               value ? value : "no such key");
    } else if (strcmp(command, "kvs-fence") == 0) {
        barrier(m, "cmd=kvs-fence-response;rc=0;");
    } else if (strcmp(command, "finalize") == 0) {
        m->nfinalized++;
        answer(m, client, "cmd=finalize-response;rc=0;");
    }
}

/* The first bytes of a client are a line in either version. */
struct session {
    bool agreed;
    char input[RG_PMI_MESSAGE_MAX];
    size_t nbytes;
};

static bool serve_message(struct manager *m, int client, struct session *session)
{
    enum rg_pmi_version version = session->agreed ? m->version : RG_PMI_1;
    char text[RG_PMI_MESSAGE_MAX + 1];
    struct rg_pmi_message message;
    size_t begin, total;

    if (rg_pmi_scan(version, session->input, session->nbytes, &begin, &total) != 1)
        return false;
    memcpy(text, session->input + begin, total - begin);
    session->nbytes -= total;
    memmove(session->input, session->input + total, session->nbytes);
    if (rg_pmi_parse(version, text, total - begin, &message) < 0)
        return false;
    if (!session->agreed) {
        session->agreed = atoi(rg_pmi_value(&message, "pmi_version")) == (int) m->version;
        answer(m, client, "cmd=response_to_init pmi_version=%d pmi_subversion=%d rc=%d\n",
               (int) m->version, m->version == RG_PMI_1, session->agreed ? 0 : -1);
    } else if (m->instead) {
        answer(m, client, "%s", m->instead);
    } else if (m->version == RG_PMI_1) {
        serve_1(m, client, &message);
    } else {
        serve_2(m, client, &message);
    }
    return true;
}

static void *serve(void *arg)
{
    struct manager *m = arg;
    struct session *sessions = calloc(MANAGER_CLIENTS_MAX, sizeof(*sessions));
    struct pollfd fds[MANAGER_CLIENTS_MAX];
    int nopen = m->nclients;

    for (int i = 0; i < m->nclients; i++)
        fds[i] = (struct pollfd) { m->ends[i], POLLIN, 0 };
    while (nopen > 0 && sessions) {
        poll(fds, (nfds_t) m->nclients, -1);
        for (int i = 0; i < m->nclients; i++) {
            struct session *session = &sessions[i];
            ssize_t n;

            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            n = read(fds[i].fd, session->input + session->nbytes,
                     sizeof(session->input) - session->nbytes);
            session->nbytes += n > 0 ? (size_t) n : 0;
            while (n > 0 && serve_message(m, i, session))
                ;
            if (n <= 0) {
                fds[i].fd = -1;
                nopen--;
            }
        }
    }
    free(sessions);
    return NULL;
}

void manager_start(struct manager *manager)
{
    for (int i = 0; i < manager->nclients; i++) {
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        manager->fds[i] = pair[0];
        manager->ends[i] = pair[1];
    }
    assert_int_equal(pthread_create(&manager->thread, NULL, serve, manager), 0);
}

void manager_stop(struct manager *manager)
{
    for (int i = 0; i < manager->nclients; i++)
        close(manager->fds[i]);
    pthread_join(manager->thread, NULL);
    for (int i = 0; i < manager->nclients; i++)
        close(manager->ends[i]);
    while (manager->nkeys > 0) {
        free(manager->keys[--manager->nkeys]);
        free(manager->values[manager->nkeys]);
    }
}
