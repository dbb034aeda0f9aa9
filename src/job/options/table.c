/* SPDX-License-Identifier: Apache-2.0 */
/* All options of reigen run stand in one table, so that no text can lack one. */
#include "job/options/options.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "job/options/apply.h"
#include "job/platform.h"
#include "job/require.h"

#define OPTIONS_MAX 192
#define SHARED_MAX 8
#define SHARED_HELP_MAX 512

/* The end of a row: who judges the value, or which member of the request takes it. */
#define BY(name) .apply = rg_apply_##name
#define FLAG(name) .member = RG_MEMBER(FLAG, struct rg_request, name, 0, 0)
#define INT(name, min, max) .member = RG_MEMBER(INT, struct rg_request, name, min, max)
#define TEXT(name) .member = RG_MEMBER(TEXT, struct rg_request, name, 0, 0)
#define TIME(name) .member = RG_MEMBER(TIME, struct rg_request, name, 0, 0)
#define SIZE(name) .member = RG_MEMBER(SIZE, struct rg_request, name, 0, 0)
#define LIST(name, max) .member = RG_MEMBER(LIST, struct rg_request, name, 0, max)

/* Those of platforms (--on) come from their drivers: see all_options. */
static const struct rg_option options[] = {
    {"np", "n c num-proc", NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "N", NULL, NULL,
     "Run N ranks. The default is one on each slot.", INT(job.np, 1, RG_JOB_RANKS_MAX),
     .brief = "run N ranks; the default is one on each slot"},
    {"H", "host hosts", "hosts", RG_GROUP_WHERE, RG_FILE_HOSTS, "HOST[:SLOTS],...", NULL,
     "@host",
     "Run on these hosts, with so many ranks at most on each. The default is this computer; a host "
     "without SLOTS has one per core if it is this computer, else one. USER@HOST logs in as USER; "
     "node[1-4,07]:2 stands for several hosts. May be repeated.", BY(hosts),
     .brief = "on these hosts; the default is this computer", .variable = "REIGEN_HOSTS"},
    {"hostfile", "machinefile f", NULL, RG_GROUP_WHERE, RG_FILE_LIST, "FILE", NULL, "@file",
     "Read the hosts from FILE, one or a range per line: HOST slots=N or HOST:N.", BY(hostfile),
     .brief = "on the hosts that FILE lists"},
    {"host-discovery-script", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "COMMAND", NULL,
     "@file",
     "Run COMMAND by the shell: a script, perhaps with arguments, which prints the hosts that "
     "there are now, as a host file has them; a host without a number has one slot. It is run "
     "again until there is room for -np ranks, or --start-timeout passes; never once the job runs.",
     BY(host_discovery_script)},
    {"min-np", "min-num-proc", NULL, RG_GROUP_ELASTIC, RG_FILE_SCALAR, "N", NULL, NULL,
     "Make the job elastic: it goes on as long as there is room for N ranks, when hosts are lost, "
     "and with more ranks when hosts come. -np ranks are needed to begin.",
     INT(job.elastic.min_np, 1, RG_JOB_RANKS_MAX),
     .brief = "go on with N ranks when hosts are lost"},
    {"max-np", "max-num-proc", NULL, RG_GROUP_ELASTIC, RG_FILE_SCALAR, "N", NULL, NULL,
     "The same, with N ranks at most. The default is one on each slot that there is.",
     INT(job.elastic.max_np, 1, RG_JOB_RANKS_MAX)},
    {"spares", NULL, NULL, RG_GROUP_ELASTIC, RG_FILE_SCALAR, "N", NULL, NULL,
     "Make the job elastic, and start N ranks more than --max-np, or -np without it: they wait in "
     "init, and take the place of ranks that are lost at once.",
     INT(job.elastic.spares, 1, RG_JOB_RANKS_MAX)},
    {"slots-per-host", NULL, NULL, RG_GROUP_ELASTIC, RG_FILE_SCALAR, "N", NULL, NULL,
     "Slots of a host for which --host-discovery-script prints none. The default is 1.",
     INT(discovery_slots, 1, RG_JOB_SLOTS_MAX),
     .needs = RG_NEEDS_SCRIPT},
    {"elastic-timeout", NULL, NULL, RG_GROUP_ELASTIC, RG_FILE_SCALAR, "TIME", NULL, NULL,
     "End an elastic job that has had too few ranks for TIME. The default is 600 s; 0 is never.",
     TIME(job.elastic.timeout_ms),
     .needs = RG_NEEDS_ELASTIC},
    {"reset-limit", NULL, NULL, RG_GROUP_ELASTIC, RG_FILE_SCALAR, "N", NULL, NULL,
     "End an elastic job when its ranks would change for the N+1st time.",
     INT(job.elastic.reset_limit, 0, RG_ELASTIC_NO_LIMIT - 1),
     .needs = RG_NEEDS_ELASTIC},
    {"blacklist-cooldown-range", NULL, NULL, RG_GROUP_ELASTIC, RG_FILE_SCALAR, "MIN:MAX", NULL,
     NULL,
     "Use a host again whose rank failed, after MIN seconds at first, and twice as long each time, "
     "MAX at most. The default is never.", BY(blacklist_cooldown_range),
     .needs = RG_NEEDS_ELASTIC},
    {"ranks-per-host", "ppn", NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "N", NULL, NULL,
     "Run at most N ranks on each host, however many slots it has; without -np, N on each.",
     BY(ranks_per_host)},
    {"map-by", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "HOW", NULL, "slot node",
     "slot (the default) fills one host after the other; node deals the ranks out in turn.",
     BY(map_by)},
    {"bind-to", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "WHAT", NULL, "none core socket gpu",
     "Bind each rank to one core, to one socket, or to the cores near the GPU that it uses. The "
     "default is none.", BY(bind_to)},
    {"oversubscribe", NULL, NULL, RG_GROUP_WHERE, RG_FILE_BOOL, NULL, NULL, NULL,
     "Allow more ranks than slots.", FLAG(job.oversubscribe)},
    {"on", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "PLATFORM", NULL, NULL,
     NULL, BY(on),
     .brief = "how hosts are reached: ssh, slurm, kubernetes, ..."}, /* see describe_on */
    {"ssh-port", NULL, NULL, RG_GROUP_NETWORK, RG_FILE_SCALAR, "PORT", NULL, NULL,
     "The port of the hosts' sshd. The default is what ssh's configuration says.",
     INT(job.ssh_port, 1, 65535),
     .needs = RG_NEEDS_SSH},
    {"ssh-identity", NULL, NULL, RG_GROUP_NETWORK, RG_FILE_SCALAR, "FILE", NULL, "@file",
     "The private key to log in with.", TEXT(job.ssh_identity),
     .needs = RG_NEEDS_SSH},
    {"ssh-option", NULL, NULL, RG_GROUP_NETWORK, RG_FILE_LIST, "KEYWORD=VALUE", NULL, NULL,
     "Hand an option to ssh -o, such as ConnectTimeout=10; one that begins with a "
     "dash is handed on as it is. May be repeated.", BY(ssh_option),
     .needs = RG_NEEDS_SSH},
    {"connect-timeout", NULL, NULL, RG_GROUP_NETWORK, RG_FILE_SCALAR, "TIME", NULL, NULL,
     "Give up on a host whose sshd does not answer within TIME, such as 5 or 1m: ssh's "
     "ConnectTimeout, in whole seconds.", BY(connect_timeout),
     .needs = RG_NEEDS_SSH},
    {"engine", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "ENGINE", NULL,
     "auto native openmpi hydra script",
     "Who starts the ranks: native, reigen's agents; openmpi or hydra (MPICH, Intel MPI), the "
     "mpirun that is installed on the first host; script, the command itself, which runs once on "
     "the first host and finds hostlist and np in its environment. The default, auto, is native, "
     "and runs the command once when it is mpirun, mpiexec or pdsh.", BY(engine)},
    {"engine-option", NULL, NULL, RG_GROUP_WHERE, RG_FILE_LIST, "ARG", NULL, NULL,
     "Hand ARG to the mpirun of --engine, before the command. May be repeated.",
     LIST(job.engine_options, 0)},
    {"detach", NULL, NULL, RG_GROUP_WHERE, RG_FILE_BOOL, NULL, NULL, NULL,
     "Return when all ranks have started, and let the job go on when the terminal closes: see "
     "reigen attach, logs and stop. With --on slurm, kubernetes or openpai it is --submit.",
     FLAG(job.detach), .brief = "return when all ranks have started; the job goes on"},
    {"submit", NULL, NULL, RG_GROUP_WHERE, RG_FILE_BOOL, NULL, NULL, NULL,
     "With --on slurm, kubernetes or openpai: hand the job over, print its number or name and "
     "return; see reigen logs, status and stop.", FLAG(job.submit)},

    {"image", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_SCALAR, "IMAGE", NULL, NULL,
     "Run the ranks in containers of this image, one on each host. none: on the hosts as they are, "
     "whatever the job file says.", BY(image), .brief = "in containers of this image"},
    {"container-runtime", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_SCALAR, "RUNTIME", NULL,
     "docker podman apptainer singularity enroot pyxis none",
     "What makes the containers. The default is the first of docker, podman, apptainer, "
     "singularity and enroot that a host has. With pyxis Slurm itself makes them, by srun "
     "--container-image. With none there are no containers, whatever --image says.",
     BY(container_runtime)},
    {"mount", "volume", NULL, RG_GROUP_CONTAINER, RG_FILE_LIST, "SOURCE[:TARGET[:ro]]", NULL,
     "@file",
     "Show a file or directory of the host in the container, at TARGET or at its own path. The "
     "home and the current directory are there already. May be repeated.", BY(mount)},
    {"container-option", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_LIST, "ARG", NULL, NULL,
     "Hand ARG to the runtime's command line, such as --read-only. May be repeated.",
     LIST(job.container.options, RG_CONTAINER_LISTED_MAX)},
    {"shm-size", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_SCALAR, "SIZE", NULL, NULL,
     "The size of /dev/shm, such as 8g. The default is half of the host's memory, as on a host.",
     SIZE(job.container.shm_nbytes)},
    {"gpus", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_SCALAR, "GPUS", NULL, "all",
     "Give the containers GPUs: all, a number of them, or their names.", BY(gpus)},
    {"gpus-per-rank", NULL, NULL, RG_GROUP_WHERE, RG_FILE_SCALAR, "N", NULL, "all",
     "Give each rank N GPUs of its host for itself, or with all as many as there are for each: it "
     "sees no others. The default is that all ranks see all GPUs, and choose by their local rank.",
     BY(gpus_per_rank), .brief = "N GPUs for each rank, which sees no others"},
    {"network", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_SCALAR, "NETWORK", NULL, "host",
     "The containers' network. The default is host for a job on several hosts, else the runtime's "
     "own.", TEXT(job.container.network)},
    {"user", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_SCALAR, "UID[:GID]", NULL, NULL,
     "Run as this user, a number or a name that the image has. The default is the caller.",
     TEXT(job.container.user)},
    {"pull", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_SCALAR, "WHEN", NULL, "missing always never",
     "When a host fetches the image. The default is missing: when it does not have it.", BY(pull),
     .needs = RG_NEEDS_CONTAINER},
    {"privileged", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_BOOL, NULL, NULL, NULL,
     "Give the containers all rights on the host.", FLAG(job.container.privileged)},
    {"ibdevices", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_BOOL, NULL, NULL, NULL,
     "Give the containers the host's InfiniBand devices, and unlimited locked memory.",
     FLAG(job.container.ibdevices)},
    {"inject-runtime", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_BOOL, NULL, NULL, NULL,
     "Put Reigen's own Python packages, reigen and horovod, before those of the image or host. The "
     "default is to do so where it has none; on this computer without an image: never.",
     BY(inject_runtime)},
    {"no-inject-runtime", NULL, NULL, RG_GROUP_CONTAINER, RG_FILE_NONE, NULL, NULL, NULL,
     "Never do so.", BY(no_inject_runtime)},

    {"network-interface", "network-interfaces", NULL, RG_GROUP_NETWORK, RG_FILE_LIST,
     "[HOST=]NAME", NULL, "@net",
     "Connect hosts by this interface, or by the one in this network; HOST= says so for one host. "
     "The default is a network that reigen finds by asking the hosts. May be repeated.",
     BY(network_interface)},
    {"port-range", NULL, NULL, RG_GROUP_NETWORK, RG_FILE_SCALAR, "FIRST-LAST", NULL, NULL,
     "Listen on TCP ports of this range only, where a firewall lets no others through. Each rank "
     "takes one on its host. The default is REIGEN_PORT_RANGE, else whatever the kernel gives.",
     BY(port_range), .variable = RG_PORT_RANGE},
    {"require", NULL, NULL, RG_GROUP_WHERE, RG_FILE_LIST, "WHAT,...", NULL,
     "@list " RG_REQUIRE_WORDS,
     "Start only if every host has this: rdma, gpu, gpu=N, cma, mpi, python, numpy, torch, "
     "tensorflow, horovod, shm=SIZE, memlock=SIZE, memory=SIZE, disk=SIZE, cpus=N, nofile=N or "
     "clock=TIME. reigen doctor shows what they have.", BY(require)},

    {"env", "x", NULL, RG_GROUP_ENV, RG_FILE_MAP, "NAME[=VALUE]", NULL, "@var",
     "Set NAME for every rank, or hand on the caller's value. May be repeated; the last "
     "one counts.", BY(env), .brief = "set a variable for every rank, or hand it on"},
    {"env-file", NULL, NULL, RG_GROUP_ENV, RG_FILE_LIST, "FILE", NULL, "@file",
     "Do so for each line NAME=VALUE or NAME of FILE, as docker run does. May be repeated; of all "
     "--env and --env-file the last one counts.", BY(env_file)},
    {"share-env", NULL, NULL, RG_GROUP_ENV, RG_FILE_LIST, "NAME", NULL, "@var",
     "Hand on the caller's value of NAME as a secret: it travels over the encrypted link only, "
     "and is never printed. May be repeated.", BY(share_env)},
    {"cwd", "wdir wd", NULL, RG_GROUP_ENV, RG_FILE_SCALAR, "DIR", NULL, "@dir",
     "Run in DIR. The default is the current directory.", TEXT(job.cwd)},
    {"sync", NULL, NULL, RG_GROUP_ENV, RG_FILE_SCALAR, "DIR", NULL, "@dir",
     "Send the current directory, or with --sync=DIR another one, to hosts that lack it: there "
     "ranks run in a copy, which goes with the job. Only what has changed since the last job is "
     "sent; files that .gitignore names are not.", BY(sync), .optional = true},
    {"tf-config", NULL, NULL, RG_GROUP_ENV, RG_FILE_BOOL, NULL, NULL, NULL,
     "Set TF_CONFIG, for TensorFlow's own distribution strategies.", FLAG(job.tf_config)},

    {"tag-output", NULL, NULL, RG_GROUP_OUTPUT, RG_FILE_BOOL, NULL, NULL, NULL,
     "Put [rank] in front of each line. This is the default with more than one rank.",
     BY(tag_output)},
    {"no-tag-output", NULL, NULL, RG_GROUP_OUTPUT, RG_FILE_NONE, NULL, NULL, NULL,
     "Show the lines as they are.", BY(no_tag_output)},
    {"timestamp-output", NULL, NULL, RG_GROUP_OUTPUT, RG_FILE_BOOL, NULL, NULL, NULL,
     "Put the time, with its zone, in front of each line.", FLAG(job.timestamps)},
    {"output-dir", "output-filename", NULL, RG_GROUP_OUTPUT, RG_FILE_SCALAR, "DIR", NULL, "@dir",
     "Also write each rank's output to DIR/rank.R/stdout and DIR/rank.R/stderr, byte by byte.",
     TEXT(job.output_dir), .brief = "also write each rank's output to files there"},
    {"ranks", NULL, NULL, RG_GROUP_OUTPUT, RG_FILE_SCALAR, "SET", NULL, NULL,
     "Show only the output of these ranks, such as 0,3-5, or all. Files get all.", BY(ranks)},
    {"json", NULL, NULL, RG_GROUP_OUTPUT, RG_FILE_BOOL, NULL, NULL, NULL,
     "Write events to standard output, one JSON object per line, instead of plain output.",
     FLAG(job.json)},
    {"notify", NULL, NULL, RG_GROUP_OUTPUT, RG_FILE_SCALAR, "COMMAND", NULL, NULL,
     "Run COMMAND by the shell, here, when the job has ended, however that came; its standard "
     "input is the verdict, as --json writes it. It may take 10 s.", TEXT(job.notify)},
    {"metrics", NULL, NULL, RG_GROUP_OUTPUT, RG_FILE_SCALAR, "ADDRESS|FILE", NULL, "@file",
     "Tell Prometheus what each rank does: at http://HOST:PORT/metrics where ADDRESS is HOST:PORT, "
     "or :PORT for this computer alone; or in FILE, which is replaced every 5 s. On Kubernetes at "
     ":PORT of the job's Service.", BY(metrics)},
    {"record", NULL, NULL, RG_GROUP_OUTPUT, RG_FILE_SCALAR, "DIR", NULL, "@dir",
     "Record in DIR, a new folder or one with an older record, what becomes of the job; reigen "
     "report DIR makes a page of it. The launcher writes it, where that runs.", TEXT(job.record)},

    {"stdin", NULL, NULL, RG_GROUP_INPUT, RG_FILE_SCALAR, "RANK|all|none", NULL, "all none 0",
     "Who gets standard input. The default is rank 0.", BY(stdin)},
    {"pty", NULL, NULL, RG_GROUP_INPUT, RG_FILE_BOOL, NULL, NULL, NULL,
     "Give rank 0 a terminal, for debuggers and prompts.", FLAG(job.pty)},
    {"debug-rank", NULL, NULL, RG_GROUP_INPUT, RG_FILE_NONE, "RANK", NULL, "0",
     "Give this rank the terminal, as --pty does, so that breakpoint() and pdb work in it, and let "
     "no rank's time run out meanwhile: --timeout and --deadlock-timeout do not count, and nobody "
     "reports that ranks wait for others.", BY(debug_rank)},

    {"timeout", NULL, NULL, RG_GROUP_TIME, RG_FILE_SCALAR, "TIME", NULL, NULL,
     "End the job after TIME: seconds, or 90s, 30m, 12h. Its exit code is then 124. 0, the "
     "default, is never.", TIME(job.timeout_ms), .brief = "end the job after TIME, such as 2h"},
    {"start-timeout", NULL, NULL, RG_GROUP_TIME, RG_FILE_SCALAR, "TIME", NULL, NULL,
     "Give up when not all ranks have started after TIME. The default is 300 s.",
     BY(start_timeout)},
    {"max-restarts", NULL, NULL, RG_GROUP_TIME, RG_FILE_SCALAR, "N", NULL, NULL,
     "When the job fails, start all of it again, N times at most; each cause is told. Ranks find "
     "in REIGEN_RESTART how often that was. The default is 0.",
     INT(job.max_restarts, 0, RG_JOB_RESTARTS_MAX),
     .brief = "start again when the job fails, N times at most"},
    {"restart-always", NULL, NULL, RG_GROUP_TIME, RG_FILE_BOOL, NULL, NULL, NULL,
     "Start ranks again also when they have failed twice in the same way and got no further "
     "in between. Else that ends the job.", FLAG(job.restart_always),
     .needs = RG_NEEDS_RESTARTS},
    {"grace", NULL, NULL, RG_GROUP_TIME, RG_FILE_SCALAR, "TIME", NULL, NULL,
     "Leave ranks that are told to end TIME before they are killed, and to save their work, if "
     "they ask for that. The default is 5 s.",
     TIME(job.grace_ms)},
    {"deadlock-timeout", NULL, NULL, RG_GROUP_TIME, RG_FILE_SCALAR, "TIME", NULL, NULL,
     "End the job when all ranks have waited for each other, and nothing else has run in them, for "
     "TIME. Its exit code is then 79. The default is 0, never.", TIME(job.deadlock_ms)},
    {"lease", NULL, NULL, RG_GROUP_TIME, RG_FILE_SCALAR, "TIME", NULL, NULL,
     "A host that hears nothing from reigen for TIME ends its ranks, and counts as lost. The "
     "default is 30 s; of elastic jobs 7 s.",
     BY(lease)},
    {"chaos", NULL, NULL, RG_GROUP_TIME, RG_FILE_SCALAR, "EVENTS", NULL, NULL,
     "Let faults happen, to see what becomes of the job: kill:rank=3@step=100 or kill:host=b@30s, "
     "with commas between them; stop and cut, for TIME; slow, for TIME, by TIME; exit, code=N. "
     "kill:random@10s..60s leaves it to chance, and seed=N says to which one.", BY(chaos)},

    {"config", NULL, NULL, RG_GROUP_REIGEN, RG_FILE_NONE, "FILE", NULL, "@file",
     "Read the job from a YAML file, see reigen-job(5). Options override it, wherever they stand. "
     "A job file of OpenPAI's, of API v1 or protocol v2, says itself what runs and how often.",
     TEXT(config), .brief = "read the job from a YAML file"},
    {"profile", NULL, NULL, RG_GROUP_REIGEN, RG_FILE_NONE, "NAME", NULL, "@profile",
     "Use this profile of ~/.config/reigen/config, see reigen config. The default is "
     "REIGEN_PROFILE, else none.",
     TEXT(profile), .brief = "with a profile of your configuration"},
    {"dry-run", NULL, NULL, RG_GROUP_REIGEN, RG_FILE_NONE, NULL, NULL, NULL,
     "Print what would run where, and end: a shell script for ranks on this computer, else a plan.",
     FLAG(job.dry_run), .brief = "print what would run where, and end"},
    {"write-plan", NULL, NULL, RG_GROUP_REIGEN, RG_FILE_NONE, "FILE", NULL, "@file",
     "Write the job into FILE and end: `reigen-agent head --plan FILE` runs it.", TEXT(write_plan)},
    {"display-map", NULL, NULL, RG_GROUP_REIGEN, RG_FILE_BOOL, NULL, NULL, NULL,
     "Print which rank runs where before running.", FLAG(display_map)},
    {"report-bindings", NULL, NULL, RG_GROUP_REIGEN, RG_FILE_BOOL, NULL, NULL, NULL,
     "Print which cores each rank is bound to before running.", FLAG(report_bindings)},
    {"verbose", "v", NULL, RG_GROUP_REIGEN, RG_FILE_BOOL, NULL, NULL, NULL,
     "Say what happens. Given twice, say it in detail.", BY(verbose)},
    {"quiet", "q", NULL, RG_GROUP_REIGEN, RG_FILE_BOOL, NULL, NULL, NULL, "Say nothing but errors.",
     FLAG(quiet)},
    {"help", "h", NULL, RG_GROUP_REIGEN, RG_FILE_NONE, "TOPIC", NULL, NULL, NULL, BY(help),
     .optional = true}, /* see describe_help */
    {"version", "V", NULL, RG_GROUP_REIGEN, RG_FILE_NONE, NULL, NULL, NULL,
     "Print reigen's version and end.", FLAG(version)},

    {"allow-run-as-root", NULL, NULL, RG_GROUP_MPIRUN, RG_FILE_NONE, NULL, NULL, NULL,
     "Accepted; reigen runs as any user.", BY(accepted)},
};

/* --- with those of the platforms -------------------------------------------------------------- */

struct table {
    const struct rg_platform *const *platforms; /* whose options are in it */
    struct rg_option all[OPTIONS_MAX];
    size_t count;
    char names[256], help[1024]; /* of --on */
    char topics[384], topics_help[512]; /* of --help */
    char shared[SHARED_MAX][SHARED_HELP_MAX]; /* the help of options of several platforms */
    size_t nshared;
};

/* What platforms share has one row, whose help is what all of them say. */
static void join_help(struct table *table, struct rg_option *first, const struct rg_option *other)
{
    char *help = table->shared[table->nshared];

    if (table->nshared == SHARED_MAX)
        return;
    table->nshared++;
    snprintf(help, SHARED_HELP_MAX, "%s %s", first->help, other->help);
    first->help = help;
    first->arg = first->arg && strcmp(first->arg, other->arg) != 0 ? "VALUE" : first->arg;
}

static void add_options(struct table *table, const struct rg_option *option)
{
    for (; option && option->name && table->count < OPTIONS_MAX; option++) {
        struct rg_option *same = NULL;
        for (size_t i = 0; i < table->count && !same; i++)
            same = strcmp(table->all[i].name, option->name) == 0 ? &table->all[i] : NULL;
        if (same)
            join_help(table, same, option);
        else
            table->all[table->count++] = *option;
    }
}

static void describe_on(struct table *table, struct rg_option *on)
{
    const struct rg_platform *const *p = table->platforms;
    char list[768] = "";

    *table->names = '\0';
    for (size_t n = 0, used = 0; p[n]; n++) {
        used += (size_t) snprintf(list + used, sizeof(list) - used, "%s%s%s",
                                  !n ? "" : p[n + 1] ? "; " : "; or ", p[n]->name, p[n]->about);
        used = used < sizeof(list) ? used : sizeof(list) - 1;
        size_t length = strlen(table->names);
        snprintf(table->names + length, sizeof(table->names) - length, "%s%s", n ? " " : "",
                 p[n]->name);
    }
    snprintf(table->help, sizeof(table->help), "How hosts are reached: %s. The default is ssh "
             "where a host is not this computer, or there is an image, else local; in the master "
             "of a Helm chart's release it is pods in the place of ssh.", list);
    on->completes = table->names;
    on->help = table->help;
}

static void describe_help(struct table *table, struct rg_option *help)
{
    struct rg_option_topic topics[RG_TOPICS_MAX];
    size_t used = (size_t) snprintf(table->topics, sizeof(table->topics), "all");

    for (size_t i = 0, n = rg_option_topics(topics); i < n && used < sizeof(table->topics); i++)
        used += (size_t) snprintf(table->topics + used, sizeof(table->topics) - used, " %s",
                                  topics[i].name);
    snprintf(table->topics_help, sizeof(table->topics_help), "Print the options that people use "
             "most, or those of TOPIC, and end. TOPIC is one of: %s.", table->topics);
    help->completes = table->topics;
    help->help = table->topics_help;
}

/* The options of platforms stand behind the one that they all share. */
static const struct table *all_options(void)
{
    static struct table table;

    if (table.platforms == rg_platforms())
        return &table;
    table.platforms = rg_platforms();
    table.count = table.nshared = 0;
    for (size_t i = 0; i < rg_array_len(options); i++) {
        struct rg_option *option = &table.all[table.count++];
        *option = options[i];
        if (option->apply == rg_apply_on)
            describe_on(&table, option);
        if (option->apply == rg_apply_help)
            describe_help(&table, option);
        if (strcmp(option->name, "submit") == 0)
            for (size_t k = 0; table.platforms[k]; k++)
                add_options(&table, table.platforms[k]->options);
    }
    return &table;
}

const struct rg_option *rg_options(size_t *ret_count)
{
    const struct table *table = all_options();

    *ret_count = table->count;
    return table->all;
}

const struct rg_option *rg_option_find(const char *name)
{
    const struct table *table = all_options();

    if (!*name || strchr(name, ' '))
        return NULL;
    for (size_t i = 0; i < table->count; i++) {
        if (strcmp(table->all[i].name, name) == 0 || rg_str_has_word(table->all[i].aliases, name))
            return &table->all[i];
    }
    return NULL;
}

int rg_option_names(const char *name, const char *aliases, struct rg_strv *names)
{
    int r = rg_strv_add(names, name);

    for (const char *p = aliases ? aliases : ""; r == 0 && *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, " ");
        r = rg_strv_addf(names, "%.*s", (int) n, p);
        p += n;
    }
    return r;
}

const char *rg_option_key(const struct rg_option *option)
{
    return option->key ? option->key : option->name;
}

int rg_option_keys(struct rg_strv *keys)
{
    const struct table *table = all_options();
    int rc = 0;

    for (size_t i = 0; i < table->count && rc == 0; i++) {
        if (table->all[i].file != RG_FILE_NONE)
            rc = rg_strv_add(keys, rg_option_key(&table->all[i]));
    }
    return rc;
}

const struct rg_option *rg_option_find_key(const char *key)
{
    const struct table *table = all_options();

    for (size_t i = 0; i < table->count; i++) {
        if (table->all[i].file != RG_FILE_NONE && strcmp(rg_option_key(&table->all[i]), key) == 0)
            return &table->all[i];
    }
    return NULL;
}
