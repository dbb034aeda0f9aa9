#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The master: its arguments are a command line for the image's shell. Without any it waits until
# somebody types commands in it. Its exit code is the command's.
# Where the workers call the master (REIGEN_POD_HEAD), there is no ssh.
state=/horovod/state
account=/var/run/secrets/kubernetes.io/serviceaccount

# ask METHOD PATH [BODY]: a request to the API server; prints the HTTP status.
ask() {
    server=$KUBERNETES_SERVICE_HOST
    case $server in *:*) server="[$server]" ;; esac
    url=https://$server:$KUBERNETES_SERVICE_PORT$2
    if command -v curl >/dev/null; then
        printf 'header = "Authorization: Bearer %s"\n' "$(cat $account/token)" |
            curl -sS -K - --cacert $account/ca.crt -X "$1" -o /dev/null -w '%{http_code}' \
                --max-time 20 -H 'Content-Type: application/merge-patch+json' -d "${3:-}" "$url"
        return
    fi
    python=$(command -v python3 || command -v python) || {
        echo 'this image has neither curl nor python3'
        return
    }
    TMPDIR=$state # where a shell puts what follows, if the root cannot be written to
    "$python" - "$account" "$1" "$url" "${3:-}" <<'END'
import ssl
import sys
import urllib.error
import urllib.request

account, method, url, body = sys.argv[1:]
with open(account + '/token') as file:
    request = urllib.request.Request(url, body.encode(), method=method, headers={
        'Authorization': 'Bearer ' + file.read().strip(),
        'Content-Type': 'application/merge-patch+json'})
try:
    trust = ssl.create_default_context(cafile=account + '/ca.crt')
    print(urllib.request.urlopen(request, timeout=20, context=trust).status)
except urllib.error.HTTPError as error:
    print(error.code)
except OSError as error:
    print(error)
END
}

# The workers have nothing more to do; they would hold their GPUs until `helm uninstall`. Their
# StatefulSet stays, because `helm install --wait` looks at it. But where it is to have its pods one
# after the other, it would wait for one that is not ready before it ended the next.
end_workers() {
    [ -n "${REIGEN_CHART_SET:-}" ] || return
    set="/apis/apps/v1/namespaces/$(cat $account/namespace)/statefulsets/$REIGEN_CHART_SET"
    case ${REIGEN_CHART_ORDER:-} in
    OrderedReady) said=$(ask DELETE "$set") ;;
    *) said=$(ask PATCH "$set/scale" '{"spec": {"replicas": 0}}') ;;
    esac
    case $said in
    200 | 202 | 404) ;;
    *) echo "reigen: the workers stay, because they could not be ended: $said" >&2 ;;
    esac
}

# Open MPI would cut the hosts' names at the first dot, and not run as root; 4 and 5 call it so.
export OMPI_MCA_orte_keep_fqdn_hostnames="${OMPI_MCA_orte_keep_fqdn_hostnames:-t}"
export PRTE_MCA_prte_keep_fqdn_hostnames="${PRTE_MCA_prte_keep_fqdn_hostnames:-t}"
if [ -n "${REIGEN_CHART_PORTS:-}" ]; then
    # Pods of one node have one address, and are hosts of their own all the same.
    export OMPI_MCA_if_base_do_not_resolve=1
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
child=
trap '[ -z "$child" ] || kill -TERM "$child"; stopped=1' TERM INT
echo try >>$state/tries
# One more try than the Job permits: the last one was killed, so it could not end the workers. This
# one Kubernetes kills, too.
tries=$(wc -l <$state/tries) limit=${REIGEN_CHART_TRIES:-0}
if [ "$tries" -gt 1 ] && [ "$tries" -gt "$limit" ]; then
    end_workers
fi
if [ -z "${REIGEN_POD_HEAD:-}" ]; then
    . /horovod/generated/ssh.sh
    prepare_ssh master
fi
if [ -z "${REIGEN_POD_HEAD:-}" ] && { command -v sshd >/dev/null || [ -x /usr/sbin/sshd ]; }; then
    find_sshd
    run_sshd master || fail "its sshd does not start; port $SSHPORT may be taken"
fi
[ -z "${stopped:-}" ] || exit 143
if [ $# -eq 0 ]; then
    sleep infinity &
elif command -v bash >/dev/null; then
    bash -c "$*" &
else
    sh -c "$*" &
fi
child=$!
[ -z "${stopped:-}" ] || kill -TERM $child
# A signal ends a wait, and not the child.
while :; do
    wait $child
    code=$?
    kill -0 $child 2>/dev/null || break
done
[ -z "${stopped:-}" ] || exit $code
# The Job starts a master that fails again in the same pod, up to its limit.
if [ $code = 0 ] || [ "$tries" -ge "$limit" ]; then
    end_workers
fi
exit $code
