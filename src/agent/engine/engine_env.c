/* SPDX-License-Identifier: Apache-2.0 */
/* Each MPI reads how to start its daemons from other variables; here they are told to use reigen
 * rsh, and all who move data to use the job's network. */
#include <string.h>
#include <strings.h>

#include "agent/engine/engine.h"

/* Where a value comes from: the text itself, a file of the job's directory, that file or else the
 * program reigen-rsh of PATH, this job's network as CIDR, or this host's interface in it, that one
 * only where there is no InfiniBand, or with a '=' before it: not all that begin so; or the first
 * of the ports that may be listened on, the last, or both with the text between. Open MPI's ranks
 * give up at a port that its daemon holds, so each kind has a part: how many the ranks have, from
 * the first, and the daemons' range behind them. */
enum from { TEXT, FILE_OF, FILE_OR_PATH, NETWORK, INTERFACE, INTERFACE_IF_ALONE,
            INTERFACE_EXACTLY, PORT_FIRST, PORT_LAST, PORT_RANGE, PORT_COUNT_OF_RANKS,
            PORT_RANGE_OF_DAEMONS };

/* MUST: without it our agents do not come into play, so what an image or a login shell sets is
 * replaced. MAY: our preference, which gives way to what is there. */
enum force { MUST, MAY };

struct setting {
    const char *name;
    enum from from : 8;
    enum force force : 8;
    unsigned matter : 16; /* RG_USER_*: left out where the user speaks of it; 0: none */
    const char *text;
};

static const struct setting settings[] = {
    /* Open MPI 4. Inside an allocation it would take the scheduler's own launcher, silently. */
    { "OMPI_MCA_plm", TEXT, MUST, 0, "rsh" },
    /* Its daemons want the same one, to start further daemons by above 64 hosts, and our directory
     * has another name on each host. plm_rsh_no_tree_spawn would make them leave their sessions,
     * and us blind to their deaths. */
    { "OMPI_MCA_plm_rsh_agent", FILE_OR_PATH, MUST, 0, "rsh" },
    /* The hosts and slots are ours, not the allocation's. */
    { "OMPI_MCA_ras", TEXT, MUST, 0, "^slurm,tm,lsf,gridengine,alps,loadleveler" },
    { "OMPI_MCA_orte_default_hostfile", FILE_OF, MUST, 0, "hosts" },
    /* Root in a container is nobody special. */
    { "OMPI_ALLOW_RUN_AS_ROOT", TEXT, MUST, 0, "1" },
    { "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", TEXT, MUST, 0, "1" },
    /* Training uses threads: bound to one core, they all share it. */
    { "OMPI_MCA_hwloc_base_binding_policy", TEXT, MAY, RG_USER_BINDING, "none" },
    /* Docker gives every host the same docker0 and 172.17.0.1: ranks would call themselves. */
    { "OMPI_MCA_btl_tcp_if_include", NETWORK, MAY, RG_USER_BTL, NULL },
    { "OMPI_MCA_oob_tcp_if_include", NETWORK, MAY, RG_USER_OOB, NULL },
    { "OMPI_MCA_btl_tcp_port_min_v4", PORT_FIRST, MAY, 0, NULL },
    { "OMPI_MCA_btl_tcp_port_range_v4", PORT_COUNT_OF_RANKS, MAY, 0, NULL },
    { "OMPI_MCA_btl_tcp_port_min_v6", PORT_FIRST, MAY, 0, NULL },
    { "OMPI_MCA_btl_tcp_port_range_v6", PORT_COUNT_OF_RANKS, MAY, 0, NULL },
    { "OMPI_MCA_oob_tcp_dynamic_ipv4_ports", PORT_RANGE_OF_DAEMONS, MAY, 0, "-" },
    /* Open MPI 5, whose launcher reads names of its own. */
    { "PRTE_MCA_plm", TEXT, MUST, 0, "ssh" },
    { "PRTE_MCA_plm_ssh_agent", FILE_OR_PATH, MUST, 0, "rsh" },
    { "PRTE_MCA_ras", TEXT, MUST, 0, "^slurm,pbs,lsf,gridengine,flux" },
    { "PRTE_MCA_prte_default_hostfile", FILE_OF, MUST, 0, "hosts" },
    { "PRTE_MCA_hwloc_default_binding_policy", TEXT, MAY, RG_USER_BINDING, "none" },
    { "PRTE_MCA_prte_if_include", NETWORK, MAY, RG_USER_OOB, NULL },
    { "PRTE_MCA_oob_tcp_dynamic_ipv4_ports", PORT_RANGE_OF_DAEMONS, MAY, 0, "-" },
    /* MPICH. The resource manager "user" is none: in an allocation it would call rsh with srun's
     * options. The interface is the first host's: its bare name may mean nothing elsewhere. */
    { "HYDRA_LAUNCHER", TEXT, MUST, 0, "ssh" },
    { "HYDRA_LAUNCHER_EXEC", FILE_OF, MUST, 0, "rsh" },
    { "HYDRA_RMK", TEXT, MUST, 0, "user" },
    { "HYDRA_HOST_FILE", FILE_OF, MUST, 0, "hosts.mpich" },
    { "HYDRA_IFACE", INTERFACE, MAY, 0, NULL },
    { "MPIR_CVAR_CH3_PORT_RANGE", PORT_RANGE, MAY, 0, ":" },
    /* Intel MPI: Hydra as well, with names of its own. */
    { "I_MPI_HYDRA_BOOTSTRAP", TEXT, MUST, 0, "ssh" },
    { "I_MPI_HYDRA_BOOTSTRAP_EXEC", FILE_OF, MUST, 0, "rsh" },
    { "I_MPI_HYDRA_RMK", TEXT, MUST, 0, "user" },
    { "I_MPI_HYDRA_HOST_FILE", FILE_OF, MUST, 0, "hosts.mpich" },
    { "I_MPI_HYDRA_IFACE", INTERFACE, MAY, 0, NULL },
    { "FI_TCP_IFACE", INTERFACE, MAY, 0, NULL },
    { "I_MPI_PORT_RANGE", PORT_RANGE, MAY, 0, ":" },
    /* What carries MPICH's and others' data. */
    { "FI_TCP_PORT_LOW_RANGE", PORT_FIRST, MAY, 0, NULL },
    { "FI_TCP_PORT_HIGH_RANGE", PORT_LAST, MAY, 0, NULL },
    { "UCX_TCP_PORT_RANGE", PORT_RANGE, MAY, 0, "-" },
    /* UCX, under MPICH and often Open MPI, also falls for docker0. It knows one list for all kinds
     * of devices, so it is left alone where there are faster ones. */
    { "UCX_NET_DEVICES", INTERFACE_IF_ALONE, MAY, RG_USER_UCX, NULL },
    /* Ranks without an MPI. An inherited network may be that of a job that we are part of. */
    { "REIGEN_NETWORK", NETWORK, MUST, 0, NULL },
    { "NCCL_SOCKET_IFNAME", INTERFACE_EXACTLY, MAY, RG_USER_NCCL, NULL },
    { "GLOO_SOCKET_IFNAME", INTERFACE, MAY, 0, NULL },
    { "TP_SOCKET_IFNAME", INTERFACE, MAY, 0, NULL },
    /* pdsh runs the ssh of PATH, which is ours. */
    { "PDSH_RCMD_TYPE", TEXT, MAY, 0, "ssh" },
};

bool rg_engine_used(const struct rg_msg_setup *setup)
{
    return setup->engine && *setup->engine && strcmp(setup->engine, "native") != 0;
}

/* --- names ------------------------------------------------------------------------------------ */

/* An engine on the first host would take this name for that host. */
static bool looks_local(const char *name, size_t length, const char *own)
{
    size_t short_length = strcspn(own, ".");

    return (length == 9 && strncasecmp(name, "localhost", 9) == 0) ||
           strncasecmp(name, "localhost.", 10) == 0 || strncmp(name, "127.", 4) == 0 ||
           strncmp(name, "::1:", 4) == 0 ||
           (length && length == strlen(own) && strncasecmp(name, own, length) == 0) ||
           (length && length == short_length && strncasecmp(name, own, length) == 0);
}

/* Only an agent on the first host knows that host's own name, and only engines there look at it. */
int rg_engine_hosts(const struct rg_msg_setup *setup, struct rg_strv *hosts)
{
    char own[256] = "";
    int r = 0;

    if (setup->tasks.count)
        return rg_strv_add_all(hosts, setup->tasks.v);
    if (setup->host_index != 0 || gethostname(own, sizeof(own) - 1) < 0)
        own[0] = '\0';
    for (size_t i = 0; r == 0 && i < setup->hosts.count; i++) {
        const char *entry = setup->hosts.v[i], *colon = strrchr(entry, ':');
        if (i > 0 && colon && looks_local(entry, (size_t) (colon - entry), own))
            r = rg_strv_addf(hosts, RG_ENGINE_ALIAS "%zu%s", i, colon);
        else
            r = rg_strv_add(hosts, entry);
    }
    return r;
}

static int set_hostlist(const struct rg_msg_setup *setup, struct rg_strv *env)
{
    rg_autostrv struct rg_strv hosts = RG_STRV_INIT;
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    int r = rg_engine_hosts(setup, &hosts);

    for (size_t i = 0; i < hosts.count; i++)
        rg_buf_printf(&text, "%s%s", i ? "," : "", hosts.v[i]);
    return r < 0 ? r : rg_env_set(env, "hostlist", rg_buf_text(&text));
}

/* --- variables -------------------------------------------------------------------------------- */

static bool user_sets(const struct rg_msg_setup *setup, const char *name)
{
    return rg_env_get(&setup->env, name) || rg_env_get(&setup->secret_env, name);
}

static int set_ports(const struct rg_msg_setup *setup, const struct setting *s,
                     struct rg_strv *env)
{
    const char *range = rg_env_get(&setup->env, "REIGEN_PORT_RANGE");
    struct rg_ports ports;

    if (!range || rg_parse_ports("ports", range, &ports, NULL) < 0 || user_sets(setup, s->name) ||
        rg_env_get(env, s->name))
        return 0;
    int count = rg_ports_count(&ports), daemons = count > 4 ? count / 4 : 1;
    int ranks = count > 1 ? count - daemons : 1;

    if (s->from == PORT_RANGE || s->from == PORT_RANGE_OF_DAEMONS)
        return rg_env_setf(env, s->name, "%d%s%d", s->from == PORT_RANGE ? ports.first
                                                   : ports.last - daemons + 1, s->text, ports.last);
    return rg_env_setf(env, s->name, "%d", s->from == PORT_FIRST  ? ports.first
                                           : s->from == PORT_LAST ? ports.last : ranks);
}

static int set_one(const struct rg_msg_setup *setup, const struct setting *s, const char *job_dir,
                   unsigned users, struct rg_strv *env)
{
    const char *value = s->from == NETWORK ? setup->network
                        : s->from >= INTERFACE ? setup->interface : s->text;

    if (s->from >= PORT_FIRST)
        return set_ports(setup, s, env);
    bool in_dir = s->from == FILE_OF || s->from == FILE_OR_PATH;

    if (!value || !*value || (in_dir && !*job_dir) || user_sets(setup, s->name) ||
        (s->force == MAY && rg_env_get(env, s->name)) || (s->matter & users) ||
        (s->from == INTERFACE_IF_ALONE && access("/sys/class/infiniband", F_OK) == 0))
        return 0;
    if (!in_dir)
        return rg_env_setf(env, s->name, "%s%s", s->from == INTERFACE_EXACTLY ? "=" : "", value);
    return rg_env_setf(env, s->name, "%s/%s%s", job_dir, value,
                       s->from == FILE_OR_PATH ? ":reigen-rsh" : "");
}

/* What an engine starts finds our links named rsh and ssh first: pdsh and others run ssh by its
 * name. Ranks of ours may mean the real one. */
static int set_path(const struct rg_msg_setup *setup, const char *job_dir, struct rg_strv *env)
{
    const char *old = rg_env_get(env, "PATH");
    const char *path = old ? old : "/usr/local/bin:/usr/bin:/bin";
    rg_autofree char *value = rg_engine_used(setup) ? rg_strf("%s:%s", job_dir, path)
                                                    : rg_strf("%s:%s", path, job_dir);

    return value ? rg_env_set(env, "PATH", value) : -ENOMEM;
}

int rg_engine_env(const struct rg_msg_setup *setup, const char *job_dir, unsigned users,
                  struct rg_strv *env)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < rg_array_len(settings); i++)
        r = set_one(setup, &settings[i], job_dir, users, env);
    if (r == 0 && rg_engine_used(setup) && !user_sets(setup, "hostlist"))
        r = set_hostlist(setup, env);
    if (r == 0 && *job_dir)
        r = set_path(setup, job_dir, env);
    return r;
}
