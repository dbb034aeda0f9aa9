/* SPDX-License-Identifier: Apache-2.0 */
/* A container's start takes minutes, fails in many ways, and must leave nothing whoever is
 * killed: one process on the host sees it through from the choice of a runtime to the removal. */
#include "agent/contain/contain.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/spawn.h"
#include "base/say.h"
#include "base/time.h"

#define LINES_MAX (RG_CONTAINER_TEXT_MAX + 4096) /* of standard input */
#define END_MS 5000    /* for a container to end by itself once its agent or the launcher is gone */
#define REMOVE_MS 20000 /* Podman on a busy disk; the launcher gives us 30 s in all */
#define PULL_MS (24u * 3600 * 1000) /* the launcher's --start-timeout ends it earlier */
#define LAST_BYTES_MS 1000
#define MADE_MS 4000   /* for a container that is being made */
#define CANDIDATES_MAX 8

/* --- what we are told ------------------------------------------------------------------------ */

/* Where to call, and as whom, is ours to know: the agent inside gets what comes of it. */
static bool take_dial(struct rg_contain *contain, const char *line)
{
    if (rg_str_starts(line, "link dial ") && strlen(line + 10) < sizeof(contain->dial)) {
        strcpy(contain->dial, line + 10);
        rg_buf_printf(&contain->lines, "link socket\n");
        return true;
    }
    if (rg_str_starts(line, "announce ")) { /* not in a network of its own */
        contain->announced = true;
        int fd = rg_agent_announce(line + 9);
        if (fd < 0)
            rg_contain_say("note the socket @%s: %s", line + 9, strerror(-fd));
        snprintf(contain->asking, sizeof(contain->asking), "%s", line + 9);
        return true;
    }
    if (!rg_str_starts(line, "place "))
        return false;
    rg_dial_expand(line + 6, contain->place, sizeof(contain->place));
    return true;
}

static int take_line(struct rg_contain *contain, const char *line, struct rg_error *err)
{
    const size_t skip = sizeof(RG_CONTAINER_LINE) - 1;

    if (rg_str_starts(line, RG_CONTAINER_LINE))
        return rg_container_parse(&contain->container, line + skip, err);
    if (rg_str_starts(line, "job ")) {
        if (strlen(line + 4) > RG_JOB_ID_MAX ||
            line[4 + strspn(line + 4, "abcdefghijklmnopqrstuvwxyz0123456789-")])
            return rg_error_set(err, EINVAL, "'%.80s' is no job's id", line + 4);
        strcpy(contain->job_id, line + 4);
    }
    if (rg_str_starts(line, "key "))
        rg_key_parse(line + 4, contain->key);
    if (take_dial(contain, line))
        return 0;
    rg_buf_printf(&contain->lines, "%s\n", line);
    return rg_buf_status(&contain->lines) < 0 ? rg_error_set(err, ENOMEM, "out of memory") : 0;
}

static int take_lines(struct rg_contain *contain, char *text, struct rg_error *err)
{
    int r = 0;

    for (char *line = text; r == 0 && *line && *line != '\n';) {
        char *end = strchrnul(line, '\n');
        bool last = !*end;
        *end = '\0';
        r = take_line(contain, line, err);
        line = last ? end : end + 1;
    }
    if (r == 0 && (!*contain->job_id || !contain->container.image))
        r = rg_error_set(err, EINVAL, "standard input must bring a job and a container's image; "
                                      "`contain` is started by reigen, not by hand");
    rg_buf_printf(&contain->lines, "dir " RG_CONTAINER_RUN "\n\n");
    return r;
}

/* The agent inside has it, or there will be none. */
static void forget_key(struct rg_contain *contain)
{
    explicit_bzero(contain->key, sizeof(contain->key));
    rg_buf_wipe(&contain->lines);
}

/* One byte at a time at the end: what comes after the empty line is the bundle's, or the link's. */
static int read_lines(struct rg_contain *contain, struct rg_error *err)
{
    rg_autofree char *text = calloc(1, LINES_MAX + 1);
    size_t have = 0;
    int r = text ? 0 : -ENOMEM;

    /* Room for all of it: growing would leave copies of the key behind. */
    if (!rg_buf_reserve(&contain->lines, LINES_MAX))
        r = -ENOMEM;
    while (r == 0 && !(have >= 2 && memcmp(text + have - 2, "\n\n", 2) == 0)) {
        ssize_t n = have == LINES_MAX ? 0 : read(0, text + have, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            r = n < 0 ? -errno : have == LINES_MAX ? -EMSGSIZE : -EPIPE;
        else
            have++;
    }
    if (r < 0)
        rg_error_set(err, -r, "standard input: %s", strerror(-r));
    else
        r = take_lines(contain, text, err);
    if (text)
        explicit_bzero(text, have);
    return r;
}

/* --- which runtime --------------------------------------------------------------------------- */

struct candidate {
    const struct rg_container_ops *ops;
    char program[PATH_MAX];
};

static void add_candidates(const struct rg_container_ops *ops, const char *only,
                           struct candidate *list, size_t *count)
{
    for (const char *word = ops->programs; *word && *count < CANDIDATES_MAX;) {
        size_t n = strcspn(word, " ");
        bool wanted = !only || (strlen(only) == n && strncmp(only, word, n) == 0);
        if (wanted && rg_path_find(getenv("PATH"), word, n, list[*count].program))
            list[(*count)++].ops = ops;
        word += n + (word[n] == ' ');
    }
}

static int find_runtimes(const struct rg_container *container, struct candidate *list,
                         size_t *ret_count, struct rg_error *err)
{
    *ret_count = 0;
    for (size_t i = 0; rg_container_runtimes[i]; i++)
        add_candidates(rg_container_runtimes[i], container->runtime, list, ret_count);
    if (*ret_count > 0)
        return 0;
    if (container->runtime)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 "%s is not installed here (nothing of that name "
                                 "in PATH); install it, or take another --container-runtime",
                                 container->runtime);
    return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                             "no container runtime is installed here: none of "
                             "docker, podman, apptainer, singularity and enroot is in PATH");
}

/* --- one container --------------------------------------------------------------------------- */

struct running {
    struct rg_contain *contain;
    const struct rg_container_ops *ops;
    const char *program;
    struct rg_contain_child child; /* the runtime's own process */
    int signal_fd;
    int conn_fd;           /* to the agent inside; its end is that agent's end */
    bool linked, gone;     /* gone: the launcher, or a signal to us */
    bool alone;            /* the runtime's process ended before the container: its daemon died */
    uint64_t deadline_ns;  /* when the container is removed by force */
    char mismatch[64];     /* the image's platform, when it is not this host's */
};

/* The first message brings the descriptors; their numbers inside are the receiver's choice. */
static int hand_over(struct running *run, struct rg_error *err)
{
    struct rg_contain *contain = run->contain;
    rg_autoclose int link_fd = *contain->dial ? rg_agent_dial(contain->dial, contain->place,
                                                              contain->key, err) : -1;
    const int fds[] = { link_fd < 0 ? 0 : link_fd, link_fd < 0 ? 1 : link_fd, 2,
                        contain->lock_fd };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(fds))];
    } control = { .bytes = { 0 } };
    struct iovec iov = { (char[]){ 'f' }, 1 };
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                          .msg_controllen = sizeof(control.bytes) };
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
    static const char guard[] = "guard on\n";
    char path[PATH_MAX];

    if (*contain->dial && link_fd < 0)
        return link_fd;
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(header), fds, sizeof(fds));
    int r = sendmsg(run->conn_fd, &msg, MSG_NOSIGNAL) == 1 ? 0 : -errno;
    /* Without process ids of its own, a guard ends what an agent that is killed leaves. */
    if (r == 0 && run->ops->shares_pids)
        r = rg_write_all(run->conn_fd, guard, sizeof(guard) - 1);
    if (r == 0)
        r = rg_write_all(run->conn_fd, rg_buf_bytes(&contain->lines),
                         rg_buf_nbytes(&contain->lines));
    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_CONTAINER,
                                 "the agent in the container hung up: %s",
                                 strerror(-r));
    /* From here on standard output is the link's alone, and nobody else has reason to call. */
    close(1);
    close(rg_steal_fd(&contain->listen_fd));
    unlink(rg_contain_socket(contain, path, sizeof(path)));
    forget_key(contain);
    run->linked = true;
    return 0;
}

static bool calls(struct running *run)
{
    run->conn_fd = accept4(run->contain->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    return run->conn_fd >= 0;
}

/* Docker starts such an image with a mere warning, as a program of ours runs in it all the same.
 * Whether the kernel has an emulator is seen by the names of those that are registered. */
static void look_for_mismatch(struct running *run)
{
    const char *said = strstr(run->child.said, "requested image's platform (");
    char path[128];

    if (!said || run->linked || *run->mismatch)
        return;
    said = strchr(said, '(') + 1;
    snprintf(run->mismatch, sizeof(run->mismatch), "%.*s", (int) strcspn(said, ")"), said);
    const char *machine = strrchr(run->mismatch, '/');
    if (machine && rg_str_starts(run->mismatch, "linux/arm64"))
        machine = "/aarch64";
    snprintf(path, sizeof(path), "/proc/sys/fs/binfmt_misc/qemu-%s", machine ? machine + 1 : "");
    if (access(path, F_OK) == 0)
        *run->mismatch = '\0';
}

/* What the launcher has for us is over, and so is the launcher. To all tasks of a step it says the
 * same, also what only another has asked for: that must not stand in the way. */
static bool launcher_is_gone(const struct running *run, short revents)
{
    char bytes[4096];

    if (!revents || !*run->contain->dial)
        return revents != 0;
    return read(0, bytes, sizeof(bytes)) <= 0;
}

/* Whether a signal has come by which we are to end. Slurm tells all processes of a job to end: the
 * agent tells the launcher, which leaves the ranks their time. Other signals are for the ranks
 * (agent.c). */
static bool must_end(const struct running *run)
{
    struct signalfd_siginfo info;

    if (read(run->signal_fd, &info, sizeof(info)) != (ssize_t) sizeof(info))
        return false;
    bool user = info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2;
    bool pass = run->linked && (user ? !run->contain->announced : *run->contain->dial != '\0');
    if (pass && run->child.pid > 0)
        kill(run->child.pid, user ? (int) info.ssi_signo : SIGTERM);
    return !user && !pass;
}

static short launcher_events(const struct running *run)
{
    return *run->contain->dial ? POLLIN | POLLRDHUP : POLLRDHUP;
}

static void set_deadline(struct running *run)
{
    if (!run->deadline_ns)
        run->deadline_ns = rg_now_ns() + (run->linked ? END_MS * RG_NS_PER_MS : 0);
}

/* Until the container has ended, or must be ended. */
static int watch(struct running *run, struct rg_error *err)
{
    while (run->child.fd >= 0 || run->conn_fd >= 0) {
        struct pollfd fds[] = {
            { run->gone ? -1 : 0, launcher_events(run), 0 },
            { run->child.fd, POLLIN, 0 },
            { run->linked ? -1 : run->contain->listen_fd, POLLIN, 0 },
            { run->conn_fd, POLLIN, 0 },
            { run->gone ? -1 : run->signal_fd, POLLIN, 0 },
        };
        uint64_t now = rg_now_ns();
        if (run->deadline_ns && now >= run->deadline_ns)
            return 0;
        int timeout_ms = run->deadline_ns
                             ? (int) ((run->deadline_ns - now) / RG_NS_PER_MS) + 1 : -1;
        if (poll(fds, rg_array_len(fds), timeout_ms) < 0)
            continue;
        if (fds[1].revents && !rg_contain_listen(&run->child))
            run->alone = run->conn_fd >= 0 && !fds[3].revents;
        look_for_mismatch(run);
        if (*run->mismatch)
            return rg_error_set_exit(err, ENOEXEC, RG_EXIT_CONTAINER,
                                     "the image is for %s, which this host cannot run; build or "
                                     "pull it for this host's architecture", run->mismatch);
        if (fds[2].revents && calls(run)) {
            int r = hand_over(run, err);
            if (r < 0)
                return r;
            rg_contain_sweep(run->contain);
            continue;
        }
        if (fds[3].revents) {
            close(rg_steal_fd(&run->conn_fd));
            set_deadline(run);
        }
        bool told = fds[4].revents && must_end(run);
        if (launcher_is_gone(run, fds[0].revents) || told) {
            run->gone = true;
            set_deadline(run);
        }
        if (!run->linked && run->child.fd < 0)
            return 0;
    }
    return 0;
}

static void remove_by_force(struct running *run)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    char id[RG_CONTAIN_ID_MAX + 1];
    const char *name = rg_contain_id(run->contain->dir, run->contain->name, id, sizeof(id));

    if (run->ops->remove && run->ops->remove(run->program, name, &argv) == 0)
        rg_contain_do(&argv, REMOVE_MS);
}

/* Returns the wait status of the runtime's own process. */
static int end(struct running *run, bool failed)
{
    bool forced = failed || run->conn_fd >= 0 || run->child.fd >= 0 || run->deadline_ns;

    /* The runtime's process ends after its container, which --rm removes. */
    if (!failed && run->conn_fd < 0 && run->linked)
        forced = run->child.fd >= 0 || run->alone;
    /* One that is only being made cannot be removed yet, and ends as nobody answers its agent. */
    bool half_made = forced && run->gone && !run->linked;
    if (half_made && run->contain->listen_fd >= 0)
        close(rg_steal_fd(&run->contain->listen_fd));
    if (forced)
        remove_by_force(run);
    int status = rg_contain_wait(&run->child, half_made ? MADE_MS
                                              : forced ? LAST_BYTES_MS : END_MS);
    if (half_made)
        remove_by_force(run);
    if (run->conn_fd >= 0)
        close(rg_steal_fd(&run->conn_fd));
    return status;
}

/* Not a file of the user's, which cannot be fetched. */
static bool is_missing(const struct running *run)
{
    const struct rg_contain *contain = run->contain;
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;

    return run->ops->missing && strcasestr(run->child.said, run->ops->missing) &&
           run->ops->pull(&contain->container, &contain->host, &argv) == 0 && argv.count > 0;
}

/* What differs between runtimes. */
static int prepare_for(struct running *run)
{
    struct rg_contain *contain = run->contain;
    const char *script = run->ops->script, *name = contain->container.name;

    contain->host.program = run->program;
    contain->host.gpus = run->ops->nameless ? contain->own_gpus : NULL;
    if (name && run->ops->nameless)
        rg_contain_say("note --dockname=%s has no effect: the containers of %s have no names", name,
                       run->ops->name);
    /* By it the container can be removed. */
    int r = rg_contain_write(contain->dir, "runtime", run->program, strlen(run->program), 0600);

    if (r < 0 || !script)
        return r;
    rg_contain_find_images(contain);
    return rg_contain_write(contain->dir, RG_CONTAINER_SCRIPT, script, strlen(script), 0644);
}

/* The container once, from its start to its end. 0; -ENODATA: its image is not here; -errno. */
static int run_once(struct running *run, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    struct rg_contain *contain = run->contain;
    char how[64];

    int r = run->ops->run(&contain->container, &contain->host, &argv, err);
    if (r == -ENOMEM)
        rg_error_set(err, ENOMEM, "out of memory");
    if (r == 0)
        r = rg_contain_spawn(&run->child, &argv, false, err);
    if (r < 0)
        return r;
    r = watch(run, err);
    bool started = run->linked;
    int status = end(run, r < 0);
    if (r < 0)
        return r;
    if (started) {
        if (status == 0 || run->gone)
            return 0;
        return rg_error_set_exit(err, ECHILD, rg_status_code(status), "the container %s ended: %s",
                                 contain->name, rg_status_text(status, how, sizeof(how)));
    }
    if (run->gone)
        return 0;
    if (contain->container.name && strstr(run->child.said, "is already in use")) {
        r = rg_contain_explain_name(contain, run->program, err);
        if (r == -EEXIST)
            return r;
    }
    return is_missing(run) ? -ENODATA : rg_container_explain(run->ops, run->child.said, err);
}

/* --- images ---------------------------------------------------------------------------------- */

/* Docker and Podman print a line per step; their last one is what a user wants to see. */
static void tell_progress(const struct rg_contain *contain, const char *said)
{
    const char *end = said + strlen(said);
    int percent = rg_oci_pull_percent(said);

    if (percent >= 0) {
        rg_contain_say("phase pulling %s: %d %%", contain->container.image, percent);
        return;
    }
    while (end > said && end[-1] == '\n')
        end--;
    const char *line = end;
    while (line > said && line[-1] != '\n')
        line--;
    rg_contain_say("phase pulling %s: %.*s", contain->container.image,
                   (int) (end - line < 200 ? end - line : 200), line);
}

static int pull(struct running *run, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    struct rg_contain_child child;
    struct rg_contain *contain = run->contain;
    char how[64];

    if (run->ops->pull && run->ops->pull(&contain->container, &contain->host, &argv) < 0)
        return rg_error_set(err, ENOMEM, "out of memory");
    if (argv.count == 0)
        return 0;
    rg_contain_say("phase pulling %s", contain->container.image);
    int r = rg_contain_spawn(&child, &argv, true, err);
    while (r == 0 && child.fd >= 0 && !run->gone) {
        struct pollfd fds[] = { { 0, launcher_events(run), 0 }, { child.fd, POLLIN, 0 },
                                { run->signal_fd, POLLIN, 0 } };
        if (poll(fds, rg_array_len(fds), -1) < 0)
            continue;
        run->gone = launcher_is_gone(run, fds[0].revents) || (fds[2].revents && must_end(run));
        if (rg_contain_listen(&child) && *child.said)
            tell_progress(contain, child.said);
    }
    if (r < 0)
        return r;
    int status = rg_contain_wait(&child, run->gone ? 0 : PULL_MS);
    if (status == 0 || run->gone)
        return 0;
    /* Killed, it has not said why. */
    if (WIFSIGNALED(status))
        rg_error_set_exit(err, EIO, RG_EXIT_CONTAINER, "%s pull ended: %s", run->ops->name,
                          rg_status_text(status, how, sizeof(how)));
    else
        rg_container_explain(run->ops, child.said, err);
    return rg_error_prepend(err, "pulling %s", contain->container.image);
}

/* --- from the beginning to the end ----------------------------------------------------------- */

static int run_with(struct rg_contain *contain, const struct candidate *candidate, int signal_fd,
                    bool *ret_linked, struct rg_error *err)
{
    struct running run = { .contain = contain, .ops = candidate->ops,
                           .program = candidate->program, .signal_fd = signal_fd, .conn_fd = -1 };
    const enum rg_pull policy = contain->container.pull;
    int r = prepare_for(&run);

    if (r < 0)
        return rg_error_set_exit(err, -r, RG_EXIT_UNAVAILABLE,
                                 "%s: %s", contain->dir, strerror(-r));
    if (policy == RG_PULL_ALWAYS)
        r = pull(&run, err);

    for (int attempt = 0; r == 0 && !run.gone; attempt++) {
        rg_contain_say("phase creating %s from %s by %s", contain->name, contain->container.image,
                       candidate->ops->name);
        r = run_once(&run, err);
        *ret_linked = run.linked;
        if (r != -ENODATA)
            return r;
        if (policy == RG_PULL_NEVER)
            return rg_error_set_exit(err, ENOENT, RG_EXIT_CONTAINER,
                                     "the image %s is not on this host, and --pull is never; %s, "
                                     "or say --pull missing",
                                     contain->container.image, candidate->ops->fetch);
        bool fetched = attempt > 0 || policy == RG_PULL_ALWAYS;
        if (fetched && candidate->ops->nameless) /* a file, which is there: what else was said */
            return rg_container_explain(candidate->ops, run.child.said, err);
        if (fetched)
            return rg_error_set_exit(err, ENOENT, RG_EXIT_CONTAINER,
                                     "the image %s was pulled, and is still not on this host; see "
                                     "what %s images lists", contain->container.image,
                                     candidate->ops->name);
        r = pull(&run, err);
    }
    return r;
}

static int prepare(struct rg_contain *contain, struct rg_error *err)
{
    size_t length = strlen(contain->place);
    size_t skip = length > RG_CONTAIN_PLACE_MAX ? length - RG_CONTAIN_PLACE_MAX : 0;
    char number[16];

    snprintf(number, sizeof(number), "%d", contain->container.place.host_index);
    snprintf(contain->name, sizeof(contain->name), "reigen-%s-%s", contain->job_id,
             length ? contain->place + skip : number);
    int r = rg_contain_find_base(contain, err);

    if (r == 0)
        r = rg_contain_make_dir(contain, err);
    if (r == 0)
        r = rg_contain_find_host(contain, err);
    if (r == 0)
        rg_contain_find_bundle(contain);
    return r;
}

static int contain_job(struct rg_contain *contain, int signal_fd, bool *ret_linked,
                       struct rg_error *err)
{
    struct candidate list[CANDIDATES_MAX];
    size_t count = 0;
    int r = read_lines(contain, err);

    /* Also where a job of Slurm's calls reigen on its own node, with GPUs that it names. */
    if (r == 0 && (*contain->dial || (contain->container.gpus && getenv("SLURM_JOB_ID"))))
        r = rg_contain_limit_gpus(contain, err);
    if (r == 0)
        r = find_runtimes(&contain->container, list, &count, err);
    if (r == 0)
        r = prepare(contain, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        r = run_with(contain, &list[i], signal_fd, ret_linked, err);
        /* What is installed but does not work here is no reason to give up, unless asked for. */
        bool other = r < 0 && !*ret_linked && !contain->container.runtime &&
                     (err->exit_code == RG_EXIT_UNAVAILABLE ||
                      err->exit_code == RG_EXIT_NO_PERMISSION);
        if (!other || i + 1 == count)
            break;
        rg_contain_say("note %s is not usable here, trying %s: %s", list[i].ops->name,
                       list[i + 1].ops->name, err->text);
    }
    if (!*ret_linked)
        rg_contain_sweep(contain);
    return r;
}

static int watch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int rg_contain_main(void)
{
    static struct rg_contain contain; /* zeroed, and too large for a frame */
    struct rg_error err = RG_ERROR_INIT;
    bool linked = false;

    contain.lock_fd = contain.listen_fd = -1;
    umask(022);
    int signal_fd = watch_signals();
    int r = contain_job(&contain, signal_fd, &linked, &err);

    forget_key(&contain);
    rg_contain_remove_dir(&contain);
    if (r == 0)
        return 0;
    int code = err.exit_code ? err.exit_code : RG_EXIT_CONTAINER;

    if (linked)
        rg_log(RG_LOG_ERROR, "%s", err.text);
    else
        rg_contain_say("error %d %s", code, err.text);
    return code;
}
