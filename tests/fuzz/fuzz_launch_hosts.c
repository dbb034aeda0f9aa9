/* SPDX-License-Identifier: Apache-2.0 */
/* What agents say of their hosts: addresses, outcomes of tries, and what their doctors found. Lines
 * "0 TEXT" to "2 TEXT" are addresses of three hosts, "! DIGITS" are outcomes, "= TEXT" are
 * --network-interface, "? WORD" is required, all others are facts. Whatever stands there, a network
 * is one that every host has, and each finding has a remedy unless it is well. */
#include <string.h>

#include "fuzz.h"
#include "base/buf.h"
#include "launch/doctor/doctor.h"
#include "job/require.h"

#define HOSTS 3
#define LINES_MAX 200

struct told {
    struct rg_strv addresses[HOSTS], wanted, required;
    struct rg_buf facts;
    const char *outcomes;
};

static void read_lines(char *text, struct told *told)
{
    int n = 0;

    for (char *line; (line = strsep(&text, "\n")) && n < LINES_MAX; n++) {
        bool tagged = *line && line[1] == ' ';
        if (tagged && *line >= '0' && *line < '0' + HOSTS)
            rg_strv_add(&told->addresses[*line - '0'], line + 2);
        else if (tagged && *line == '!')
            told->outcomes = line + 2;
        else if (tagged && *line == '=')
            rg_strv_add(&told->wanted, line + 2);
        else if (tagged && *line == '?')
            rg_strv_add(&told->required, line + 2);
        else
            rg_buf_printf(&told->facts, "%s\n", line);
    }
}

/* One outcome after the other, each host's in its order; 0 reached, others fail. */
static void tell_outcomes(struct rg_network *network, const char *outcomes)
{
    size_t count;
    const struct rg_network_probe *all = rg_network_all(network, &count);
    uint32_t index[HOSTS] = { 0 };

    for (size_t i = 0; i < count; i++) {
        int from = all[i].from;
        int errnum = outcomes && *outcomes ? (*outcomes++ - '0') & 127 : 0;
        must(all[i].from != all[i].to);
        must(rg_network_probed(network, from, index[from]++, errnum, 1) == 0);
    }
    must(rg_network_probed(network, 0, index[0], 0, 1) == -EBADMSG);
}

static void look_at_findings(const struct rg_doctor_input *input)
{
    struct rg_findings findings;
    struct rg_error err = RG_ERROR_INIT;

    must(rg_doctor_judge(input, &findings) == 0);
    for (size_t i = 0; i < findings.count; i++) {
        const struct rg_finding *f = &findings.v[i];
        must(f->host >= -1 && f->host < HOSTS && *f->check);
        must((f->level == RG_FINDING_OK) == !*f->remedy);
    }
    rg_findings_fini(&findings);
    int r = rg_doctor_require(input, &err);
    must(r == 0 || *err.text);
}

static void examine(const struct told *told, bool all_pairs)
{
    struct rg_network_host from[HOSTS];
    struct rg_doctor_host hosts[HOSTS];
    static const char *const names[HOSTS] = { "a", "b", "c" };
    struct rg_network *network = NULL;
    struct rg_error err = RG_ERROR_INIT;

    for (int h = 0; h < HOSTS; h++) {
        from[h] = (struct rg_network_host){ names[h], "boot", 1 + (uint64_t) h, 1, 1,
                                            &told->addresses[h] };
        hosts[h] = (struct rg_doctor_host){ .name = names[h], .nranks = h,
                                            .facts = rg_buf_text((struct rg_buf *) &told->facts),
                                            .addresses = &told->addresses[h] };
    }
    int r = rg_network_create(from, HOSTS, &told->wanted, all_pairs, &network, &err);
    must(r == 0 || (r == -ENODEV && told->wanted.count && *err.text));
    if (r == 0) {
        tell_outcomes(network, told->outcomes);
        r = rg_network_decide(network, false, &err);
        must(r == 1 || (r == -EHOSTUNREACH && *err.text));
        for (int h = 0; h < HOSTS && r == 1; h++)
            must(*rg_network_interface(network, h) || *rg_network_address(network, h));
    }
    struct rg_doctor_input input = { .hosts = hosts, .nhosts = HOSTS, .contained = all_pairs,
                                     .network = network, .network_err = &err,
                                     .required = &told->required };
    look_at_findings(&input);
    rg_network_destroy(network);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    rg_autofree char *text = malloc(nbytes + 1);
    struct told told = { .facts = RG_BUF_INIT };

    if (!text)
        return 0;
    memcpy(text, data, nbytes);
    text[nbytes] = '\0';
    read_lines(text, &told);
    rg_buf_text(&told.facts);
    examine(&told, false);
    examine(&told, true);
    for (int h = 0; h < HOSTS; h++)
        rg_strv_fini(&told.addresses[h]);
    rg_strv_fini(&told.wanted);
    rg_strv_fini(&told.required);
    rg_buf_fini(&told.facts);
    return 0;
}
