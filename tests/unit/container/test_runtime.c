/* SPDX-License-Identifier: Apache-2.0 */
/* Whole argument lists, joined by blanks: what a user would read in `ps`. */
#include "base/buf.h"
#include "container/runtime.h"
#include "unit.h"

static const gid_t groups[] = { 27, 999 };

static struct rg_container_host make_host(const char *program)
{
    return (struct rg_container_host){
        .program = program,
        .name = "reigen-j-0",
        .job_id = "j",
        .uid = 1000,
        .gid = 100,
        .groups = groups,
        .ngroups = 2,
        .user_name = "ada",
        .home = "/u/ada",
        .cwd = "/u/ada/job",
        .bin_dir = "/t/bin",
        .run_dir = "/t/run",
        .passwd = "/t/passwd",
        .group = "/t/group",
        .bundle_dir = "/t/bundle",
        .shm_nbytes = 1024,
    };
}

static void check(const struct rg_container_ops *ops, const struct rg_container *container,
                  const struct rg_container_host *host, const char *expected)
{
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    struct rg_error err = RG_ERROR_INIT;

    if (ops->run(container, host, &argv, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < argv.count; i++)
        rg_buf_printf(&text, "%s%s", i ? " " : "", argv.v[i]);
    assert_string_equal(rg_buf_text(&text), expected);
}

#define BEGIN(program)                                                                       \
    program " run --rm --pull=never --log-driver=none --no-healthcheck "                     \
            "--entrypoint=/reigen/bin/reigen-agent --name=reigen-j-0 --label=reigen.job=j "  \
            "--label=reigen.user=1000 --label=reigen.launcher=h:1:2 "
#define USER "--user=1000:100 --env=HOME=/u/ada --env=USER=ada --env=LOGNAME=ada "
#define MOUNTS                                                       \
    "--mount=type=bind,source=/t/bin,target=/reigen/bin,readonly "   \
    "--mount=type=bind,source=/t/run,target=/reigen/run "            \
    "--mount=type=bind,source=/t/bundle,target=/reigen/python,readonly "\
    "--mount=type=bind,source=/t/passwd,target=/etc/passwd,readonly "\
    "--mount=type=bind,source=/t/group,target=/etc/group,readonly "  \
    "--mount=type=bind,source=/u/ada,target=/u/ada --workdir=/u/ada/job "
#define END "image:1 inside /reigen/run/boot"

static int make_container(void **state)
{
    static struct rg_container container;

    container = (struct rg_container){ 0 };
    container.image = strdup("image:1");
    container.place.launcher = strdup("h:1:2");
    *state = &container;
    return 0;
}

static int free_container(void **state)
{
    rg_container_fini(*state);
    return 0;
}

static void docker_runs_as_the_caller(void **state)
{
    struct rg_container_host host = make_host("docker");

    check(&rg_container_docker, *state, &host,
          BEGIN("docker") "--network=host --shm-size=1024 " USER
          "--group-add=27 --group-add=999 " MOUNTS END);
}

static void containers_of_a_daemon_are_kept_to_our_cpus(void **state)
{
    struct rg_container_host host = make_host("docker");

    host.cpus = "0-3,8";
    check(&rg_container_docker, *state, &host,
          BEGIN("docker") "--network=host --shm-size=1024 --cpuset-cpus=0-3,8 " USER
          "--group-add=27 --group-add=999 " MOUNTS END);
    /* These are children of ours. */
    host = make_host("podman");
    host.cpus = "0-3,8";
    check(&rg_container_podman, *state, &host,
          BEGIN("podman") "--network=host --shm-size=1024 " USER
          "--userns=keep-id --group-add=keep-groups " MOUNTS END);
}

static void docker_takes_all_options(void **state)
{
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("/opt/docker");

    container->shm_nbytes = 4096;
    container->gpus = strdup("0,1");
    container->network = strdup("mine");
    container->privileged = container->ibdevices = true;
    rg_strv_add(&container->mounts, "/data:/d:ro");
    rg_strv_add(&container->mounts, "/a,\"b");
    rg_strv_add(&container->mounts, "cache:/c");
    rg_strv_add(&container->options, "--read-only");
    container->place.term = strdup("xterm");
    host.infiniband = host.selinux = true;
    host.bundle_dir = NULL;
    host.cwd = "/scratch";
    check(&rg_container_docker, container, &host,
          BEGIN("/opt/docker") "--network=mine --shm-size=4096 --security-opt=label=disable "
          "--privileged --env=TERM=xterm " USER "--group-add=27 --group-add=999 "
          "--mount=type=bind,source=/t/bin,target=/reigen/bin,readonly "
          "--mount=type=bind,source=/t/run,target=/reigen/run "
          "--mount=type=bind,source=/t/passwd,target=/etc/passwd,readonly "
          "--mount=type=bind,source=/t/group,target=/etc/group,readonly "
          "--mount=type=bind,source=/u/ada,target=/u/ada "
          "--mount=type=bind,source=/scratch,target=/scratch --workdir=/scratch "
          "--mount=type=bind,source=/data,target=/d,readonly "
          "--mount=type=bind,\"source=/a,\"\"b\",\"target=/a,\"\"b\" "
          "--mount=type=volume,source=cache,target=/c "
          "--device=/dev/infiniband --cap-add=IPC_LOCK --ulimit=memlock=-1:-1 "
          "--gpus=\"device=0,1\" --env=CUDA_DEVICE_ORDER=PCI_BUS_ID "
          "--env=CUDA_VISIBLE_DEVICES=0,1 --read-only " END);
}

static void a_container_sees_no_gpu_where_slurm_gave_none(void **state)
{
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("docker");

    host.no_gpus = true;
    check(&rg_container_docker, container, &host,
          BEGIN("docker") "--network=host --shm-size=1024 " USER "--group-add=27 --group-add=999 "
          MOUNTS "--env=NVIDIA_VISIBLE_DEVICES=void " END);
    container->privileged = true;
    check(&rg_container_docker, container, &host,
          BEGIN("docker") "--network=host --shm-size=1024 --privileged " USER
          "--group-add=27 --group-add=999 " MOUNTS "--env=NVIDIA_VISIBLE_DEVICES=void "
          "--env=CUDA_DEVICE_ORDER=PCI_BUS_ID --env=CUDA_VISIBLE_DEVICES= " END);
}

static void docker_leaves_a_named_user_to_the_image(void **state)
{
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("docker");

    container->user = strdup("www-data");
    container->place.one_host = true;
    host.home = host.cwd = host.passwd = host.group = host.bundle_dir = NULL;
    check(&rg_container_docker, container, &host,
          BEGIN("docker") "--shm-size=1024 --user=www-data "
          "--mount=type=bind,source=/t/bin,target=/reigen/bin,readonly "
          "--mount=type=bind,source=/t/run,target=/reigen/run " END);
}

/* Removed by its id: another container may come to have the name. */
static void docker_gives_a_container_the_name_that_the_user_chose(void **state)
{
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("docker");

    container->name = strdup("mine");
    check(&rg_container_docker, container, &host,
          "docker run --rm --pull=never --log-driver=none --no-healthcheck "
          "--entrypoint=/reigen/bin/reigen-agent --name=mine --cidfile=/t/bin/../cid "
          "--label=reigen.job=j --label=reigen.user=1000 --label=reigen.launcher=h:1:2 "
          "--network=host --shm-size=1024 " USER "--group-add=27 --group-add=999 " MOUNTS END);
}

static void docker_counts_gpus(void **state)
{
    static const char *const values[][2] = { { "all", "--gpus=all" }, { "2", "--gpus=2" },
                                             { "GPU-ab", "--gpus=\"device=GPU-ab\"" },
                                             { "device=1", "--gpus=device=1" } };
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("docker");

    for (size_t i = 0; i < rg_array_len(values); i++) {
        rg_autostrv struct rg_strv argv = RG_STRV_INIT;
        free(container->gpus);
        container->gpus = strdup(values[i][0]);
        assert_int_equal(rg_container_docker.run(container, &host, &argv, NULL), 0);
        bool found = false;
        for (size_t k = 0; k < argv.count; k++)
            found |= strcmp(argv.v[k], values[i][1]) == 0;
        assert_true(found);
    }
}

static void podman_keeps_ids_without_root(void **state)
{
    struct rg_container_host host = make_host("podman");

    check(&rg_container_podman, *state, &host,
          BEGIN("podman") "--network=host --shm-size=1024 " USER
          "--userns=keep-id --group-add=keep-groups " MOUNTS END);
}

static void podman_names_each_gpu(void **state)
{
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("podman");

    container->gpus = strdup("0,1");
    check(&rg_container_podman, container, &host,
          BEGIN("podman") "--network=host --shm-size=1024 " USER
          "--userns=keep-id --group-add=keep-groups " MOUNTS
          "--device=nvidia.com/gpu=0 --device=nvidia.com/gpu=1 " END);
}

static void apptainer_binds_and_executes(void **state)
{
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("singularity");

    rg_strv_add(&container->mounts, "/data:/d:ro");
    rg_strv_add(&container->options, "--writable-tmpfs");
    container->gpus = strdup("all");
    check(&rg_container_apptainer, container, &host,
          "singularity exec --pid --cleanenv --nv --bind=/t/bin:/reigen/bin:ro "
          "--bind=/t/run:/reigen/run --bind=/t/bundle:/reigen/python:ro "
          "--bind=/u/ada/job:/u/ada/job --pwd=/u/ada/job --bind=/data:/d:ro --writable-tmpfs "
          "docker://image:1 /reigen/bin/reigen-agent " "inside /reigen/run/boot");
}

static void apptainer_takes_files_and_schemes_as_they_are(void **state)
{
    static const char *const images[] = { "/i/x.sif", "./dir", "x.sif", "library://a/b" };
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("apptainer");

    for (size_t i = 0; i < rg_array_len(images); i++) {
        rg_autostrv struct rg_strv argv = RG_STRV_INIT;
        free(container->image);
        container->image = strdup(images[i]);
        assert_int_equal(rg_container_apptainer.run(container, &host, &argv, NULL), 0);
        assert_string_equal(argv.v[argv.count - 4], images[i]);
    }
}

static void apptainer_refuses_what_it_cannot_do(void **state)
{
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("apptainer");
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    container->privileged = true;
    assert_int_equal(rg_container_apptainer.run(container, &host, &argv, &err), -EINVAL);
    assert_contains(err.text, "--privileged");
    assert_int_equal(err.exit_code, 2);
    container->privileged = false;
    container->user = strdup("1000");
    assert_int_equal(rg_container_apptainer.run(container, &host, &argv, &err), -EINVAL);
    assert_contains(err.text, "--user");
}

/* A number is how many. */
static void runtimes_that_cannot_count_are_given_names(void **state)
{
    static const char *const values[][2] = { { "all", "all" }, { "2", "0,1" }, { "1,", "1" },
                                             { "0,3", "0,3" }, { "GPU-ab", "GPU-ab" },
                                             { NULL, "" } };

    (void) state;
    for (size_t i = 0; i < rg_array_len(values); i++) {
        rg_autofree char *devices = rg_container_devices(values[i][0]);
        assert_string_equal(devices, values[i][1]);
    }
}

static void apptainer_has_all_devices_and_counts_gpus_as_the_host_does(void **state)
{
    struct rg_container *container = *state;
    struct rg_container_host host = make_host("apptainer");

    host.bundle_dir = host.cwd = NULL;
    host.gpus = "0";
    container->gpus = strdup("3,");
    rg_strv_add(&container->options, "--device=/dev/infiniband/uverbs0");
    rg_strv_add(&container->options, "--cap-add=IPC_LOCK");
    check(&rg_container_apptainer, container, &host,
          "apptainer exec --pid --cleanenv --nv --env=CUDA_VISIBLE_DEVICES=0 "
          "--bind=/t/bin:/reigen/bin:ro --bind=/t/run:/reigen/run docker://image:1 "
          "/reigen/bin/reigen-agent " "inside /reigen/run/boot");
}

#define ENROOT_BEGIN(devices, more)                                                  \
    "env ENROOT_LOGIN_SHELL=no NVIDIA_VISIBLE_DEVICES=" devices more " enroot start --rw "
#define ENROOT_SCRIPT "--rc /t/bin/../start.sh "
#define ENROOT_USER(devices)                                                               \
    "--env=NVIDIA_VISIBLE_DEVICES=" devices " --env=HOME=/u/ada --env=USER=ada "           \
    "--env=LOGNAME=ada "
#define ENROOT_MOUNT(source, target, mode) \
    "--mount=" source ":" target ":none:x-create=auto,rbind," mode " "
#define ENROOT_OWN                                                                     \
    ENROOT_MOUNT("/t/bin", "/reigen/bin", "ro") ENROOT_MOUNT("/t/run", "/reigen/run", "rw")
#define ENROOT_HOME ENROOT_MOUNT("/u/ada", "/u/ada", "rw")
#define ENROOT_END " /u/ada/job /reigen/bin/reigen-agent inside /reigen/run/boot"

static struct rg_container_host make_enroot_host(void)
{
    struct rg_container_host host = make_host("enroot");

    host.image_dir = "/images";
    return host;
}

static void enroot_starts_an_image_from_its_file(void **state)
{
    struct rg_container_host host = make_enroot_host();

    check(&rg_container_enroot, *state, &host,
          ENROOT_BEGIN("void", "") ENROOT_SCRIPT ENROOT_USER("void") ENROOT_OWN
          ENROOT_MOUNT("/t/bundle", "/reigen/python", "ro") ENROOT_HOME
          "-- /images/image++1.sqsh" ENROOT_END);
}

static void enroot_shows_no_devices_of_gpus_that_slurm_did_not_give(void **state)
{
    struct rg_container_host host = make_enroot_host();

    host.no_gpus = true;
    host.bundle_dir = NULL;
    check(&rg_container_enroot, *state, &host,
          ENROOT_BEGIN("void", " ENROOT_RESTRICT_DEV=yes") ENROOT_SCRIPT ENROOT_USER("void")
          ENROOT_OWN ENROOT_HOME "-- /images/image++1.sqsh" ENROOT_END);
}

static void enroot_takes_mounts_devices_and_its_own_options(void **state)
{
    static const char *const options[] = { "--device=/dev/infiniband/uverbs0",
                                           "--cap-add=IPC_LOCK", "-e", "A=b c", "--root" };
    struct rg_container *container = *state;
    struct rg_container_host host = make_enroot_host();

    host.bundle_dir = NULL;
    host.infiniband = container->ibdevices = true;
    host.gpus = "0,1";
    container->gpus = strdup("4,5");
    container->network = strdup("host");
    container->place.term = strdup("xterm");
    rg_strv_add(&container->mounts, "/data:/d:ro");
    for (size_t i = 0; i < rg_array_len(options); i++)
        rg_strv_add(&container->options, options[i]);
    check(&rg_container_enroot, container, &host,
          ENROOT_BEGIN("0,1", " NVIDIA_DRIVER_CAPABILITIES=compute,utility,video "
                              "ENROOT_RESTRICT_DEV=yes")
          ENROOT_SCRIPT "--env=NVIDIA_VISIBLE_DEVICES=0,1 --env=TERM=xterm --env=HOME=/u/ada "
          "--env=USER=ada --env=LOGNAME=ada " ENROOT_OWN ENROOT_HOME
          ENROOT_MOUNT("/dev/infiniband", "/dev/infiniband", "rw")
          ENROOT_MOUNT("/data", "/d", "ro")
          "--mount=/dev/infiniband/uverbs0:/dev/infiniband/uverbs0:none:x-create=file,bind,rw "
          "-e A=b c --root -- /images/image++1.sqsh" ENROOT_END);
}

/* Docker's spelling on the left; what is fetched, and the file's name. */
static void enroot_finds_registries_and_files(void **state)
{
    static const char *const images[][3] = {
        { "ubuntu", "docker://ubuntu", "/images/ubuntu.sqsh" },
        { "pytorch/pytorch:2.4", "docker://pytorch/pytorch:2.4",
          "/images/pytorch+pytorch++2.4.sqsh" },
        { "nvcr.io/nvidia/pytorch:24.05-py3", "docker://nvcr.io#nvidia/pytorch:24.05-py3",
          "/images/nvcr.io+nvidia+pytorch++24.05-py3.sqsh" },
        { "nvcr.io#nvidia/pytorch:24.05-py3", "docker://nvcr.io#nvidia/pytorch:24.05-py3",
          "/images/nvcr.io+nvidia+pytorch++24.05-py3.sqsh" },
        { "docker.io/library/python:3.12", "docker://library/python:3.12",
          "/images/library+python++3.12.sqsh" },
        { "localhost/a", "docker://localhost#a", "/images/localhost+a.sqsh" },
        { "host:5000/a:1", "docker://host:5000#a:1", "/images/host++5000+a++1.sqsh" },
        { "docker://me@nvcr.io#a", "docker://me@nvcr.io#a", "/images/me@nvcr.io+a.sqsh" },
        { "dockerd://a:1", "dockerd://a:1", "/images/dockerd++++a++1.sqsh" },
        { "$x@h#a'b", "docker://$x@h#a'b", "/images/_x@h+a_b.sqsh" },
        { "/i/x.sqsh", NULL, "/i/x.sqsh" },
        { "./x.img", NULL, "/u/ada/job/./x.img" },
        { "x.sqsh", NULL, "/u/ada/job/x.sqsh" },
    };
    struct rg_container *container = *state;
    struct rg_container_host host = make_enroot_host();

    container->place.cwd = strdup("/u/ada/job");
    for (size_t i = 0; i < rg_array_len(images); i++) {
        rg_autostrv struct rg_strv argv = RG_STRV_INIT, pull = RG_STRV_INIT;
        free(container->image);
        container->image = strdup(images[i][0]);
        assert_int_equal(rg_container_enroot.run(container, &host, &argv, NULL), 0);
        assert_string_equal(argv.v[argv.count - 5], images[i][2]);
        assert_int_equal(rg_container_enroot.pull(container, &host, &pull), 0);
        assert_int_equal(pull.count, images[i][1] ? 8 : 0);
        if (images[i][1])
            assert_string_equal(pull.v[5], images[i][1]);
        if (images[i][1])
            assert_string_equal(pull.v[6], images[i][2]);
    }
}

/* What the script that enroot runs comes to, with this as the image's own /etc/rc. */
static void check_directory(const char *rc, const char *wanted, const char *expected)
{
    char dir[] = "/tmp/reigen-test-XXXXXX", said[128] = "";
    const char *script = rg_container_enroot.script;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    assert_non_null(mkdtemp(dir));
    rg_autofree char *rc_path = rg_strf("%s/rc", dir), *path = rg_strf("%s/start.sh", dir);
    rg_autofree char *command = rg_strf("sh %s '%s' sh -c 'pwd; echo \"$OLDPWD\"'; rm -r %s", path,
                                        wanted, dir);
    for (const char *p = script; *p; p++) {
        bool here = strncmp(p, "/etc/rc", 7) == 0;
        rg_buf_printf(&text, here ? "%s" : "%.1s", here ? rc_path : p);
        p += here ? 6 : 0;
    }
    for (int i = 0; i < (rc ? 2 : 1); i++) {
        FILE *file = fopen(i ? rc_path : path, "w");
        fputs(i ? rc : rg_buf_text(&text), file);
        fclose(file);
    }
    FILE *out = popen(command, "r");
    size_t n = fread(said, 1, sizeof(said) - 1, out);
    pclose(out);
    said[n] = '\0';
    assert_string_equal(said, expected);
}

static void enroot_starts_in_the_callers_or_the_images_directory(void **state)
{
    static const char rc[] = "# label\n\nmkdir -p \"/usr/lib\" 2> /dev/null\n"
                             "cd \"/usr/lib\" && unset OLDPWD || exit 1\n\nexec '/entry' \"$@\"\n";

    (void) state;
    check_directory(rc, "/usr", "/usr\n\n");
    check_directory(rc, "", "/usr/lib\n\n");
    check_directory(NULL, "", "/\n\n");
    check_directory(rc, "/no/such/place", "/\n\n");
}

static void refused_by_enroot(struct rg_container *container, const char *text)
{
    struct rg_container_host host = make_enroot_host();
    rg_autostrv struct rg_strv argv = RG_STRV_INIT;
    struct rg_error err = RG_ERROR_INIT;

    assert_int_equal(rg_container_enroot.run(container, &host, &argv, &err), -EINVAL);
    assert_int_equal(err.exit_code, 2);
    assert_contains(err.text, text);
}

static void enroot_refuses_what_it_cannot_do(void **state)
{
    static const char *const unknown[] = { "--ipc=host", "-v", "--rc=x", "--env", "-e=x",
                                           "--envelope" };
    struct rg_container *container = *state;

    container->privileged = true;
    refused_by_enroot(container, "--privileged");
    container->privileged = false;
    container->user = strdup("1000");
    refused_by_enroot(container, "--user");
    free(rg_steal_ptr(&container->user));
    container->network = strdup("none");
    refused_by_enroot(container, "--network");
    free(rg_steal_ptr(&container->network));
    rg_strv_add(&container->mounts, "data:/d");
    refused_by_enroot(container, "named volumes");
    rg_strv_fini(&container->mounts);
    rg_strv_add(&container->mounts, "/a b:/d");
    refused_by_enroot(container, "a blank or a colon");
    rg_strv_fini(&container->mounts);
    for (size_t i = 0; i < rg_array_len(unknown); i++) {
        rg_strv_add(&container->options, unknown[i]);
        refused_by_enroot(container, unknown[i]);
        rg_strv_fini(&container->options);
    }
}

static void runtimes_are_found_by_their_programs(void **state)
{
    (void) state;
    assert_ptr_equal(rg_container_find("docker"), &rg_container_docker);
    assert_ptr_equal(rg_container_find("podman"), &rg_container_podman);
    assert_ptr_equal(rg_container_find("singularity"), &rg_container_apptainer);
    assert_ptr_equal(rg_container_find("enroot"), &rg_container_enroot);
    assert_null(rg_container_find("containerd"));
}

static void failures_are_explained(void **state)
{
    static const struct {
        const struct rg_container_ops *ops;
        const char *said;
        int code;
        const char *part;
    } cases[] = {
        { &rg_container_docker,
          "docker: Got permission denied while trying to connect to the Docker daemon socket at "
          "unix:///var/run/docker.sock: ...\nSee 'docker run --help'.\n", 77, "group docker" },
        { &rg_container_docker, "docker: Error response from daemon: failed to resolve reference "
          "\"docker.io/library/python:3.99\": docker.io/library/python:3.99: not found", 125,
          "no such tag of the image" },
        { &rg_container_docker, "Error response from daemon: Head \"https://x/v2/a\": "
          "unauthorized: authentication required", 125, "log in (docker login" },
        { &rg_container_podman, "Error: initializing source: reading manifest: toomanyrequests: x",
          125, "try again later" },
        { &rg_container_docker, "docker: Cannot connect to the Docker daemon at unix:///x. Is it?",
          69, "systemctl start docker" },
        { &rg_container_docker, "docker: error during connect: Post \"http://%2Fvar%2Frun%2F"
          "docker.sock/v1.41/containers/711a/start\": EOF.\nSee 'docker run --help'.\n", 125,
          "the Docker daemon ended while" },
        { &rg_container_docker, "docker: Error: Conflict. The container name \"/x\" is already in "
          "use by container \"1\".", 125, "docker rm --force" },
        { &rg_container_docker, "unknown flag: --nosuch\n\nUsage:  docker run [OPTIONS] IMAGE\n\n"
          "Run 'docker run --help' for more information\n", 125, "docker: unknown flag: --nosuch" },
        { &rg_container_docker, "invalid argument \"x\" for \"--memory\" flag: invalid size: 'x'\n"
          "\nUsage:  docker run [OPTIONS]\n\nRun 'docker run --help' for more information\n", 125,
          "flag: invalid size: 'x'" },
        { &rg_container_podman, "Error: unknown flag: --nosuch\nSee 'podman run --help'\n", 125,
          "podman: Error: unknown flag: --nosuch" },
        { &rg_container_docker, "write /x: no space left on device", 125, "docker system prune" },
        { &rg_container_docker, "first\nsomething new\nSee 'docker run --help'.\n", 125,
          "something new" },
        { &rg_container_docker, "docker: no network x\nSee 'docker run --help'.\n"
          "time=\"now\" level=error msg=\"context canceled\"\n", 125, "no network x" },
        { &rg_container_docker, "time=\"now\" msg=\"alone\"\n", 125, "alone" },
        { &rg_container_docker, "WARNING: no swap limit\n", 125, "replace the first process" },
        { &rg_container_docker, "", 125, "said nothing" },
        { &rg_container_podman, "Error: cannot find UID/GID for user ada: no subuid ranges", 77,
          "/etc/subuid" },
        { &rg_container_apptainer, "FATAL: could not open image x.sif: no such file or directory",
          125, ".sif" },
        { &rg_container_enroot, "[ERROR] Command not found: squashfuse\n", 69, "squashfuse and" },
        { &rg_container_enroot, "[ERROR] Invalid argument: /i/x.sqsh\n", 125, ".sqsh file" },
        { &rg_container_enroot, "mkdir: cannot create directory '/run/enroot': Permission denied",
          77, "ENROOT_RUNTIME_PATH" },
        { &rg_container_enroot, "[WARN] Squashfs image uses lzo compression, this version supports "
          "only xz, zlib.\n[ERROR] Failed to mount: /i/x.sqsh\n", 125, "-comp lz4" },
        { &rg_container_enroot, "[ERROR] URL https://nvcr.io/v2/a returned error code: 401", 125,
          ".credentials" },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        struct rg_error err = RG_ERROR_INIT;
        assert_int_equal(rg_container_explain(cases[i].ops, cases[i].said, &err), -EIO);
        if (err.exit_code != cases[i].code)
            fail_msg("'%s': exit code %d", cases[i].said, err.exit_code);
        assert_contains(err.text, cases[i].part);
        assert_null(strstr(err.text, "--help"));
    }
}

static void a_pull_says_how_far_it_is(void **state)
{
    static const char begun[] = "latest: Pulling from library/base\na1: Pulling fs layer\n"
                                "b2: Pulling fs layer\nc3: Already exists\nd4: Pulling fs layer\n";
    char text[512];

    (void) state;
    assert_int_equal(rg_oci_pull_percent(""), -1);
    assert_int_equal(rg_oci_pull_percent("base: layer 2 of 3\n"), -1);
    assert_int_equal(rg_oci_pull_percent(begun), 25);
    snprintf(text, sizeof(text), "%sa1: Verifying Checksum\na1: Download complete\n"
             "b2: Download complete\na1: Pull complete", begun);
    assert_int_equal(rg_oci_pull_percent(text), 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(docker_runs_as_the_caller, make_container, free_container),
        cmocka_unit_test_setup_teardown(containers_of_a_daemon_are_kept_to_our_cpus,
                                        make_container, free_container),
        cmocka_unit_test_setup_teardown(a_container_sees_no_gpu_where_slurm_gave_none,
                                        make_container, free_container),
        cmocka_unit_test_setup_teardown(docker_takes_all_options, make_container, free_container),
        cmocka_unit_test_setup_teardown(docker_leaves_a_named_user_to_the_image, make_container,
                                        free_container),
        cmocka_unit_test_setup_teardown(docker_gives_a_container_the_name_that_the_user_chose,
                                        make_container, free_container),
        cmocka_unit_test_setup_teardown(docker_counts_gpus, make_container, free_container),
        cmocka_unit_test_setup_teardown(podman_keeps_ids_without_root, make_container,
                                        free_container),
        cmocka_unit_test_setup_teardown(podman_names_each_gpu, make_container, free_container),
        cmocka_unit_test_setup_teardown(apptainer_binds_and_executes, make_container,
                                        free_container),
        cmocka_unit_test_setup_teardown(apptainer_takes_files_and_schemes_as_they_are,
                                        make_container, free_container),
        cmocka_unit_test_setup_teardown(apptainer_refuses_what_it_cannot_do, make_container,
                                        free_container),
        cmocka_unit_test_setup_teardown(
            apptainer_has_all_devices_and_counts_gpus_as_the_host_does, make_container,
            free_container),
        cmocka_unit_test(a_pull_says_how_far_it_is),
        cmocka_unit_test(runtimes_that_cannot_count_are_given_names),
        cmocka_unit_test_setup_teardown(enroot_starts_an_image_from_its_file, make_container,
                                        free_container),
        cmocka_unit_test_setup_teardown(enroot_shows_no_devices_of_gpus_that_slurm_did_not_give,
                                        make_container, free_container),
        cmocka_unit_test_setup_teardown(enroot_takes_mounts_devices_and_its_own_options,
                                        make_container, free_container),
        cmocka_unit_test_setup_teardown(enroot_finds_registries_and_files, make_container,
                                        free_container),
        cmocka_unit_test(enroot_starts_in_the_callers_or_the_images_directory),
        cmocka_unit_test_setup_teardown(enroot_refuses_what_it_cannot_do, make_container,
                                        free_container),
        cmocka_unit_test(runtimes_are_found_by_their_programs),
        cmocka_unit_test(failures_are_explained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
