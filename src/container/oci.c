/* SPDX-License-Identifier: Apache-2.0 */
/* Docker's command line, as far as Podman understands the same. */
#include <stdio.h>
#include <string.h>

#include "container/runtime.h"

static int put(struct rg_strv *argv, const char *option, const char *value)
{
    return rg_strv_addf(argv, "%s=%s", option, value);
}

int rg_oci_begin(const struct rg_container *container, const struct rg_container_host *host,
                 struct rg_strv *argv)
{
    const char *launcher = container->place.launcher ? container->place.launcher : "";
    /* Nothing waits for a health check, and nothing reads a log: output goes over the agent's
     * link. */
    const char *const first[] = { host->program, "run", "--rm", "--pull=never",
                                  "--log-driver=none", "--no-healthcheck",
                                  "--entrypoint=" RG_CONTAINER_BIN "/reigen-agent" };
    int r = 0;

    for (size_t i = 0; r == 0 && i < rg_array_len(first); i++)
        r = rg_strv_add(argv, first[i]);
    r = r ? r : put(argv, "--name", container->name ? container->name : host->name);
    /* What has a name of the user's is removed by what it is, not by what it is called. */
    if (r == 0 && container->name)
        r = rg_strv_addf(argv, "--cidfile=%s/../" RG_CONTAINER_CID, host->bin_dir);
    r = r ? r : rg_strv_addf(argv, "--label=reigen.job=%s", host->job_id);
    r = r ? r : rg_strv_addf(argv, "--label=reigen.user=%u", (unsigned) host->uid);
    r = r ? r : rg_strv_addf(argv, "--label=reigen.launcher=%s", launcher);
    if (r == 0 && container->network)
        r = put(argv, "--network", container->network);
    else if (r == 0 && !container->place.one_host)
        r = put(argv, "--network", "host");
    if (r == 0)
        r = rg_strv_addf(argv, "--shm-size=%llu",
                         (unsigned long long) (container->shm_nbytes ? container->shm_nbytes
                                                                     : host->shm_nbytes));
    /* A daemon's containers are none of our process's children, and would get them all. */
    if (r == 0 && host->cpus)
        r = put(argv, "--cpuset-cpus", host->cpus);
    if (r == 0 && host->selinux)
        r = rg_strv_add(argv, "--security-opt=label=disable");
    if (r == 0 && container->privileged)
        r = rg_strv_add(argv, "--privileged");
    return r;
}

int rg_oci_user(const struct rg_container *container, const struct rg_container_host *host,
                struct rg_strv *argv)
{
    int r = 0;

    if (container->place.term)
        r = rg_strv_addf(argv, "--env=TERM=%s", container->place.term);
    if (r == 0 && container->user)
        return put(argv, "--user", container->user);
    r = r ? r : rg_strv_addf(argv, "--user=%u:%u", (unsigned) host->uid, (unsigned) host->gid);
    if (r == 0 && host->home)
        r = rg_strv_addf(argv, "--env=HOME=%s", host->home);
    else if (r == 0 && host->uid != 0)
        r = rg_strv_add(argv, "--env=HOME=" RG_CONTAINER_RUN);
    if (r == 0 && host->user_name)
        r = rg_strv_addf(argv, "--env=USER=%s", host->user_name);
    if (r == 0 && host->user_name)
        r = rg_strv_addf(argv, "--env=LOGNAME=%s", host->user_name);
    return r;
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

static int add_mount(struct rg_strv *argv, const char *source, const char *target, bool read_only)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, "--mount=type=%s", *source == '/' ? "bind" : "volume");
    put_csv(&text, "source", source);
    put_csv(&text, "target", target);
    if (read_only)
        rg_buf_printf(&text, ",readonly");
    int r = rg_buf_status(&text);

    return r < 0 ? r : rg_strv_add(argv, rg_buf_text(&text));
}

static int add_own_mounts(const struct rg_container_host *host, struct rg_strv *argv)
{
    int r = add_mount(argv, host->bin_dir, RG_CONTAINER_BIN, true);

    r = r ? r : add_mount(argv, host->run_dir, RG_CONTAINER_RUN, false);
    if (r == 0 && host->bundle_dir)
        r = add_mount(argv, host->bundle_dir, RG_CONTAINER_PYTHON, true);
    if (r == 0 && host->passwd)
        r = add_mount(argv, host->passwd, "/etc/passwd", true);
    if (r == 0 && host->group)
        r = add_mount(argv, host->group, "/etc/group", true);
    if (r == 0 && host->home)
        r = add_mount(argv, host->home, host->home, false);
    if (r == 0 && host->cwd && !(host->home && rg_container_lies_in(host->cwd, host->home)))
        r = add_mount(argv, host->cwd, host->cwd, false);
    if (r == 0 && host->cwd)
        r = put(argv, "--workdir", host->cwd);
    return r;
}

int rg_oci_mounts(const struct rg_container *container, const struct rg_container_host *host,
                  struct rg_strv *argv, struct rg_error *err)
{
    int r = add_own_mounts(host, argv);

    for (size_t i = 0; r == 0 && i < container->mounts.count; i++) {
        rg_autofree char *source = NULL, *target = NULL;
        bool read_only;
        r = rg_container_split_mount(container->mounts.v[i], &source, &target, &read_only, err);
        if (r < 0)
            return r;
        r = add_mount(argv, source, target, read_only);
    }
    if (r == 0 && container->ibdevices && host->infiniband) {
        /* Registered memory must be locked, and not be limited by what a user may lock. */
        r = rg_strv_add(argv, "--device=/dev/infiniband");
        r = r ? r : rg_strv_add(argv, "--cap-add=IPC_LOCK");
        r = r ? r : rg_strv_add(argv, "--ulimit=memlock=-1:-1");
    }
    return r;
}

int rg_oci_hide_gpus(const struct rg_container *container, const struct rg_container_host *host,
                     struct rg_strv *argv)
{
    rg_autofree char *devices = rg_container_devices(container->gpus);
    int r = devices ? 0 : -ENOMEM;

    if (r == 0 && host->no_gpus)
        r = rg_strv_add(argv, "--env=NVIDIA_VISIBLE_DEVICES=void");
    if (r < 0 || !container->privileged || strcmp(devices, "all") == 0 ||
        (!*devices && !host->no_gpus))
        return r;
    r = rg_strv_add(argv, "--env=CUDA_DEVICE_ORDER=PCI_BUS_ID"); /* the numbers are of that order */
    return r < 0 ? r : rg_strv_addf(argv, "--env=CUDA_VISIBLE_DEVICES=%s", devices);
}

int rg_oci_finish(const struct rg_container *container, const struct rg_container_host *host,
                  struct rg_strv *argv)
{
    int r = 0;

    (void) host;
    for (size_t i = 0; r == 0 && i < container->options.count; i++)
        r = rg_strv_add(argv, container->options.v[i]);
    r = r ? r : rg_strv_add(argv, container->image);
    r = r ? r : rg_strv_add(argv, "inside");
    return r ? r : rg_strv_add(argv, RG_CONTAINER_RUN "/" RG_CONTAINER_SOCKET);
}

int rg_oci_pull(const struct rg_container *container, const struct rg_container_host *host,
                struct rg_strv *argv)
{
    int r = rg_strv_add(argv, host->program);

    r = r ? r : rg_strv_add(argv, "pull");
    return r ? r : rg_strv_add(argv, container->image);
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
    int r = rg_strv_add(argv, program);

    r = r ? r : rg_strv_add(argv, "rm");
    r = r ? r : rg_strv_add(argv, "--force");
    return r ? r : rg_strv_add(argv, name);
}
