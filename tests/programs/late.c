/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: late MILLISECONDS|stop|apart [RANK]
 * The last rank, or that one, comes to three allreduces late, by this time, or after it has stopped
 * itself and somebody has continued it; apart: the last one waits in an allgather, while the others
 * wait in an allreduce. Says "ready PID" before and "done" or "error NUMBER TEXT" afterwards.
 */
#include "program.h"

#include <signal.h>

/* Each waits for what the others never call; how that ends. */
static int apart(void)
{
    const int64_t shape[] = { 1 };
    float in = 1, out;
    reigen_handle handle;

    if (reigen_rank() < reigen_size() - 1)
        return reigen_allreduce("loss", &in, &out, REIGEN_FLOAT32, NULL, 0, NULL);
    int r = reigen_allgather_async("acc", &in, REIGEN_FLOAT32, shape, 1, NULL, &handle);

    return r < 0 ? r : reigen_wait(handle, -1);
}

int main(int argc, char **argv)
{
    const char *names[] = { "grad.0", "grad.1", "grad.2" };
    float data[COUNT_OF(names)] = { 1, 1, 1 };
    reigen_handle handles[COUNT_OF(names)];

    begin();
    goes_on();
    say("ready %d", (int) getpid());
    if (argc > 1 && !strcmp(argv[1], "apart")) {
        int status = apart();

        say("error %d %s", status, reigen_last_error());
        reigen_shutdown();
        return 5;
    }
    if (argc > 1 && reigen_rank() == argument(argc, argv, 2, reigen_size() - 1)) {
        if (!strcmp(argv[1], "stop"))
            raise(SIGSTOP);
        else
            sleep_ms((unsigned) argument(argc, argv, 1, 0)); /* patient: it is late */
    }
    int r = 0;

    for (size_t i = 0; i < COUNT_OF(names) && r == 0; i++)
        r = reigen_allreduce_async(names[i], &data[i], &data[i], REIGEN_FLOAT32, NULL, 0, NULL,
                                   &handles[i]);
    for (size_t i = 0; i < COUNT_OF(names) && r == 0; i++)
        r = reigen_wait(handles[i], -1);
    if (r < 0) {
        say("error %d %s", r, reigen_last_error());
    } else {
        for (size_t i = 0; i < COUNT_OF(names); i++)
            if (data[i] != (float) reigen_size())
                fail("%s: %g", names[i], (double) data[i]);
        say("done");
    }
    reigen_shutdown();
    return 0;
}
