/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen sshd: a real sshd, on a port of its own, with keys that are made where they are missing.
 *
 * All it needs lies in one directory, which hosts or containers share or copy: the sshd's host key,
 * the user's key and authorized_keys, and known_hosts with one line for every host on that port.
 * That is what lets a client check hosts strictly without having seen them: whoever has the host
 * key was given the directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "cmd/compat/compat.h"
#include "cmd/common/exit.h"
#include "cmd/compat/keys.h"

#define DEFAULT_PORT 12345
#define KEY_FILE_MAX (1 << 20)
#define LISTEN_TIMEOUT_NS 30000000000ull
#define HOST_KEY "reigen_host_key"

struct sshd {
    int port;
    const char *dir; /* the user's choice, or NULL */
    bool foreground;
    char *sshd;    /* owned, as all below: paths */
    char *keygen;
    char *keys;    /* where the keys are */
    char *run;     /* has the pid file and the log */
    char *pid, *log;
    bool standard; /* keys is where ssh looks by itself */
};

static void sshd_fini(struct sshd *s)
{
    free(s->sshd);
    free(s->keygen);
    free(s->keys);
    free(s->run);
    free(s->pid);
    free(s->log);
}

/* "-p 12345" and "-p12345"; *i moves past a value that stands by itself. */
static const char *option_value(char **argv, int *i, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    const char *rest = argv[*i] + n;
    if (*rest == '=')
        return rest + 1;
    if (*rest)
        return name[1] == '-' ? NULL : rest;
    return argv[*i + 1] ? argv[++*i] : NULL;
}

static int unknown(const char *word, struct rg_error *err)
{
    static const char *const words[] = { "port", "dir", "foreground", "help", NULL };
    bool lacks = strcmp(word, "-p") == 0 || strcmp(word, "--port") == 0 ||
                 strcmp(word, "--dir") == 0;
    rg_autofree char *name = strndup(word, strcspn(word, "="));
    const char *bare = name ? name + strspn(name, "-") : "";
    const char *near = *word == '-' ? rg_str_nearest(bare, words) : NULL;

    if (*word != '-')
        return rg_error_set(err, EINVAL, "sshd %.80s: it takes options only", word);
    if (lacks)
        return rg_error_set(err, EINVAL, "sshd %.80s: its value is missing", word);
    return rg_error_set(err, EINVAL, "sshd %.80s: unknown option%s%s%s", word,
                        near ? "; did you mean --" : "", near ? near : "", near ? "?" : "");
}

static int parse(int argc, char **argv, struct sshd *s, struct rg_error *err)
{
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        const char *value;
        int64_t port;

        if (strcmp(word, "-D") == 0 || strcmp(word, "--foreground") == 0) {
            s->foreground = true;
        } else if ((value = option_value(argv, &i, "--dir"))) {
            s->dir = value;
        } else if ((value = option_value(argv, &i, "--port")) ||
                   (value = option_value(argv, &i, "-p"))) {
            int rc = rg_parse_int("sshd -p", value, 1, 65535, &port, err);
            if (rc < 0)
                return rc;
            s->port = (int) port;
        } else {
            return unknown(word, err);
        }
    }
    if (s->port == 22)
        return rg_error_set(err, EINVAL,
                            "sshd -p 22: known_hosts holds one key for all hosts on the port; give "
                            "a port that only these hosts use, such as %d",
                            DEFAULT_PORT);
    return 0;
}

static int find_programs(struct sshd *s, struct rg_error *err)
{
    const char *named = getenv("REIGEN_SSHD");

    if (named)
        s->sshd = access(named, X_OK) == 0 ? strdup(named) : NULL;
    else
        /* deploy/docker puts us in the place of sshd, which then goes by the first name. */
        s->sshd = rg_keys_look_up("sshd.real");
    if (!named && !s->sshd)
        s->sshd = rg_keys_look_up("sshd");
    s->keygen = rg_keys_look_up("ssh-keygen");
    if (s->sshd && s->keygen)
        return 0;
    return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                             "sshd: %s is not here; install OpenSSH (Debian: openssh-server and "
                             "openssh-client), or use reigen run, which needs none",
                             s->sshd ? "ssh-keygen" : named ? named : "sshd");
}

static int find_directories(struct sshd *s, struct rg_error *err)
{
    const struct passwd *user = getpwuid(getuid());
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (!user)
        return rg_error_set(err, ENOENT,
                            "sshd: user id %d has no entry in /etc/passwd, which ssh and sshd "
                            "need; run as root, or mount a file with an entry there",
                            (int) getuid());
    s->standard = !s->dir;
    rg_autofree char *keys = s->dir ? strdup(s->dir) : rg_strf("%s/.ssh", user->pw_dir);
    int rc = keys ? rg_mkdir_all(keys, 0700, err) : rg_error_set(err, ENOMEM, "sshd: no memory");
    if (rc < 0)
        return rc;
    /* sshd changes to "/" before it reads them. */
    s->keys = realpath(keys, NULL);
    if (getuid() == 0)
        s->run = rg_strf("/run/reigen-sshd.%d", s->port);
    else
        s->run = rg_strf("%s/reigen-sshd.%d.%d", runtime && *runtime == '/' ? runtime : "/tmp",
                         (int) getuid(), s->port);
    s->pid = s->run ? rg_strf("%s/pid", s->run) : NULL;
    s->log = s->run ? rg_strf("%s/log", s->run) : NULL;
    return s->keys && s->pid && s->log ? 0 : rg_error_set(err, ENOMEM, "sshd: no memory");
}

/* Ours alone, or somebody else could put a log or a pid file there for us. */
static int make_private(const char *dir, struct rg_error *err)
{
    struct stat st;

    if (mkdir(dir, 0700) && errno != EEXIST)
        return rg_error_set(err, errno, "sshd: cannot make %s: %s", dir, strerror(errno));
    if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & (S_IWGRP | S_IWOTH)))
        return rg_error_set_exit(err, EPERM, RG_EXIT_NO_PERMISSION,
                                 "sshd: %s is not a directory of yours alone; remove it", dir);
    return 0;
}

/* The user's key: one that is there, else a new one, which then may log in. */
static int prepare_user(const struct sshd *s, struct rg_error *err)
{
    static const char *const names[] = { "id_ed25519", "id_ecdsa", "id_rsa" };
    rg_autofree char *allowed = rg_strf("%s/authorized_keys", s->keys);
    rg_autofree char *key = NULL;
    rg_autofree char *public = NULL;

    for (size_t i = 0; i < rg_array_len(names) && !key; i++) {
        rg_autofree char *file = rg_strf("%s/%s", s->keys, names[i]);
        if (file && access(file, F_OK) == 0)
            key = rg_steal_ptr(&file);
    }
    /* Somebody arranged both: which key may log in is then theirs to say. */
    if (key && allowed && access(allowed, F_OK) == 0)
        return 0;
    int rc = 0;
    if (!key) {
        key = rg_strf("%s/id_ed25519", s->keys);
        rc = key ? rg_keys_make("sshd", s->keygen, "ed25519", NULL, key, err)
                 : rg_error_set(err, ENOMEM, "sshd: no memory");
    }
    if (rc == 0)
        rc = rg_keys_public("sshd", key, &public, err);
    rc = rc < 0 ? rc : rg_keys_add_line("sshd", allowed, public, err);
    return rc < 0 ? rc : 0;
}

static int prepare_host(const struct sshd *s, struct rg_error *err)
{
    rg_autofree char *key = rg_strf("%s/" HOST_KEY, s->keys);
    rg_autofree char *known = rg_strf("%s/known_hosts", s->keys);
    rg_autofree char *public = NULL;

    if (!key || !known)
        return rg_error_set(err, ENOMEM, "sshd: no memory");
    int rc = access(key, F_OK) == 0
                 ? 0
                 : rg_keys_make("sshd", s->keygen, "ed25519", NULL, key, err);
    if (rc == 0)
        rc = rg_keys_public("sshd", key, &public, err);
    rg_autofree char *line = rc == 0 ? rg_strf("[*]:%d %s", s->port, public) : NULL;
    rc = rc < 0 ? rc : rg_keys_add_line("sshd", known, line, err);
    return rc < 0 ? rc : 0;
}

/* Hosts that share the directory may all come at once. */
static int prepare_keys(const struct sshd *s, struct rg_error *err)
{
    rg_autoclose int lock = rg_keys_lock(s->keys, ".reigen-sshd.lock");
    int rc = prepare_user(s, err);
    return rc < 0 ? rc : prepare_host(s, err);
}

/* sshd tells only its log, and only after it has left for the background. */
static int check_port(int port, struct rg_error *err)
{
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port) };
    rg_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (struct sockaddr *) &any, sizeof any) == 0 && listen(fd, 1) == 0)
        return 0;
    int code = errno == EACCES ? RG_EXIT_NO_PERMISSION : RG_EXIT_UNAVAILABLE;

    return rg_error_set_exit(err, errno, code,
                             "sshd: cannot listen on port %d: %s; give another one with -p", port,
                             strerror(errno));
}

/* What a session finds in its environment beside what sshd gives it: the container's own, which
 * sshd would drop. Values that would have to be quoted are left out. */
static int add_environment(struct rg_strv *argv)
{
    static const char *const names[] = { "PATH", "LD_LIBRARY_PATH", "PYTHONPATH" };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (size_t i = 0; i < rg_array_len(names); i++) {
        const char *value = getenv(names[i]);
        if (value && *value && !strpbrk(value, " \t\n\"'\\#"))
            rg_buf_printf(&text, " %s=%s", names[i], value);
    }
    return *rg_buf_text(&text) ? rg_strv_addf(argv, "-oSetEnv%s", rg_buf_text(&text)) : 0;
}

static int sshd_argv(const struct sshd *s, struct rg_strv *argv)
{
    struct stat st;
    /* In a container root may well use the files of the user who mounted them. */
    bool foreign = stat(s->keys, &st) == 0 && st.st_uid != 0 && getuid() == 0;
    int rc = rg_strv_add(argv, s->sshd);
    static char *const fixed[] = { "-f", "/dev/null", "-o", "UsePAM=no", "-o",
                                   "PasswordAuthentication=no", "-o",
                                   "KbdInteractiveAuthentication=no", "-o",
                                   "PermitRootLogin=prohibit-password", "-o",
                                   "MaxStartups=200:30:400", "-o", "PrintMotd=no", "-o",
                                   "Subsystem=sftp internal-sftp", NULL };

    rc = rc < 0 ? rc : rg_strv_add_all(argv, fixed);
    rc = rc < 0 ? rc : rg_strv_addf(argv, "-oPort=%d", s->port);
    rc = rc < 0 ? rc : rg_strv_addf(argv, "-oHostKey=%s/" HOST_KEY, s->keys);
    rc = rc < 0 ? rc : rg_strv_addf(argv, "-oAuthorizedKeysFile=%s/authorized_keys", s->keys);
    rc = rc < 0 ? rc : rg_strv_addf(argv, "-oPidFile=%s", s->pid);
    rc = rc < 0 ? rc : rg_strv_addf(argv, "-oStrictModes=%s", foreign ? "no" : "yes");
    return rc < 0 ? rc : add_environment(argv);
}

/* Wait for the pid file, which sshd writes once it listens; its log says why it does not. */
static int wait_listening(const struct sshd *s, struct rg_error *err)
{
    rg_autofree char *said = NULL;
    uint64_t end = rg_now_ns() + LISTEN_TIMEOUT_NS;

    while (access(s->pid, F_OK) && rg_now_ns() < end)
        usleep(10000);
    if (access(s->pid, F_OK) == 0)
        return 0;
    rg_read_file(s->log, KEY_FILE_MAX, &said, NULL);
    return rg_error_set_exit(err, EIO, RG_EXIT_UNAVAILABLE, "sshd: it does not listen: %s",
                             said && *said ? said : "its log is empty");
}

static int start(const struct sshd *s, struct rg_strv *argv, struct rg_error *err)
{
    unlink(s->pid);
    unlink(s->log);
    if (s->foreground) {
        if (rg_strv_add(argv, "-D") < 0 || rg_strv_add(argv, "-e") < 0)
            return rg_error_set(err, ENOMEM, "sshd: no memory");
        signal(SIGPIPE, SIG_DFL);
        execv(s->sshd, argv->v);
        return rg_error_set(err, errno, "sshd: cannot start %s: %s", s->sshd, strerror(errno));
    }
    if (rg_strv_add(argv, "-E") < 0 || rg_strv_add(argv, s->log) < 0)
        return rg_error_set(err, ENOMEM, "sshd: no memory");
    int rc = rg_keys_run("sshd", argv->v, err);
    return rc < 0 ? rc : wait_listening(s, err);
}

static int say(const struct sshd *s)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, "sshd listens on port %d, with the keys in %s\nfor mpirun: ", s->port,
                  s->keys);
    if (s->standard)
        rg_buf_printf(&text, "-mca plm_rsh_args \"-p %d\"\n", s->port);
    else
        rg_buf_printf(&text,
                      "-mca plm_rsh_args \"-p %d -F none -i %s/id_ed25519 -o "
                      "UserKnownHostsFile=%s/known_hosts -o StrictHostKeyChecking=yes\"\n",
                      s->port, s->keys, s->keys);
    return rg_print(rg_buf_text(&text));
}

int rg_cmd_sshd(int argc, char **argv)
{
    rg_cleanup(sshd_fini) struct sshd s = { .port = DEFAULT_PORT };
    rg_autostrv struct rg_strv words = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    int rc = parse(argc, argv, &s, &err);
    if (rc == 0)
        rc = find_programs(&s, &err);
    if (rc == 0)
        rc = find_directories(&s, &err);
    if (rc == 0)
        rc = check_port(s.port, &err);
    if (rc == 0)
        rc = prepare_keys(&s, &err);
    /* root's sshd changes into this directory to be without rights there. */
    if (rc == 0 && getuid() == 0)
        rc = rg_mkdir_all("/run/sshd", 0755, &err);
    if (rc == 0)
        rc = make_private(s.run, &err);
    if (rc == 0 && sshd_argv(&s, &words) < 0)
        rc = rg_error_set(&err, ENOMEM, "sshd: no memory");
    if (rc == 0)
        rc = start(&s, &words, &err);
    return rc < 0 ? rg_fail(&err, "sshd") : say(&s);
}
