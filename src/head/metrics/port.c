/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h as an agent has it that is a head. In a pod nobody reads a file, and who may come to
 * its port the cluster says. */
#include <string.h>

#include "base/exitcode.h"
#include "base/time.h"
#include "head/metrics/metrics.h"
#include "head/metrics/server.h"
#include "launch/host/listener.h"

struct rg_metrics {
    struct rg_server *server;
    rg_metrics_look *look;
    void *arg;
    uint64_t since_ns;
};

static void put(void *arg, enum rg_metrics_format format, struct rg_buf *text)
{
    const struct rg_metrics *metrics = arg;
    struct rg_metrics_state state;

    metrics->look(metrics->arg, &state);
    state.since_ns = metrics->since_ns;
    rg_metrics_put(&state, format, text);
}

int rg_metrics_open(const struct rg_job *job, struct rg_metrics **ret_metrics,
                    struct rg_error *err)
{
    static struct rg_metrics metrics; /* a process is the head of one job at a time */
    const struct rg_ports ports = { job->metrics_port, job->metrics_port };
    int port;

    *ret_metrics = NULL;
    if (!job->metrics_port)
        return 0;
    int fd = rg_listener_socket(&ports, &port);
    if (fd < 0)
        return rg_error_set_exit(err, -fd, RG_EXIT_UNAVAILABLE,
                                 "--metrics: cannot listen at port %d of the head's host: %s; name "
                                 "another port", ports.first, strerror(-fd));
    metrics.since_ns = rg_wall_ns();
    metrics.server = rg_server_create(fd);
    if (!metrics.server)
        return rg_error_memory(err);
    *ret_metrics = &metrics;
    return 0;
}

void rg_metrics_start(struct rg_metrics *metrics, struct rg_loop *loop, rg_metrics_look *look,
                      void *arg)
{
    if (!metrics)
        return;
    metrics->look = look;
    metrics->arg = arg;
    rg_server_start(metrics->server, loop, put, metrics);
}

const char *rg_metrics_url(const struct rg_metrics *metrics)
{
    (void) metrics;
    return NULL;
}

bool rg_metrics_chose_port(const struct rg_metrics *metrics)
{
    (void) metrics;
    return false;
}

void rg_metrics_close(struct rg_metrics *metrics, int exit_code)
{
    (void) exit_code;
    if (metrics)
        rg_server_close(metrics->server);
}
