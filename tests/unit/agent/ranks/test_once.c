/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/ranks/once.h"
#include "base/time.h"
#include "unit.h"

/* At these milliseconds a signal comes by these ways: 'L'auncher, 'P'arent, 'D'irectly. A capital
 * letter is a new one, a small letter is known. */
static void play(const char *story, bool ends)
{
    struct rg_heard heard = { 0 };
    uint64_t ms = 1000000;

    for (const char *p = story; *p; p++) {
        enum rg_signal_way way = strchr("Ll", *p) ? RG_WAY_LAUNCHER
                                 : strchr("Pp", *p) ? RG_WAY_PARENT : RG_WAY_DIRECT;
        if (*p == '.') { /* half a second */
            ms += 500;
            continue;
        }
        if (rg_heard_note(&heard, way, ends, ms++ * RG_NS_PER_MS) != (*p < 'a'))
            fail_msg("%s, at its character %zu", story, (size_t) (p - story) + 1);
    }
}

static void each_way_tells_of_a_signal_once(void **state)
{
    (void) state;
    play("Lpd", false);    /* scancel --full */
    play("Dlp", false);
    play("Ppdl", false);   /* the shell's and the guard's word */
    play("L..pd", false);  /* a large cluster */
    play("LLL", false);    /* the user's own kill, again and again */
    play("LpLp", false);
    play("P.P.P", false);
    play("D.D.D", false);
    play("L......P", false);
}

static void the_end_comes_once(void **state)
{
    (void) state;
    play("Ldlppd.l......ldp", true);
    play("D......l.p", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_tells_of_a_signal_once),
        cmocka_unit_test(the_end_comes_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
