/* SPDX-License-Identifier: Apache-2.0 */
/* The passwd and group files of a container that runs as the caller, and the block of
 * ~/.ssh/config: texts from texts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cmd/compat/rundock.h"
#include "cmd/compat/sshconfig.h"
#include "unit.h"

static int count(const char *text, const char *word)
{
    int n = 0;

    for (; (text = strstr(text, word)); text += strlen(word))
        n++;
    return n;
}

static void the_user_comes_first_and_the_image_keeps_its_own(void **state)
{
    static const gid_t groups[] = { 0, 77 };
    struct rg_rundock_host host = { .uid = 4242, .gid = 0, .groups = groups, .ngroups = 2,
                                    .user = "erika", .home = "/home/e" };
    rg_autofree char *passwd = NULL, *group = NULL;

    (void) state;
    assert_int_equal(rg_rundock_users(&host, "root:x:0:0::/imageroot:/bin/sh\n"
                                             "erika:x:1:1::/wrong:/bin/sh\n\nsshd:x:9:9::/:/no",
                                      "root:x:0:\nimagegroup:x:4:sshd\n", &passwd, &group), 0);
    assert_true(rg_str_starts(passwd, "erika:x:4242:0::/home/e:/bin/sh\nroot:x:0:0::/imageroot"));
    assert_non_null(strstr(passwd, "\nsshd:x:9:9::/:/no\n"));
    assert_int_equal(count(passwd, "erika:"), 1);
    assert_int_equal(count(passwd, "\nroot:"), 1);
    assert_int_equal(count(passwd, "\nsshd:"), 1);
    assert_true(rg_str_starts(group, "root:x:0:erika\nimagegroup:x:4:sshd\n"));
    assert_int_equal(count(group, "root:x"), 1);
}

static void an_image_may_have_no_users(void **state)
{
    struct rg_rundock_host host = { .uid = 4242, .gid = 4242, .user = "erika" };
    rg_autofree char *passwd = NULL, *group = NULL;

    (void) state;
    assert_int_equal(rg_rundock_users(&host, NULL, NULL, &passwd, &group), 0);
    assert_true(rg_str_starts(passwd, "erika:x:4242:4242::/:/bin/sh\n"));
    /* The host's. */
    assert_int_equal(count(passwd, "\nroot:x:0:0:"), 1);
    assert_int_equal(count(group, "root:x:0:"), 1);
}

static void a_broken_block_is_not_touched(void **state)
{
    struct rg_sshconfig config = { .dir = "/d", .ssh_dir = "/s", .port = 7, .hosts = "a b*" };
    struct rg_error err = RG_ERROR_INIT;
    rg_autofree char *text = NULL, *again = NULL;

    (void) state;
    assert_int_equal(rg_sshconfig_block(&config, "Host x\n", &text, &err), 0);
    assert_non_null(strstr(text, "Host a b*\n    Port 7\n"));
    assert_string_equal(text + strlen(text) - 7, "Host x\n");
    assert_int_equal(rg_sshconfig_block(&config, text, &again, &err), 0);
    assert_string_equal(again, text);
    *strstr(text, "# <<<") = '\0';
    rg_autofree char *never = NULL;
    assert_int_equal(rg_sshconfig_block(&config, text, &never, &err), -EINVAL);
    assert_null(never);
    assert_non_null(strstr(err.text, "remove the block by hand"));
}

static void write_text(const char *dir, const char *name, const char *text)
{
    rg_autofree char *path = rg_strf("%s/%s", dir, name);
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* srun-docker --sshdport with another port than the one the directory was made for. */
static void a_server_of_ours_is_known_on_another_port(void **state)
{
    static const char *const names[] = { "ssh_host_rsa_key.pub", "ssh_host_ecdsa_key.pub",
                                         "ssh_host_ed25519_key.pub" };
    char dir[] = "/tmp/test-rundock-XXXXXX";
    rg_autobuf struct rg_buf said = RG_BUF_INIT;
    struct rg_sshconfig config = { .dir = mkdtemp(dir), .ssh_dir = "/s", .port = 7001,
                                   .said = &said };
    struct rg_error err = RG_ERROR_INIT;
    rg_autofree char *known = rg_strf("%s/known_hosts", dir);
    rg_autofree char *text = NULL;

    (void) state;
    assert_non_null(config.dir);
    assert_int_equal(rg_sshconfig_port(&config, &err), -ENOENT);
    for (size_t i = 0; i < rg_array_len(names); i++)
        write_text(dir, names[i], "ssh-x AAAA me\n");
    write_text(dir, "sshd_config", "# Mine.\n");
    assert_int_equal(rg_sshconfig_port(&config, &err), 0);
    assert_int_not_equal(access(known, F_OK), 0);
    write_text(dir, "sshd_config", "# Made by reigen sshconfig, which writes it anew.\nPort 7\n");
    assert_int_equal(rg_sshconfig_port(&config, &err), 0);
    assert_true(rg_read_file(known, 4096, &text, NULL) >= 0);
    assert_non_null(strstr(text, "[*]:7001 ssh-x AAAA"));
    rg_autofree char *command = rg_strf("rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_user_comes_first_and_the_image_keeps_its_own),
        cmocka_unit_test(an_image_may_have_no_users),
        cmocka_unit_test(a_broken_block_is_not_touched),
        cmocka_unit_test(a_server_of_ours_is_known_on_another_port),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
