/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reigen sshconfig, also by the name create_mpisshconfig.sh: the files that a real sshd in the
 * containers of a Slurm job needs, and the user's key and ssh settings for it.
 */
#include "cmd/compat/sshconfig.h"

#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/process/spawn.h"
#include "base/str.h"
#include "head/console/exit.h"
#include "cmd/compat/keys.h"
#include "cmd/compat/compat.h"

#define DEFAULT_DIR "mpisshconfig"
#define SINFO_TIMEOUT_MS 15000
#define SINFO_MAX (4 << 20)
#define PATTERNS_MAX 64

struct options {
    char *dir, *ssh_dir, *hosts; /* owned; NULL: nothing was said */
    int port;
    bool dry_run, help;
};

static void options_fini(struct options *o)
{
    free(o->dir);
    free(o->ssh_dir);
    free(o->hosts);
}

static int apply_port(void *object, const char *what, const char *value, struct rg_error *err)
{
    struct options *o = object;
    int64_t port;
    int rc = rg_parse_int(what, value, 1, 65535, &port, err);

    if (rc < 0)
        return rc;
    if (port == 22)
        return rg_error_set(err, EINVAL,
                            "sshconfig --port 22: the nodes' own sshd is there, with other keys; "
                            "give a port that is free, such as %d", RG_SSHCONFIG_PORT);
    o->port = (int) port;
    return 0;
}

#define TO(kind, name) NULL, RG_MEMBER(kind, struct options, name, 0, 0)

const struct rg_script_option rg_sshconfig_options[] = {
    { "dir", "DIR", false, "@dir",
      "Where host keys, sshd_config, ssh_config and known_hosts are; default: ~/mpisshconfig.",
      TO(TEXT, dir) },
    { "port", "N", false, NULL, "The sshd's port; default: 12345. It cannot be 22.",
      .apply = apply_port },
    { "hosts", "'PATTERN...'", false, NULL,
      "The hosts of the block in ~/.ssh/config, such as 'dgx* hsw*'. Default: the nodes' names "
      "that sinfo tells, with * for their numbers; no block where there is no Slurm.",
      TO(TEXT, hosts) },
    { "ssh-dir", "DIR", false, "@dir", "Stands for ~/.ssh.", TO(TEXT, ssh_dir) },
    { "dry-run", NULL, false, NULL, "Say what would be made or changed, and do nothing.",
      TO(FLAG, dry_run) },
    { "help", NULL, false, NULL, "Print this.", TO(FLAG, help) },
    { .name = NULL }
};

static int parse(char **argv, struct options *o, struct rg_error *err)
{
    int r = 1;

    for (int i = 1; r > 0 && argv[i] && !o->help; i++) {
        r = rg_script_option_take(rg_sshconfig_options, "sshconfig", argv, &i, o, err);
        if (r == 0)
            r = rg_script_option_refuse(rg_sshconfig_options, "sshconfig", argv[i], err);
    }
    return r < 0 ? r : 0;
}

static char *absolute(const char *path, const char *home)
{
    rg_autofree char *cwd = NULL;

    if (*path == '/')
        return strdup(path);
    if (path[0] == '~' && path[1] == '/')
        return rg_strf("%s%s", home, path + 1);
    cwd = getcwd(NULL, 0);
    return cwd ? rg_strf("%s/%s", cwd, path) : NULL;
}

/* Patterns as a Host line has them; commas may stand between them, too. */
static int clean_hosts(const char *text, char **ret_hosts, struct rg_error *err)
{
    rg_autofree char *hosts = strdup(text);

    if (!hosts)
        return rg_error_set(err, ENOMEM, "sshconfig: no memory");
    for (char *p = hosts; *p; p++) {
        if (*p == ',')
            *p = ' ';
        if (!isalnum((unsigned char) *p) && !strchr(" *?.-_!:", *p))
            return rg_error_set(err, EINVAL,
                                "sshconfig --hosts %s: '%c' cannot stand in a pattern; write it as "
                                "ssh does, such as 'dgx* hsw*'", text, *p);
    }
    if (!hosts[strspn(hosts, " ")])
        return rg_error_set(err, EINVAL, "sshconfig --hosts: no pattern; such as 'dgx* hsw*'");
    *ret_hosts = rg_steal_ptr(&hosts);
    return 0;
}

/* dgx01, dgx02 and hsw7 are "dgx* hsw*". NULL: nothing to say. */
static char *patterns_of(const char *names)
{
    rg_autostrv struct rg_strv found = RG_STRV_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    for (const char *p = names; *p && found.count < PATTERNS_MAX;) {
        int n = (int) strcspn(p, "\n");
        int stem = n;
        while (stem > 0 && isdigit((unsigned char) p[stem - 1]))
            stem--;
        rg_autofree char *pattern = rg_strf("%.*s%s", stem ? stem : n, p,
                                            stem && stem < n ? "*" : "");
        bool known = !pattern || !*pattern || rg_strv_has(&found, pattern);
        if (!known && rg_strv_add(&found, pattern) == 0)
            rg_buf_printf(&text, "%s%s", found.count > 1 ? " " : "", pattern);
        p += n + (p[n] == '\n');
    }
    return found.count && rg_buf_status(&text) == 0 ? strdup(rg_buf_text(&text)) : NULL;
}

static int find_hosts(const struct options *o, char **ret_hosts, struct rg_error *err)
{
    static char *const sinfo[] = { "sinfo", "-h", "-N", "-o", "%N", NULL };
    rg_autofree char *names = NULL, *patterns = NULL;

    if (o->hosts)
        return clean_hosts(o->hosts, ret_hosts, err);
    if (rg_spawn_ask(sinfo, SINFO_TIMEOUT_MS, SINFO_MAX, &names) == 0)
        patterns = patterns_of(names);
    return patterns ? clean_hosts(patterns, ret_hosts, err) : 0;
}

static int make(const struct options *o, struct rg_buf *said, struct rg_error *err)
{
    const struct passwd *user = getpwuid(getuid());
    rg_autofree char *hosts = NULL;

    if (!user)
        return rg_error_set(err, ENOENT,
                            "sshconfig: user id %d has no entry in /etc/passwd, which ssh needs",
                            (int) getuid());
    rg_autofree char *home = strdup(user->pw_dir);
    rg_autofree char *dir = home ? absolute(o->dir ? o->dir : "~/" DEFAULT_DIR, home) : NULL;
    rg_autofree char *ssh_dir = home ? absolute(o->ssh_dir ? o->ssh_dir : "~/.ssh", home) : NULL;
    if (!dir || !ssh_dir)
        return rg_error_set(err, ENOMEM, "sshconfig: no memory");
    int rc = find_hosts(o, &hosts, err);
    struct rg_sshconfig config = { .dir = dir, .ssh_dir = ssh_dir, .port = o->port,
                                   .hosts = hosts, .dry_run = o->dry_run, .said = said };
    if (rc == 0)
        rc = rg_sshconfig_server(&config, err);
    if (rc == 0)
        rc = rg_sshconfig_user(&config, err);
    if (rc < 0)
        return rc;
    if (!hosts)
        rg_buf_printf(said, "%s/config: left alone; give --hosts 'dgx* hsw*' to have a block for "
                            "these hosts in it\n", ssh_dir);
    rg_buf_printf(said, "sshd -f %s/sshd_config listens on port %d; give --sshconfigdir=%s "
                        "--sshdport=%d to srun-docker\n", dir, o->port, dir, o->port);
    return 0;
}

int rg_cmd_sshconfig(int argc, char **argv)
{
    rg_cleanup(options_fini) struct options options = { .port = RG_SSHCONFIG_PORT };
    struct rg_error err = RG_ERROR_INIT;
    rg_autobuf struct rg_buf said = RG_BUF_INIT;

    (void) argc;
    int rc = parse(argv, &options, &err);
    if (rc == 0 && options.help)
        return RG_COMMAND_HELP;
    if (rc == 0)
        rc = make(&options, &said, &err);
    int code = rg_print(rg_buf_text(&said));
    return rc < 0 ? rg_fail(&err, "sshconfig") : code;
}
