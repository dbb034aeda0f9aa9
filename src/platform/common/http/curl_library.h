/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we use of libcurl.so.4, which is looked up when it is needed for the first time: Kubernetes
 * in a pod without kubectl, to make jobs faster where kubectl is, and OpenPAI. No other machine has
 * a use for it, neither to build nor to run. So a wheel or a package that was made anywhere runs
 * where no libcurl is, and uses the one that a distribution keeps safe where there is one.
 *
 * Names, numbers and layouts are those of curl/curl.h, which libcurl has not changed since version
 * 7.16; tests/unit/platform/http/test_http.c compares them with that file.
 *
 * Thread rule: the loop's thread. rg_curl_library_load may read files; no function blocks, as
 * transfers go on in multi_socket_action, whenever a socket is ready.
 */
#ifndef RG_PLATFORM_COMMON_HTTP_CURL_LIBRARY_H
#define RG_PLATFORM_COMMON_HTTP_CURL_LIBRARY_H

#include <stddef.h>

#include "base/error.h"

#define RG_CURL_ERROR_MAX 256 /* CURL_ERROR_SIZE */

/* CURLcode */
enum {
    RG_CURL_OK = 0,
    RG_CURL_COULDNT_RESOLVE_PROXY = 5,
    RG_CURL_COULDNT_RESOLVE_HOST = 6,
    RG_CURL_COULDNT_CONNECT = 7,
    RG_CURL_OPERATION_TIMEDOUT = 28,
    RG_CURL_SSL_CONNECT_ERROR = 35,
    RG_CURL_PEER_FAILED_VERIFICATION = 60,
    RG_CURL_SSL_CACERT_BADFILE = 77,
};

/* CURLoption: numbers, then pointers, then functions */
enum {
    RG_CURLOPT_TIMEOUT_MS = 155,
    RG_CURLOPT_CONNECTTIMEOUT_MS = 156,
    RG_CURLOPT_FRESH_CONNECT = 74,
    RG_CURLOPT_NOSIGNAL = 99,
    RG_CURLOPT_POSTFIELDSIZE = 60,
    RG_CURLOPT_HEADEROPT = 229, /* from version 7.37 on; CURLHEADER_SEPARATE: none for proxies */
    RG_CURLOPT_HTTPGET = 80,
    RG_CURLOPT_WRITEDATA = 10001,
    RG_CURLOPT_URL = 10002,
    RG_CURLOPT_PROXY = 10004,
    RG_CURLOPT_ERRORBUFFER = 10010,
    RG_CURLOPT_POSTFIELDS = 10015,
    RG_CURLOPT_USERAGENT = 10018,
    RG_CURLOPT_HTTPHEADER = 10023,
    RG_CURLOPT_CUSTOMREQUEST = 10036,
    RG_CURLOPT_CAINFO = 10065,
    RG_CURLOPT_UNIX_SOCKET_PATH = 10231, /* from version 7.40 on */
    RG_CURLOPT_WRITEFUNCTION = 20011,
    RG_CURLOPT_SOCKOPTFUNCTION = 20148,
};

#define RG_CURL_HEADER_SEPARATE 1L

/* CURLINFO */
enum {
    RG_CURLINFO_CONTENT_TYPE = 0x100012,  /* text, or NULL */
    RG_CURLINFO_REDIRECT_URL = 0x10001f,  /* text, or NULL; from version 7.18.2 on */
    RG_CURLINFO_RESPONSE_CODE = 0x200002, /* long */
    RG_CURLINFO_RETRY_AFTER = 0x600039,   /* curl_off_t, seconds; from version 7.66 on */
};

/* CURLMoption, CURL_POLL_*, CURL_CSELECT_*, CURLMSG */
enum {
    RG_CURLMOPT_SOCKETDATA = 10002,
    RG_CURLMOPT_TIMERDATA = 10005,
    RG_CURLMOPT_SOCKETFUNCTION = 20001,
    RG_CURLMOPT_TIMERFUNCTION = 20004,
    RG_CURL_POLL_REMOVE = 4,
    RG_CURL_POLL_IN = 1,
    RG_CURL_POLL_OUT = 2,
    RG_CURL_CSELECT_IN = 1,
    RG_CURL_CSELECT_OUT = 2,
    RG_CURL_SOCKET_TIMEOUT = -1,
    RG_CURLMSG_DONE = 1,
};

/* CURLMsg */
struct rg_curl_msg {
    int msg;
    void *easy;
    union {
        void *whatever;
        int result;
    } data;
};

/* curl_slist */
struct rg_curl_list {
    char *data;
    struct rg_curl_list *next;
};

/* The functions, by their names without curl_. */
struct rg_curl_library {
    void *(*easy_init)(void);
    int (*easy_setopt)(void *easy, int option, ...);
    int (*easy_getinfo)(void *easy, int info, ...);
    void (*easy_cleanup)(void *easy);
    const char *(*easy_strerror)(int code);
    void *(*multi_init)(void);
    int (*multi_setopt)(void *multi, int option, ...);
    int (*multi_add_handle)(void *multi, void *easy);
    int (*multi_remove_handle)(void *multi, void *easy);
    int (*multi_socket_action)(void *multi, int fd, int events, int *ret_running);
    struct rg_curl_msg *(*multi_info_read)(void *multi, int *ret_left);
    int (*multi_cleanup)(void *multi);
    struct rg_curl_list *(*slist_append)(struct rg_curl_list *list, const char *text);
    void (*slist_free_all)(struct rg_curl_list *list);
};

/* The library, once for all. 0; -ENOENT: it is not there, -ENOTSUP: it lacks a function: with err
 * and exit code 69. */
int rg_curl_library_load(const struct rg_curl_library **ret_library, struct rg_error *err);

#endif
