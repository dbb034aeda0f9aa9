/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that describe a container: what is taken can be said again, and then means the same. */
#include "container/container.h"
#include "fuzz.h"

static void parse(struct rg_container *container, const char *text)
{
    char *copy = strdup(text), *rest;

    must(copy != NULL);
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        struct rg_error err = RG_ERROR_INIT;
        const size_t skip = sizeof(RG_CONTAINER_LINE) - 1;
        if (strncmp(line, RG_CONTAINER_LINE, skip) == 0)
            line += skip;
        must(rg_container_parse(container, line, &err) == 0 || *err.text);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    static char text[RG_CONTAINER_TEXT_MAX / 4];
    struct rg_container first = { 0 }, second = { 0 };
    struct rg_buf one = RG_BUF_INIT, two = RG_BUF_INIT;

    parse(&first, text_of(data, nbytes, text, sizeof(text)));
    must(rg_container_format(&first, &one) == 0);
    parse(&second, rg_buf_text(&one));
    must(rg_container_format(&second, &two) == 0);
    must(strcmp(rg_buf_text(&one), rg_buf_text(&two)) == 0);
    for (size_t i = 0; i < first.mounts.count; i++) {
        char *source = NULL, *target = NULL;
        bool read_only;
        if (rg_container_split_mount(first.mounts.v[i], &source, &target, &read_only, NULL) == 0)
            must(*source && *target == '/');
        free(source);
        free(target);
    }
    rg_buf_fini(&one);
    rg_buf_fini(&two);
    rg_container_fini(&first);
    rg_container_fini(&second);
    return 0;
}
