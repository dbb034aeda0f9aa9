/* SPDX-License-Identifier: Apache-2.0 */
/* What the local driver tells of hosts, also where another driver calls it. */
#include <errno.h>

#include "base/exitcode.h"
#include "platform/local/door.h"
#include "unit.h"

static void a_host_elsewhere_is_refused_in_the_name_of_the_driver_that_was_asked(void **state)
{
    static const char *const asked[] = { "local", "other" };
    struct rg_error err = RG_ERROR_INIT;
    struct rg_job job;

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        rg_job_init(&job);
        job.on = strdup(asked[i]);
        assert_int_equal(rg_job_add_host(&job, "far-away.example", 1, &err), 0);
        assert_int_equal(rg_driver_local.discover(NULL, &job, &err), -EHOSTUNREACH);
        assert_int_equal(err.exit_code, RG_EXIT_UNAVAILABLE);
        assert_contains(err.text, i == 0 ? "leave --on local out" : "leave --on other out");
        rg_job_fini(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_elsewhere_is_refused_in_the_name_of_the_driver_that_was_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
