/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables let Intel MPI use what a host has. Up to 2018 it speaks DAPL, whose providers
 * /etc/dat.conf lists; from 2019 on libfabric (OFI), with a provider of its own for UCX from update
 * 5 on. Facts: Intel MPI Library Developer Reference, "Communication Fabrics Control" of 5.1, 2018
 * and 2021. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/doctor/doctor_facts.h"

#define FIRST_OFI 2019
#define FIRST_MLX_UPDATE 5
#define USUAL_DAPL "ofa-v2-ib0"

/* "2019.5", "5.1.3": the numbers before and behind the first dot. False: it is no Intel MPI, or
 * its version is not known. */
static bool version_of(const char *facts, char ret_text[RG_FACT_MAX], long *ret_major,
                       long *ret_minor)
{
    char value[RG_FACT_MAX], *end;

    if (!rg_fact_find(facts, "mpi", 0, value) || !strstr(value, "Intel(R) MPI"))
        return false;
    const char *text = strstr(value, "Version ");
    if (!text || (*ret_major = strtol(text + 8, &end, 10)) <= 0)
        return false;
    *ret_minor = *end == '.' ? strtol(end + 1, &end, 10) : 0;
    /* "2019 Update 5 Build ..." was written before "2019.5" was. */
    if (rg_str_starts(end, " Update "))
        *ret_minor = strtol(end + 8, &end, 10);
    snprintf(ret_text, RG_FACT_MAX, "%.*s", (int) strcspn(text + 8, " "), text + 8);
    return true;
}

/* The name of the first device that is up and can be reached from here; false: none. */
static bool active_device(const char *facts, char ret_name[RG_FACT_MAX])
{
    uint64_t ndevices = 0;

    rg_fact_numbers(facts, "rdma-devices", 1, &ndevices);
    for (int i = 0; ndevices && rg_fact_find(facts, "rdma", i, ret_name); i++) {
        if (strstr(ret_name, "ACTIVE")) {
            ret_name[strcspn(ret_name, " ")] = '\0';
            return true;
        }
    }
    return false;
}

/* The usual provider, where it is listed; else the first. False: none is. */
static bool dapl_provider(const char *facts, char ret_name[RG_FACT_MAX])
{
    for (int i = 0; rg_fact_find(facts, "dapl", i, ret_name); i++) {
        if (strcmp(ret_name, USUAL_DAPL) == 0)
            return true;
    }
    return rg_fact_find(facts, "dapl", 0, ret_name);
}

/* NULL: the provider of such a device is not known, and libfabric's own choice is better. */
static const char *ofi_provider(const char *facts, const char *device, long major, long minor)
{
    static const char *const by_verbs[] = { "mlx", "irdma", "i40iw", "bnxt_re", "rxe", "siw" };
    bool has_mlx = major > FIRST_OFI || minor >= FIRST_MLX_UPDATE;

    if (!device)
        return "tcp";
    if (rg_str_starts(device, "mlx") && has_mlx && rg_fact_has(facts, "ucx"))
        return "mlx";
    for (size_t i = 0; i < rg_array_len(by_verbs); i++) {
        if (rg_str_starts(device, by_verbs[i]))
            return "verbs";
    }
    return rg_str_starts(device, "efa") ? "efa" : NULL;
}

bool rg_doctor_impi(const char *facts, struct rg_impi_advice *ret_advice)
{
    struct rg_impi_advice a = { .settings = RG_STRV_INIT };
    char device[RG_FACT_MAX], provider[RG_FACT_MAX];
    long major, minor;

    if (!version_of(facts, a.version, &major, &minor))
        return false;
    bool rdma = active_device(facts, device);
    if (major >= FIRST_OFI && major != LONG_MAX) {
        rg_strv_add(&a.settings, "I_MPI_FABRICS=shm:ofi");
        const char *ofi = ofi_provider(facts, rdma ? device : NULL, major, minor);
        if (ofi)
            rg_strv_addf(&a.settings, "FI_PROVIDER=%s", ofi);
    } else if (rdma && dapl_provider(facts, provider)) {
        rg_strv_add(&a.settings, "I_MPI_FABRICS=shm:dapl");
        rg_strv_addf(&a.settings, "I_MPI_DAPL_PROVIDER=%s", provider);
    } else {
        rg_strv_add(&a.settings, "I_MPI_FABRICS=shm:tcp");
        a.lacks_dapl = rdma;
    }
    snprintf(a.device, sizeof(a.device), "%.63s", rdma ? device : "");
    *ret_advice = a;
    return true;
}
