#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test.sh HOSTFILE: `helm test` where there is no ssh. All hosts but the first are workers, and one
# has a name once it is ready, which is when it calls the master, or does a job for it.
resolve() {
    if command -v getent >/dev/null; then
        getent hosts "$1" >/dev/null
    else
        python3 -c 'import socket, sys; socket.gethostbyname(sys.argv[1])' "$1" 2>/dev/null
    fi
}

trap 'exit 143' TERM INT
end=$(($(date +%s) + REIGEN_CHART_TIMEOUT))
sed 1d "$1" | while read -r host _; do
    until resolve "$host"; do
        if [ "$(date +%s)" -ge $end ]; then
            echo "reigen: worker $host was not ready in $REIGEN_CHART_TIMEOUT s: kubectl describe" \
                "pod ${host%%.*}, and kubectl logs ${host%%.*}, say more" >&2
            exit 1
        fi
        sleep 0.5
    done
    echo "$host is ready"
done
