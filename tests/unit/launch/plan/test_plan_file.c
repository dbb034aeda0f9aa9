/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "launch/plan/plan_file.h"
#include "unit.h"

#define ROUNDS 300

static unsigned draw(unsigned below)
{
    return (unsigned) rand() % below;
}

static char *draw_text(void)
{
    static const char *const texts[] = { NULL, "", "a", "with blank\nand line", "\xc3\xa4\xff" };
    const char *text = texts[draw(5)];

    return text ? strdup(text) : NULL;
}

static void draw_words(struct rg_strv *words)
{
    for (unsigned i = draw(4); i; i--)
        assert_int_equal(rg_strv_addf(words, "word %u", draw(100)), 0);
}

static void draw_roles(struct rg_job *job)
{
    for (unsigned i = 1 + draw(3); i; i--) {
        struct rg_role *role = rg_job_add_role(job, i == 2 ? "master" : "worker");
        assert_non_null(role);
        role->ntasks = 1 + (int) draw(3);
        role->min_failed = (int) draw(2);
        role->min_succeeded = (int) draw(4);
        draw_words(&role->env);
        for (unsigned p = draw(3); p; p--)
            assert_int_equal(rg_role_add_port(role, "web", (int) draw(2) * 80, (int) draw(3)), 0);
    }
    job->np = rg_job_ntasks(job);
    job->oversubscribe = true;
    job->engine = RG_ENGINE_SCRIPT;
    job->tf_config = false;
}

static void draw_job(struct rg_job *job)
{
    char host[32];

    rg_job_init(job);
    rg_strv_add(&job->command, "true");
    draw_words(&job->command);
    draw_words(&job->env);
    draw_words(&job->share_env);
    draw_words(&job->settings);
    draw_words(&job->container.mounts);
    job->title = draw_text();
    job->cwd = draw_text();
    job->output_dir = draw_text();
    job->container.image = draw_text();
    job->container.place.cwd = draw_text();
    job->container.shm_nbytes = (uint64_t) draw(1000) << 40;
    job->notice_ms = (uint64_t) draw(1000) << 30;
    job->timeout_ms = draw(1000000);
    job->map = draw(2);
    job->tag = draw(RG_TAG_HOROVOD + 1);
    job->tf_config = draw(2);
    job->pty = draw(2);
    job->verbose = (int) draw(3);
    job->oversubscribe = draw(2);
    for (unsigned i = 1 + draw(4); i; i--) {
        snprintf(host, sizeof(host), draw(2) ? "user@h%u" : "h%u", i);
        assert_int_equal(rg_job_add_host(job, host, 1 + (int) draw(4), NULL), 0);
    }
    assert_int_equal(rg_ranks_parse("0,2-3,7", &job->show, NULL), 0);
    if (draw(2))
        draw_roles(job);
}

static void draw_planned(struct rg_planned *planned)
{
    *planned = (struct rg_planned){ .quiet = false };
    rg_job_init(&planned->job);
    draw_job(&planned->job);
    if (draw(4))
        assert_int_equal(rg_plan_make(&planned->job, &planned->plan, NULL), 0);
    draw_words(&planned->notes);
    planned->quiet = draw(2);
    planned->display_map = draw(2);
}

static void assert_same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a)
        assert_string_equal(a, b);
}

static void assert_same_words(const struct rg_strv *a, const struct rg_strv *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        assert_string_equal(a->v[i], b->v[i]);
}

/* Field by field for some, and for all as the rest of the program sees them. */
static void assert_same(const struct rg_planned *a, const struct rg_planned *b)
{
    rg_autobuf struct rg_buf one = RG_BUF_INIT, two = RG_BUF_INIT;

    assert_same_words(&a->job.command, &b->job.command);
    assert_same_words(&a->job.env, &b->job.env);
    assert_same_words(&a->job.settings, &b->job.settings);
    assert_same_words(&a->notes, &b->notes);
    assert_same_text(a->job.title, b->job.title);
    assert_same_text(a->job.container.place.cwd, b->job.container.place.cwd);
    assert_int_equal(a->job.container.shm_nbytes, b->job.container.shm_nbytes);
    assert_int_equal(a->job.notice_ms, b->job.notice_ms);
    assert_int_equal(a->job.tag, b->job.tag);
    assert_int_equal(a->job.nhosts, b->job.nhosts);
    assert_int_equal(a->job.show.count, b->job.show.count);
    assert_int_equal(a->job.show.range[1].last, b->job.show.range[1].last);
    assert_int_equal(a->quiet, b->quiet);
    assert_string_equal(a->plan.job_id, b->plan.job_id);
    assert_int_equal(a->job.nroles, b->job.nroles);
    if (!a->plan.nhosts)
        return;
    rg_plan_print(&a->plan, &a->job, &one);
    rg_plan_print(&b->plan, &b->job, &two);
    assert_string_equal(rg_buf_text(&one), rg_buf_text(&two));
    for (int rank = 0; rank < a->plan.nranks; rank++) {
        rg_autostrv struct rg_strv none = RG_STRV_INIT, first = RG_STRV_INIT, second = RG_STRV_INIT;
        rg_plan_rank_env(&a->plan, &a->job, rank, &none, &first);
        rg_plan_rank_env(&b->plan, &b->job, rank, &none, &second);
        if (a->job.nroles) {
            assert_int_equal(rg_plan_task_env(&a->plan, &a->job, rank, &first), 0);
            assert_int_equal(rg_plan_task_env(&b->plan, &b->job, rank, &second), 0);
        }
        assert_same_words(&first, &second);
    }
}

static void encode(const struct rg_planned *planned, struct rg_buf *buf)
{
    struct rg_error err = RG_ERROR_INIT;

    if (rg_planned_encode(planned, buf, &err) < 0)
        fail_msg("%s", err.text);
}

static void what_is_written_is_read_again(void **state)
{
    (void) state;
    for (int i = 0; i < ROUNDS; i++) {
        RG_AUTO_PLANNED struct rg_planned planned, read = { .quiet = false };
        rg_autobuf struct rg_buf bytes = RG_BUF_INIT, again = RG_BUF_INIT;
        struct rg_error err = RG_ERROR_INIT;
        srand((unsigned) i);
        draw_planned(&planned);
        encode(&planned, &bytes);
        if (rg_planned_decode(rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes), &read, &err) < 0)
            fail_msg("%s", err.text);
        assert_same(&planned, &read);
        encode(&read, &again);
        assert_int_equal(rg_buf_nbytes(&again), rg_buf_nbytes(&bytes));
        assert_memory_equal(rg_buf_bytes(&again), rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes));
    }
}

static void make_bytes(struct rg_buf *bytes)
{
    RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };

    srand(3);
    rg_job_init(&planned.job);
    draw_job(&planned.job);
    assert_int_equal(rg_plan_make(&planned.job, &planned.plan, NULL), 0);
    encode(&planned, bytes);
}

static int decode(const uint8_t *bytes, size_t nbytes, struct rg_error *err)
{
    RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };

    return rg_planned_decode(bytes, nbytes, &planned, err);
}

static void ranks_that_are_no_tasks_of_its_roles_are_refused(void **state)
{
    (void) state;
    for (int wrong = 0; wrong < 3; wrong++) {
        RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };
        rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
        struct rg_error err = RG_ERROR_INIT;
        rg_job_init(&planned.job);
        rg_strv_add(&planned.job.command, "true");
        assert_int_equal(rg_job_add_host(&planned.job, "h", 8, NULL), 0);
        draw_roles(&planned.job);
        assert_int_equal(rg_plan_make(&planned.job, &planned.plan, NULL), 0);
        planned.job.roles[0].ntasks += wrong == 1;
        if (wrong == 2) {
            free(planned.plan.ranks[0].task);
            planned.plan.ranks[0].task = NULL;
        }
        encode(&planned, &bytes);
        assert_int_equal(decode(rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes), &err),
                         wrong ? -EBADMSG : 0);
        assert_true(!wrong || strstr(err.text, "do not fit together"));
    }
}

static void a_cut_one_is_refused_wherever_it_is_cut(void **state)
{
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    make_bytes(&bytes);
    for (size_t n = 0; n < rg_buf_nbytes(&bytes); n++) {
        assert_int_equal(decode(rg_buf_bytes(&bytes), n, &err), -EBADMSG);
        assert_contains(err.text, n < 8 ? "no plan" : "cut short");
    }
}

/* The length in front is right, and the field that the end falls into is named with its place. */
static void a_short_field_is_named(void **state)
{
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;
    uint32_t length = 6;

    (void) state;
    make_bytes(&bytes);
    uint8_t *p = bytes.data + bytes.start;
    memcpy(p + 12, &length, 4);
    assert_int_equal(decode(p, 16 + length, &err), -EBADMSG);
    assert_contains(err.text, "at byte 20: job.command is cut short");
    memcpy(p + 16, "\xff\xff\xff\xff", 4);
    assert_int_equal(decode(p, 16 + length, &err), -EBADMSG);
    assert_contains(err.text, "at byte 16: job.command has too many items");
}

static void a_damaged_one_is_refused_or_means_what_it_says(void **state)
{
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
    int refused = 0;

    (void) state;
    make_bytes(&bytes);
    for (size_t n = 0; n < rg_buf_nbytes(&bytes) * 3; n++) {
        RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };
        rg_autobuf struct rg_buf again = RG_BUF_INIT;
        struct rg_error err = RG_ERROR_INIT;
        uint8_t *p = bytes.data + bytes.start, *at = p + n / 3, old = *at;
        *at = (uint8_t[]){ (uint8_t) (old + 1), (uint8_t) ~old, 0x80 }[n % 3];
        if (rg_planned_decode(p, rg_buf_nbytes(&bytes), &planned, &err) == 0) {
            encode(&planned, &again);
            assert_memory_equal(rg_buf_bytes(&again), p, rg_buf_nbytes(&bytes));
        } else {
            refused++;
            assert_true(*err.text);
        }
        *at = old;
    }
    assert_true(refused > 100);
}

static void another_versions_is_refused(void **state)
{
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    make_bytes(&bytes);
    for (int step = -1; step <= 1; step += 2) {
        bytes.data[bytes.start + 8] = (uint8_t) (RG_PLAN_FILE_VERSION + step);
        assert_int_equal(decode(rg_buf_bytes(&bytes), rg_buf_nbytes(&bytes), &err),
                         -EPROTONOSUPPORT);
        assert_contains(err.text, "another version of Reigen has written the plan");
        assert_int_equal(err.exit_code, 2);
    }
}

static void what_could_not_be_read_is_not_written(void **state)
{
    RG_AUTO_PLANNED struct rg_planned planned = { .quiet = false };
    rg_autobuf struct rg_buf bytes = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    (void) state;
    rg_job_init(&planned.job);
    planned.job.title = malloc((1u << 20) + 2);
    memset(planned.job.title, 'a', (1u << 20) + 1);
    planned.job.title[(1u << 20) + 1] = '\0';
    assert_int_equal(rg_planned_encode(&planned, &bytes, &err), -E2BIG);
    assert_contains(err.text, "job.title is too long");
    planned.job.title[3] = '\0';
    planned.job.np = -1;
    assert_int_equal(rg_planned_encode(&planned, &bytes, &err), -E2BIG);
    assert_contains(err.text, "job.np is beyond its limits");
}

static void a_file_is_the_users_alone(void **state)
{
    RG_AUTO_PLANNED struct rg_planned planned, read = { .quiet = false };
    char path[] = "plan-XXXXXX";
    struct rg_error err = RG_ERROR_INIT;
    struct stat st;

    (void) state;
    srand(1);
    draw_planned(&planned);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && fchmod(fd, 0644) == 0);
    close(fd);
    assert_int_equal(rg_planned_write(&planned, path, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(rg_planned_read(path, &read, &err), 0);
    assert_same(&planned, &read);
    unlink(path);
    assert_int_equal(rg_planned_read(path, &read, &err), -ENOENT);
    assert_contains(err.text, path);
}

/* As /dev/null does, which is everybody's on this machine. */
static void what_is_no_file_keeps_its_mode(void **state)
{
    RG_AUTO_PLANNED struct rg_planned planned;
    char path[] = "null-XXXXXX";
    struct rg_error err = RG_ERROR_INIT;
    struct stat st;

    (void) state;
    srand(1);
    draw_planned(&planned);
    close(mkstemp(path));
    unlink(path);
    if (mknod(path, S_IFCHR, makedev(1, 3)) < 0)
        skip();
    int r = chmod(path, 0666) < 0 ? -errno : rg_planned_write(&planned, path, &err);
    if (r == -EACCES) { /* no device works on this file system */
        unlink(path);
        skip();
    }
    assert_int_equal(r, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(what_is_no_file_keeps_its_mode),
        cmocka_unit_test(ranks_that_are_no_tasks_of_its_roles_are_refused),
        cmocka_unit_test(a_cut_one_is_refused_wherever_it_is_cut),
        cmocka_unit_test(a_short_field_is_named),
        cmocka_unit_test(a_damaged_one_is_refused_or_means_what_it_says),
        cmocka_unit_test(another_versions_is_refused),
        cmocka_unit_test(what_could_not_be_read_is_not_written),
        cmocka_unit_test(a_file_is_the_users_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
