/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "launch/drivers/ssh_internal.h"
#include "launch/exitcode.h"

/* What OpenSSH's client, or a login shell, writes; the first pattern that occurs counts. Messages
 * of a jump host come before "Connection closed", which follows them. %s is the host. */
static const struct {
    const char *pattern;
    const char *remedy;
    int exit_code;
    enum ssh_retry retry;
} known[] = {
    { "REMOTE HOST IDENTIFICATION HAS CHANGED",
      "the host's key is not the one that is known here. If the host was set up anew, forget the "
      "old key by: ssh-keygen -R %s",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "Host key verification failed",
      "the host's key is not known here, and nobody can be asked. Connect once by hand (ssh %s), "
      "or say --ssh-option StrictHostKeyChecking=accept-new",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "UNPROTECTED PRIVATE KEY FILE",
      "ssh ignores a key that others can read: chmod 600 it",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "Too many authentication failures",
      "too many keys were offered. Name the right one: --ssh-identity FILE --ssh-option "
      "IdentitiesOnly=yes",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "Permission denied (",
      "no key of yours is accepted there, and reigen asks for no password. Put a key there "
      "(ssh-copy-id %s), name it by --ssh-identity, or the user as user@HOST",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "administratively prohibited",
      "the jump host does not permit forwarding to this host",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "account is currently not available",
      "this user may not log in there",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "account is not available", "this user may not log in there", RG_EXIT_NO_PERMISSION,
      SSH_RETRY_NO },
    { "Your password has expired",
      "log in once by hand and change it: ssh %s", RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "Could not resolve hostname",
      "is the name right? ssh %s must work by hand",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
    { "Name or service not known", "is the name right? ssh %s must work by hand",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
    { "Cannot execute command-line and remote command",
      "your ssh configuration sets RemoteCommand for this host; say --ssh-option "
      "RemoteCommand=none",
      RG_EXIT_USAGE, SSH_RETRY_NO },
    { "Bad configuration option", "look at --ssh-option, or at your ssh configuration",
      RG_EXIT_USAGE, SSH_RETRY_NO },
    { "command-line line", "look at --ssh-option, --ssh-port and --ssh-identity", RG_EXIT_USAGE,
      SSH_RETRY_NO },
    { "unknown option --", "look at --ssh-option", RG_EXIT_USAGE, SSH_RETRY_NO },
    { "Bad owner or permissions", "ssh does not trust its configuration: chmod 600 it",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "Unable to negotiate",
      "ssh and the host's sshd have no algorithm in common; --ssh-option can allow one",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
    { "Connection refused",
      "no sshd listens at this port there. Is it running, and is the port right (--ssh-port)?",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_FEW },
    { "No route to host", "is the host up, and is there a route to it?", RG_EXIT_UNAVAILABLE,
      SSH_RETRY_FEW },
    { "Network is unreachable", "is there a route to it?", RG_EXIT_UNAVAILABLE, SSH_RETRY_FEW },
    { "during banner exchange", "something accepts connections there, but no sshd answers: is the "
      "port right (--ssh-port), and is the host well?",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_ON },
    { "timed out", "the host does not answer. Is it up, and does a firewall let ssh pass?",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
    { "exchange_identification",
      "its sshd closes new connections: it is busy (MaxStartups), or another program listens at "
      "this port",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_ON },
    { "Exceeded MaxStartups", "its sshd is busy (MaxStartups)", RG_EXIT_UNAVAILABLE, SSH_RETRY_ON },
    { "Not allowed at this time", "its sshd refuses this address for a while (PerSourcePenalties)",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_ON },
    { "Connection reset by", "its sshd closes new connections", RG_EXIT_UNAVAILABLE, SSH_RETRY_ON },
    { "Connection closed by", "its sshd closes new connections; its log tells why (AllowUsers, "
      "MaxSessions)",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_FEW },
    { "No space left on device", "make room there", RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
    { "not found", "a POSIX shell (sh) with the usual tools (uname, id, wc, head, mkdir, mv) must "
      "be in the PATH there",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
};

void ssh_explain(const char *host, int port, const char *said, const char *how,
                 struct ssh_explanation *ret_explanation)
{
    if (strncmp(said, "ssh: ", 5) == 0) /* that is said already */
        said += 5;
    struct ssh_explanation e = { RG_EXIT_UNAVAILABLE, SSH_RETRY_NO, "" };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;

    rg_buf_printf(&text, "ssh ");
    if (port)
        rg_buf_printf(&text, "to port %d ", port);
    if (*said)
        rg_buf_printf(&text, "failed: %.400s", said);
    else
        rg_buf_printf(&text, "ended before an agent was there (%s), and said nothing; does ssh %s "
                             "uname work by hand?", how, host);
    for (size_t i = 0; i < rg_array_len(known); i++) {
        if (!strstr(said, known[i].pattern))
            continue;
        e.exit_code = known[i].exit_code;
        e.retry = known[i].retry;
        const char *mark = strstr(known[i].remedy, "%s");
        int n = mark ? (int) (mark - known[i].remedy) : (int) strlen(known[i].remedy);
        rg_buf_printf(&text, " -- %.*s%s%s", n, known[i].remedy, mark ? host : "",
                      mark ? mark + 2 : "");
        break;
    }
    snprintf(e.text, sizeof(e.text), "%s", rg_buf_text(&text));
    *ret_explanation = e;
}
