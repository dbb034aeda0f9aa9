/* SPDX-License-Identifier: Apache-2.0 */
/* Compares our declarations of the standard ABI with those of a real MPI: the types when this is
 * compiled, the values when it runs. One line per difference; status 1 if there is any. */
#include <mpi.h>

#include <stdio.h>

#include "coll/mpi/abi_standard.h"

static int ndifferences;

static void compare(const char *name, long ours, long theirs)
{
    if (ours == theirs)
        return;
    printf("%s: %#lx, not %#lx\n", name, theirs, ours);
    ndifferences++;
}

#define COMPARE(name, ours) compare(#name, (long) (ours), (long) (name))

int main(void)
{
    struct abi_handles handles;
    const char *missing = NULL;

    if (abi_find_handles(NULL, &handles, &missing) != 0)
        return 1;
    MPI_Comm world = handles.world, self = handles.self;
    MPI_Datatype byte = handles.byte;
    MPI_Errhandler errors_return = handles.errors_return;
    MPI_Info info_null = handles.info_null;
    abi_group group = MPI_GROUP_NULL;
    abi_request request = MPI_REQUEST_NULL;

    (void) group;
    (void) request;
    COMPARE(MPI_COMM_WORLD, world);
    COMPARE(MPI_COMM_SELF, self);
    COMPARE(MPI_BYTE, byte);
    COMPARE(MPI_ERRORS_RETURN, errors_return);
    COMPARE(MPI_INFO_NULL, info_null);
    COMPARE(MPI_STATUS_IGNORE, ABI_STATUS_IGNORE);
    COMPARE(MPI_IN_PLACE, ABI_IN_PLACE);
    COMPARE(MPI_COMM_TYPE_SHARED, ABI_COMM_TYPE_SHARED);
    COMPARE(MPI_MAX_ERROR_STRING, ABI_ERROR_STRING_MAX);
    COMPARE(MPI_THREAD_SINGLE, 0);
    COMPARE(MPI_THREAD_FUNNELED, ABI_FUNNELED);
    COMPARE(MPI_THREAD_SERIALIZED, ABI_SERIALIZED);
    COMPARE(MPI_THREAD_MULTIPLE, ABI_MULTIPLE);
    COMPARE(MPI_SUCCESS, 0);
    COMPARE(MPI_ABI_VERSION, 1);
    printf("%d differences\n", ndifferences);
    return ndifferences > 0;
}
