#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The master: its arguments are a command line for the image's shell. Without any it waits until
# somebody types commands in it. Its exit code is the command's, but for those that the Job would
# take for those of a pod that was killed.
# Where the workers call the master (REIGEN_POD_HEAD), there is no ssh.
# REIGEN_CHART_AGAIN: how often a command that fails is run again, here, so that one log has all
# tries and stays with the pod: the Job ends with this container, unless that was killed from
# outside. REIGEN_CHART_TRIES: the same limit where Kubernetes has no such rule (before 1.26); then
# it starts this container again, and deletes the pod with the log at the end.
state=/horovod/state
account=/var/run/secrets/kubernetes.io/serviceaccount

# ask METHOD PATH [BODY]: a request to the API server; prints the HTTP status. What it says is in
# $state/answer.
ask() {
    server=$KUBERNETES_SERVICE_HOST
    case $server in *:*) server="[$server]" ;; esac
    url=https://$server:$KUBERNETES_SERVICE_PORT$2
    if command -v curl >/dev/null; then
        printf 'header = "Authorization: Bearer %s"\n' "$(cat $account/token)" |
            curl -sS -K - --cacert $account/ca.crt -X "$1" -o $state/answer -w '%{http_code}' \
                --max-time 20 -H 'Content-Type: application/merge-patch+json' -d "${3:-}" "$url"
        return
    fi
    python=$(command -v python3 || command -v python) || {
        echo 'this image has neither curl nor python3'
        return
    }
    TMPDIR=$state # where a shell puts what follows, if the root cannot be written to
    "$python" - "$account" "$1" "$url" "${3:-}" $state/answer <<'END'
import ssl
import sys
import urllib.error
import urllib.request

account, method, url, body, answer = sys.argv[1:]
with open(account + '/token') as file:
    request = urllib.request.Request(url, body.encode(), method=method, headers={
        'Authorization': 'Bearer ' + file.read().strip(),
        'Content-Type': 'application/merge-patch+json'})
try:
    trust = ssl.create_default_context(cafile=account + '/ca.crt')
    with urllib.request.urlopen(request, timeout=20, context=trust) as said:
        with open(answer, 'wb') as file:
            file.write(said.read())
        print(said.status)
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

# How many pods of this Job were killed or lost before this one. 0 where nobody can say.
count_lost() {
    failed=
    if [ -n "${REIGEN_CHART_SET:-}" ]; then
        job="/apis/batch/v1/namespaces/$(cat $account/namespace)/jobs/$REIGEN_CHART_SET"
        [ "$(ask GET "$job")" != 200 ] ||
            failed=$(grep -o '"failed": *[0-9]*' $state/answer | grep -o '[0-9]*$')
    fi
    echo "${failed:-0}"
}

# Run the command line, and wait for its end: its exit code is in $code.
run_command() {
    if [ $# -eq 0 ]; then
        sleep infinity &
    elif command -v bash >/dev/null; then
        $own bash -c "$*" &
    else
        $own sh -c "$*" &
    fi
    wait_child
}

# Wait for the last background job. A signal ends a wait, and not the child.
wait_child() {
    child=$!
    [ -z "${stopped:-}" ] || kill -TERM $child
    while :; do
        wait $child
        code=$?
        kill -0 $child 2>/dev/null || break
    done
}

# Open MPI would cut the hosts' names at the first dot, and not run as root; 4 and 5 call it so.
export OMPI_MCA_orte_keep_fqdn_hostnames="${OMPI_MCA_orte_keep_fqdn_hostnames:-t}"
export PRTE_MCA_prte_keep_fqdn_hostnames="${PRTE_MCA_prte_keep_fqdn_hostnames:-t}"
if [ -n "${REIGEN_CHART_PORTS:-}" ]; then
    # Pods of one node have one address, and are hosts of their own all the same.
    export OMPI_MCA_if_base_do_not_resolve=1
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# A try has a session of its own where that is possible: what it leaves running can be ended.
own=
! command -v setsid >/dev/null || own=setsid
child=
trap '[ -z "$child" ] || kill -TERM "$child"; stopped=1' TERM INT
again=${REIGEN_CHART_AGAIN:-0} lost=0
if [ -e $state/late ]; then
    echo 'reigen: the workers did not come, so the job ends; the log of wait-workers says why' >&2
    end_workers
    exit 1
fi
if [ -n "${REIGEN_CHART_AGAIN:-}" ]; then
    lost=$(count_lost)
    fail_code=255 # what fails before the command may be better in another pod
fi
if [ "$lost" -gt "$again" ]; then
    # One pod more than the limit: the last one was killed, so it could not end the workers.
    echo "reigen: Kubernetes has killed or lost the master $lost times" \
        "(master.backoffLimit: $again), so the job ends; its pods say why" >&2
    end_workers
    exit 1
fi
echo try >>$state/tries
# One more try than the Job permits: likewise. This one Kubernetes kills, too.
tries=$(wc -l <$state/tries) limit=${REIGEN_CHART_TRIES:-0}
if [ "$limit" -gt 0 ] && [ "$tries" -gt 1 ] && [ "$tries" -gt "$limit" ]; then
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
count=0 pause=10
while :; do
    run_command "$@"
    count=$((count + 1))
    [ -z "${stopped:-}" ] || break
    [ $code != 0 ] && [ $count -le "$again" ] || break
    echo "reigen: try $count of $((again + 1)) ended with code $code; the next one begins in" \
        "$pause s (master.backoffLimit: $again)" >&2
    group=$child kept=$code
    [ -z "$own" ] || kill -TERM -$group 2>/dev/null
    sleep $pause &
    wait_child
    [ -z "$own" ] || kill -KILL -$group 2>/dev/null
    code=$kept pause=$((pause < 150 ? pause * 2 : 300))
    [ -z "${stopped:-}" ] || break
done
if [ -n "${stopped:-}" ]; then
    # Kubernetes makes another pod in the place of one that it has told to stop, whatever the
    # command makes of that.
    [ -z "${REIGEN_CHART_AGAIN:-}" ] || code=143
    exit $code
fi
# Without REIGEN_CHART_AGAIN the Job starts a master that fails again in the same pod.
if [ $code = 0 ] || [ "$tries" -ge "$limit" ]; then
    end_workers
fi
case ${REIGEN_CHART_AGAIN:+$code} in
128 | 137 | 143 | 255)
    # The Job would take these for a pod that was killed, and make another one.
    echo "reigen: the command ended with code $code; the pod ends with 1" >&2
    code=1
    ;;
esac
exit $code
