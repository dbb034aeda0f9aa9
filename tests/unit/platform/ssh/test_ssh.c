/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/ssh/door.h"

#include "platform/ssh/internal.h"
#include "base/exitcode.h"
#include "platform/drivers.h"
#include "unit.h"

static void messages_of_ssh_have_a_cause_and_a_remedy(void **state)
{
    static const struct {
        const char *said, *says;
        int exit_code;
        enum ssh_retry retry;
    } cases[] = {
        { "alice@h: Permission denied (publickey).", "ssh-copy-id h", RG_EXIT_NO_PERMISSION,
          SSH_RETRY_NO },
        { "Host key verification failed.", "accept-new", RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @; Host key verification failed.",
          "ssh-keygen -R 'h'", RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "No ED25519 host key is known for h and you have requested strict checking.; Host key "
          "verification failed.", "not known here", RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "@       WARNING: REVOKED HOST KEY DETECTED!               @; The ED25519 host key for "
          "[h]:22 is marked as revoked.; This could mean that a stolen key is being used to; "
          "impersonate this host.; ED25519 host key for [h]:22 was revoked and you have requested "
          "strict checking.; Host key verification failed.", "stolen it",
          RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "sign_and_send_pubkey: signing failed for ED25519 \"/h/.ssh/id\" from agent: agent "
          "refused operation; alice@h: Permission denied (publickey).", "ssh-add -l",
          RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "Load key \"/h/.ssh/id\": bad permissions; alice@h: Permission denied (publickey).",
          "chmod 600", RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "Load key \"/h/.ssh/id\": incorrect passphrase supplied to decrypt private key; "
          "alice@h: Permission denied (publickey).", "ssh-add it", RG_EXIT_NO_PERMISSION,
          SSH_RETRY_NO },
        { "alice@h: Permission denied (publickey,password,keyboard-interactive).",
          "asks for no password", RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures; "
          "Disconnected from 10.0.0.1 port 22", "IdentitiesOnly", RG_EXIT_NO_PERMISSION,
          SSH_RETRY_NO },
        { "/h/.ssh/config: line 3: Bad configuration option: colour; /h/.ssh/config: terminating, "
          "1 bad configuration options", "your ssh configuration", RG_EXIT_USAGE, SSH_RETRY_NO },
        { "Bad owner or permissions on /h/.ssh/config", "chmod 600", RG_EXIT_NO_PERMISSION,
          SSH_RETRY_NO },
        { "ssh: connect to host h port 22: No route to host", "is the host up",
          RG_EXIT_UNAVAILABLE, SSH_RETRY_FEW },
        { "ssh: Could not resolve hostname h: Temporary failure in name resolution",
          "no name server", RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
        { "ssh: Could not resolve hostname h: Name or service not known", "is the name right",
          RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
        { "ssh: connect to host h port 22: Connection timed out", "firewall", RG_EXIT_UNAVAILABLE,
          SSH_RETRY_COMING },
        { "Connection timed out during banner exchange; Connection to 10.0.0.1 port 22 timed out",
          "no sshd answers", RG_EXIT_UNAVAILABLE, SSH_RETRY_ON },
        { "ssh: connect to host h port 22: Connection refused", "--ssh-port", RG_EXIT_UNAVAILABLE,
          SSH_RETRY_FEW },
        { "kex_exchange_identification: read: Connection reset by peer", "MaxStartups",
          RG_EXIT_UNAVAILABLE, SSH_RETRY_ON },
        { "kex_exchange_identification: Connection closed by remote host; Connection closed by "
          "10.0.0.1 port 22", "MaxStartups", RG_EXIT_UNAVAILABLE, SSH_RETRY_ON },
        /* a jump host's refusal comes first and is the cause */
        { "bob@jump: Permission denied (publickey).; kex_exchange_identification: Connection "
          "closed by remote host", "user@HOST", RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "channel 0: open failed: connect failed: Connection refused; stdio forwarding failed; "
          "kex_exchange_identification: Connection closed by remote host", "--ssh-port",
          RG_EXIT_UNAVAILABLE, SSH_RETRY_FEW },
        { "command-line: line 0: Bad configuration option: foo", "--ssh-option", RG_EXIT_USAGE,
          SSH_RETRY_NO },
        { "Cannot execute command-line and remote command.", "RemoteCommand=none", RG_EXIT_USAGE,
          SSH_RETRY_NO },
        { "This account is currently not available.", "may not log in", RG_EXIT_NO_PERMISSION,
          SSH_RETRY_NO },
        { "bash: line 1: exec: sh: not found", "POSIX shell", RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
        { "Killed", "Killed", RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
        { "", "said nothing; does ssh h uname work", RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct ssh_explanation e;
        ssh_explain("h", 0, cases[i].said, "exit code 255", &e);
        assert_contains(e.text, cases[i].says);
        assert_int_equal(e.exit_code, cases[i].exit_code);
        assert_int_equal(e.retry, cases[i].retry);
        ssh_explain("h", 2222, cases[i].said, "exit code 255", &e);
        assert_contains(e.text, "2222");
    }
}

static void each_word_of_kubectl_has_a_remedy(void **state)
{
    static const struct {
        const char *said, *says;
        int exit_code;
        enum ssh_retry retry;
    } cases[] = {
        { "Error from server (NotFound): pods \"w-0\" not found", "the pod is not there",
          RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
        { "error: unable to upgrade connection: container not found (\"w\")",
          "container does not run", RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
        { "Error from server (Forbidden): pods \"w-0\" is forbidden", "create pods/exec",
          RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
        { "error: cannot exec into a container in a completed pod; current phase is Failed",
          "the pod has ended", RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
        { "/bin/sh: wc: not found", "POSIX shell", RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
        { "", "(exit code 1), and said nothing", RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct ssh_explanation e;
        ssh_explain_exec(cases[i].said, "exit code 1", &e);
        assert_contains(e.text, cases[i].says);
        assert_int_equal(e.exit_code, cases[i].exit_code);
        assert_int_equal(e.retry, cases[i].retry);
    }
    assert_true(ssh_exec_is_cut(137, "command terminated with exit code 137"));
    assert_true(ssh_exec_is_cut(1, "error: error reading from error stream: EOF"));
    assert_false(ssh_exec_is_cut(1, "command terminated with exit code 1"));
    assert_false(ssh_exec_is_cut(9, ""));
}

/* All of it, as OpenSSH 9.2 says it; the lines, not what is quoted of them. */
/* A line of noise. */
static void hear(struct rg_preamble *preamble, const char *text)
{
    struct rg_preamble_line line;

    rg_preamble_feed(preamble, text, strlen(text), &line);
    assert_int_equal(rg_preamble_feed(preamble, "\n", 1, &line), 1);
    assert_int_equal(line.kind, RG_PREAMBLE_NOISE);
}

static void a_changed_host_key_is_named_as_what_it_may_be(void **state)
{
    static const char bars[] = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@";
    static const char *const lines[] = {
        bars, "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @", bars,
        "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!",
        "Someone could be eavesdropping on you right now (man-in-the-middle attack)!",
        "It is also possible that a host key has just been changed.",
        "The fingerprint for the ED25519 key sent by the remote host is",
        "SHA256:2nfWVk4oTB2f8YvSarZo87H8xFUHjGd1XthS5eqGwyY.",
        "Please contact your system administrator.",
        "Add correct host key in /h/alice/.ssh/known_hosts to get rid of this message.",
        "Offending RSA key in /h/alice/.ssh/known_hosts:17",
        "  remove with:", "  ssh-keygen -f \"/h/alice/.ssh/known_hosts\" -R \"[h]:2222\"",
        "Host key for [h]:2222 has changed and you have requested strict checking.",
        "Host key verification failed.",
    };
    static const char *const says[] = {
        "REMOTE HOST IDENTIFICATION HAS CHANGED", "man in the middle", "its administrator",
        "(ED25519 SHA256:2nfWVk4oTB2f8YvSarZo87H8xFUHjGd1XthS5eqGwyY)",
        "/h/alice/.ssh/known_hosts:17",
        "ssh-keygen -f '/h/alice/.ssh/known_hosts' -R '[h]:2222'",
    };
    struct rg_preamble preamble = { .length = 0 };
    char said[RG_PREAMBLE_QUOTE_MAX];
    struct ssh_explanation e;

    (void) state;
    hear(&preamble, "Welcome to the jump host");
    for (size_t i = 0; i < rg_array_len(lines); i++)
        hear(&preamble, lines[i]);
    for (int i = 0; i < 100; i++) /* of the jump host's, say */
        hear(&preamble, "debug1: something else that fills the room of the last lines");
    ssh_explain("h", 2222, rg_preamble_quote_all(&preamble, said, sizeof(said)), "exit code 255",
                &e);
    assert_int_equal(e.exit_code, RG_EXIT_NO_PERMISSION);
    assert_int_equal(e.retry, SSH_RETRY_NO);
    for (size_t i = 0; i < rg_array_len(says); i++)
        assert_contains(e.text, says[i]);
    assert_null(strstr(e.text, "accept-new"));
    assert_null(strstr(e.text, "not known"));
    /* What a shell would take for more than a name is not handed on to be pasted. */
    ssh_explain("h", 0, "REMOTE HOST IDENTIFICATION HAS CHANGED; Offending RSA key in /a'b:1; "
                        "Host key for x;reboot has changed", "exit code 255", &e);
    assert_contains(e.text, "ssh-keygen -R 'h'");
}

static void a_long_message_is_quoted_where_it_tells_the_cause(void **state)
{
    char said[3000];
    struct ssh_explanation e;

    (void) state;
    memset(said, 'b', sizeof(said)); /* a banner */
    snprintf(said + 2000, 900, "; alice@h: Permission denied (publickey).");
    ssh_explain("h", 0, said, "exit code 255", &e);
    assert_contains(e.text, "failed: ...; alice@h: Permission denied (publickey). --");
    assert_contains(e.text, "ssh-copy-id h");
}

#define HOST 3

struct made {
    struct rg_job job;
    struct rg_plan plan;
    struct rg_plan_host hosts[4];
    struct ssh ssh;
    struct rg_strv argv;
};

static void make(struct made *made)
{
    memset(made->hosts, 0, sizeof(made->hosts));
    made->hosts[HOST].name = (char *) "h";
    made->plan = (struct rg_plan){ .job_id = "r-1", .nhosts = 4, .hosts = made->hosts };
    made->ssh = (struct ssh){ .shared.o = { .job = &made->job, .plan = &made->plan } };
    made->ssh.shared.agents[0] = (struct rg_agent_file){
        .machine = "x86_64", .data = (uint8_t *) "x", .nbytes = 1, .name = "agent-0123456789abcdef"
    };
    made->argv = (struct rg_strv) RG_STRV_INIT;
}

static bool has(const struct made *made, const char *word)
{
    for (size_t i = 0; i < made->argv.count; i++) {
        if (strcmp(made->argv.v[i], word) == 0)
            return true;
    }
    return false;
}

static void the_remote_command_reads_alike_in_every_login_shell(void **state)
{
    struct made made;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) state;
    rg_job_init(&made.job);
    make(&made);
    ssh_command_bootstrap(&made.ssh, &text);
    const char *script = rg_buf_text(&text);
    /* exec sh -c '...': within, nothing that csh or fish would take for more than itself. */
    assert_int_equal(strncmp(script, "exec sh -c '", 12), 0);
    assert_int_equal(strcspn(script + 12, "'\\!\n"), strlen(script) - 13);
    assert_int_equal(script[strlen(script) - 1], '\'');
    assert_true(strlen(script) < 1000); /* the longest word of an old csh has 1024 bytes */
    assert_contains(script, "agent-0123456789abcdef");
    rg_autobuf struct rg_buf installer = RG_BUF_INIT;
    ssh_command_installer(&made.ssh, HOST, &installer);
    script = rg_buf_text(&installer);
    assert_int_equal(strcspn(script, "\n"), strlen(script) - 1);
    rg_job_fini(&made.job);
}

static void options_reach_ssh_with_the_users_first(void **state)
{
    struct made made;

    (void) state;
    rg_job_init(&made.job);
    make(&made);
    assert_int_equal(ssh_command_make(&made.ssh, HOST, &made.argv), 0);
    assert_string_equal(made.argv.v[0], "ssh");
    assert_true(has(&made, "-oBatchMode=yes"));
    assert_false(has(&made, "-l"));
    assert_string_equal(made.argv.v[made.argv.count - 2], "h");
    assert_string_equal(made.argv.v[made.argv.count - 3], "--");
    rg_strv_fini(&made.argv);
    made.job.ssh_port = 2222;
    made.job.ssh_identity = strdup("/k");
    assert_int_equal(rg_strv_add(&made.job.ssh_options, "BatchMode=no"), 0);
    assert_int_equal(rg_strv_add(&made.job.ssh_options, "-Jjump"), 0);
    made.hosts[HOST].user = (char *) "bob";
    assert_int_equal(ssh_command_make(&made.ssh, HOST, &made.argv), 0);
    assert_string_equal(made.argv.v[2], "-o");
    assert_string_equal(made.argv.v[3], "BatchMode=no");
    assert_string_equal(made.argv.v[4], "-Jjump");
    assert_true(has(&made, "-p2222") && has(&made, "-i/k") && has(&made, "-lbob"));
    rg_strv_fini(&made.argv);
    rg_job_fini(&made.job);
}

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static bool config_says(const char *text)
{
    char dir[] = "/tmp/reigen-test-XXXXXX", path[64], more[64], line[160];
    rg_autostrv struct rg_strv options = RG_STRV_INIT;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/config", dir);
    snprintf(more, sizeof(more), "%s/more", dir);
    snprintf(line, sizeof(line), "%s\nInclude \"%s\"\n", strcmp(text, "there") ? text : "", more);
    put_file(path, line);
    put_file(more, strcmp(text, "there") ? "Host *\n" : "Host x\n  connecttimeout=7\n");
    assert_int_equal(rg_strv_addf(&options, "-F%s", path), 0);
    bool says = ssh_config_says(&options, "ConnectTimeout");
    unlink(path);
    unlink(more);
    rmdir(dir);
    return says;
}

static void a_host_that_does_not_answer_has_ten_seconds_unless_the_user_says_otherwise(void **state)
{
    rg_autostrv struct rg_strv options = RG_STRV_INIT;
    struct made made;

    (void) state;
    rg_job_init(&made.job);
    make(&made);
    made.ssh.connect_s = RG_SSH_CONNECT_S;
    assert_int_equal(ssh_command_make(&made.ssh, HOST, &made.argv), 0);
    assert_true(has(&made, "-oConnectTimeout=10"));
    rg_strv_fini(&made.argv);
    rg_job_fini(&made.job);
    assert_false(config_says("Host *\n  Port 22\n# ConnectTimeout 3"));
    assert_true(config_says("Host a\n\tConnectTimeout 3"));
    assert_true(config_says("there"));
    assert_int_equal(rg_strv_add(&options, "-Fnone"), 0);
    assert_false(ssh_config_says(&options, "ConnectTimeout"));
    assert_int_equal(rg_strv_add(&options, "connecttimeout=3"), 0);
    assert_true(ssh_config_says(&options, "ConnectTimeout"));
}

static void hosts_without_slots_have_one_unless_they_are_this_computer_alone(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_job job;

    (void) state;
    rg_job_init(&job);
    assert_int_equal(rg_job_add_host(&job, "far1", 0, &err), 0);
    assert_string_equal(rg_driver_choose(&job)->platform.name, "ssh");
    assert_int_equal(rg_job_add_host(&job, "bob@far2", 4, &err), 0);
    assert_int_equal(rg_job_add_host(&job, "localhost", 0, &err), 0);
    assert_int_equal(rg_driver_ssh.discover(NULL, &job, &err), 0);
    assert_int_equal(job.hosts[0].nslots, 1);
    assert_int_equal(job.hosts[1].nslots, 4);
    assert_string_equal(job.hosts[1].name, "far2");
    assert_string_equal(job.hosts[1].user, "bob");
    assert_int_equal(job.hosts[2].nslots, 1);
    assert_int_equal(rg_job_add_host(&job, "alice@far2", 4, &err), -EINVAL);
    assert_contains(err.text, "one login per host");
    assert_int_equal(rg_job_add_host(&job, "@far2", 4, &err), -EINVAL);
    rg_job_fini(&job);
    rg_job_init(&job);
    assert_int_equal(rg_job_add_host(&job, "localhost", 0, &err), 0);
    assert_string_equal(rg_driver_choose(&job)->platform.name, "local");
    job.on = strdup("ssh");
    assert_string_equal(rg_driver_choose(&job)->platform.name, "ssh");
    assert_int_equal(rg_driver_ssh.discover(NULL, &job, &err), 0);
    assert_true(job.hosts[0].nslots >= 1);
    rg_job_fini(&job);
    rg_job_init(&job);
    job.container.image = strdup("i");
    assert_string_equal(rg_driver_choose(&job)->platform.name, "ssh");
    rg_job_fini(&job);
}

static void only_this_computer_has_containers_too_and_no_other_hosts(void **state)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_job job;

    (void) state;
    rg_job_init(&job);
    job.on = strdup("local");
    assert_string_equal(rg_driver_choose(&job)->platform.name, "local");
    job.container.image = strdup("i");
    assert_string_equal(rg_driver_choose(&job)->platform.name, "ssh");
    assert_int_equal(rg_driver_ssh.discover(NULL, &job, &err), 0);
    assert_string_equal(job.hosts[0].name, "localhost");
    assert_int_equal(rg_job_add_host(&job, "far1", 0, &err), 0);
    assert_int_equal(rg_driver_ssh.discover(NULL, &job, &err), -EHOSTUNREACH);
    assert_contains(err.text, "host far1 is not this computer; leave --on local out");
    rg_job_fini(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_ssh_have_a_cause_and_a_remedy),
        cmocka_unit_test(each_word_of_kubectl_has_a_remedy),
        cmocka_unit_test(a_changed_host_key_is_named_as_what_it_may_be),
        cmocka_unit_test(a_long_message_is_quoted_where_it_tells_the_cause),
        cmocka_unit_test(the_remote_command_reads_alike_in_every_login_shell),
        cmocka_unit_test(options_reach_ssh_with_the_users_first),
        cmocka_unit_test(
            a_host_that_does_not_answer_has_ten_seconds_unless_the_user_says_otherwise),
        cmocka_unit_test(hosts_without_slots_have_one_unless_they_are_this_computer_alone),
        cmocka_unit_test(only_this_computer_has_containers_too_and_no_other_hosts),
    };
    rg_drivers_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
