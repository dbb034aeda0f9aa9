/* SPDX-License-Identifier: Apache-2.0 */
#include "coll/chaos/chaos.h"

#include <errno.h>
#include <string.h>

#include "unit.h"

static void an_event_is_read(void **state)
{
    struct rg_chaos_planned planned;

    (void) state;
    assert_int_equal(rg_chaos_read("12:stop:3:20:8000:0,2:exit:1:5:0:3", &planned), 19);
    assert_int_equal(planned.event, 12);
    assert_string_equal(planned.verb, "stop");
    assert_int_equal(planned.rank, 3);
    assert_int_equal(planned.step, 20);
    assert_int_equal(planned.for_ms, 8000);
    assert_int_equal(rg_chaos_read("2:exit:1:5:0:3", &planned), 14);
    assert_int_equal(planned.value, 3);
}

static void what_is_none_is_refused(void **state)
{
    static const char *const cases[] = {
        "", ",", "1", "1:kill", "1:kill:1:2:3", "1:kill:1:2:3:4x", "1:KILL:1:2:3:4",
        "1::1:2:3:4", "1:killkill:1:2:3:4", "99999999999999999999:kill:1:2:3:4",
    };
    struct rg_chaos_planned planned = { .event = 7 };

    (void) state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (rg_chaos_read(cases[i], &planned) != -EINVAL)
            fail_msg("%s is taken", cases[i]);
        assert_int_equal(planned.event, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_read),
        cmocka_unit_test(what_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
