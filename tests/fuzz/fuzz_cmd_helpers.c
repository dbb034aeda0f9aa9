/* SPDX-License-Identifier: Apache-2.0 */
/* /etc/passwd and /etc/group of an image of anybody's, and a ~/.ssh/config, as the commands under
 * srun_docker.sh's helper scripts' names write them anew. */
#include "cmd/compat/rundock.h"
#include "cmd/compat/sshconfig.h"
#include "fuzz.h"

static size_t name_length(const char *line)
{
    return strcspn(line, ":\n");
}

/* Nobody comes before the caller, and nobody is there twice: the first one of a name counts. */
static void must_be_users(const char *text, const char *first)
{
    must(strncmp(text, first, strlen(first)) == 0);
    must(text[strlen(text) - 1] == '\n');
    for (const char *other = strchr(text, '\n') + 1; *other; other = strchr(other, '\n') + 1)
        must(name_length(other) != name_length(first) ||
             strncmp(other, first, name_length(first)) != 0);
}

static void make_users(const char *image)
{
    struct rg_rundock_host host = { .uid = 4242, .gid = 4243, .user = "erika", .home = "/home/e" };
    rg_autofree char *passwd = NULL, *group = NULL;

    must(rg_rundock_users(&host, image, image, &passwd, &group) == 0);
    must_be_users(passwd, "erika:x:4242:4243::/home/e:/bin/sh\n");
    must(!*group || group[strlen(group) - 1] == '\n');
}

/* A second time there is nothing to change. */
static void make_block(const char *old)
{
    struct rg_sshconfig config = { .dir = "/d", .ssh_dir = "/s", .port = 7, .hosts = "a b*" };
    struct rg_error err = RG_ERROR_INIT;
    rg_autofree char *text = NULL, *again = NULL;

    if (rg_sshconfig_block(&config, old, &text, &err) < 0) {
        must(err.text[0]);
        return;
    }
    must(strstr(text, "Host a b*\n    Port 7\n") != NULL);
    must(rg_sshconfig_block(&config, text, &again, &err) == 0);
    must(strcmp(text, again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    char buf[4096];

    text_of(data, nbytes, buf, sizeof buf);
    make_users(buf);
    make_block(buf);
    return 0;
}
