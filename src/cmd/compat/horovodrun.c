/* SPDX-License-Identifier: Apache-2.0 */
/* reigen horovodrun, and horovodrun itself: Horovod's command line, then what reigen run does. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/exitcode.h"
#include "base/process/self.h"
#include "base/process/spawn.h"
#include "head/console/exit.h"
#include "head/console/terminal.h"
#include "cmd/compat/compat.h"
#include "cmd/run/run.h"
#include "job/horovodrun/horovodrun.h"

/* --- --check-build ---------------------------------------------------------------------------- */

/* Scripts read it to see which frameworks are there: those that python finds, the python beside
 * this program (a virtual environment's), else the first python3 or python of PATH. No framework is
 * imported, so it takes some tens of milliseconds and cannot fail for a framework's own reasons.
 * NCCL is there if what a rank would load (coll/gpu/library.c) loads, and is 2.18 or later. */

#define ANSWER_NBYTES_MAX 65536
#define ANSWER_MS 300000

struct framework {
    const char *title, *module, *binding; /* Reigen's binding: NULL when there is none */
};

static const struct framework frameworks[] = {
    { "TensorFlow", "tensorflow", "horovod.tensorflow" },
    { "PyTorch", "torch", "horovod.torch" },
    { "MXNet", "mxnet", NULL },
    { "JAX", "jax", "horovod.jax" },
    { "Keras", "keras", "horovod.keras" },
};

/* Prints the names of those that it finds, one per line; the first line says that it ran. */
static const char question[] =
    "import os, sys, importlib.util as u\n"
    "print('python', sys.executable)\n"
    "def nccl():\n"
    "    import ctypes\n"
    "    torch = u.find_spec('torch')\n"
    "    site = os.path.dirname(os.path.dirname(torch.origin)) if torch else ''\n"
    "    beside = os.path.join(site, 'nvidia/nccl/lib/libnccl.so.2')\n"
    "    path = beside if torch and os.path.exists(beside) else 'libnccl.so.2'\n"
    "    library = ctypes.CDLL(os.environ.get('REIGEN_NCCL') or path)\n"
    "    version = ctypes.c_int()\n"
    "    return library.ncclGetVersion(ctypes.byref(version)) == 0 and version.value >= 21800\n"
    "try:\n"
    "    if nccl(): print('nccl')\n"
    "except Exception:\n"
    "    pass\n"
    "for name in sys.argv[1:]:\n"
    "    try:\n"
    "        found = u.find_spec(name)\n"
    "    except Exception:\n"
    "        found = None\n"
    "    if found: print(name)\n";

static int ask(const char *python, char **ret_answer)
{
    char *argv[4 + 2 * rg_array_len(frameworks)] = { (char *) python, (char *) "-c",
                                                     (char *) question };
    int argc = 3;

    for (size_t i = 0; i < rg_array_len(frameworks); i++) {
        argv[argc++] = (char *) frameworks[i].module;
        if (frameworks[i].binding)
            argv[argc++] = (char *) frameworks[i].binding;
    }
    free(rg_steal_ptr(ret_answer));
    int rc = rg_spawn_ask(argv, ANSWER_MS, ANSWER_NBYTES_MAX, ret_answer);
    return rc >= 0 && rg_str_starts(*ret_answer, "python ") ? 0 : -ENOENT;
}

static bool has_line(const char *text, const char *line)
{
    size_t n = strlen(line);

    for (const char *p = text; *p; p += *p == '\n') {
        size_t length = strcspn(p, "\n");
        if (length == n && memcmp(p, line, n) == 0)
            return true;
        p += length;
    }
    return false;
}

static void mark(struct rg_buf *text, bool there, const char *title)
{
    rg_buf_printf(text, "    [%c] %s\n", there ? 'X' : ' ', title);
}

static int print_build(void)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    rg_autofree char *answer = NULL;
    char path[PATH_MAX];

    int rc = rg_self_beside("python", path) ? ask(path, &answer) : -ENOENT;

    rc = rc < 0 ? ask("python3", &answer) : rc;
    rc = rc < 0 ? ask("python", &answer) : rc;
    const char *found = rc < 0 ? "" : answer;

    rg_buf_printf(&text, "Horovod v" RG_HVD_VERSION ":\n\nAvailable Frameworks:\n");
    for (size_t i = 0; i < rg_array_len(frameworks); i++)
        mark(&text,
             frameworks[i].binding && has_line(found, frameworks[i].module) &&
                 has_line(found, frameworks[i].binding),
             frameworks[i].title);
    rg_buf_printf(&text, "\nAvailable Controllers:\n");
    /* Jobs of MPI's launcher are taken, and those without; programs look for both names. */
    mark(&text, true, "MPI");
    mark(&text, true, "Gloo");
    mark(&text, true, "Reigen");
    rg_buf_printf(&text, "\nAvailable Tensor Operations:\n");
    mark(&text, has_line(found, "nccl"), "NCCL");
    mark(&text, false, "DDL");
    mark(&text, false, "CCL");
    mark(&text, true, "MPI");
    mark(&text, true, "Gloo");
    mark(&text, true, "Reigen (shared memory, TCP)");
    if (rc < 0)
        rg_buf_printf(&text, "\nNo python was found that could be asked for these.\n");
    else
        rg_buf_printf(&text, "\nFrameworks and NCCL as found by %.*s.\n",
                      (int) strcspn(found + 7, "\n"), found + 7);
    return rg_print(rg_buf_text(&text));
}

/* --- the command ------------------------------------------------------------------------------ */

int rg_cmd_horovodrun(int argc, char **argv)
{
    rg_cleanup(rg_horovodrun_fini) struct rg_horovodrun run;
    struct rg_error err = RG_ERROR_INIT;
    bool open[3];

    rg_stdio_ensure(open);
    rg_horovodrun_init(&run);
    run.request.tell = rg_run_tell;
    if (rg_horovodrun_parse(&run, argc, argv, &err) < 0)
        return rg_fail(&err, "horovodrun");
    if (run.request.help)
        return RG_COMMAND_HELP;
    if (run.request.version)
        return rg_print(RG_HVD_VERSION "\n");
    if (run.check_build)
        return print_build();
    rg_run_say_remarks(&run.request);
    return rg_run_request(&run.request, "horovodrun", true, open[0]);
}
