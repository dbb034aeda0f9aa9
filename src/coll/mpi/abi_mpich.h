/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program compiled against MPICH's mpi.h takes from libmpi.so.12, for shim.c: the common
 * ABI of MPICH since 3.1, Intel MPI, MVAPICH2 and Cray's MPI. Declared anew, so that no MPI is
 * needed to build this.
 *
 * Handles are ints; the predefined ones are constants. Source: the public header of MPICH 4.0 and
 * 5.0; the MPICH ABI Compatibility Initiative keeps these values.
 */
#ifndef RG_COLL_MPI_ABI_MPICH_H
#define RG_COLL_MPI_ABI_MPICH_H

#define ABI_NAME "mpich"

/* Numbers that the library looks up in its own tables. */
typedef int abi_comm;
typedef int abi_group;
typedef int abi_datatype;
typedef int abi_request;
typedef int abi_errhandler;
typedef int abi_info;

/* A status is never looked at: its layout differs between the ABIs, and nothing here needs it. */
#define ABI_STATUS_IGNORE ((void *) 1)
#define ABI_IN_PLACE ((void *) -1) /* as the buffer that is sent from */
#define ABI_COMM_TYPE_SHARED 1     /* of MPI_Comm_split_type */
#define ABI_ERROR_STRING_MAX 1024  /* bytes, of MPI_Error_string */

/* MPI_THREAD_FUNNELED, _SERIALIZED and _MULTIPLE; _SINGLE is 0. */
#define ABI_FUNNELED 1
#define ABI_SERIALIZED 2
#define ABI_MULTIPLE 3

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
    *ret_handles = (struct abi_handles){ 0x44000000, 0x44000001, 0x4c00010d, 0x54000001,
                                          0x1c000000 };
    return 0;
}

#endif
