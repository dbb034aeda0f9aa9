/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program compiled against the standard ABI's mpi.h takes from libmpi_abi.so, for shim.c:
 * MPICH 5, Intel MPI 2021.18, and whoever else keeps to the chapter on the ABI of MPI 5.0. Declared
 * anew, so that no MPI is needed to build this.
 *
 * Handles are pointers that nobody may follow; the predefined ones are small numbers. Thread levels
 * are in the standard's order, with values of their own. Source: the tables of MPI 5.0, and
 * mpi_abi.h of MPICH 5.0.0 and 5.0.2, which agree. Drafts before October 2025 had
 * MPI_ERRORS_RETURN and MPI_ERRORS_ABORT the other way round.
 */
#ifndef RG_COLL_MPI_ABI_STANDARD_H
#define RG_COLL_MPI_ABI_STANDARD_H

#define ABI_NAME "standard"

/* Numbers, or objects of the library's own, never looked into. */
typedef struct MPI_ABI_Comm *abi_comm;
typedef struct MPI_ABI_Group *abi_group;
typedef struct MPI_ABI_Datatype *abi_datatype;
typedef struct MPI_ABI_Request *abi_request;
typedef struct MPI_ABI_Errhandler *abi_errhandler;
typedef struct MPI_ABI_Info *abi_info;

/* A status is never looked at: its layout differs between the ABIs, and nothing here needs it. */
#define ABI_STATUS_IGNORE ((void *) 0)
#define ABI_IN_PLACE ((void *) 1) /* as the buffer that is sent from */
#define ABI_COMM_TYPE_SHARED 221  /* of MPI_Comm_split_type */
#define ABI_ERROR_STRING_MAX 512  /* bytes, of MPI_Error_string */

/* MPI_THREAD_FUNNELED, _SERIALIZED and _MULTIPLE; _SINGLE is 0. */
#define ABI_FUNNELED 1024
#define ABI_SERIALIZED 2048
#define ABI_MULTIPLE 4096

/* The predefined handles that shim.c uses. */
struct abi_handles {
    abi_comm world, self;
    abi_datatype byte;
    abi_errhandler errors_return;
    abi_info info_null;
};

/* The predefined handles, which need no library. 0. Any thread. */
static inline int abi_find_handles(void *library, struct abi_handles *ret_handles,
                                   const char **ret_missing)
{
    (void) library;
    (void) ret_missing;
    *ret_handles = (struct abi_handles){ (abi_comm) 0x101, (abi_comm) 0x102, (abi_datatype) 0x247,
                                          (abi_errhandler) 0x143, (abi_info) 0x130 };
    return 0;
}

#endif
