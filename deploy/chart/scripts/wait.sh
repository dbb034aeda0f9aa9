#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# waitWorkersReady.sh HOSTFILE: wait until one can log in to all workers, which are all hosts but
# the first, and they are of this release and not of one that is being replaced. It says what it
# waits for whenever that changes. Where time is up it begins again, REIGEN_CHART_AGAIN times.
# Where that is set, the master itself says that it was in vain, and ends the workers that did come.
. /horovod/generated/ssh.sh
hostfile=$1

wait_for_workers() {
    prepare_ssh master
    end=$(($(date +%s) + REIGEN_CHART_TIMEOUT)) again=${REIGEN_CHART_AGAIN:-0}
    for host in $(hosts | sed 1d); do
        last=
        while :; do
            said=$(ssh -n -o BatchMode=yes -o ConnectTimeout=2 -o LogLevel=ERROR "$host" \
                'echo $REIGEN_CHART_WORKERS' 2>&1 | tr -d '\r')
            [ "$said" != "$REIGEN_CHART_WORKERS" ] || break
            case $said in *" "*) ;; *) said='it is being replaced' ;; esac
            if [ "$(date +%s)" -ge $end ]; then
                late="worker $host was not ready in $REIGEN_CHART_TIMEOUT s: $said"
                [ "$again" -gt 0 ] || fail "$late"
                echo "$late; it has as long again, $again times at most (master.backoffLimit)"
                end=$(($(date +%s) + REIGEN_CHART_TIMEOUT)) again=$((again - 1))
            fi
            [ "$said" = "$last" ] || echo "waiting for $host: $said"
            last=$said
            sleep 0.5
        done
        echo "$host is ready"
    done
}

trap 'kill "$child" 2>/dev/null; exit 143' TERM INT
wait_for_workers &
child=$!
wait $child
code=$?
if [ $code != 0 ] && [ -n "${REIGEN_CHART_AGAIN:-}" ] && echo $code >/horovod/state/late; then
    exit 0
fi
exit $code
