/* SPDX-License-Identifier: Apache-2.0 */
/* mpirun and pdsh want a program that takes ssh's arguments; this one asks the agent instead. */
#include "agent/rsh/rsh.h"

#include "agent/rsh/rshargs.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/say.h"
#include "base/time.h"
#include "wire/conn.h"
#include "wire/msg.h"
#include "wire/rankmsg.h"

#define EXIT_NO_COMMAND 255
#define CHUNK_NBYTES (32u << 10) /* of one frame of input */
#define UNSENT_NBYTES (64u << 10) /* to the agent, then input has to wait */
#define WRITE_NBYTES 4096        /* what a pipe that polls writable takes at once */
#define RETRIES 100              /* of an agent that too many processes call at once, 2 s */
#define RETRY_MS 20

struct rsh {
    const struct rg_rsh_args *args;
    struct rg_conn conn;
    bool accepted;         /* the first frame came: the command was started, or could not be */
    bool in_eof;           /* the end of our input was sent */
    uint32_t in_credit;
    struct rg_buf outputs[2];
    bool broken[2];        /* nobody reads it any more */
    bool in_background;    /* -f, and the caller has gone on */
    int exit_code;         /* -1 until EXIT came */
};

static rg_printf(2, 3) int fail(const struct rsh *rsh, const char *fmt, ...)
{
    char text[RG_ERROR_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    rg_log_as("reigen rsh", "%s%s%s", rsh->args->host ? rsh->args->host : "",
              rsh->args->host ? ": " : "", text);
    return EXIT_NO_COMMAND;
}

/* --- the agent -------------------------------------------------------------------------------- */

static int dial(const char *name, int *ret_fd)
{
    rg_autoclose int fd = -1;
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t nbytes = sizeof(peer), length = rg_unix_address(name, &address);

    if (!length)
        return -ENAMETOOLONG;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *) &address, length) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &nbytes) < 0)
        return -errno;
    if (peer.uid != geteuid())
        return -EPERM;
    *ret_fd = rg_steal_fd(&fd);
    return 0;
}

static const struct rg_conn_ops conn_ops;

static int connect_agent(struct rsh *rsh)
{
    const char *name = getenv("REIGEN_AGENT_SOCKET");
    const char *command = *rsh->args->command ? rsh->args->command : "exec /bin/sh";
    uint8_t token[RG_RANK_TOKEN_NBYTES];
    struct rg_rankmsg_remote msg = { RG_PROTOCOL_VERSION, { token, sizeof(token) },
                                     (char *) rsh->args->host, (char *) command };

    if (!name || !*name)
        return fail(rsh, "reigen rsh runs commands on the hosts of a job of reigen's, from within "
                         "it; REIGEN_AGENT_SOCKET is not set here");
    if (rg_rank_token_parse(getenv("REIGEN_AGENT_TOKEN"), token) < 0)
        return fail(rsh, "REIGEN_AGENT_TOKEN, by which the agent of this host knows the processes "
                         "of the job, is not in the environment as the agent made it");
    if (strlen(command) > RG_MSG_COMMAND_MAX)
        return fail(rsh, "the command has more than %u bytes", RG_MSG_COMMAND_MAX);
    int fd = -1, r = dial(name, &fd);
    if (r == -EPERM)
        return fail(rsh, "the agent of this job serves another user");
    if (r < 0)
        return fail(rsh, "the agent of this host does not answer (%s): is its job over?",
                    strerror(-r));
    rg_conn_init(&rsh->conn, fd, &conn_ops, rsh, NULL);
    rg_conn_send(&rsh->conn, RG_RANKMSG_REMOTE, rg_rankmsg_remote_fields, &msg);
    return 0;
}

/* --- frames from it --------------------------------------------------------------------------- */

static void give_credit(struct rsh *rsh, int stream, size_t nbytes)
{
    struct rg_rankmsg_credit msg = { (uint8_t) stream, (uint32_t) nbytes };

    rg_conn_send(&rsh->conn, RG_RANKMSG_CREDIT, rg_rankmsg_credit_fields, &msg);
}

static void on_data(struct rsh *rsh, const struct rg_rankmsg_data *msg)
{
    int i = msg->stream == 2;

    if (rsh->broken[i])
        give_credit(rsh, msg->stream, msg->data.nbytes);
    else
        rg_buf_put(&rsh->outputs[i], msg->data.data, msg->data.nbytes);
}

static void on_exit_frame(struct rsh *rsh, const struct rg_rankmsg_exit *msg)
{
    rsh->exit_code = rg_status_code(msg->status);
    if (msg->text && *msg->text)
        fail(rsh, "%s", msg->text);
}

static int on_frame(void *arg, uint16_t type, const uint8_t *data, size_t nbytes)
{
    struct rsh *rsh = arg;
    union {
        struct rg_rankmsg_data data;
        struct rg_rankmsg_credit credit;
        struct rg_rankmsg_exit exit;
    } msg = { 0 };
    const struct rg_field *fields = type == RG_RANKMSG_DATA     ? rg_rankmsg_data_fields
                                    : type == RG_RANKMSG_CREDIT ? rg_rankmsg_credit_fields
                                    : type == RG_RANKMSG_EXIT   ? rg_rankmsg_exit_fields
                                                                : NULL;

    if (rsh->exit_code >= 0)
        return 0;
    if (!fields || rg_codec_decode(fields, data, nbytes, &msg) < 0)
        return -EBADMSG;
    rsh->accepted = true;
    if (type == RG_RANKMSG_DATA)
        on_data(rsh, &msg.data);
    else if (type == RG_RANKMSG_CREDIT)
        rsh->in_credit += msg.credit.nbytes;
    else
        on_exit_frame(rsh, &msg.exit);
    rg_codec_clear(fields, &msg);
    return 0;
}

static const struct rg_conn_ops conn_ops = { on_frame, rg_rankmsg_frame_max, .secret = false };

/* --- our three descriptors -------------------------------------------------------------------- */

static void send_input(struct rsh *rsh)
{
    uint8_t bytes[CHUNK_NBYTES];
    size_t room = rsh->in_credit < sizeof(bytes) ? rsh->in_credit : sizeof(bytes);
    ssize_t n = rsh->args->no_input ? 0 : read(0, bytes, room);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) /* an input that cannot be read is an empty one */
        rsh->in_eof = true;
    struct rg_rankmsg_data msg = { 0, { bytes, n > 0 ? (size_t) n : 0 } };
    rsh->in_credit -= (uint32_t) msg.data.nbytes;
    rg_conn_send(&rsh->conn, RG_RANKMSG_DATA, rg_rankmsg_data_fields, &msg);
}

/* A part of what waits for our standard output or error. The descriptor's mode is shared with
 * whoever gave it to us, so it is left as it is. */
static void write_output(struct rsh *rsh, int i)
{
    struct rg_buf *buf = &rsh->outputs[i];
    size_t nbytes = rg_buf_nbytes(buf) < WRITE_NBYTES ? rg_buf_nbytes(buf) : WRITE_NBYTES;
    ssize_t n = write(1 + i, rg_buf_bytes(buf), nbytes);

    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n < 0) {
        rsh->broken[i] = true;
        n = (ssize_t) rg_buf_nbytes(buf);
    }
    rg_buf_consume(buf, (size_t) n);
    give_credit(rsh, 1 + i, (size_t) n);
}

static void turn(struct rsh *rsh)
{
    bool wants_input = !rsh->in_eof && rsh->in_credit > 0 &&
                       rg_conn_pending(&rsh->conn) < UNSENT_NBYTES;
    struct pollfd fds[4] = {
        { rsh->conn.fd, rg_conn_events(&rsh->conn), 0 },
        { wants_input && !rsh->args->no_input ? 0 : -1, POLLIN, 0 },
        { rg_buf_nbytes(&rsh->outputs[0]) ? 1 : -1, POLLOUT, 0 },
        { rg_buf_nbytes(&rsh->outputs[1]) ? 2 : -1, POLLOUT, 0 },
    };

    if (wants_input && rsh->args->no_input) {
        send_input(rsh);
        fds[0].events |= POLLOUT;
    }
    if (poll(fds, rg_array_len(fds), -1) < 0)
        return;
    if (fds[1].revents)
        send_input(rsh);
    for (int i = 0; i < 2; i++) {
        if (fds[2 + i].revents)
            write_output(rsh, i);
    }
    rg_conn_flush(&rsh->conn);
    if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) &&
        rg_conn_receive(&rsh->conn, 1, NULL) < 0 && rsh->exit_code < 0)
        rsh->exit_code = -2;
}

/* -f: the caller goes on as soon as the command runs. */
static void go_to_background(struct rsh *rsh)
{
    if (rsh->in_background || !rsh->args->background || !rsh->accepted || rsh->exit_code >= 0)
        return;
    rsh->in_background = true;
    fflush(stderr);
    pid_t pid = fork();
    if (pid > 0)
        _exit(0);
    if (pid == 0)
        setsid();
}

/* --- life ------------------------------------------------------------------------------------- */

static int run(struct rsh *rsh)
{
    int r = connect_agent(rsh);

    if (r != 0)
        return r;
    while (rsh->exit_code == -1) {
        turn(rsh);
        go_to_background(rsh);
    }
    for (int i = 0; i < 2 && rsh->exit_code >= 0; i++) {
        while (rg_buf_nbytes(&rsh->outputs[i])) {
            poll(&(struct pollfd){ 1 + i, POLLOUT, 0 }, 1, -1); /* it may be non-blocking */
            write_output(rsh, i);
        }
    }
    return rsh->exit_code;
}

static void reset(struct rsh *rsh)
{
    rg_conn_fini(&rsh->conn);
    rg_buf_fini(&rsh->outputs[0]);
    rg_buf_fini(&rsh->outputs[1]);
    rsh->exit_code = -1;
}

/* One user per job: the agent's. Another name may be an alias of the same. */
static void remark_on_user(const struct rsh *rsh)
{
    const char *user = getenv("USER"), *login = getenv("LOGNAME");

    if (!rsh->args->user || (!user && !login) || (user && strcmp(user, rsh->args->user) == 0) ||
        (login && strcmp(login, rsh->args->user) == 0))
        return;
    rg_log_as("reigen rsh", "%s: the command runs as the job's user, not as %s", rsh->args->host,
              rsh->args->user);
}

int rg_rsh_main(int argc, char **argv)
{
    rg_cleanup(rg_rsh_args_fini) struct rg_rsh_args args = RG_RSH_ARGS_INIT;
    struct rsh rsh = { .args = &args, .conn.fd = -1, .exit_code = -1 };
    struct rg_error err = RG_ERROR_INIT;

    if (rg_rsh_parse(argc, argv, &args, &err) < 0)
        return fail(&rsh, "%s", err.text);
    if (args.version) {
        fprintf(stderr, "reigen rsh %s, in ssh's place\n", RG_VERSION);
        return 0;
    }
    remark_on_user(&rsh);
    int r = run(&rsh);
    /* Closed before anything was done: too slow while many connections wait for the agent, or not
     * authenticated, which it tells nobody. */
    for (int i = 0; r == -2 && !rsh.accepted && i < RETRIES; i++) {
        reset(&rsh);
        rg_sleep_ms(RETRY_MS);
        r = run(&rsh);
    }
    if (r < 0)
        r = fail(&rsh, rsh.accepted ? "the agent of this host has ended, and the command with it"
                                    : "the agent of this host hangs up: REIGEN_AGENT_TOKEN is not "
                                      "this host's of this job, or too many connections wait for "
                                      "the agent");
    reset(&rsh);
    return r;
}
