/* SPDX-License-Identifier: Apache-2.0 */
/* Docker's command line, as far as Podman understands the same. */
#include <string.h>

#include "container/runtime.h"

static void begin(const struct rg_container *container, const struct rg_container_host *host,
                  struct rg_strv *argv)
{
    const char *shared = container->place.one_host ? NULL : "host";
    const char *network = container->network ? container->network : shared;
    /* Nothing waits for a health check, and nothing reads a log: output goes over the agent's
     * link. */
    const char *const first[] = { host->program, "run", "--rm", "--pull=never",
                                  "--log-driver=none", "--no-healthcheck",
                                  "--entrypoint=" RG_CONTAINER_BIN "/reigen-agent" };

    for (size_t i = 0; i < rg_array_len(first); i++)
        rg_strv_add(argv, first[i]);
    rg_strv_addf(argv, "--name=%s", container->name ? container->name : host->name);
    /* What has a name of the user's is removed by what it is, not by what it is called. */
    if (container->name)
        rg_strv_addf(argv, "--cidfile=%s/../" RG_CONTAINER_CID, host->bin_dir);
    rg_strv_addf(argv, "--label=reigen.job=%s", host->job_id);
    rg_strv_addf(argv, "--label=reigen.user=%u", (unsigned) host->uid);
    rg_strv_addf(argv, "--label=reigen.launcher=%s",
                 container->place.launcher ? container->place.launcher : "");
    if (network)
        rg_strv_addf(argv, "--network=%s", network);
    rg_strv_addf(argv, "--shm-size=%llu",
                 (unsigned long long) (container->shm_nbytes ? container->shm_nbytes
                                                             : host->shm_nbytes));
    /* A daemon's containers are none of our process's children, and would get them all. */
    if (host->cpus)
        rg_strv_addf(argv, "--cpuset-cpus=%s", host->cpus);
    if (host->selinux)
        rg_strv_add(argv, "--security-opt=label=disable");
    if (container->privileged)
        rg_strv_add(argv, "--privileged");
    if (container->place.term)
        rg_strv_addf(argv, "--env=TERM=%s", container->place.term);
}

void rg_oci_add_groups(const struct rg_container_host *host, struct rg_strv *argv)
{
    for (size_t i = 0; i < host->ngroups; i++)
        rg_strv_addf(argv, "--group-add=%u", (unsigned) host->groups[i]);
}

static void be_caller(const struct rg_container_host *host, struct rg_strv *argv)
{
    rg_strv_addf(argv, "--user=%u:%u", (unsigned) host->uid, (unsigned) host->gid);
    if (host->home || host->uid != 0)
        rg_strv_addf(argv, "--env=HOME=%s", host->home ? host->home : RG_CONTAINER_RUN);
    if (host->user_name) {
        rg_strv_addf(argv, "--env=USER=%s", host->user_name);
        rg_strv_addf(argv, "--env=LOGNAME=%s", host->user_name);
    }
}

/* A field of --mount, which is read as a line of comma-separated values. */
static void put_csv(struct rg_buf *text, const char *key, const char *value)
{
    bool quote = strpbrk(value, ",\"\n") != NULL;

    rg_buf_printf(text, quote ? ",\"%s=" : ",%s=", key);
    for (const char *p = value; *p; p++)
        rg_buf_printf(text, *p == '"' ? "\"\"" : "%c", *p);
    if (quote)
        rg_buf_put(text, "\"", 1);
}

static int add_mount(struct rg_strv *argv, const char *source, const char *target, bool read_only,
                     struct rg_error *err)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    (void) err;
    rg_buf_printf(&text, "--mount=type=%s", *source == '/' ? "bind" : "volume");
    put_csv(&text, "source", source);
    put_csv(&text, "target", target);
    if (read_only)
        rg_buf_printf(&text, ",readonly");
    int r = rg_buf_status(&text);

    return r < 0 ? r : rg_strv_add(argv, rg_buf_text(&text));
}

static int add_mounts(const struct rg_container *container, const struct rg_container_host *host,
                      struct rg_strv *argv, struct rg_error *err)
{
    int r = rg_container_mount_ours(host, add_mount, argv, err);

    if (host->cwd)
        rg_strv_addf(argv, "--workdir=%s", host->cwd);
    r = r ? r : rg_container_mount_users(container, add_mount, argv, err);
    if (container->ibdevices && host->infiniband) {
        /* Registered memory must be locked, and not be limited by what a user may lock. */
        rg_strv_add(argv, "--device=/dev/infiniband");
        rg_strv_add(argv, "--cap-add=IPC_LOCK");
        rg_strv_add(argv, "--ulimit=memlock=-1:-1");
    }
    return r;
}

/* What keeps from a container the GPUs that it is not to see: one that is privileged sees the files
 * of all, and CUDA has to be told; an image may ask the NVIDIA runtime for all by itself. */
static int hide_gpus(const struct rg_container *container, const struct rg_container_host *host,
                     struct rg_strv *argv)
{
    rg_autofree char *devices = rg_container_devices(container->gpus);

    if (!devices)
        return -ENOMEM;
    if (host->no_gpus)
        rg_strv_add(argv, "--env=NVIDIA_VISIBLE_DEVICES=void");
    if (!container->privileged || strcmp(devices, "all") == 0 || (!*devices && !host->no_gpus))
        return 0;
    rg_strv_add(argv, "--env=CUDA_DEVICE_ORDER=PCI_BUS_ID"); /* the numbers are of that order */
    return rg_strv_addf(argv, "--env=CUDA_VISIBLE_DEVICES=%s", devices);
}

int rg_oci_run(const struct rg_container *container, const struct rg_container_host *host,
               void (*add_groups)(const struct rg_container_host *host, struct rg_strv *argv),
               void (*add_gpus)(const char *gpus, struct rg_strv *argv), struct rg_strv *argv,
               struct rg_error *err)
{
    begin(container, host, argv);
    if (container->user) {
        rg_strv_addf(argv, "--user=%s", container->user);
    } else {
        be_caller(host, argv);
        add_groups(host, argv);
    }
    int r = add_mounts(container, host, argv, err);
    if (container->gpus)
        add_gpus(container->gpus, argv);
    r = r ? r : hide_gpus(container, host, argv);
    if (r < 0)
        return r;
    rg_strv_add_all(argv, container->options.v);
    rg_strv_add(argv, container->image);
    rg_strv_add(argv, "inside");
    rg_strv_add(argv, RG_CONTAINER_RUN "/" RG_CONTAINER_SOCKET);
    return rg_strv_status(argv);
}

int rg_oci_pull(const struct rg_container *container, const struct rg_container_host *host,
                struct rg_strv *argv)
{
    rg_strv_add(argv, host->program);
    rg_strv_add(argv, "pull");
    return rg_strv_add(argv, container->image);
}

static int count_lines_with(const char *text, const char *end_of_line)
{
    size_t n = strlen(end_of_line);
    int count = 0;

    for (const char *p = text; (p = strstr(p, end_of_line)); p += n)
        count += p[n] == '\n' || p[n] == '\r' || !p[n];
    return count;
}

int rg_oci_pull_percent(const char *said)
{
    int there = count_lines_with(said, ": Already exists");
    int layers = there + count_lines_with(said, ": Pulling fs layer");
    /* To fetch a layer and to unpack it is half of the work each. */
    int halves = 2 * there + count_lines_with(said, ": Download complete") +
                 count_lines_with(said, ": Pull complete");

    if (!layers || !strstr(said, ": Pulling from "))
        return -1;
    int percent = 100 * halves / (2 * layers);
    return percent > 100 ? 100 : percent;
}

int rg_oci_remove(const char *program, const char *name, struct rg_strv *argv)
{
    rg_strv_add(argv, program);
    rg_strv_add(argv, "rm");
    rg_strv_add(argv, "--force");
    return rg_strv_add(argv, name);
}
