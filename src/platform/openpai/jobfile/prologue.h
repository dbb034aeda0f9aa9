/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How reigen-agent comes into a task of OpenPAI, into which nothing can be mounted: a piece of a
 * POSIX shell's text that stands in front of the task's command.
 *
 * Thread rule: any thread; nothing blocks.
 */
#ifndef RG_PLATFORM_OPENPAI_JOBFILE_PROLOGUE_H
#define RG_PLATFORM_OPENPAI_JOBFILE_PROLOGUE_H

#include "base/buf.h"
#include "base/error.h"

#define RG_PAI_SOURCE_MAX 1024 /* bytes of a path or of an address */

/* Where a task has the agent from. At most one of the two is set; none: from the image, where it is
 * in PATH. */
struct rg_pai_agent_source {
    const char *path; /* it is there in every container, as on a storage; absolute */
    const char *url;  /* "https://HOST/FILE#sha256=HEX": it is fetched, and its digest compared */
};

/* Whether the source can be what it is meant to be: an absolute path; http or https with a digest
 * of 64 hexadecimal digits; no character that a shell, a template or a line of API v1 would not
 * leave alone. 0; -EINVAL, exit_code 2, with the value, the rule and what to write. */
int rg_pai_agent_source_check(const struct rg_pai_agent_source *source, struct rg_error *err);

/* Append the text: one line without tabs, which ends with "; ". A command that follows it runs
 * reigen-agent as "$AGENT". It needs no more than a POSIX shell (dash, bash, busybox), and for a
 * URL one of curl, wget and python3, and one of sha256sum and python3. The agent that the image has
 * is taken in the place of a URL's, if it has the digest. A fetched one is written into a new
 * directory that nobody else can write to, wherever programs can run from. A URL is tried three
 * times, for 2 minutes each at most.
 *
 * Where there is no agent, or it does not run, the shell says what is wrong and what to do on
 * standard error, and ends: with 127, or with 69 where a URL could not be fetched or has another
 * digest. The source has passed rg_pai_agent_source_check. Errors are the buffer's. */
void rg_pai_agent_prologue(const struct rg_pai_agent_source *source, struct rg_buf *text);

#endif
