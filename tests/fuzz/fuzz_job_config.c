/* SPDX-License-Identifier: Apache-2.0 */
/* The user's configuration, and its values in a request. Options that read files are left out. */
#include "fuzz.h"
#include "job/config/config.h"
#include "job/request/request.h"
#include "platform/drivers.h"

static void apply_all(const struct rg_config *config)
{
    for (int i = RG_CONFIG_DEFAULTS; i < (int) config->profiles.count; i++) {
        struct rg_error err = RG_ERROR_INIT;
        struct rg_request request;
        rg_request_init(&request);
        if (rg_config_apply(config, i, &request, &err) < 0)
            must(err.errnum == ENOMEM || rg_str_starts(err.text, "config:"));
        must(request.source == RG_FROM_LINE && request.job.np >= 0);
        rg_request_fini(&request);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct rg_config config = RG_CONFIG_INIT;
    struct rg_error err = RG_ERROR_INIT;

    rg_drivers_init();
    config.path = strdup("config");
    config.found = true;
    int rc = rg_config_parse(&config, "config", (const char *) data, nbytes, &err);
    must(rc == 0 || err.errnum == ENOMEM || rg_str_starts(err.text, "config:"));
    must(config.count <= RG_CONFIG_ENTRIES_MAX);
    bool files = false;
    for (size_t i = 0; i < config.count; i++) {
        const struct rg_config_entry *e = &config.entries[i];
        const char *kind = e->option->completes;
        files |= kind && strcmp(kind, "@file") == 0;
        must(*e->value && e->line >= 1 && e->profile < (int) config.profiles.count);
    }
    if (rc == 0 && !files)
        apply_all(&config);
    rg_config_fini(&config);
    return 0;
}
