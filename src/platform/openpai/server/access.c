/* SPDX-License-Identifier: Apache-2.0 */
/* Which server, and who asks: from options, the environment, and files that nobody else reads. */
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

#include "base/exitcode.h"
#include "base/fd.h"
#include "platform/openpai/server/server_internal.h"

void pai_wipe(char *take_secret)
{
    if (take_secret)
        sodium_memzero(take_secret, strlen(take_secret));
    free(take_secret);
}

/* What a variable has; NULL: nothing. Borrowed. */
static const char *env_text(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* --- secrets ---------------------------------------------------------------------------------- */

/* The first line of an open file, which its owner alone may read. */
static int read_line(int fd, const char *what, const char *path, char **ret_text,
                     struct rg_error *err)
{
    char text[PAI_SECRET_MAX] = "";
    struct stat st;
    ssize_t n = fstat(fd, &st) < 0 ? -1 : 0;

    if (n == 0 && !S_ISREG(st.st_mode))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s %s is no file", what, path);
    if (n == 0 && (st.st_mode & 077))
        return rg_error_set_exit(err, EPERM, RG_EXIT_NO_PERMISSION,
                                 "%s %s: others may read it (mode %04o): chmod 600 %s, and change "
                                 "the secret if they have", what, path,
                                 (unsigned) (st.st_mode & 07777), path);
    n = n < 0 ? n : read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return rg_error_set_exit(err, errno, RG_EXIT_USAGE, "%s %s cannot be read: %s", what, path,
                                 strerror(errno));
    text[strcspn(text, "\r\n")] = '\0';
    *ret_text = *text ? strdup(text) : NULL;
    bool empty = !*text;
    sodium_memzero(text, sizeof(text));
    if (empty)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE, "%s %s has nothing in its first line",
                                 what, path);
    return *ret_text ? 0 : rg_error_memory(err);
}

/* From the file that the caller names, else from the variable, else from the variable's file.
 * *ret_text stays NULL where there is none. */
static int read_secret(const char *what, const char *path, const char *variable,
                       const char *file_variable, char **ret_text, struct rg_error *err)
{
    const char *value = path ? NULL : env_text(variable);

    if (value) {
        *ret_text = strdup(value);
        return *ret_text ? 0 : rg_error_memory(err);
    }
    path = path ? path : env_text(file_variable);
    if (!path)
        return 0;
    rg_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return rg_error_set_exit(err, errno,
                                 errno == EACCES ? RG_EXIT_NO_PERMISSION : RG_EXIT_USAGE,
                                 "%s %s cannot be opened: %s", what, path, strerror(errno));
    return read_line(fd, what, path, ret_text, err);
}

/* It stands in a header, where a line break would begin another one. */
static int check_token(const char *token, struct rg_error *err)
{
    for (const char *p = token; p && *p; p++) {
        if (*p <= ' ' || *p > '~')
            return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                     "OpenPAI's token has a byte %#x in it, which no token has: "
                                     "copy it again from the web portal", *p & 0xff);
    }
    return 0;
}

/* --- who it is -------------------------------------------------------------------------------- */

char *pai_token_user(const char *token)
{
    const char *payload = strchr(token, '.'), *end = payload ? strchr(payload + 1, '.') : NULL;
    unsigned char text[4096];
    size_t nbytes = 0;

    if (!end || sodium_base642bin(text, sizeof(text), payload + 1, (size_t) (end - payload - 1),
                                  NULL, &nbytes, NULL, sodium_base64_VARIANT_URLSAFE_NO_PADDING))
        return NULL;
    PAI_AUTO_JSON json_t *claims = json_loadb((const char *) text, nbytes, 0, NULL);
    const char *user = json_string_value(json_object_get(claims, "username"));

    return user ? strdup(user) : NULL;
}

int pai_server_logged_in(struct pai_server *server, const char *token, const char *user)
{
    char *copy = strdup(token), *name = strdup(user && *user ? user : server->user);

    if (!copy || !name) {
        pai_wipe(copy);
        free(name);
        return -ENOMEM;
    }
    pai_wipe(server->token);
    free(server->user);
    server->token = copy;
    server->user = name;
    return 0;
}

/* --- the URL ---------------------------------------------------------------------------------- */

static int take_url(struct pai_server *server, const char *url, struct rg_error *err)
{
    const char *scheme = strstr(url, "://");
    const char *rest = scheme ? scheme + 3 : url;
    size_t host = strcspn(rest, "/?#");

    if (scheme && !rg_str_starts(url, "http://") && !rg_str_starts(url, "https://"))
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "%s: OpenPAI's server has an address that begins with https:// or "
                                 "http://", url);
    if (memchr(rest, '@', host)) /* it may be a password: do not repeat it */
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "the address of OpenPAI's server has a user or a password in it, "
                                 "which others can see: say the user by REIGEN_PAI_USER, and the "
                                 "password by a file (REIGEN_PAI_PASSWORD_FILE)");
    if (!host || strpbrk(rest, "?# \t\r\n") || *rest == ':')
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "%s: this is no address of a server: give one like "
                                 "https://pai.example.org", url);
    server->url = rg_strf("%s%s", scheme ? "" : "https://", url);
    if (!server->url)
        return rg_error_memory(err);
    for (size_t n = strlen(server->url); server->url[n - 1] == '/'; n--)
        server->url[n - 1] = '\0';
    server->has_path = strchr(strstr(server->url, "://") + 3, '/');
    return 0;
}

static int take_version(struct pai_server *server, int version, struct rg_error *err)
{
    const char *value = version ? NULL : env_text("REIGEN_PAI_VERSION");
    int64_t n = version;
    int r = value ? rg_parse_int("REIGEN_PAI_VERSION", value + (*value == 'v'), 1, 2, &n, err) : 0;

    server->version = (int) n;
    return r;
}

static int take_user(struct pai_server *server, const char *user, struct rg_error *err)
{
    char *own = server->token ? pai_token_user(server->token) : NULL;

    user = user ? user : env_text("REIGEN_PAI_USER");
    server->user = user ? strdup(user) : own ? own : strdup("");
    if (server->user != own)
        free(own);
    if (server->password && server->user && !*server->user)
        return rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                 "there is a password for OpenPAI, and no user: set "
                                 "REIGEN_PAI_USER");
    return server->user ? 0 : rg_error_memory(err);
}

/* --- its life --------------------------------------------------------------------------------- */

static int fill(struct pai_server *server, const struct pai_access *access, struct rg_error *err)
{
    const char *url = access->url ? access->url : env_text("REIGEN_PAI_SERVER");
    const char *ca_file = access->ca_file ? access->ca_file : env_text("REIGEN_PAI_CA");
    int r = url ? take_url(server, url, err)
                : rg_error_set_exit(err, EINVAL, RG_EXIT_USAGE,
                                    "nobody said where OpenPAI is: give --pai-server or "
                                    "REIGEN_PAI_SERVER, such as https://pai.example.org");

    r = r < 0 ? r : take_version(server, access->version, err);
    if (r == 0 && ca_file && faccessat(AT_FDCWD, ca_file, R_OK, 0) < 0)
        r = rg_error_set_exit(err, errno, RG_EXIT_USAGE,
                              "the file of those who may sign OpenPAI's certificate, %s: %s",
                              ca_file, strerror(errno));
    if (r == 0 && ca_file && !(server->ca_file = strdup(ca_file)))
        r = rg_error_memory(err);
    r = r < 0 ? r : read_secret("OpenPAI's token", access->token_file, "REIGEN_PAI_TOKEN",
                                "REIGEN_PAI_TOKEN_FILE", &server->token, err);
    r = r < 0 ? r : check_token(server->token, err);
    r = r < 0 ? r : read_secret("OpenPAI's password", access->password_file,
                                "REIGEN_PAI_PASSWORD", "REIGEN_PAI_PASSWORD_FILE",
                                &server->password, err);
    return r < 0 ? r : take_user(server, access->user, err);
}

int pai_server_open(const struct pai_access *access, struct pai_server **ret_server,
                    struct rg_error *err)
{
    struct pai_server *server = calloc(1, sizeof(*server));
    int r = server ? fill(server, access, err) : rg_error_memory(err);

    if (r < 0) {
        pai_server_close(server);
        return r;
    }
    *ret_server = server;
    return 0;
}

void pai_server_close(struct pai_server *server)
{
    if (!server)
        return;
    pai_wipe(server->token);
    pai_wipe(server->password);
    free(server->url);
    free(server->user);
    free(server->ca_file);
    free(server);
}

const char *pai_server_url(const struct pai_server *server)
{
    return server->url;
}

int pai_server_version(const struct pai_server *server)
{
    return server->version;
}

const char *pai_server_user(const struct pai_server *server)
{
    return server->user;
}
