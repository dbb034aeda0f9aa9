/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words and numbers in a page of HTML, which is well-formed XML, too. Whatever a rank, a host or a
 * record says goes through rg_html_text: then it is text, and nothing else.
 *
 * Thread rule: pure functions; the buffer has the error.
 */
#ifndef RG_CMD_REPORT_HTML_H
#define RG_CMD_REPORT_HTML_H

#include "base/buf.h"

#define RG_HTML_WORD 48

/* Append text, escaped for content and for attributes in quotes; control characters can be read, as
 * base/say.h has them, and colours of terminals go. */
void rg_html_text(struct rg_buf *page, const char *text);

/* Numbers for people, into buf, which is returned: "850 ms", "12.3 s", "3:12", "1:02:03"; */
const char *rg_html_seconds(double s, char buf[RG_HTML_WORD]);
/* The same of short times: "120 us" as well. */
const char *rg_html_short(double s, char buf[RG_HTML_WORD]);
/* The same of what several wait in one second: "192 s". */
const char *rg_html_waited(double s, char buf[RG_HTML_WORD]);
const char *rg_html_bytes(double nbytes, char buf[RG_HTML_WORD]); /* "1.5 MiB" */
const char *rg_html_bytes_per_s(double nbytes, char buf[RG_HTML_WORD]);
const char *rg_html_number(double n, char buf[RG_HTML_WORD]);  /* "8.92", "12,345" */
const char *rg_html_share(double share, char buf[RG_HTML_WORD]); /* "63 %" */

#endif
