/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we use of libpmix.so.2, which is looked up when the program runs, so that building needs no
 * PMIx: the one that the process has already (an MPI brought it), else the launcher's own, else the
 * system's. There must be one only, as a second copy would be another client.
 *
 * Names, numbers and layouts are those of the Process Management Interface for Exascale
 * (PMIx) Standard, version 4.1, chapters 3 (data structures) and 5 to 7; OpenPMIx has had them
 * since its version 3, and tests/unit/coll/boot/test_boot_store.c compares them with pmix.h where
 * that is installed.
 *
 * Thread rule: the library locks for itself; callbacks come on a thread of its own and must not
 * call its blocking functions. rg_pmix_library_load belongs to the thread in reigen_init, and may
 * read files.
 */
#ifndef RG_COLL_BOOT_PM_PMIX_LIBRARY_H
#define RG_COLL_BOOT_PM_PMIX_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define RG_PMIX_SONAME "libpmix.so.2"
#define RG_PMIX_VERSION_MIN 3
#define RG_PMIX_NSPACE_MAX 256 /* PMIX_MAX_NSLEN + 1 */
#define RG_PMIX_KEY_MAX 512    /* PMIX_MAX_KEYLEN + 1 */
#define RG_PMIX_SUCCESS 0
#define RG_PMIX_ERR_TIMEOUT (-24)
#define RG_PMIX_ERR_LOST_CONNECTION (-61)            /* events: the server is gone, */
#define RG_PMIX_ERR_LOST_CONNECTION_TO_SERVER (-101) /* as version 3 has it */
#define RG_PMIX_EVENT_NO_ACTION_TAKEN (-331)         /* others are told of it too */
#define RG_PMIX_RANK_WILDCARD (UINT32_MAX - 1)
#define RG_PMIX_SCOPE_GLOBAL 3

#define RG_PMIX_JOB_SIZE "pmix.job.size"     /* uint32 */
#define RG_PMIX_LOCAL_PEERS "pmix.lpeers"    /* string: ranks with commas between */
#define RG_PMIX_COLLECT_DATA "pmix.collect"  /* bool */
#define RG_PMIX_TIMEOUT "pmix.timeout"       /* int, seconds */

/* pmix_data_type_t */
enum {
    RG_PMIX_BOOL = 1,
    RG_PMIX_STRING = 3,
    RG_PMIX_INT = 6,
    RG_PMIX_UINT32 = 14,
    RG_PMIX_BYTE_OBJECT = 27,
};

/* pmix_proc_t */
struct rg_pmix_proc {
    char nspace[RG_PMIX_NSPACE_MAX];
    uint32_t rank;
};

/* pmix_value_t; pad is as large as the largest member of the union. */
struct rg_pmix_value {
    uint16_t type;
    union {
        bool flag;
        int integer;
        uint32_t uint32;
        char *string;
        struct {
            char *bytes;
            size_t size;
        } bo;
        char pad[24];
    } data;
};

/* pmix_info_t */
struct rg_pmix_info {
    char key[RG_PMIX_KEY_MAX];
    uint32_t flags;
    struct rg_pmix_value value;
};

/* pmix_event_notification_cbfunc_fn_t: what a handler calls at its end. */
typedef void (*rg_pmix_event_done)(int status, struct rg_pmix_info *results, size_t nresults,
                                   void (*release)(int status, void *arg), void *release_arg,
                                   void *arg);
/* pmix_notification_fn_t */
typedef void (*rg_pmix_event_handler)(size_t id, int status, const struct rg_pmix_proc *source,
                                      struct rg_pmix_info *info, size_t ninfo,
                                      struct rg_pmix_info *results, size_t nresults,
                                      rg_pmix_event_done done, void *arg);

/* The functions, by their names without PMIx_. Status: 0 or a negative code. */
struct rg_pmix_library {
    const char *(*Get_version)(void);
    int (*Init)(struct rg_pmix_proc *proc, struct rg_pmix_info *info, size_t ninfo);
    int (*Finalize)(const struct rg_pmix_info *info, size_t ninfo);
    int (*Put)(uint8_t scope, const char *key, struct rg_pmix_value *value);
    int (*Commit)(void);
    int (*Fence_nb)(const struct rg_pmix_proc *procs, size_t nprocs,
                    const struct rg_pmix_info *info, size_t ninfo,
                    void (*done)(int status, void *arg), void *arg);
    /* The value and the bytes in it are the caller's to free. */
    int (*Get)(const struct rg_pmix_proc *proc, const char *key, const struct rg_pmix_info *info,
               size_t ninfo, struct rg_pmix_value **ret_value);
    const char *(*Error_string)(int status);
    /* registered is called when it stands, or not; codes and info are the caller's until then. */
    int (*Register_event_handler)(int *codes, size_t ncodes, struct rg_pmix_info *info,
                                  size_t ninfo, rg_pmix_event_handler handler,
                                  void (*registered)(int status, size_t id, void *arg), void *arg);
};

/* The library, the same one at every call; it stays until the process ends. 0; -ENOENT: there is
 * none, with where it was looked for and what to do; -ENOTSUP: it is too old or lacks a
 * function. */
int rg_pmix_library_load(const struct rg_pmix_library **ret_library, struct rg_error *err);

#endif
