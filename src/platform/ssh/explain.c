/* SPDX-License-Identifier: Apache-2.0 */
/* ssh fails in words of its own; here they become a cause and a remedy. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "platform/ssh/internal.h"
#include "base/exitcode.h"

#define CHANGED "REMOTE HOST IDENTIFICATION HAS CHANGED"
#define SAID_MAX 400 /* bytes quoted */
#define SHELL_MISSES \
    "a POSIX shell (sh) with the usual tools (uname, id, wc, head, mkdir, mv) must be in the " \
    "PATH there"
#define NAME_LETTERS \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%[]"

/* What OpenSSH's client, or a login shell, writes; the first pattern that occurs counts. Messages
 * of a jump host come before "Connection closed", which follows them. %s is the host. */
struct known {
    const char *pattern;
    const char *remedy;
    int exit_code;
    enum ssh_retry retry;
};

static const struct known known[] = {
    { CHANGED, "", RG_EXIT_NO_PERMISSION, SSH_RETRY_NO }, /* explain_changed */
    { "REVOKED HOST KEY DETECTED",
      "the key that it shows is marked as revoked here: somebody may have stolen it and stand "
      "between you and the host. Do not go on before its administrator has told you the "
      "fingerprint of a new one",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "Host key verification failed",
      "the host's key is not known here, and nobody can be asked. Connect once by hand (ssh %s), "
      "or say --ssh-option StrictHostKeyChecking=accept-new",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "UNPROTECTED PRIVATE KEY FILE",
      "ssh ignores a key that others can read: chmod 600 it",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "agent refused operation",
      "the ssh agent has the key, but does not sign with it: it wants to be asked (ssh-add -c), is "
      "locked, or its token is gone. ssh-add -l lists its keys; ssh %s must work by hand",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "bad permissions", "ssh ignores a key that others can read: chmod 600 it",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "incorrect passphrase supplied",
      "the key has a passphrase, and nobody can be asked: ssh-add it first",
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
    { "Temporary failure in name resolution", "no name server answers; is the name right?",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
    { "Could not resolve hostname",
      "is the name right? ssh %s must work by hand",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
    { "Name or service not known", "is the name right? ssh %s must work by hand",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
    { "Cannot execute command-line and remote command",
      "your ssh configuration sets RemoteCommand for this host; say --ssh-option "
      "RemoteCommand=none",
      RG_EXIT_USAGE, SSH_RETRY_NO },
    { "Bad configuration option", "look at --ssh-option, or at your ssh configuration",
      RG_EXIT_USAGE, SSH_RETRY_NO },
    { "bad configuration options", "look at --ssh-option, or at your ssh configuration",
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
      RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
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
    { "not found", SHELL_MISSES, RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
};

/* What kubectl writes, likewise. */
static const struct known exec_known[] = {
    { "Error from server (Forbidden)",
      "the account of the launcher's pod may not run commands in other pods (create pods/exec)",
      RG_EXIT_NO_PERMISSION, SSH_RETRY_NO },
    { "Error from server (NotFound)", "the pod is not there", RG_EXIT_UNAVAILABLE,
      SSH_RETRY_COMING },
    { "does not have a host assigned", "the pod waits for room", RG_EXIT_UNAVAILABLE,
      SSH_RETRY_COMING },
    { "container not found", "the pod's container does not run", RG_EXIT_UNAVAILABLE,
      SSH_RETRY_COMING },
    { "completed pod", "the pod has ended", RG_EXIT_UNAVAILABLE, SSH_RETRY_COMING },
    { "error dialing backend", "the API server does not reach the pod's node", RG_EXIT_UNAVAILABLE,
      SSH_RETRY_COMING },
    { "unable to upgrade connection", "the pod's node does not serve it", RG_EXIT_UNAVAILABLE,
      SSH_RETRY_COMING },
    { "The connection to the server", "the API server does not answer", RG_EXIT_UNAVAILABLE,
      SSH_RETRY_COMING },
    { "kubectl: not found", "the launcher's pod has no kubectl where its operator wants one",
      RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
    { "not found", SHELL_MISSES, RG_EXIT_UNAVAILABLE, SSH_RETRY_NO },
};

/* What stands in said between two texts, the second one at the latest at the line's end. "" where
 * that is not there. Into buf, which is returned. */
static const char *between(const char *said, const char *before, const char *behind, char *buf,
                           size_t nbytes)
{
    const char *at = strstr(said, before);

    *buf = '\0';
    if (at) {
        at += strlen(before);
        const char *line = strstr(at, "; "), *end = strstr(at, behind);
        size_t length = line && (!end || line < end) ? (size_t) (line - at)
                        : end                       ? (size_t) (end - at)
                                                    : strlen(at);
        snprintf(buf, nbytes, "%.*s", (int) length, at);
    }
    return buf;
}

/* Perhaps somebody stands between: that is never to be clicked away. */
static void explain_changed(const char *host, const char *said, struct rg_buf *text)
{
    char name[256], shows[80], kind[40], file[200];

    between(said, "Host key for ", " has changed", name, sizeof(name));
    if (!*name || name[strspn(name, NAME_LETTERS)]) /* it will be pasted into a shell */
        snprintf(name, sizeof(name), "%s", host);
    between(said, "sent by the remote host is; ", ".; ", shows, sizeof(shows));
    between(said, "The fingerprint for the ", " key", kind, sizeof(kind));
    const char *offending = strstr(said, "Offending ");
    between(offending ? offending : "", " key in ", "; ", file, sizeof(file));
    rg_buf_printf(text, CHANGED ": it shows another key");
    if (*shows)
        rg_buf_printf(text, " (%s%s%s)", kind, *kind ? " " : "", shows);
    rg_buf_printf(text, " than the one that is known here of %s", name);
    if (*file)
        rg_buf_printf(text, ", in %s", file);
    rg_buf_printf(text, " -- either it was set up anew, or somebody stands between you and it and "
                        "reads along (a man in the middle). Ask its administrator for the "
                        "fingerprint of its key. Only when it is the one above, forget the old "
                        "key: ssh-keygen ");
    char *colon = strrchr(file, ':');
    if (colon && !strchr(file, '\''))
        rg_buf_printf(text, "-f '%.*s' ", (int) (colon - file), file);
    rg_buf_printf(text, "-R '%s'", name);
}

/* So much of what was said as has room in a message: from the line on that is the cause, else the
 * first words and the last ones. */
static void quote(const char *said, const char *cause, struct rg_buf *text)
{
    size_t length = strlen(said);
    const char *line = said;

    if (length <= SAID_MAX) {
        rg_buf_printf(text, "%s", said);
        return;
    }
    for (const char *p = said; cause && (p = strstr(p, "; ")) && p < cause; p += 2)
        line = p + 2;
    if (cause)
        rg_buf_printf(text, "%s%.*s", line > said ? "...; " : "", SAID_MAX, line);
    else
        rg_buf_printf(text, "%.*s ... %s", SAID_MAX / 2, said, said + length - SAID_MAX / 2);
}

static void put_remedy(const char *remedy, const char *host, struct rg_buf *text)
{
    const char *mark = strstr(remedy, "%s");
    int n = mark ? (int) (mark - remedy) : (int) strlen(remedy);

    rg_buf_printf(text, " -- %.*s%s%s", n, remedy, mark ? host : "", mark ? mark + 2 : "");
}

/* Where in said the first pattern of the table that is there is. NULL: none; nothing is set. */
static const char *find(const struct known *table, size_t count, const char *said,
                        struct ssh_explanation *e, const char **remedy)
{
    for (size_t i = 0; i < count; i++) {
        const char *cause = strstr(said, table[i].pattern);
        if (!cause)
            continue;
        e->exit_code = table[i].exit_code;
        e->retry = table[i].retry;
        *remedy = table[i].remedy;
        return cause;
    }
    return NULL;
}

void ssh_explain_exec(const char *said, const char *how, struct ssh_explanation *ret_explanation)
{
    struct ssh_explanation e = { RG_EXIT_UNAVAILABLE, SSH_RETRY_NO, "" };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    const char *remedy = NULL;
    const char *cause = find(exec_known, rg_array_len(exec_known), said, &e, &remedy);

    rg_buf_printf(&text, "kubectl exec %s", *said ? "failed: " : "ended before an agent was there");
    quote(said, cause, &text);
    if (!*said)
        rg_buf_printf(&text, " (%s), and said nothing", how);
    if (remedy)
        put_remedy(remedy, "", &text);
    snprintf(e.text, sizeof(e.text), "%s", rg_buf_text(&text));
    *ret_explanation = e;
}

bool ssh_exec_is_cut(int exit_code, const char *said)
{
    return exit_code == 128 + SIGKILL || (exit_code == 1 && strstr(said, "error"));
}

void ssh_explain(const char *host, int port, const char *said, const char *how,
                 struct ssh_explanation *ret_explanation)
{
    if (strncmp(said, "ssh: ", 5) == 0) /* that is said already */
        said += 5;
    struct ssh_explanation e = { RG_EXIT_UNAVAILABLE, SSH_RETRY_NO, "" };
    rg_autobuf struct rg_buf text = RG_BUF_INIT;
    const char *remedy = NULL;
    const char *cause = find(known, rg_array_len(known), said, &e, &remedy);

    rg_buf_printf(&text, "ssh ");
    if (port)
        rg_buf_printf(&text, "to port %d ", port);
    if (!*said) {
        rg_buf_printf(&text, "ended before an agent was there (%s), and said nothing; does ssh %s "
                             "uname work by hand?", how, host);
    } else if (cause && !*remedy) {
        rg_buf_printf(&text, "failed: ");
        explain_changed(host, cause, &text);
    } else {
        rg_buf_printf(&text, "failed: ");
        quote(said, cause, &text);
        if (remedy)
            put_remedy(remedy, host, &text);
    }
    snprintf(e.text, sizeof(e.text), "%s", rg_buf_text(&text));
    *ret_explanation = e;
}
