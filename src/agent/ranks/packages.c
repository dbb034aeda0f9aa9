/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks on a bare host find the launcher's packages, unless their Python has its own: which of the
 * two it is can only be known there, and must be settled before the first rank starts. */
#include "agent/ranks/packages.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/ranks/agent.h"
#include "agent/engine/engine.h"
#include "agent/store/store.h"
#include "base/exitcode.h"
#include "base/fd.h"
#include "base/process/self.h"
#include "base/process/spawn.h"
#include "container/bundle.h"
#include "container/lz4.h"
#include "container/runtime.h"

#define WINDOW (1u << 20) /* bytes of the archive that may be under way */
#define NCACHES RG_STORE_PLACES
#define PARTS "/reigen/bundle" /* agent/pod/pod.h */
#define BUNDLE "bundle" /* files of FOLDER: packages.h */
#define WHY "why"
#define LATER "later"
#define FOLDER "py-packages" /* no command's name: the ranks' PATH has the folder that it is in */

/* What stands in for both packages. It must be read by any Python 3, and by none from another
 * directory than its own; what a name in sys.meta_path finds elsewhere goes before the bundle. One
 * space is a level: the agent has little room. */
static const char stand_in[] =
    "# Written by Reigen's agent for one job: this Python's own package of this name, else the\n"
    "# launcher's, which came with the job.\n"
    "import os\n"
    "import sys\n"
    "from importlib.machinery import PathFinder\n"
    "from importlib.util import module_from_spec\n"
    "\n"
    "_top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))\n"
    "_bundle = os.path.join(_top, 'bundle')\n"
    "\n"
    "\n"
    "def _own():\n"
    " ours = os.path.realpath(_top), os.path.realpath(_bundle)\n"
    " path = [p for p in sys.path if os.path.realpath(p) not in ours]\n"
    " for finder in sys.meta_path:\n"
    "  find = getattr(finder, 'find_spec', None)\n"
    "  spec = find and find(__name__, path if finder is PathFinder else None)\n"
    "  origin = getattr(spec, 'origin', None)\n"
    "  if origin and os.path.abspath(origin) != os.path.abspath(__file__):\n"
    "   return spec\n"
    " return None\n"
    "\n"
    "\n"
    "def _why_not():\n"
    " try:\n"
    "  with open(os.path.join(_top, 'why'), encoding='utf-8', errors='replace') as file:\n"
    "   return file.read()\n"
    " except OSError:\n"
    "  pass\n"
    " if sys.version_info < (3, 8):\n"
    "  return 'they need Python 3.8 or later'\n"
    " try:\n"
    "  os.confstr('CS_GNU_LIBC_VERSION')\n"
    " except (ValueError, OSError):\n"
    "  return 'they need glibc, and this Python stands on another C library'\n"
    " return ''\n"
    "\n"
    "\n"
    "def _unpack():\n"
    " try:\n"
    "  with open(os.path.join(_top, 'later'), encoding='utf-8') as file:\n"
    "   import fcntl\n"
    "   fcntl.flock(file, fcntl.LOCK_EX)\n"
    "   if not os.path.lexists(_bundle):\n"
    "    argv = file.read().split('\\n')\n"
    "    os.waitpid(os.posix_spawn(argv[0], argv, os.environ), 0)\n"
    " except OSError:\n"
    "  pass\n"
    " return _why_not()\n"
    "\n"
    "\n"
    "_spec = _own()\n"
    "if not _spec:\n"
    " _why = _why_not() or _unpack()\n"
    " if _why:\n"
    "  raise ImportError(\n"
    "   '%s is not installed for %s (Python %s) on %s, and the packages that came with '\n"
    "   'the job cannot be used here: %s' % (__name__, sys.executable,\n"
    "   sys.version.split()[0], os.uname()[1], _why), name=__name__)\n"
    " _spec = PathFinder.find_spec(__name__, [os.path.realpath(_bundle)])\n"
    "if not _spec:\n"
    " raise ImportError('%s is not in %s any more' % (__name__, _bundle), name=__name__)\n"
    "_module = module_from_spec(_spec)\n"
    "sys.modules[__name__] = _module\n"
    "_spec.loader.exec_module(_module)\n";

/* --- the host's own --------------------------------------------------------------------------- */

/* As the ranks will have it. */
static const char *value_of(const struct rg_agent *agent, const char *name)
{
    const char *value = rg_env_get(&agent->setup.secret_env, name);

    if (!value)
        value = rg_env_get(&agent->setup.env, name);
    return value || !agent->setup.inherit_env ? value : getenv(name);
}

/* Whether the job's command, of which this is the first word, is a Python. */
static bool is_python(const char *program)
{
    const char *slash = strrchr(program, '/');

    return rg_str_starts(slash ? slash + 1 : program, "python");
}

static const char *program_of(const struct rg_agent *agent)
{
    return agent->setup.command.count ? agent->setup.command.v[0] : "";
}

/* The Python that the command is, else the first one in PATH. */
static bool find_python(const struct rg_agent *agent, char ret_path[PATH_MAX])
{
    const char *program = program_of(agent), *path = value_of(agent, "PATH");
    const char *cwd = *agent->setup.cwd ? agent->setup.cwd : ".";

    if (is_python(program) && strchr(program, '/'))
        return snprintf(ret_path, PATH_MAX, "%s%s%s", *program == '/' ? "" : cwd,
                        *program == '/' ? "" : "/", program) < PATH_MAX;
    return (is_python(program) && rg_path_find(path, program, strlen(program), ret_path)) ||
           rg_path_find(path, "python3", 7, ret_path) || rg_path_find(path, "python", 6, ret_path);
}

static bool python_has_own(const char *python)
{
    char path[PATH_MAX], real[PATH_MAX];
    const char *home = getenv("HOME");
    size_t length = (size_t) (strrchr(python, '/') - python);

    if (rg_python_prefix_has(python, length))
        return true;
    /* A virtual environment has nothing but its own. */
    snprintf(path, sizeof(path), "%.*s/../pyvenv.cfg", (int) length, python);
    if (access(path, F_OK) == 0)
        return false;
    if (realpath(python, real) && rg_python_prefix_has(real, (size_t) (strrchr(real, '/') - real)))
        return true;
    if (home && snprintf(path, sizeof(path), "%s/.local/bin", home) < (int) sizeof(path) &&
        rg_python_prefix_has(path, strlen(path)))
        return true;
    return rg_str_starts(python, "/usr/bin/") && rg_python_prefix_has("/usr/local/bin", 14);
}

static bool host_has_own(const struct rg_agent *agent)
{
    const char *path = value_of(agent, "PYTHONPATH");
    char python[PATH_MAX];

    for (const char *dir = path ? path : ""; *dir;) {
        size_t n = strcspn(dir, ":");
        if (n > 0 && rg_python_site_has(dir, n))
            return true;
        dir += n + (dir[n] == ':');
    }
    return find_python(agent, python) && python_has_own(python);
}

/* --- the cache -------------------------------------------------------------------------------- */

/* The agent's own places, in its order (platform/ssh/command.c). Made if it is
 * missing. */
static bool find_cache(int which, char path[PATH_MAX])
{
    static const enum rg_store_place places[NCACHES] = { RG_STORE_HOME, RG_STORE_RUNTIME,
                                                         RG_STORE_VAR_TMP, RG_STORE_TMP };

    return rg_store_place(places[which], path, PATH_MAX) && rg_store_is_good(path);
}

/* Where it lies; NULL: nowhere. The caller frees. */
static char *find_bundle(const char *name)
{
    char base[PATH_MAX];

    for (int i = 0; i < NCACHES; i++) {
        rg_autofree char *path = find_cache(i, base) ? rg_strf("%s/bundle-%s", base, name) : NULL;
        /* The time says when it was last used: see rg_store_sweep_bundles. */
        if (path && access(path, X_OK) == 0) {
            utimensat(AT_FDCWD, path, NULL, 0);
            return rg_steal_ptr(&path);
        }
    }
    return NULL;
}

/* The first place that takes the archive, as one may be full; NULL with err. The caller frees. */
static char *keep_bundle(const char *name, const uint8_t *data, size_t nbytes,
                         struct rg_error *err)
{
    char base[PATH_MAX];

    rg_error_set(err, EACCES, "no directory takes them: none of ~/.cache, $XDG_RUNTIME_DIR, "
                 "/var/tmp and /tmp can be written to and lets programs run");
    for (int i = 0; i < NCACHES; i++) {
        if (!find_cache(i, base))
            continue;
        rg_autofree char *path = rg_strf("%s/bundle-%s", base, name);
        int r = path ? rg_store_keep_bundle(data, nbytes, path, err) : -ENOMEM;
        rg_store_sweep_bundles(base);
        if (r == 0)
            return rg_steal_ptr(&path);
    }
    return NULL;
}

/* --- the job's -------------------------------------------------------------------------------- */

static int write_package(int dir_fd, const char *name)
{
    if (mkdirat(dir_fd, name, 0700) < 0)
        return -errno;
    rg_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno
                  : rg_store_write(fd, "__init__.py", stand_in, sizeof(stand_in) - 1, 0600);
}

/* The bundle; where there is none, a file with this text. */
static int write_dir(struct rg_agent *agent, const char *file, const char *text)
{
    int job_fd = agent->jobdir.fd;

    if (!*agent->jobdir.path || mkdirat(job_fd, FOLDER, 0700) < 0)
        return *agent->jobdir.path ? -errno : -ENOENT;
    rg_autoclose int fd = openat(job_fd, FOLDER,
                                 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = fd < 0 ? -errno
            : !agent->packages.bundle ? rg_store_write(fd, file, text, strlen(text), 0600)
            : symlinkat(agent->packages.bundle, fd, BUNDLE) < 0 ? -errno : 0;
    if (r == 0)
        r = write_package(fd, "reigen");
    if (r == 0)
        r = write_package(fd, "horovod");
    return r;
}

/* All is known: give it a place in the ranks' PYTHONPATH. A rank that imports nothing of ours never
 * hears of it. */
static void settle_by(struct rg_agent *agent, const char *file, const char *text)
{
    struct rg_packages *packages = &agent->packages;

    free(rg_steal_ptr(&packages->data));
    if ((!packages->bundle || !agent->setup.bundle_first) && write_dir(agent, file, text) == 0)
        packages->dir = rg_strf("%s/" FOLDER, agent->jobdir.path);
    if (*agent->setup.bundle)
        rg_agent_send(agent, RG_MSG_BUNDLE_WANTED, &(struct rg_msg_bytes){ 0 });
}

/* why: there is no bundle. */
static void settle(struct rg_agent *agent, const char *why)
{
    settle_by(agent, WHY, why);
}

/* In a pod the archive lies there, packed, in parts, as a ConfigMap takes no more than a mebibyte.
 * The archive, or NULL. The caller frees. */
static uint8_t *read_parts(size_t nbytes)
{
    rg_autobuf struct rg_buf packed = RG_BUF_INIT;
    rg_autofree uint8_t *data = nbytes <= RG_BUNDLE_MAX ? malloc(nbytes) : NULL;
    char path[sizeof(PARTS) + 12];

    for (int i = 0; rg_buf_nbytes(&packed) < RG_LZ4_BOUND(nbytes); i++) {
        rg_autofree char *part = NULL;
        size_t n = 0;
        snprintf(path, sizeof(path), PARTS "/%d", i);
        if (rg_read_file(path, RG_LZ4_BOUND(nbytes), &part, &n) < 0 || !n)
            break;
        rg_buf_put(&packed, part, n);
    }
    if (!data || rg_buf_status(&packed) < 0 ||
        rg_lz4_unpack(rg_buf_bytes(&packed), rg_buf_nbytes(&packed), data, nbytes) < 0)
        return NULL;
    return rg_steal_ptr(&data);
}

/* All of the archive is there. */
static void keep(struct rg_agent *agent)
{
    struct rg_packages *packages = &agent->packages;
    struct rg_error err = RG_ERROR_INIT;

    packages->bundle = keep_bundle(agent->setup.bundle, packages->data, packages->have, &err);
    settle(agent, err.text);
}

/* In a pod it is unpacked by the first rank that imports it (stand_in), by this program: forty pods
 * whose ranks are no Pythons need not, and others start earlier. False: it is to be done now. */
static bool settle_later(struct rg_agent *agent)
{
    const struct rg_msg_setup *setup = &agent->setup;
    const char *runtime = getenv("XDG_RUNTIME_DIR"); /* ours, which ranks need not have */
    char program[PATH_MAX];

    if (setup->bundle_first || rg_engine_used(setup) || !*agent->jobdir.path ||
        access(PARTS "/0", R_OK) < 0 || rg_self_path(program) < 0)
        return false;
    rg_autofree char *text = rg_strf("%s\nunpack\n%s\n%llu\n%s/" FOLDER "\n%s", program,
                                     setup->bundle,
                                     (unsigned long long) setup->bundle_nbytes,
                                     agent->jobdir.path, runtime ? runtime : "");
    if (text)
        settle_by(agent, LATER, text);
    return text;
}

int rg_packages_unpack(char **argv)
{
    struct rg_error err = RG_ERROR_INIT;
    size_t nbytes = strtoull(argv[3], NULL, 10);
    rg_autoclose int fd = open(argv[4], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    rg_autofree uint8_t *data = NULL;

    if (*argv[5])
        setenv("XDG_RUNTIME_DIR", argv[5], 1);
    rg_autofree char *bundle = rg_store_bundle_fits(argv[2]) ? find_bundle(argv[2]) : NULL;
    const char *why = "they cannot be read";

    if (!bundle && (data = read_parts(nbytes))) {
        bundle = keep_bundle(argv[2], data, nbytes, &err);
        why = err.text;
    }
    int r = fd < 0 ? -1 : bundle ? symlinkat(bundle, fd, BUNDLE)
                                 : rg_store_write(fd, WHY, why, strlen(why), 0600);
    return r < 0 ? RG_EXIT_INTERNAL : 0;
}

static void want_more(struct rg_agent *agent)
{
    struct rg_packages *packages = &agent->packages;

    if (packages->have + WINDOW / 2 < packages->wanted)
        return;
    packages->wanted = packages->have + WINDOW;
    if (packages->wanted > agent->setup.bundle_nbytes)
        packages->wanted = agent->setup.bundle_nbytes;
    rg_agent_send(agent, RG_MSG_BUNDLE_WANTED, &(struct rg_msg_bytes){ packages->wanted });
}

/* Before ranks start that are Pythons and would find it out later. Other commands may never ask for
 * the packages. The reason, or NULL. */
static const char *misfit(struct rg_agent *agent)
{
    const char *has = is_python(program_of(agent)) ? rg_store_bundle_misfit("") : NULL;

    if (has)
        rg_agent_note(agent, "there is %s here, and Reigen's Python packages need glibc 2.28 or "
                      "later: `import horovod` fails. Take another image or host, or install "
                      "Reigen there; --no-inject-runtime if nothing imports it", has);
    return has ? "they need glibc 2.28 or later" : NULL;
}

void rg_packages_setup(struct rg_agent *agent)
{
    const struct rg_msg_setup *setup = &agent->setup;
    const char *path = getenv("PYTHONPATH"), *why;

    /* In a container they are mounted. */
    if (!*setup->bundle && !*setup->bundle_error) {
        if (path && strstr(path, RG_CONTAINER_PYTHON))
            misfit(agent);
        return;
    }
    if (!setup->bundle_first && host_has_own(agent)) {
        if (*setup->bundle)
            rg_agent_send(agent, RG_MSG_BUNDLE_WANTED, &(struct rg_msg_bytes){ 0 });
        return;
    }
    if (!*setup->bundle) {
        settle(agent, setup->bundle_error);
        return;
    }
    if (!rg_store_bundle_fits(setup->bundle))
        settle(agent, "this host has another architecture than the launcher's computer");
    else if ((why = misfit(agent)))
        settle(agent, why);
    else if (setup->bundle_nbytes > RG_BUNDLE_MAX || !setup->bundle_nbytes)
        settle(agent, "the archive is too large");
    else if ((agent->packages.bundle = find_bundle(setup->bundle)))
        settle(agent, NULL);
    else if (settle_later(agent))
        return;
    else if ((agent->packages.data = read_parts(setup->bundle_nbytes))) {
        agent->packages.have = setup->bundle_nbytes;
        keep(agent);
    } else if (!(agent->packages.data = malloc(setup->bundle_nbytes)))
        settle(agent, "there is no memory for them");
    else
        want_more(agent);
}

int rg_packages_data(struct rg_agent *agent, const struct rg_span *data)
{
    struct rg_packages *packages = &agent->packages;

    if (!packages->data || data->nbytes > packages->wanted - packages->have)
        return -EBADMSG;
    if (!data->nbytes) {
        settle(agent, "the launcher cannot read them");
        return 0;
    }
    memcpy(packages->data + packages->have, data->data, data->nbytes);
    packages->have += data->nbytes;
    if (packages->have < agent->setup.bundle_nbytes)
        want_more(agent);
    else
        keep(agent);
    return 0;
}

int rg_packages_env(const struct rg_agent *agent, struct rg_strv *env)
{
    const struct rg_packages *packages = &agent->packages;
    const char *old = rg_env_get(env, "PYTHONPATH"), *bundle = NULL;

    /* Hydra gives the first host's value to all ranks: there the cache is found on every host. */
    if (packages->bundle && (!packages->dir || rg_engine_used(&agent->setup)))
        bundle = packages->bundle;
    if (!bundle && !packages->dir)
        return 0;
    return rg_env_setf(env, "PYTHONPATH", "%s%s%s%s%s", old ? old : "", old && *old ? ":" : "",
                       packages->dir ? packages->dir : "", packages->dir && bundle ? ":" : "",
                       bundle ? bundle : "");
}

void rg_packages_fini(struct rg_packages *packages)
{
    free(packages->bundle);
    free(packages->dir);
    free(packages->data);
    *packages = (struct rg_packages){ .bundle = NULL };
}
