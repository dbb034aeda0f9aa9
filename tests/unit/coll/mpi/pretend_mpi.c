/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with the names of an MPI and a world of one rank, which moves nothing. It has the
 * standard ABI of MPI 5, and fails a call whose handles and constants are not those of that ABI's
 * tables, which are written down here once more. With -DPRETEND_DRAFT it cannot say which ABI it
 * has, as drafts could not.
 *
 * PRETEND_MPI is what it says of itself; PRETEND_ABI the version of the ABI, else 1; PRETEND_LEVEL
 * the thread level it gives, else what is asked for.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WORLD ((void *) 0x101)
#define SELF ((void *) 0x102)
#define MADE ((void *) 0x1234560) /* handles of what was made */
#define BAD 13                    /* MPI_ERR_ARG */

#define IS(condition) ((condition) ? 0 : BAD)
#define API __attribute__((visibility("default")))

static int given = -1; /* 0, 1024, 2048, 4096 */
static bool over, returns;

static int number(const char *name, int otherwise)
{
    const char *value = getenv(name);

    return value ? atoi(value) : otherwise;
}

static int is_comm(void *comm)
{
    return IS(comm == WORLD || comm == SELF || comm == MADE);
}

static int make(void **ret_handle)
{
    *ret_handle = MADE;
    return 0;
}

/* A call that moves bytes: on a communicator whose errors come back. */
static int post(void *type, void *comm, void **ret_request)
{
    return type == (void *) 0x247 && comm == MADE && returns ? make(ret_request) : BAD;
}

#ifndef PRETEND_DRAFT
API int MPI_Abi_get_version(int *major, int *minor)
{
    *major = number("PRETEND_ABI", 1);
    *minor = *major < 0 ? -1 : 0;
    return 0;
}
#endif

API int MPI_Get_library_version(char *text, int *length)
{
    strcpy(text, getenv("PRETEND_MPI"));
    *length = (int) strlen(text);
    return 0;
}

API int MPI_Initialized(int *flag)
{
    *flag = given >= 0;
    return 0;
}

API int MPI_Finalized(int *flag)
{
    *flag = over;
    return 0;
}

API int MPI_Init_thread(int *argc, char ***argv, int wanted, int *ret_given)
{
    (void) argc, (void) argv;
    given = *ret_given = number("PRETEND_LEVEL", wanted);
    return IS(wanted == 4096);
}

API int MPI_Query_thread(int *ret_given)
{
    *ret_given = given;
    return 0;
}

API int MPI_Finalize(void)
{
    over = true;
    return 0;
}

API int MPI_Error_string(int code, char *text, int *length)
{
    memset(text, 'e', 511); /* the longest that there may be */
    text[511] = '\0';
    *length = 511;
    return IS(code == BAD);
}

API int MPI_Comm_rank(void *comm, int *rank)
{
    *rank = 0;
    return is_comm(comm);
}

API int MPI_Comm_size(void *comm, int *size)
{
    *size = 1;
    return is_comm(comm);
}

API int MPI_Comm_dup(void *comm, void **ret_comm)
{
    return is_comm(comm) == 0 ? make(ret_comm) : BAD;
}

API int MPI_Comm_group(void *comm, void **ret_group)
{
    return is_comm(comm) == 0 ? make(ret_group) : BAD;
}

API int MPI_Group_incl(void *group, int n, const int *ranks, void **ret_group)
{
    return group == MADE && n == 1 && ranks[0] == 0 ? make(ret_group) : BAD;
}

API int MPI_Group_free(void **group)
{
    return IS(*group == MADE);
}

API int MPI_Comm_create_group(void *comm, void *group, int tag, void **ret_comm)
{
    return is_comm(comm) == 0 && group == MADE && tag >= 0 ? make(ret_comm) : BAD;
}

API int MPI_Comm_split_type(void *comm, int type, int key, void *info, void **ret_comm)
{
    (void) key;
    return is_comm(comm) == 0 && type == 221 && info == (void *) 0x130 ? make(ret_comm) : BAD;
}

API int MPI_Comm_set_errhandler(void *comm, void *handler)
{
    returns = comm == MADE && handler == (void *) 0x143;
    return IS(returns);
}

API int MPI_Comm_create_keyval(void (*copy)(void), void (*delete)(void), int *keyval, void *extra)
{
    (void) copy, (void) delete, (void) extra;
    *keyval = 7;
    return 0;
}

API int MPI_Comm_set_attr(void *comm, int keyval, void *value)
{
    (void) value;
    return IS(comm == SELF && keyval == 7);
}

API int MPI_Comm_free(void **comm)
{
    return IS(*comm == MADE);
}

API int MPI_Isend(const void *from, int count, void *type, int to, int tag, void *comm,
                  void **ret_request)
{
    return from && count > 0 && to == 0 && tag >= 0 ? post(type, comm, ret_request) : BAD;
}

API int MPI_Irecv(void *to, int count, void *type, int from, int tag, void *comm,
                  void **ret_request)
{
    return to && count > 0 && from == 0 && tag >= 0 ? post(type, comm, ret_request) : BAD;
}

API int MPI_Ibcast(void *data, int count, void *type, int root, void *comm, void **ret_request)
{
    return data && count > 0 && root == 0 ? post(type, comm, ret_request) : BAD;
}

API int MPI_Iallgather(const void *from, int count, void *type, void *to, int to_count,
                       void *to_type, void *comm, void **ret_request)
{
    return from && to && count == to_count && type == to_type ? post(type, comm, ret_request) : BAD;
}

/* In place. */
API int MPI_Iallgatherv(const void *from, int count, void *type, void *to, const int *counts,
                        const int *displs, void *to_type, void *comm, void **ret_request)
{
    return from == (void *) 1 && to && count == counts[0] && displs[0] == 0 && type == to_type
               ? post(type, comm, ret_request)
               : BAD;
}

API int MPI_Iprobe(int from, int tag, void *comm, int *flag, void *status)
{
    *flag = 0;
    return from == 0 && tag >= 0 && !status ? is_comm(comm) : BAD;
}

API int MPI_Test(void **request, int *flag, void *status)
{
    if (*request != MADE || status)
        return BAD;
    *request = (void *) 0x180; /* MPI_REQUEST_NULL */
    *flag = 1;
    return 0;
}

API int MPI_Cancel(void **request)
{
    return IS(*request == MADE);
}
