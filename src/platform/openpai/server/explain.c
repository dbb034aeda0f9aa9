/* SPDX-License-Identifier: Apache-2.0 */
/* What a refusal means: cause and remedy, and what our command ends with. */
#include <string.h>

#include "base/exitcode.h"
#include "platform/openpai/server/server_internal.h"

/* The server's own codes, which say more than HTTP's. */
static const struct {
    const char *code;
    int errnum, exit_code;
    const char *remedy;
} codes[] = {
    { "InvalidParametersError", EINVAL, RG_EXIT_USAGE,
      "reigen pai check FILE names the field and the rule" },
    { "InvalidProtocolError", EINVAL, RG_EXIT_USAGE,
      "reigen pai check FILE names the field and the rule" },
    { "IncorrectPasswordError", EACCES, RG_EXIT_NO_PERMISSION,
      "correct REIGEN_PAI_PASSWORD, or the file that REIGEN_PAI_PASSWORD_FILE names" },
    { "NoUserError", EACCES, RG_EXIT_NO_PERMISSION,
      "OpenPAI does not know this user: correct REIGEN_PAI_USER" },
    { "UnauthorizedUserError", EACCES, RG_EXIT_NO_PERMISSION,
      "the token is wrong, or has expired: take a new one from the web portal (REIGEN_PAI_TOKEN or "
      "REIGEN_PAI_TOKEN_FILE), or give user and password, and Reigen logs in" },
    { "ForbiddenUserError", EACCES, RG_EXIT_NO_PERMISSION,
      "this user may not do that: it is somebody else's job, or a virtual cluster that the user "
      "may not use (--virtual-cluster); ask the cluster's administrator" },
    { "NoJobError", ENOENT, RG_EXIT_USAGE,
      "look at the name; reigen jobs --all lists those that were submitted here" },
    { "NoJobConfigError", ENOENT, RG_EXIT_USAGE,
      "the server does not keep this job's file: its storage has lost it" },
    { "NoJobSshInfoError", ENOENT, RG_EXIT_USAGE,
      "its tasks have no ssh (yet): wait until they run, or use an image with ssh" },
    { "NoVirtualClusterError", ENOENT, RG_EXIT_USAGE,
      "name a virtual cluster that is there (--virtual-cluster); the web portal lists them" },
    { "NoStorageError", ENOENT, RG_EXIT_USAGE,
      "the job's file names a storage that is not there, or that the user may not use" },
    { "NoTaskLogError", ENOENT, RG_EXIT_UNAVAILABLE, "the task has not begun, or its log is gone" },
    { "ConflictJobError", EEXIST, RG_EXIT_USAGE,
      "the name is in use: give the job another one with --name" },
};

/* And where there is no such code. */
static const struct {
    enum pai_refused why;
    int errnum, exit_code;
    const char *what, *remedy;
} whys[] = {
    { PAI_AWAY, ECONNREFUSED, RG_EXIT_UNAVAILABLE, "does not answer",
      "look whether the address (REIGEN_PAI_SERVER) is right and the server is up, and whether a "
      "proxy is needed (https_proxy) or in the way (no_proxy)" },
    { PAI_LATE, ETIMEDOUT, RG_EXIT_TIMEOUT, "has not answered in time", "try again later" },
    { PAI_BUSY, EAGAIN, RG_EXIT_UNAVAILABLE, "takes no more requests for now",
      "it takes 60 jobs an hour and 600 requests a minute: try again later" },
    { PAI_UNSURE, ETIMEDOUT, RG_EXIT_UNAVAILABLE,
      "got the job, and its answer was lost: it may run, or not",
      "look with reigen status NAME before you submit it again" },
    { PAI_MISSING, ENOENT, RG_EXIT_USAGE, "does not have that", "look at the name" },
    { PAI_DENIED, EACCES, RG_EXIT_NO_PERMISSION, "does not know who asks",
      "set REIGEN_PAI_TOKEN_FILE, or REIGEN_PAI_USER and REIGEN_PAI_PASSWORD_FILE" },
    { PAI_FORBIDDEN, EACCES, RG_EXIT_NO_PERMISSION, "does not let this user do that",
      "ask the cluster's administrator" },
    { PAI_EXISTS, EEXIST, RG_EXIT_USAGE, "has a job of this name",
      "give the job another one with --name" },
    { PAI_INVALID, EINVAL, RG_EXIT_USAGE, "does not take the job",
      "reigen pai check FILE names the field and the rule" },
    { PAI_UNTRUSTED, EACCES, RG_EXIT_NO_PERMISSION, "does not prove who it is",
      "name the file of those who may sign its certificate in REIGEN_PAI_CA; nothing was sent" },
    { PAI_FOREIGN, EPROTO, RG_EXIT_UNAVAILABLE, "answers with what OpenPAI does not say",
      "look whether the address (REIGEN_PAI_SERVER) is that of the REST server, or of the web "
      "portal before it" },
    { PAI_OTHER_VERSION, EPROTO, RG_EXIT_USAGE, "speaks another version",
      "convert the file (reigen pai convert --to v1 or v2)" },
    { PAI_TOO_LARGE, EFBIG, RG_EXIT_UNAVAILABLE, "answers with more than Reigen takes",
      "ask for less" },
    { PAI_UNUSABLE, ENOENT, RG_EXIT_NO_PERMISSION, "was not asked",
      "set REIGEN_PAI_TOKEN_FILE, or REIGEN_PAI_USER and REIGEN_PAI_PASSWORD_FILE" },
    { PAI_REFUSED, EIO, RG_EXIT_UNAVAILABLE, "has failed",
      "try again later, or tell its administrator" },
};

static int explain_version(const struct pai_server *server, const struct pai_refusal *refusal,
                           struct rg_error *err)
{
    int is = server->version;

    if (*refusal->text) /* it lacks what that version has */
        return rg_error_set_exit(err, EPROTO, RG_EXIT_UNAVAILABLE,
                                 "OpenPAI at %s is taken for version %d of the API, and says: %s: "
                                 "if it is another one, set REIGEN_PAI_VERSION to 1 or 2",
                                 server->url, is, refusal->text);
    return rg_error_set_exit(err, EPROTO, RG_EXIT_USAGE,
                             "OpenPAI at %s speaks version %d of the API, and not the job file's: "
                             "convert the file (reigen pai convert --to v%d FILE)", server->url,
                             is, is);
}

int pai_explain(const struct pai_server *server, const struct pai_refusal *refusal,
                struct rg_error *err)
{
    for (size_t i = 0; i < rg_array_len(codes); i++) {
        if (strcmp(codes[i].code, refusal->code) == 0)
            return rg_error_set_exit(err, codes[i].errnum, codes[i].exit_code,
                                     "OpenPAI refuses (%d %s): %s: %s", refusal->status,
                                     refusal->code, refusal->text, codes[i].remedy);
    }
    if (refusal->why == PAI_OTHER_VERSION)
        return explain_version(server, refusal, err);
    for (size_t i = 0; i < rg_array_len(whys); i++) {
        if (whys[i].why != refusal->why)
            continue;
        bool is_library = refusal->why == PAI_UNUSABLE && strstr(refusal->text, "libcurl");
        return rg_error_set_exit(err, whys[i].errnum,
                                 is_library ? RG_EXIT_UNAVAILABLE : whys[i].exit_code,
                                 "OpenPAI at %s %s%s%s%s: %s", server->url, whys[i].what,
                                 *refusal->text ? " (" : "", refusal->text,
                                 *refusal->text ? ")" : "",
                                 is_library ? "it is asked by that library" : whys[i].remedy);
    }
    return rg_error_set_exit(err, EIO, RG_EXIT_INTERNAL, "OpenPAI at %s: nothing is wrong",
                             server->url);
}
