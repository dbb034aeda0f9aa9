/* SPDX-License-Identifier: Apache-2.0 */
/* A job on GPUs fails or crawls for reasons that stand in five places: this reads them all. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "launch/doctor/doctor_facts.h"

#define LINKS_MAX 8       /* kinds of links that are told */
#define OLDEST_NCCL 218   /* 2.18: src/coll/gpu/nccl.h */

struct look {
    const char *facts;
    rg_finding_fn *add;
    void *arg;
    int ngpus, nparts; /* that nvidia-smi lists */
};

static rg_printf(5, 6) int say(const struct look *l, const char *check, bool bad,
                               const char *remedy, const char *fmt, ...)
{
    rg_autofree char *text = NULL;
    va_list args;

    va_start(args, fmt);
    int n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        text = NULL;
        return -ENOMEM;
    }
    l->add(l->arg, check, bad ? RG_FINDING_WARN : RG_FINDING_OK, remedy, text);
    return 0;
}

/* --- the GPUs, and their driver --------------------------------------------------------------- */

/* Without nvidia-smi there are at best the device files. */
static int judge_files(struct look *l, const char *absent)
{
    char value[RG_FACT_MAX];
    uint64_t nfiles = 0;

    rg_fact_numbers(l->facts, "gpu", 1, &nfiles);
    unsigned long long n = nfiles;
    if (rg_fact_find(l->facts, "gpu-trouble", 0, value)) {
        bool late = strcmp(value, "late") == 0;
        return say(l, "gpu", late || n, "run nvidia-smi on that host by hand: the driver may "
                   "hang, or not fit its programs; dmesg tells more, and a restart often helps",
                   "%llu device files: nvidia-smi %s", n,
                   late ? "does not come to its end" : "fails");
    }
    if (!rg_fact_has(l->facts, "gpu"))
        return say(l, "gpu", false, "", "%s", absent);
    if (!n)
        return say(l, "gpu", false, "", "none");
    return say(l, "gpu", true, "put nvidia-smi into PATH: the device files are there, the driver's "
               "programs are not (--gpus all brings both)", "%llu device files", n);
}

static int judge_names(struct look *l)
{
    char value[RG_FACT_MAX];
    int r = 0;

    for (int i = 0; r == 0 && rg_fact_find(l->facts, "gpu-name", i, value); i++) {
        const char *name = value + strspn(value, " ");
        bool part = rg_str_starts(name, "MIG ");
        if (!part && !rg_str_starts(name, "GPU "))
            continue;
        l->nparts += part;
        l->ngpus += !part;
        r = say(l, "gpu", false, "", "%s", name);
    }
    return r;
}

/* The item of a list with commas and blanks; "" where there are fewer. */
static void item_of(const char *line, int index, char ret_item[64])
{
    const char *p = line;

    while (index-- > 0)
        p += strcspn(p, ",") + (strchr(p, ',') != NULL);
    p += strspn(p, " ");
    snprintf(ret_item, 64, "%.*s", (int) strcspn(p, ","), p);
}

/* "INDEX, DRIVER, MODE, ERRORS". What a GPU that has fallen off the bus says of itself is in square
 * brackets or is ERR!; so is what a GPU has not, which is N/A. */
static int judge_state(const struct look *l, const char *line)
{
    char index[64], mode[64], errors[64];
    int r = 0;

    item_of(line, 0, index);
    item_of(line, 2, mode);
    item_of(line, 3, errors);
    bool lacks = strstr(errors, "N/A") != NULL || !*errors;
    if (!lacks && strspn(errors, "0123456789") != strlen(errors))
        r = say(l, "gpu-health", true, "look at dmesg for an Xid of this GPU, and restart the host "
                "or take the GPU out; CUDA_VISIBLE_DEVICES leaves it out until then",
                "GPU %s does not answer: %s", index, errors);
    else if (!lacks && strtoull(errors, NULL, 10) > 0)
        r = say(l, "gpu-health", true, "reset the GPU (nvidia-smi --gpu-reset) or restart the "
                "host; if it comes again, have the GPU replaced",
                "GPU %s: %s memory errors that could not be corrected", index, errors);
    if (r == 0 && strcmp(mode, "Enabled") == 0 && !l->nparts)
        r = say(l, "gpu-health", true, "make some (nvidia-smi mig -cgi ... -C), or switch MIG off "
                "(nvidia-smi -mig 0)", "GPU %s is to be used in parts (MIG), and has none", index);
    return r;
}

static int judge_driver(const struct look *l)
{
    char value[RG_FACT_MAX], driver[64];
    int r = 0;

    if (!rg_fact_find(l->facts, "gpu-state", 0, value))
        return 0;
    item_of(value, 1, driver);
    if (*driver)
        r = say(l, "gpu-driver", false, "", "%s", driver);
    for (int i = 0; r == 0 && rg_fact_find(l->facts, "gpu-state", i, value); i++) {
        if (*value)
            r = judge_state(l, value);
    }
    return r;
}

/* --- what was tried on them ------------------------------------------------------------------- */

/* What could not be used; late: a GPU that hangs does not say which it is. */
static int judge_bad(const struct look *l)
{
    static const char remedy[] = "look at nvidia-smi -q and dmesg on that host: another program "
                                 "may have the GPU or its memory, or it has to be reset";
    char value[RG_FACT_MAX], index[16];
    int r = 0;

    for (int i = 0; r == 0 && rg_fact_find(l->facts, "gpu-bad", i, value); i++) {
        const char *text = rg_str_word(value, index, sizeof(index));
        text += strspn(text, " ");
        if (strcmp(text, "late") == 0)
            r = say(l, "gpu-health", true, remedy,
                    "copies to the GPUs do not come to their end");
        else if (strcmp(index, "-") == 0)
            r = say(l, "gpu-health", true, remedy, "the GPUs cannot be used: %s", text);
        else
            r = say(l, "gpu-health", true, remedy, "GPU %s cannot be used: %s", index, text);
    }
    return r;
}

/* Numbers of one GPU's line: its own, MB/s to it and from it. */
static bool copy_of(const struct look *l, int i, uint64_t ret_numbers[3])
{
    char value[RG_FACT_MAX];
    unsigned long long n[3];

    if (!rg_fact_find(l->facts, "gpu-copy", i, value) ||
        sscanf(value, "%llu %llu %llu", &n[0], &n[1], &n[2]) != 3)
        return false;
    for (int k = 0; k < 3; k++)
        ret_numbers[k] = n[k];
    return true;
}

/* GPUs of a host are alike as a rule: one with half the speed has a bad or a narrow link. */
static int judge_copies(const struct look *l)
{
    uint64_t best[3] = { 0 }, n[3];
    int r = 0;

    for (int i = 0; copy_of(l, i, n); i++)
        for (int k = 1; k < 3; k++)
            best[k] = n[k] > best[k] ? n[k] : best[k];
    for (int i = 0; r == 0 && copy_of(l, i, n); i++) {
        bool slow = n[1] < best[1] / 2 || n[2] < best[2] / 2;
        r = say(l, "gpu-copies", slow, "compare the links of the GPUs (nvidia-smi -q -d PCIE, "
                "lspci -vv): one may be narrow or broken, or another program is busy with it",
                "GPU %d: %.1f GB/s to it, %.1f GB/s from it%s", (int) n[0], (double) n[1] / 1e3,
                (double) n[2] / 1e3, slow ? "; another GPU here has more than twice that" : "");
    }
    return r;
}

static int judge_peers(const struct look *l)
{
    uint64_t n[2];

    if (!rg_fact_numbers(l->facts, "gpu-peers", 2, n))
        return 0;
    return say(l, "gpu-peers", false, "", "%llu of %llu ways from one GPU to another's memory are "
               "open", (unsigned long long) n[0], (unsigned long long) n[1]);
}

/* --- NCCL, and the ways of its bytes ---------------------------------------------------------- */

const char *rg_doctor_nccl(const char *facts, char ret_version[RG_FACT_MAX])
{
    char value[RG_FACT_MAX];

    if (rg_fact_package(facts, "nccl", ret_version))
        return "of Python's packages";
    if (!rg_fact_find(facts, "nccl", 0, value))
        return NULL;
    const char *number = strstr(value, ".so.2.");
    snprintf(ret_version, RG_FACT_MAX, "%s", number ? number + strlen(".so.") : value);
    return "of the system";
}

static int judge_nccl(const struct look *l)
{
    char version[RG_FACT_MAX];
    const char *whose = rg_doctor_nccl(l->facts, version);
    unsigned major = 0, minor = 0;

    if (!whose)
        return say(l, "nccl", true, "install PyTorch's build for CUDA, which brings it, or NCCL "
                   "itself (libnccl2); elsewhere REIGEN_NCCL names its file", "not found");
    bool known = sscanf(version, "%u.%u", &major, &minor) == 2;
    return say(l, "nccl", known && major * 100 + minor < OLDEST_NCCL, "install 2.18 or later",
               "%s, %s", version, whose);
}

/* The next word of a line of the matrix; false at its end. */
static bool next_word(const char **p, char ret_word[16])
{
    *p += strspn(*p, " \t?"); /* tabs come as "?": control characters are replaced */
    size_t n = strcspn(*p, " \t?");

    snprintf(ret_word, 16, "%.*s", (int) n, *p);
    *p += n;
    return n > 0;
}

/* Kinds are few: NV18, PIX, PXB, PHB, NODE, SYS. */
static void put_kind(char kinds[LINKS_MAX][16], const char *kind)
{
    int i = 0;

    while (i < LINKS_MAX && *kinds[i] && strcmp(kinds[i], kind) != 0)
        i++;
    if (i < LINKS_MAX)
        snprintf(kinds[i], 16, "%s", kind);
}

static int judge_links(const struct look *l)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char value[RG_FACT_MAX], word[16], kinds[LINKS_MAX][16] = { { 0 } };

    for (int i = 0; rg_fact_find(l->facts, "gpu-topo", i, value); i++) {
        const char *p = value;
        if (!rg_str_starts(value, "GPU") || !next_word(&p, word)) /* the heading is indented */
            continue;
        for (int k = 0; k < l->ngpus && next_word(&p, word); k++) {
            if (strcmp(word, "X") != 0)
                put_kind(kinds, word);
        }
    }
    if (!*kinds[0])
        return 0;
    for (int i = 0; i < LINKS_MAX && *kinds[i]; i++)
        rg_buf_printf(&text, "%s%s", i ? ", " : "", kinds[i]);
    if (rg_buf_status(&text) < 0)
        return -ENOMEM;
    return say(l, "gpu-links", false, "", "among %d GPUs: %s", l->ngpus, rg_buf_text(&text));
}

/* As NCCL chooses where no variable says otherwise. */
static int judge_network(const struct look *l)
{
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    char value[RG_FACT_MAX];
    uint64_t nfiles = 0;

    rg_fact_numbers(l->facts, "rdma-devices", 1, &nfiles);
    for (int i = 0; nfiles && rg_fact_find(l->facts, "rdma", i, value); i++) {
        if (strstr(value, "ACTIVE"))
            rg_buf_printf(&text, "%s%.*s", rg_buf_nbytes(&text) ? ", " : "",
                          (int) strcspn(value, " "), value);
    }
    if (rg_buf_status(&text) < 0)
        return -ENOMEM;
    if (!rg_buf_nbytes(&text))
        return say(l, "gpu-network", false, "", "NCCL takes TCP: no RDMA device is up");
    return say(l, "gpu-network", false, "", "NCCL takes RDMA by %s; nvidia_peermem is %s",
               rg_buf_text(&text), rg_fact_has(l->facts, "peermem")
               ? "loaded: GPUDirect is possible"
               : "not loaded: GPUDirect needs it, or a driver and kernel with DMA-BUF");
}

int rg_doctor_gpus(const char *facts, const char *absent, rg_finding_fn *add, void *arg)
{
    struct look l = { .facts = facts, .add = add, .arg = arg };
    int r = judge_names(&l);

    if (r < 0 || !l.ngpus)
        return r < 0 ? r : judge_files(&l, absent);
    r = judge_driver(&l);
    r = r < 0 ? r : judge_bad(&l);
    r = r < 0 ? r : judge_copies(&l);
    r = r < 0 ? r : judge_peers(&l);
    r = r < 0 ? r : judge_nccl(&l);
    r = r < 0 ? r : judge_links(&l);
    return r < 0 ? r : judge_network(&l);
}
