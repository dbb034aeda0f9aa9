/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen sshd: a real sshd, on a port of its own, with keys that are made where they are missing.
 * In our images it stands in the place of /usr/sbin/sshd, takes what that takes, and starts it as
 * it is where somebody asks for that: by no port of its own, or by keys and settings of his.
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
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/time.h"
#include "cmd/compat/compat.h"
#include "head/console/exit.h"
#include "cmd/compat/keys.h"

#define DEFAULT_PORT 12345
#define KEY_FILE_MAX (1 << 20)
#define LISTEN_TIMEOUT_NS 30000000000ull
#define HOST_KEY "reigen_host_key"

/* sshd's own options, of OpenSSH 6 to 10. With some of them it has keys already, or does something
 * else than to listen: then it is started as it would be without us. */
#define VALUE_LETTERS "CEbcfghkopu"
#define FLAG_LETTERS "46DGTVdeiqrt"
#define PLAIN_LETTERS "CGTVcfhit"

struct sshd {
    int port;
    const char *dir; /* the user's choice, or NULL */
    bool foreground, debugs, has_port;
    bool plain;      /* with the system's keys and settings */
    bool has_config, has_key; /* -f; -h or HostKey */
    const char *log_given;    /* -E, or NULL */
    struct rg_strv more;      /* what else the real one gets */
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
    rg_strv_fini(&s->more);
}

/* The word or its next one, of "--port 1" and "--port=1"; *i moves past a value that stands by
 * itself. NULL: it is not this option, or has no value. */
static const char *long_value(char **argv, int *i, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    return argv[*i][n] || !argv[*i + 1] ? NULL : argv[++*i];
}

static int unknown(const char *word, struct rg_error *err)
{
    static const char *const words[] = { "port", "dir", "foreground", "as-sshd", "help", NULL };
    bool lacks = strcmp(word, "--port") == 0 || strcmp(word, "--dir") == 0;
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

static int take_port(struct sshd *s, const char *value, struct rg_error *err)
{
    int64_t port;
    int rc = rg_parse_int("sshd -p", value, 1, 65535, &port, err);

    if (rc < 0)
        return rc;
    s->port = (int) port;
    s->has_port = true;
    return 0;
}

/* One of sshd's letters, and its value if it has one. */
static int take_letter(struct sshd *s, char c, const char *value, struct rg_error *err)
{
    if (c == 'p')
        return take_port(s, value, err);
    s->foreground |= c == 'D';
    s->debugs |= c == 'd';
    s->plain |= strchr(PLAIN_LETTERS, c) != NULL;
    s->has_config |= c == 'f';
    s->has_key |= c == 'h' || (c == 'o' && strncasecmp(value, "HostKey", strlen("HostKey")) == 0);
    if (c == 'E')
        s->log_given = value;
    if (c == 'D')
        return 0;
    int rc = rg_strv_addf(&s->more, "-%c", c);
    if (rc == 0 && value)
        rc = rg_strv_add(&s->more, value);
    return rc < 0 ? rg_error_memory(err) : 0;
}

/* A word of sshd's: letters behind one dash, of which the last may have a value. */
static int take_word(struct sshd *s, char **argv, int *i, struct rg_error *err)
{
    const char *word = argv[*i];
    int rc = 0;

    for (const char *p = word + 1; rc == 0 && *p; p++) {
        const char *value = NULL;
        if (strchr(VALUE_LETTERS, *p)) {
            value = p[1] ? p + 1 : argv[*i + 1];
            *i += !p[1];
            if (!value)
                return rg_error_set(err, EINVAL, "sshd -%c: its value is missing", *p);
            value += *p == 'p' && *value == '=';
        } else if (!strchr(FLAG_LETTERS, *p)) {
            return unknown(word, err);
        }
        rc = take_letter(s, *p, value, err);
        if (value)
            break;
    }
    return rc;
}

static int parse(int argc, char **argv, struct sshd *s, struct rg_error *err)
{
    bool as_sshd = false;
    int rc = 0;

    for (int i = 1; i < argc && rc == 0; i++) {
        const char *value;
        if (strcmp(argv[i], "--foreground") == 0)
            s->foreground = true;
        else if (strcmp(argv[i], "--as-sshd") == 0)
            as_sshd = true;
        else if ((value = long_value(argv, &i, "--dir")))
            s->dir = value;
        else if ((value = long_value(argv, &i, "--port")))
            rc = take_port(s, value, err);
        else if (argv[i][0] != '-' || argv[i][1] == '-' || !argv[i][1])
            rc = unknown(argv[i], err);
        else
            rc = take_word(s, argv, &i, err);
    }
    s->plain |= as_sshd && (!s->has_port || s->port == 22);
    if (rc == 0 && s->plain && s->dir)
        return rg_error_set(err, EINVAL, "sshd --dir: the keys in it are for a port that only "
                            "these hosts use; give one by -p, and none of sshd's -f, -h and -t");
    if (rc == 0 && !s->plain && s->port == 22)
        return rg_error_set(err, EINVAL,
                            "sshd -p 22: known_hosts holds one key for all hosts on the port; give "
                            "a port that only these hosts use, such as %d",
                            DEFAULT_PORT);
    return rc;
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
    s->log = s->log_given ? strdup(s->log_given) : s->run ? rg_strf("%s/log", s->run) : NULL;
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
    if (rc == 0 && s->more.count)
        rc = rg_strv_add_all(argv, s->more.v);
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

static int become(const struct sshd *s, const struct rg_strv *argv, struct rg_error *err)
{
    signal(SIGPIPE, SIG_DFL);
    execv(s->sshd, argv->v);
    return rg_error_set(err, errno, "sshd: cannot start %s: %s", s->sshd, strerror(errno));
}

static int start(const struct sshd *s, struct rg_strv *argv, struct rg_error *err)
{
    unlink(s->pid);
    if (!s->log_given)
        unlink(s->log);
    if (s->foreground || s->debugs) {
        if (rg_strv_add(argv, "-D") < 0 || rg_strv_add(argv, "-e") < 0)
            return rg_error_set(err, ENOMEM, "sshd: no memory");
        return become(s, argv, err);
    }
    if (!s->log_given && (rg_strv_add(argv, "-E") < 0 || rg_strv_add(argv, s->log) < 0))
        return rg_error_set(err, ENOMEM, "sshd: no memory");
    int rc = rg_keys_run("sshd", argv->v, err);
    return rc < 0 ? rc : wait_listening(s, err);
}

/* --- as /usr/sbin/sshd ------------------------------------------------------------------------ */

/* An image has no keys of hosts, or all who have it would have them. */
static int make_host_keys(const struct sshd *s, struct rg_error *err)
{
    static const char *const types[] = { "rsa", "ecdsa", "ed25519" };
    char *argv[] = { s->keygen, (char *) "-A", NULL };

    for (size_t i = 0; i < rg_array_len(types); i++) {
        rg_autofree char *path = rg_strf("/etc/ssh/ssh_host_%s_key", types[i]);
        if (!path || access(path, F_OK) == 0)
            return 0;
    }
    return rg_keys_run("sshd", argv, err);
}

/* Of a volume of Kubernetes': anybody may write to its folder, which sshd would not trust, and in
 * which nobody can. */
static bool keys_are_mounted(void)
{
    static const char data[] = "..data/";
    const struct passwd *user = getpwuid(getuid());
    rg_autofree char *path = user ? rg_strf("%s/.ssh/authorized_keys", user->pw_dir) : NULL;
    char target[sizeof(data)];

    return path && readlink(path, target, sizeof(target)) >= (ssize_t) strlen(data) &&
           strncmp(target, data, strlen(data)) == 0;
}

/* The system's sshd with these options, and with what a container lacks. Of two settings of one
 * thing the first counts for sshd. It returns only with an error. */
static int run_plain(const struct sshd *s, struct rg_error *err)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    bool root = getuid() == 0;
    int rc = root ? rg_mkdir_all("/run/sshd", 0755, err) : 0;

    if (rc >= 0 && root && !s->has_key)
        rc = make_host_keys(s, err);
    if (rc < 0)
        return rc;
    rc = rg_strv_add(&argv, s->sshd);
    if (rc == 0 && s->foreground)
        rc = rg_strv_add(&argv, "-D");
    if (rc == 0 && s->has_port)
        rc = rg_strv_addf(&argv, "-p%d", s->port);
    if (rc == 0 && s->more.count)
        rc = rg_strv_add_all(&argv, s->more.v);
    if (rc == 0 && !s->has_config && keys_are_mounted())
        rc = rg_strv_add(&argv, "-oStrictModes=no");
    if (rc == 0 && !s->has_config)
        rc = add_environment(&argv);
    return rc < 0 ? rg_error_memory(err) : become(s, &argv, err);
}

/* --- the command ------------------------------------------------------------------------------ */

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
    if (rc == 0 && s.plain)
        rc = run_plain(&s, &err);
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
