/* SPDX-License-Identifier: Apache-2.0 */
/* The findings are shown in three ways: to people, in lines for scripts, and as JSON. */
#include "cmd/doctor/doctor_print.h"

#include <stdio.h>
#include <string.h>

#include "base/say.h"
#include "head/console/json.h"
#include "head/console/words.h"

#define LEVEL 7 /* where the name of a finding's check begins */

static const char *host_name(const struct rg_doctor_input *found, int host)
{
    if (host >= found->nhosts)
        return found->unstarted[host - found->nhosts].name;
    return host < 0 ? "-" : found->hosts[host].name;
}

void rg_doctor_print_plain(const struct rg_doctor_input *found, const struct rg_findings *findings,
                           struct rg_buf *text)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct rg_finding *f = &findings->v[i];
        rg_shown_printf(text, "%s\t%s\t%s\t%s\t%s\n", rg_finding_level_name(f->level),
                        host_name(found, f->host), f->check, f->value, f->remedy);
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *list_hosts(const struct rg_doctor_input *found)
{
    json_t *list = json_array();

    for (int h = 0; h < found->nhosts; h++) {
        const struct rg_doctor_host *host = &found->hosts[h];
        json_t *addresses = json_array();
        for (size_t i = 0; i < host->addresses->count; i++)
            json_array_append_new(addresses, rg_json_text(host->addresses->v[i]));
        json_array_append_new(
            list, json_pack("{s:o, s:i, s:o, s:f, s:f}", "name", rg_json_text(host->name), "ranks",
                            host->nranks, "addresses", addresses, "clock_ms",
                            (double) host->clock_ns / 1e6, "clock_bound_ms",
                            (double) host->clock_bound_ns / 1e6));
    }
    return list;
}

static json_t *list_unstarted(const struct rg_doctor_input *found)
{
    json_t *list = json_array();

    for (int i = 0; i < found->nunstarted; i++)
        json_array_append_new(list, json_pack("{s:o, s:o}", "name",
                                              rg_json_text(found->unstarted[i].name), "cause",
                                              rg_json_text(found->unstarted[i].cause)));
    return list;
}

static json_t *settings_of(const struct rg_finding *f)
{
    json_t *map = json_object();

    for (size_t i = 0; i < f->settings.count; i++) {
        rg_autofree char *name = strdup(f->settings.v[i]);
        char *value = name ? strchr(name, '=') : NULL;
        if (!value)
            continue;
        *value = '\0';
        json_object_set_new(map, name, rg_json_text(value + 1));
    }
    return map;
}

static json_t *list_findings(const struct rg_doctor_input *found,
                             const struct rg_findings *findings)
{
    json_t *list = json_array();

    for (size_t i = 0; i < findings->count; i++) {
        const struct rg_finding *f = &findings->v[i];
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:s, s:o, s:o, s:o}", "host",
                            f->host < 0 ? json_null() : rg_json_text(host_name(found, f->host)),
                            "check", f->check, "level", rg_finding_level_name(f->level), "value",
                            rg_json_text(f->value), "remedy", rg_json_text(f->remedy), "settings",
                            settings_of(f)));
    }
    return list;
}

static json_t *list_tries(const struct rg_doctor_input *found)
{
    json_t *list = json_array();
    size_t count = 0;
    const struct rg_network_probe *all =
        found->network ? rg_network_all(found->network, &count) : NULL;

    for (size_t i = 0; i < count; i++) {
        bool reached = all[i].state == RG_PROBE_REACHED;
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:o, s:o, s:b, s:o, s:s}", "from",
                            rg_json_text(host_name(found, all[i].from)), "to",
                            rg_json_text(host_name(found, all[i].to)), "address",
                            rg_json_text(all[i].address), "interface",
                            rg_json_text(all[i].interface), "reached", reached, "rtt_ms",
                            reached ? json_real(all[i].rtt_us / 1e3) : json_null(), "error",
                            reached ? "" : rg_network_explain(all[i].errnum)));
    }
    return list;
}

void rg_doctor_print_json(const struct rg_doctor_input *found, const struct rg_findings *findings,
                          struct rg_buf *text)
{
    bool ok = true;

    for (size_t i = 0; i < findings->count; i++)
        ok = ok && findings->v[i].level != RG_FINDING_FAIL;
    json_t *all = json_pack("{s:i, s:b, s:s, s:o, s:o, s:o, s:o}", "schema", RG_DOCTOR_SCHEMA,
                            "ok", ok, "network",
                            found->network ? rg_network_cidr(found->network) : "",
                            "hosts", list_hosts(found), "unstarted", list_unstarted(found),
                            "findings",
                            list_findings(found, findings), "reach", list_tries(found));
    rg_json_put(text, all, JSON_INDENT(2));
}

/* --- for people ------------------------------------------------------------------------------- */

static bool is_shown(const struct rg_finding *f, bool all)
{
    return all || f->level != RG_FINDING_OK;
}

/* Where values begin: behind the longest name of a check that is shown. */
static int left_of(const struct rg_findings *findings, bool all)
{
    int width = 0;

    for (size_t i = 0; i < findings->count; i++) {
        int n = (int) strlen(findings->v[i].check);
        width = is_shown(&findings->v[i], all) && n > width ? n : width;
    }
    return LEVEL + width + 2;
}

static void print_finding(const struct rg_finding *f, bool colour, int left, int columns,
                          struct rg_buf *text)
{
    static const char *const colours[] = { "\033[32m", "\033[33m", "\033[1;31m" };
    rg_autobuf struct rg_buf body = RG_BUF_INIT;

    rg_buf_printf(text, "  ");
    if (colour)
        rg_buf_put(text, colours[f->level], strlen(colours[f->level]));
    rg_shown_printf(text, "%-4s", rg_finding_level_name(f->level));
    rg_buf_printf(text, colour ? "\033[0m" : "");
    rg_shown_printf(text, " %-*s", left - LEVEL, f->check);
    rg_wrap(&body, f->value, left, columns);
    const char *value = rg_buf_text(&body);
    rg_shown_printf(text, "%s", strlen(value) > (size_t) left ? value + left : "\n");
    if (!*f->remedy)
        return;
    rg_autofree char *remedy = rg_strf("-> %s", f->remedy);
    rg_wrap(text, remedy ? remedy : "", left, columns);
}

void rg_doctor_print_summary(const struct rg_findings *findings, bool hint, struct rg_buf *text)
{
    int n[3] = { 0 };

    for (size_t i = 0; i < findings->count; i++)
        n[findings->v[i].level]++;
    rg_shown_printf(text, "%d ok%s, %d warning%s, %d failure%s\n", n[RG_FINDING_OK],
                    !hint || !n[RG_FINDING_OK] ? ""
                    : n[RG_FINDING_OK] == 1 ? " (-v lists it)" : " (-v lists them)",
                    n[RG_FINDING_WARN], n[RG_FINDING_WARN] == 1 ? "" : "s",
                    n[RG_FINDING_FAIL], n[RG_FINDING_FAIL] == 1 ? "" : "s");
}

/* What is well of one host, or what is not. */
static void print_host(const struct rg_doctor_input *found, const struct rg_findings *findings,
                       int host, bool ok, bool colour, int left, int columns, struct rg_buf *text)
{
    bool told = false;

    for (size_t i = 0; i < findings->count; i++) {
        const struct rg_finding *f = &findings->v[i];
        if (f->host != host || (f->level == RG_FINDING_OK) != ok)
            continue;
        if (!told)
            rg_shown_printf(text, "%s%s\n", rg_buf_nbytes(text) ? "\n" : "",
                            host < 0 ? "together" : host_name(found, host));
        told = true;
        print_finding(f, colour, left, columns, text);
    }
}

void rg_doctor_print_table(const struct rg_doctor_input *found, const struct rg_findings *findings,
                           bool all, bool colour, int columns, struct rg_buf *text)
{
    int nhosts = found->nhosts + found->nunstarted, left = left_of(findings, all);

    for (int ok = all; ok >= 0; ok--) {
        for (int h = 0; h <= nhosts; h++)
            print_host(found, findings, h < nhosts ? h : -1, ok, colour, left, columns, text);
    }
    rg_buf_printf(text, rg_buf_nbytes(text) ? "\n" : "");
    rg_doctor_print_summary(findings, !all, text);
}
