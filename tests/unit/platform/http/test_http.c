/* SPDX-License-Identifier: Apache-2.0 */
/* What the HTTP library knows without a server; tests/behaviour/test_pai_client.py has the rest. */
#include "platform/common/http/curl_library.h"
#include "platform/common/http/http.h"
#include "platform/common/http/url.h"
#include "unit.h"

#if __has_include(<curl/curl.h>)
#include <curl/curl.h>
#endif

static void what_is_sent_stays_with_its_host(void **state)
{
    static const struct {
        const char *from, *to;
        bool same;
    } cases[] = {
        { "http://a/x", "http://a/y", true },
        { "http://a", "http://A:80/", true },
        { "http://a/", "https://a/", true },
        { "http://a:8080/", "https://a:8443/", true },
        { "https://a/", "http://a/", false },
        { "https://a/", "https://a:8443/", false },
        { "http://a/", "http://a:81/", false },
        { "https://a/", "https://b/", false },
        { "https://a/", "https://a.b/", false },
        { "https://a/", "https://a@b/", false },
        { "https://a/", "https://u:p@a/", true },
        { "https://a/", "https://b?@a/", false },
        { "https://a/", "https://b\\@a/", false },
        { "https://[::1]/", "https://[::1]:443/x", true },
        { "https://[::1]/", "https://[::2]/", false },
        { "https://a/", "ftp://a/", false },
        { "https://a/", "https://", false },
        { "https://a/", "//a/", false },
    };

    (void) state;
    for (size_t i = 0; i < rg_array_len(cases); i++) {
        if (rg_http_same_origin(cases[i].from, cases[i].to) != cases[i].same)
            fail_msg("from %s to %s", cases[i].from, cases[i].to);
    }
}

static void what_stands_in_a_path_is_escaped(void **state)
{
    rg_autobuf struct rg_buf url = RG_BUF_INIT;

    (void) state;
    rg_http_put_escaped(&url, "a b/c?d=e&f#~.-_\xc3\xbc");
    assert_string_equal(rg_buf_text(&url), "a%20b%2Fc%3Fd%3De%26f%23~.-_%C3%BC");
}

static void libcurl_has_the_numbers_that_we_believe_in(void **state)
{
    (void) state;
#ifdef CURLINC_CURL_H
    assert_int_equal(CURL_ERROR_SIZE, RG_CURL_ERROR_MAX);
    assert_int_equal(CURLE_OK, RG_CURL_OK);
    assert_int_equal(CURLE_COULDNT_RESOLVE_PROXY, RG_CURL_COULDNT_RESOLVE_PROXY);
    assert_int_equal(CURLE_COULDNT_RESOLVE_HOST, RG_CURL_COULDNT_RESOLVE_HOST);
    assert_int_equal(CURLE_COULDNT_CONNECT, RG_CURL_COULDNT_CONNECT);
    assert_int_equal(CURLE_OPERATION_TIMEDOUT, RG_CURL_OPERATION_TIMEDOUT);
    assert_int_equal(CURLE_SSL_CONNECT_ERROR, RG_CURL_SSL_CONNECT_ERROR);
    assert_int_equal(CURLE_PEER_FAILED_VERIFICATION, RG_CURL_PEER_FAILED_VERIFICATION);
    assert_int_equal(CURLE_SSL_CACERT_BADFILE, RG_CURL_SSL_CACERT_BADFILE);
    assert_int_equal(CURLOPT_TIMEOUT_MS, RG_CURLOPT_TIMEOUT_MS);
    assert_int_equal(CURLOPT_CONNECTTIMEOUT_MS, RG_CURLOPT_CONNECTTIMEOUT_MS);
    assert_int_equal(CURLOPT_NOSIGNAL, RG_CURLOPT_NOSIGNAL);
    assert_int_equal(CURLOPT_POSTFIELDSIZE, RG_CURLOPT_POSTFIELDSIZE);
    assert_int_equal(CURLOPT_HEADEROPT, RG_CURLOPT_HEADEROPT);
    assert_int_equal(CURLHEADER_SEPARATE, RG_CURL_HEADER_SEPARATE);
    assert_int_equal(CURLOPT_FRESH_CONNECT, RG_CURLOPT_FRESH_CONNECT);
    assert_int_equal(CURLOPT_HTTPGET, RG_CURLOPT_HTTPGET);
    assert_int_equal(CURLOPT_WRITEDATA, RG_CURLOPT_WRITEDATA);
    assert_int_equal(CURLOPT_URL, RG_CURLOPT_URL);
    assert_int_equal(CURLOPT_PROXY, RG_CURLOPT_PROXY);
    assert_int_equal(CURLOPT_ERRORBUFFER, RG_CURLOPT_ERRORBUFFER);
    assert_int_equal(CURLOPT_POSTFIELDS, RG_CURLOPT_POSTFIELDS);
    assert_int_equal(CURLOPT_USERAGENT, RG_CURLOPT_USERAGENT);
    assert_int_equal(CURLOPT_HTTPHEADER, RG_CURLOPT_HTTPHEADER);
    assert_int_equal(CURLOPT_CUSTOMREQUEST, RG_CURLOPT_CUSTOMREQUEST);
    assert_int_equal(CURLOPT_CAINFO, RG_CURLOPT_CAINFO);
    assert_int_equal(CURLOPT_UNIX_SOCKET_PATH, RG_CURLOPT_UNIX_SOCKET_PATH);
    assert_int_equal(CURLOPT_WRITEFUNCTION, RG_CURLOPT_WRITEFUNCTION);
    assert_int_equal(CURLOPT_SOCKOPTFUNCTION, RG_CURLOPT_SOCKOPTFUNCTION);
    assert_int_equal(CURLINFO_CONTENT_TYPE, RG_CURLINFO_CONTENT_TYPE);
    assert_int_equal(CURLINFO_REDIRECT_URL, RG_CURLINFO_REDIRECT_URL);
    assert_int_equal(CURLINFO_RESPONSE_CODE, RG_CURLINFO_RESPONSE_CODE);
    assert_int_equal(CURLINFO_RETRY_AFTER, RG_CURLINFO_RETRY_AFTER);
    assert_int_equal(CURLMOPT_SOCKETDATA, RG_CURLMOPT_SOCKETDATA);
    assert_int_equal(CURLMOPT_TIMERDATA, RG_CURLMOPT_TIMERDATA);
    assert_int_equal(CURLMOPT_SOCKETFUNCTION, RG_CURLMOPT_SOCKETFUNCTION);
    assert_int_equal(CURLMOPT_TIMERFUNCTION, RG_CURLMOPT_TIMERFUNCTION);
    assert_int_equal(CURL_POLL_REMOVE, RG_CURL_POLL_REMOVE);
    assert_int_equal(CURL_POLL_IN, RG_CURL_POLL_IN);
    assert_int_equal(CURL_POLL_OUT, RG_CURL_POLL_OUT);
    assert_int_equal(CURL_CSELECT_IN, RG_CURL_CSELECT_IN);
    assert_int_equal(CURL_CSELECT_OUT, RG_CURL_CSELECT_OUT);
    assert_int_equal(CURL_SOCKET_TIMEOUT, RG_CURL_SOCKET_TIMEOUT);
    assert_int_equal(CURLMSG_DONE, RG_CURLMSG_DONE);
    assert_int_equal(sizeof(CURLMsg), sizeof(struct rg_curl_msg));
    assert_int_equal(offsetof(CURLMsg, data), offsetof(struct rg_curl_msg, data));
    assert_int_equal(sizeof(struct curl_slist), sizeof(struct rg_curl_list));
    assert_int_equal(offsetof(struct curl_slist, next), offsetof(struct rg_curl_list, next));
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sent_stays_with_its_host),
        cmocka_unit_test(what_stands_in_a_path_is_escaped),
        cmocka_unit_test(libcurl_has_the_numbers_that_we_believe_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
