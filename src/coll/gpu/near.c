/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPU a rank uses is known in the rank alone: a script may choose by its local rank. So the
 * rank binds itself. */
#include "coll/gpu/near.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "coll/gpu/cuda.h"
#include "coll/ground/report.h"

enum { BUS_ID_MAX = 32, LIST_MAX = 4096 };

/* "0-7,16-23"; false: it is none. */
static bool parse_list(const char *text, cpu_set_t *ret_cpus)
{
    char *end;

    CPU_ZERO(ret_cpus);
    while (isdigit((unsigned char) *text)) {
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
            CPU_SET(cpu, ret_cpus);
        text = end + (*end == ',');
    }
    return (*text == '\n' || *text == '\0') && CPU_COUNT(ret_cpus) > 0;
}

static int read_list(const char *sysfs, const char *bus_id, cpu_set_t *ret_cpus,
                     struct rg_error *err)
{
    char address[BUS_ID_MAX] = "", path[512], text[LIST_MAX] = "";
    size_t n = 0;
    FILE *file;

    for (; bus_id[n] && n < sizeof(address) - 1; n++)
        address[n] = (char) tolower((unsigned char) bus_id[n]);
    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/local_cpulist", sysfs, address);
    file = fopen(path, "re");
    if (file) {
        n = fread(text, 1, sizeof(text) - 1, file);
        text[n] = '\0';
        fclose(file);
    }
    if (!parse_list(text, ret_cpus))
        return rg_error_set(err, ENOENT, "%s does not tell which cores are near the GPU", path);
    return 0;
}

static void bind_thread(pid_t thread, const cpu_set_t *near)
{
    cpu_set_t cpus;

    if (sched_getaffinity(thread, sizeof(cpus), &cpus) < 0)
        return;
    CPU_AND(&cpus, &cpus, near);
    if (CPU_COUNT(&cpus) > 0)
        sched_setaffinity(thread, sizeof(cpus), &cpus);
}

int rg_near_bind(const char *sysfs, const char *bus_id, struct rg_error *err)
{
    rg_autodir DIR *threads = NULL;
    cpu_set_t near;
    int r = read_list(sysfs, bus_id, &near, err);

    if (r < 0)
        return r;
    threads = opendir("/proc/self/task");
    if (!threads)
        return rg_error_set(err, errno, "/proc/self/task cannot be read: %s", strerror(errno));
    for (struct dirent *entry; (entry = readdir(threads));)
        if (isdigit((unsigned char) entry->d_name[0]))
            bind_thread((pid_t) atol(entry->d_name), &near);
    return CPU_COUNT(&near);
}

void rg_near_use(int device)
{
    static _Atomic bool done;
    const char *wanted = getenv(RG_NEAR_VARIABLE);
    struct rg_error err = RG_ERROR_INIT;
    char bus_id[BUS_ID_MAX] = "";
    int r;

    if (!wanted || strcmp(wanted, "gpu") != 0 || atomic_exchange(&done, true))
        return;
    rg_cuda_get(NULL)->device_bus_id(bus_id, sizeof(bus_id), device);
    r = rg_near_bind("/sys", bus_id, &err);
    if (r < 0)
        rg_report(RG_LOG_WARN, RG_NEAR_VARIABLE "=gpu: this rank is not bound: %s", err.text);
    else
        rg_report(RG_LOG_INFO, "bound to cores near GPU %d (%s), of which there are %d", device,
                  bus_id, r);
}
