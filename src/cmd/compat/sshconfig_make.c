/* SPDX-License-Identifier: Apache-2.0 */
/* This makes the files themselves; what is there already stays as it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/str.h"
#include "cmd/compat/keys.h"
#include "cmd/compat/sshconfig.h"
#include "base/exitcode.h"

#define WHAT "sshconfig"
#define BEGIN "# >>> reigen sshconfig >>>"
#define END "# <<< reigen sshconfig <<<"
#define HEADER "# Made by reigen sshconfig, which writes it anew.\n"
#define MPI_KEY "id_rsa_mpi"
#define RSA_BITS "4096"
#define MODULI "/etc/ssh/moduli"
#define MODULI_MAX (8 << 20)
#define KEY_MAX (1 << 16)
#define LOCK ".reigen.lock"

static const char *const key_types[] = { "rsa", "ecdsa", "ed25519" };

static int no_memory(struct rg_error *err)
{
    return rg_error_set(err, ENOMEM, WHAT ": no memory");
}

static void say(const struct rg_sshconfig *config, const char *did, const char *path)
{
    rg_buf_printf(config->said, "%s%s %s\n", config->dry_run ? "would have " : "", did, path);
}

/* Such a path can stand in ssh's files between double quotes, and means itself. */
static int check_path(const char *path, struct rg_error *err)
{
    for (const char *p = path; *p; p++)
        if (strchr("\"%\\", *p) || (unsigned char) *p < ' ')
            return rg_error_set(err, EINVAL,
                                WHAT ": %s: a path with quotes, backslashes or '%%' cannot stand "
                                "in ssh's files; give another --dir", path);
    return 0;
}

/* Replace a file as a whole; a link stays one. */
static int write_file(const char *path, const char *text, mode_t mode, struct rg_error *err)
{
    rg_autofree char *target = realpath(path, NULL);
    const char *at = target ? target : path;
    struct stat st;

    if (!target && lstat(path, &st) == 0)
        return rg_error_set(err, EINVAL, WHAT ": %s is a link to what is not there; make that file "
                            "or remove the link", path);
    if (target && (stat(target, &st) < 0 || !S_ISREG(st.st_mode)))
        return rg_error_set(err, EINVAL, WHAT ": %s leads to %s, which is no ordinary file; remove "
                            "%s", path, target, path);
    rg_autofree char *fresh = rg_strf("%s.reigen-%d", at, (int) getpid());

    if (!fresh)
        return no_memory(err);
    rg_autoclose int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc = fd < 0 ? -errno : rg_write_all(fd, text, strlen(text));
    if (rc == 0 && (fchmod(fd, mode) || rename(fresh, at)))
        rc = -errno;
    if (rc < 0 && fd >= 0)
        unlink(fresh);
    return rc == 0 ? 0
                   : rg_error_set(err, -rc, WHAT ": cannot write %s: %s", path, strerror(-rc));
}

/* A name beside path where nothing is: what was moved there before is kept. NULL: no memory. */
static char *free_name(const char *path)
{
    char *name = rg_strf("%s.old", path);
    struct stat st;

    for (int n = 2; name && lstat(name, &st) == 0; n++) {
        free(name);
        name = rg_strf("%s.old.%d", path, n);
    }
    return name;
}

/* Make a file be this text; one of somebody else's is kept beside it. */
static int put_file(const struct rg_sshconfig *config, const char *name, const char *text,
                    struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/%s", config->dir, name);
    rg_autofree char *old = NULL;
    rg_autofree char *aside = NULL;

    if (!path)
        return no_memory(err);
    int rc = rg_read_file(path, RG_SSHCONFIG_FILE_MAX, &old, NULL);
    if (rc >= 0 && strcmp(old, text) == 0) {
        say(config, "kept", path);
        return 0;
    }
    if (rc < 0 && rc != -ENOENT)
        return rg_error_set(err, -rc, WHAT ": cannot read %s: %s", path, strerror(-rc));
    if (rc >= 0 && !rg_str_starts(old, HEADER)) {
        aside = free_name(path);
        if (!aside)
            return no_memory(err);
        if (!config->dry_run && rename(path, aside))
            return rg_error_set(err, errno, WHAT ": cannot move %s to %s: %s", path, aside,
                                strerror(errno));
        say(config, "moved the one that was there to", aside);
    }
    const char *did = rc < 0 || aside ? "made" : "changed";
    rc = config->dry_run ? 0 : write_file(path, text, 0644, err);
    if (rc == 0)
        say(config, did, path);
    return rc;
}

static int put_sshd_config(const struct rg_sshconfig *config, struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, HEADER "Port %d\n", config->port);
    for (size_t i = 0; i < rg_array_len(key_types); i++)
        rg_buf_printf(&text, "HostKey \"%s/ssh_host_%s_key\"\n", config->dir, key_types[i]);
    /* It runs as the user, often in a container where the home's owner is not the one it expects,
     * and lets in only who has a key. */
    rg_buf_printf(&text, "PermitRootLogin yes\nStrictModes no\nUsePAM no\n"
                         "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                         "PidFile none\nPrintMotd no\nMaxStartups 200:30:400\n"
                         "Subsystem sftp internal-sftp\n");
    if (rg_buf_status(&text) < 0)
        return no_memory(err);
    return put_file(config, "sshd_config", rg_buf_text(&text), err);
}

static void print_client(const struct rg_sshconfig *config, const char *hosts, struct rg_buf *text)
{
    rg_buf_printf(text,
                  "Host %s\n"
                  "    Port %d\n"
                  "    PubkeyAuthentication yes\n"
                  "    StrictHostKeyChecking yes\n"
                  "    UserKnownHostsFile \"%s/known_hosts\" \"%s/known_hosts\"\n"
                  "    IdentityFile \"%s/" MPI_KEY "\"\n",
                  hosts, config->port, config->dir, config->ssh_dir, config->ssh_dir);
}

static int put_ssh_config(const struct rg_sshconfig *config, struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, HEADER "# For ssh -F, where ~/.ssh/config has no such block.\n");
    print_client(config, "*", &text);
    if (rg_buf_status(&text) < 0)
        return no_memory(err);
    return put_file(config, "ssh_config", rg_buf_text(&text), err);
}

static int put_moduli(const struct rg_sshconfig *config, struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/moduli", config->dir);
    rg_autofree char *text = NULL;

    if (!path)
        return no_memory(err);
    if (access(path, F_OK) == 0 || rg_read_file(MODULI, MODULI_MAX, &text, NULL) < 0)
        return 0;
    int rc = config->dry_run ? 0 : write_file(path, text, 0644, err);
    if (rc == 0)
        say(config, "made", path);
    return rc;
}

/* A key that is there: whole, and with the mode without which ssh and sshd would not use it. */
static int keep_key(const struct rg_sshconfig *config, const char *path, struct rg_error *err)
{
    rg_autofree char *text = NULL;
    struct stat st;

    int rc = rg_read_file(path, KEY_MAX, &text, NULL);
    if (rc < 0)
        return rg_error_set(err, -rc, WHAT ": cannot read %s: %s", path, strerror(-rc));
    if (!rg_str_starts(text, "-----BEGIN ") || !strstr(text, "\n-----END "))
        return rg_error_set(err, EINVAL, WHAT ": %s is not a whole private key; remove it and "
                            "%s.pub, and call again", path, path);
    /* They look at the mode of their user's own files only. */
    bool open = stat(path, &st) == 0 && st.st_uid == getuid() && (st.st_mode & 077);
    if (open && !config->dry_run && chmod(path, 0600))
        return rg_error_set(err, errno, WHAT ": cannot change the mode of %s, which others may "
                            "read: %s", path, strerror(errno));
    say(config, open ? "changed the mode of" : "kept", path);
    return 0;
}

/* A private key and its public half, unless they are there. */
static int put_key(const struct rg_sshconfig *config, const char *type, const char *bits,
                   const char *path, struct rg_error *err)
{
    rg_autofree char *keygen = rg_keys_look_up("ssh-keygen");

    if (access(path, F_OK) == 0)
        return keep_key(config, path, err);
    if (!keygen)
        return rg_error_set_exit(err, ENOENT, RG_EXIT_UNAVAILABLE,
                                 WHAT ": ssh-keygen is not here; install OpenSSH's client (Debian: "
                                 "openssh-client)");
    int rc = config->dry_run ? 0 : rg_keys_make(WHAT, keygen, type, bits, path, err);
    if (rc == 0)
        say(config, "made", path);
    else if (rc == -EIO)
        err->exit_code = RG_EXIT_OUTPUT_LOST;
    return rc;
}

/* One line for each host key: it counts for all hosts on the port. */
static int put_known_hosts(const struct rg_sshconfig *config, struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/known_hosts", config->dir);
    struct stat st;
    int added = 0;

    if (!path)
        return no_memory(err);
    for (size_t i = 0; i < rg_array_len(key_types) && !config->dry_run; i++) {
        rg_autofree char *key = rg_strf("%s/ssh_host_%s_key", config->dir, key_types[i]);
        rg_autofree char *public = NULL;
        int rc = key ? rg_keys_public(WHAT, key, &public, err) : no_memory(err);
        if (rc < 0)
            return rc;
        rg_autofree char *line = rg_strf("[*]:%d %s", config->port, public);
        rc = rg_keys_add_line(WHAT, path, line, err);
        if (rc < 0)
            return rc;
        added += rc;
    }
    bool would = config->dry_run && access(path, F_OK) != 0;
    say(config, added || would ? "made" : "kept", path);
    /* A link to /dev/null is a common way to know nobody. */
    bool is_file = added && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (is_file && chmod(path, 0644))
        return rg_error_set(err, errno, WHAT ": cannot change %s: %s", path, strerror(errno));
    return 0;
}

int rg_sshconfig_port(const struct rg_sshconfig *config, struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/sshd_config", config->dir);
    rg_autofree char *text = NULL;

    if (!path)
        return no_memory(err);
    int rc = rg_read_file(path, RG_SSHCONFIG_FILE_MAX, &text, NULL);
    if (rc < 0)
        return rg_error_set(err, -rc, WHAT ": cannot read %s: %s", path, strerror(-rc));
    if (!rg_str_starts(text, HEADER))
        return 0;
    rg_autoclose int lock = rg_keys_lock(config->dir, LOCK);
    return put_known_hosts(config, err);
}

int rg_sshconfig_server(const struct rg_sshconfig *config, struct rg_error *err)
{
    rg_autoclose int lock = -1;
    int rc = check_path(config->dir, err);

    if (rc == 0)
        rc = check_path(config->ssh_dir, err);
    if (rc == 0 && !config->dry_run)
        rc = rg_mkdir_all(config->dir, 0700, err);
    if (rc == 0 && !config->dry_run)
        lock = rg_keys_lock(config->dir, LOCK);
    for (size_t i = 0; rc == 0 && i < rg_array_len(key_types); i++) {
        rg_autofree char *path = rg_strf("%s/ssh_host_%s_key", config->dir, key_types[i]);
        rc = path ? put_key(config, key_types[i], NULL, path, err) : no_memory(err);
    }
    if (rc == 0)
        rc = put_known_hosts(config, err);
    if (rc == 0)
        rc = put_sshd_config(config, err);
    if (rc == 0)
        rc = put_ssh_config(config, err);
    return rc < 0 ? rc : put_moduli(config, err);
}

/* The line that is this mark, whatever an editor did to its end; NULL: there is none. ret_rest gets
 * what follows it. */
static const char *find_mark(const char *text, const char *mark, const char **ret_rest)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        const char *rest = text + n + (text[n] == '\n');
        while (n && strchr(" \t\r", text[n - 1]))
            n--;
        if (n == strlen(mark) && strncmp(text, mark, n) == 0) {
            *ret_rest = rest;
            return text;
        }
        text = rest;
    }
    return NULL;
}

int rg_sshconfig_block(const struct rg_sshconfig *config, const char *old, char **ret_text,
                       struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    const char *rest = old, *inside;
    const char *begin = find_mark(old, BEGIN, &inside);

    if (begin && !find_mark(inside, END, &rest))
        return rg_error_set(err, EINVAL,
                            WHAT ": %s/config has the line \"" BEGIN "\" and not the one that ends "
                            "the block; remove the block by hand", config->ssh_dir);
    rg_buf_put(&text, old, begin ? (size_t) (begin - old) : 0);
    rg_buf_printf(&text, BEGIN "\n");
    print_client(config, config->hosts, &text);
    /* What follows may stand under no Host line, and is then meant for all. */
    rg_buf_printf(&text, "Match all\n" END "\n");
    rg_buf_put(&text, rest, strlen(rest));
    char *made = rg_buf_status(&text) == 0 ? strdup(rg_buf_text(&text)) : NULL;
    if (!made)
        return no_memory(err);
    *ret_text = made;
    return 0;
}

static int put_block(const struct rg_sshconfig *config, struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/config", config->ssh_dir);
    rg_autofree char *old = NULL;
    rg_autofree char *text = NULL;
    struct stat st = { .st_mode = 0600 };

    int rc = path ? rg_read_file(path, RG_SSHCONFIG_FILE_MAX, &old, NULL) : -ENOMEM;
    if (rc < 0 && rc != -ENOENT)
        return rg_error_set(err, -rc, WHAT ": cannot read %s: %s", path ? path : "config",
                            strerror(-rc));
    rc = rg_sshconfig_block(config, old ? old : "", &text, err);
    if (rc < 0)
        return rc;
    if (old && strcmp(old, text) == 0) {
        say(config, "kept", path);
        return 0;
    }
    if (old)
        stat(path, &st);
    /* ssh refuses a file that others may write to. */
    rc = config->dry_run ? 0 : write_file(path, text, st.st_mode & 0755, err);
    if (rc == 0)
        say(config, old ? "changed" : "made", path);
    if (config->dry_run) {
        rg_buf_printf(config->said, BEGIN "\n");
        print_client(config, config->hosts, config->said);
    }
    return rc;
}

/* Whoever has the key may log in. */
static int put_authorized(const struct rg_sshconfig *config, const char *key, struct rg_error *err)
{
    rg_autofree char *path = rg_strf("%s/authorized_keys", config->ssh_dir);
    rg_autofree char *public = NULL;

    if (!path)
        return no_memory(err);
    if (config->dry_run && access(key, F_OK) != 0) {
        say(config, "added the key to", path);
        return 0;
    }
    int rc = rg_keys_public(WHAT, key, &public, err);
    if (rc == 0 && config->dry_run) {
        rg_autofree char *text = NULL;
        bool there = rg_read_file(path, RG_SSHCONFIG_FILE_MAX, &text, NULL) >= 0 &&
                     strstr(text, public);
        say(config, there ? "kept" : "added the key to", path);
        return 0;
    }
    if (rc == 0)
        rc = rg_keys_add_line(WHAT, path, public, err);
    if (rc >= 0)
        say(config, rc ? "added the key to" : "kept", path);
    return rc < 0 ? rc : 0;
}

int rg_sshconfig_user(const struct rg_sshconfig *config, struct rg_error *err)
{
    rg_autofree char *key = rg_strf("%s/" MPI_KEY, config->ssh_dir);
    rg_autoclose int lock = -1;

    if (!key)
        return no_memory(err);
    int rc = check_path(config->ssh_dir, err);
    if (rc == 0 && !config->dry_run)
        rc = rg_mkdir_all(config->ssh_dir, 0700, err);
    if (rc == 0 && !config->dry_run)
        lock = rg_keys_lock(config->dir, LOCK);
    if (rc == 0)
        rc = put_key(config, "rsa", RSA_BITS, key, err);
    if (rc == 0)
        rc = put_authorized(config, key, err);
    return rc < 0 || !config->hosts ? rc : put_block(config, err);
}
