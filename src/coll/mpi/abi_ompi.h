/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program compiled against Open MPI's mpi.h takes from libmpi.so.40, for shim.c: Open MPI 4
 * and 5 (and 3), and what is built on them. Declared anew, so that no MPI is needed to build this.
 *
 * Handles are pointers to objects inside the library; the predefined ones are variables with the
 * names looked up below. Source: the public header of Open MPI 4.1 and 5.0, which the soname's
 * version fixes.
 */
#ifndef RG_COLL_MPI_ABI_OMPI_H
#define RG_COLL_MPI_ABI_OMPI_H

#include <dlfcn.h>

#define ABI_NAME "openmpi"

/* Objects of the library's own, never looked into. */
typedef struct ompi_communicator_t *abi_comm;
typedef struct ompi_group_t *abi_group;
typedef struct ompi_datatype_t *abi_datatype;
typedef struct ompi_request_t *abi_request;
typedef struct ompi_errhandler_t *abi_errhandler;
typedef struct ompi_info_t *abi_info;

/* A status is never looked at: its layout differs between the ABIs, and nothing here needs it. */
#define ABI_STATUS_IGNORE ((void *) 0)
#define ABI_IN_PLACE ((void *) 1) /* as the buffer that is sent from */
#define ABI_COMM_TYPE_SHARED 0    /* of MPI_Comm_split_type */
#define ABI_ERROR_STRING_MAX 512  /* bytes, of MPI_Error_string */

/* MPI_THREAD_FUNNELED, _SERIALIZED and _MULTIPLE; _SINGLE is 0. */
#define ABI_FUNNELED 1
#define ABI_SERIALIZED 2
#define ABI_MULTIPLE 3

/* The predefined handles that shim.c uses; constant once found. */
struct abi_handles {
    abi_comm world, self;
    abi_datatype byte;
    abi_errhandler errors_return;
    abi_info info_null;
};

/* The predefined handles. 0, or -1 and the name of the one that is missing. Any thread. */
static inline int abi_find_handles(void *library, struct abi_handles *ret_handles,
                                   const char **ret_missing)
{
    const char *const names[] = { "ompi_mpi_comm_world", "ompi_mpi_comm_self", "ompi_mpi_byte",
                                  "ompi_mpi_errors_return", "ompi_mpi_info_null" };
    void *found[5];

    for (int i = 0; i < 5; i++) {
        found[i] = dlsym(library, names[i]);
        if (!found[i]) {
            *ret_missing = names[i];
            return -1;
        }
    }
    *ret_handles = (struct abi_handles){ found[0], found[1], found[2], found[3],
                                          found[4] };
    return 0;
}

#endif
