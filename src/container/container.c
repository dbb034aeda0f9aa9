/* SPDX-License-Identifier: Apache-2.0 */
#include "container/container.h"

#include <stdlib.h>

void rg_container_init(struct rg_container *container)
{
    *container = (struct rg_container){ .pull = RG_PULL_MISSING, .inject = RG_INJECT_AUTO };
}

void rg_container_fini(struct rg_container *container)
{
    free(container->image);
    free(container->runtime);
    free(container->gpus);
    free(container->network);
    free(container->user);
    rg_strv_fini(&container->mounts);
    rg_strv_fini(&container->options);
    rg_container_init(container);
}
