/* SPDX-License-Identifier: Apache-2.0 */
/* The way between simulated hosts: each packet arrives later, and no faster than the line carries.
 *
 * usage: line DELAY_US RATE_MBIT PID...      RATE_MBIT 0: no limit
 *
 * PID... are processes of the hosts whose last two bytes of the address are 0.1, 0.2, ...: the
 * first of them is that of host 1. Each host's iptables hands what arrives to its NFQUEUE 0. The
 * kernel keeps the packets, whole ones of up to 64 KiB, and this program only says when they go on,
 * so that no byte of them is copied for it. (netem would do all this, but is not in every kernel.)
 *
 * A host has one cable to a switch. A packet takes its own time on the sender's cable and, at the
 * same time, on the receiver's, behind what is there already; then it is under way for the delay.
 * Prints "ready", and ends when its standard input does. The queues then let all pass at once.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HOSTS_MAX 1024
/* Packets under way to one host: 64 Ki of them are some 4 GiB in pieces of 64 KiB. */
#define UNDER_WAY 65536u
#define RECEIVE_NBYTES (32 << 20)
/* What a segment of TCP holds, and what Ethernet, IP and TCP put before it. */
#define SEGMENT_NBYTES 1448
#define HEADER_NBYTES 66
#define HEAD_NBYTES 20
/* A packet that the clock says is older than this was stamped before the clock was set. */
#define AGE_NS_MAX 20000000
#define LATE_NS_MAX 40000

struct packet {
    uint32_t id;
    int64_t due_ns;
};

struct host {
    int fd;
    struct packet *under_way;
    uint32_t first, last; /* those from first to before last, by & (UNDER_WAY - 1) */
    int64_t sends_until_ns, receives_until_ns;
};

static struct host hosts[HOSTS_MAX];
static int nhosts;
static int64_t delay_ns;
static double ns_per_byte;

static void die(const char *what)
{
    fprintf(stderr, "line: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---------------------------------------------------------------------------- netlink */

struct request {
    struct nlmsghdr head;
    struct nfgenmsg queue;
    char attributes[64];
};

static void add(struct request *r, uint16_t type, const void *value, uint16_t nbytes)
{
    struct nlattr *a = (void *)((char *)r + NLMSG_ALIGN(r->head.nlmsg_len));

    a->nla_type = type;
    a->nla_len = (uint16_t)(NLA_HDRLEN + nbytes);
    memcpy((char *)a + NLA_HDRLEN, value, nbytes);
    r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + NLA_ALIGN(a->nla_len);
}

static struct request make(int message, int flags)
{
    struct request r = {
        .head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
                 .nlmsg_type = (uint16_t)(NFNL_SUBSYS_QUEUE << 8 | message),
                 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)},
        .queue = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0},
    };
    return r;
}

static void configure(int fd, uint16_t type, const void *value, uint16_t nbytes)
{
    struct request r = make(NFQNL_MSG_CONFIG, NLM_F_ACK);
    char answer[512];

    add(&r, type, value, nbytes);
    if (type == NFQA_CFG_FLAGS)
        add(&r, NFQA_CFG_MASK, value, nbytes);
    if (send(fd, &r, r.head.nlmsg_len, 0) < 0 || recv(fd, answer, sizeof answer, 0) < 0)
        die("netlink");
    const struct nlmsghdr *head = (void *)answer;
    const struct nlmsgerr *error = NLMSG_DATA(head);
    if (head->nlmsg_type == NLMSG_ERROR && error->error) {
        errno = -error->error;
        die("NFQUEUE");
    }
}

/* The queue of the network name space that this program is in. */
static int open_queue(void)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER), on = 1;
    int stamps = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), nbytes = RECEIVE_NBYTES;
    struct nfqnl_msg_config_cmd bind = {.command = NFQNL_CFG_CMD_BIND};
    struct nfqnl_msg_config_params params = {htonl(HEAD_NBYTES), NFQNL_COPY_PACKET};
    uint32_t length = htonl(UNDER_WAY - 1);
    uint32_t flags = htonl(NFQA_CFG_F_GSO);

    /* While a socket asks for time stamps, and be it another, the kernel stamps what arrives. */
    if (fd < 0 || stamps < 0 || setsockopt(stamps, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on))
        die("socket");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &nbytes, sizeof nbytes))
        die("SO_RCVBUFFORCE");
    configure(fd, NFQA_CFG_CMD, &bind, sizeof bind);
    configure(fd, NFQA_CFG_PARAMS, &params, sizeof params);
    configure(fd, NFQA_CFG_QUEUE_MAXLEN, &length, sizeof length);
    configure(fd, NFQA_CFG_FLAGS, &flags, sizeof flags);
    return fd;
}

static void enter(const char *pid)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        die(path);
    close(fd);
}

/* ---------------------------------------------------------------------------- packets */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When it is there, by the cables' state; which changes. */
static int64_t arrival(struct host *to, const uint8_t *head, int64_t sent_ns)
{
    unsigned nbytes = (unsigned)head[2] << 8 | head[3];
    unsigned number = (unsigned)head[14] << 8 | head[15];
    double wire = nbytes + (double)HEADER_NBYTES * (double)(nbytes / SEGMENT_NBYTES);
    int64_t takes_ns = (int64_t)(wire * ns_per_byte);

    if (number >= 1 && number <= (unsigned)nhosts) {
        struct host *from = &hosts[number - 1];
        sent_ns = later(sent_ns, from->sends_until_ns);
        from->sends_until_ns = sent_ns + takes_ns;
    }
    to->receives_until_ns = later(sent_ns, to->receives_until_ns) + takes_ns;
    return to->receives_until_ns + delay_ns;
}

/* How long ago it came, by the kernel's stamp on it. */
static int64_t age(const struct nfqnl_msg_packet_timestamp *stamp, int64_t real_ns)
{
    uint64_t parts[2];

    memcpy(parts, stamp, sizeof parts);
    int64_t ns = real_ns - (int64_t)(be64toh(parts[0]) * 1000000000ULL + be64toh(parts[1]) * 1000);
    return ns > 0 && ns < AGE_NS_MAX ? ns : 0;
}

static void accept_packet(struct host *h, const struct nlmsghdr *head, int64_t now_ns,
                          int64_t real_ns)
{
    const uint8_t *ip = NULL;
    int64_t age_ns = 0;
    uint32_t id = 0;
    int left = (int)head->nlmsg_len - (int)NLMSG_LENGTH(sizeof(struct nfgenmsg));

    for (const struct nlattr *a = (void *)((char *)head + NLMSG_LENGTH(sizeof(struct nfgenmsg)));
         left >= NLA_HDRLEN && a->nla_len >= NLA_HDRLEN;
         left -= NLA_ALIGN(a->nla_len), a = (void *)((char *)a + NLA_ALIGN(a->nla_len))) {
        const void *value = (const char *)a + NLA_HDRLEN;
        switch (a->nla_type & NLA_TYPE_MASK) {
        case NFQA_PACKET_HDR:
            id = ntohl(((const struct nfqnl_msg_packet_hdr *)value)->packet_id);
            break;
        case NFQA_TIMESTAMP:
            age_ns = age(value, real_ns);
            break;
        case NFQA_PAYLOAD:
            if (a->nla_len >= NLA_HDRLEN + HEAD_NBYTES)
                ip = value;
            break;
        }
    }
    struct packet *p = &h->under_way[h->last++ & (UNDER_WAY - 1)];
    p->id = id;
    p->due_ns = ip ? arrival(h, ip, now_ns - age_ns) : now_ns + delay_ns;
}

static void take(struct host *h)
{
    char buffer[64 << 10];
    ssize_t n;

    while ((n = recv(h->fd, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
        int64_t now_ns = clock_ns(CLOCK_MONOTONIC), real_ns = clock_ns(CLOCK_REALTIME);
        for (struct nlmsghdr *m = (void *)buffer; NLMSG_OK(m, n); m = NLMSG_NEXT(m, n))
            if (m->nlmsg_type == (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
                accept_packet(h, m, now_ns, real_ns);
    }
}

/* Let all go on that are due. Returns when the next one is, or INT64_MAX. */
static int64_t give(struct host *h)
{
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    uint32_t first = h->first;

    while (h->first != h->last && h->under_way[h->first & (UNDER_WAY - 1)].due_ns <= now_ns)
        h->first++;
    if (h->first != first) {
        uint32_t id = h->under_way[(h->first - 1) & (UNDER_WAY - 1)].id;
        struct nfqnl_msg_verdict_hdr verdict = {htonl(NF_ACCEPT), htonl(id)};
        struct request r = make(NFQNL_MSG_VERDICT_BATCH, 0);
        add(&r, NFQA_VERDICT_HDR, &verdict, sizeof verdict);
        /* -ENOENT only says that it is gone already, with its interface. */
        if (send(h->fd, &r, r.head.nlmsg_len, 0) < 0 && errno != ENOENT)
            die("verdict");
    }
    return h->first == h->last ? INT64_MAX : h->under_way[h->first & (UNDER_WAY - 1)].due_ns;
}

static int64_t give_all(void)
{
    int64_t next_ns = INT64_MAX;

    for (int i = 0; i < nhosts; i++) {
        int64_t ns = give(&hosts[i]);
        next_ns = ns < next_ns ? ns : next_ns;
    }
    return next_ns;
}

/* Sleep until a packet comes or the next one is due. A sleeper is woken late, by some 10 us that
 * differ between machines: by so much less it sleeps, and stays awake for the rest. */
static void wait_for(struct pollfd *fds, int64_t next_ns)
{
    static int64_t late_ns;
    int64_t wait_ns = next_ns == INT64_MAX ? 0 : next_ns - clock_ns(CLOCK_MONOTONIC) - late_ns;
    struct timespec t = {wait_ns > 0 ? wait_ns / 1000000000 : 0,
                         wait_ns > 0 ? wait_ns % 1000000000 : 0};
    int n = ppoll(fds, (nfds_t)nhosts + 1, next_ns == INT64_MAX ? NULL : &t, NULL);

    if (n < 0)
        die("poll");
    if (n == 0 && wait_ns > 0) {
        int64_t late_now_ns = clock_ns(CLOCK_MONOTONIC) - (next_ns - late_ns);
        late_now_ns = late_now_ns < LATE_NS_MAX ? late_now_ns : LATE_NS_MAX;
        late_ns += (late_now_ns - late_ns) / 16;
    }
}

static void carry(void)
{
    static struct pollfd fds[HOSTS_MAX + 1];

    for (int i = 0; i < nhosts; i++)
        fds[i] = (struct pollfd){.fd = hosts[i].fd, .events = POLLIN};
    fds[nhosts] = (struct pollfd){.fd = 0, .events = POLLIN};
    while (!fds[nhosts].revents) {
        wait_for(fds, give_all());
        for (int i = 0; i < nhosts; i++)
            if (fds[i].revents)
                take(&hosts[i]);
    }
}

/* In a cgroup of its own a process may have no real time; in the first one it may. */
static void leave_cgroup(void)
{
    int fd = open("/sys/fs/cgroup/cpu/cgroup.procs", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        if (write(fd, "0", 1) < 0)
            perror("line: cgroup");
        close(fd);
    }
}

/* The packets' times hold only if nothing else comes first. */
static void hurry(void)
{
    struct sched_param first = {.sched_priority = 10};

    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    leave_cgroup();
    if (sched_setscheduler(0, SCHED_FIFO, &first) && nice(-20) == -1)
        fputs("line: no right to go before other processes; delays will be longer\n", stderr);
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc - 3 > HOSTS_MAX) {
        fputs("usage: line DELAY_US RATE_MBIT PID...\n", stderr);
        return 2;
    }
    delay_ns = (int64_t)(strtod(argv[1], NULL) * 1000);
    double mbit = strtod(argv[2], NULL);
    ns_per_byte = mbit > 0 ? 8000 / mbit : 0;
    nhosts = argc - 3;
    for (int i = 0; i < nhosts; i++) {
        enter(argv[i + 3]);
        hosts[i].fd = open_queue();
        hosts[i].under_way = calloc(UNDER_WAY, sizeof(struct packet));
        if (!hosts[i].under_way)
            die("memory");
    }
    hurry();
    puts("ready");
    fflush(stdout);
    carry();
    return 0;
}
