# SPDX-License-Identifier: Apache-2.0
# What the container openmpi-job runs: sh init.sh master|worker WORKERS EXEC TIMEOUT_S
set -u
role=$1 workers=$2 command=$3 timeout=$4
root=/kubeflow/openmpi
phases=$root/data/.openmpi-controller
. $root/assets/settings.sh

say() {
    echo "$role: $*" >&2
}

die() { # CODE WORDS...
    code=$1
    shift
    say "$*"
    exit "$code"
}

pause() {
    sleep 0.2 2>/dev/null || sleep 1
}

# ssh and sshd take the home directory that the list of users has, whatever HOME is.
find_home() {
    uid=$(id -u) home=
    while IFS=: read -r _ _ number _ _ place _; do
        [ "$number" != "$uid" ] || home=${home:-$place}
    done </etc/passwd
    [ -n "$home" ] || die 1 "uid $uid has no name in /etc/passwd, and ssh needs one;" \
        "render with --runAsUser $uid, or choose an image that has it"
    export HOME="$home"
    mkdir -p "$home/.ssh" "$home/.openmpi" "$home/.sshd" ||
        die 1 "uid $uid cannot write to its home $home; it has to be a directory of its own"
}

copy() { # MODE FROM TO
    rm -f "$3" && cat "$2" >"$3" && chmod "$1" "$3" ||
        die 1 "uid $uid cannot copy $2 to $3; where the image has another user than root," \
            "render with --runAsUser $uid"
}

# Without GPUs, programs that are linked with CUDA find its stubs.
find_stubs() {
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}
    if [ "$gpus" -eq 0 ] && ! [ -e /proc/driver/nvidia/version ]; then
        for stubs in /usr/local/cuda*/targets/*/lib/stubs; do
            ! [ -d "$stubs" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$stubs
            break
        done
    fi
    export LD_LIBRARY_PATH
}

prepare() {
    umask 077
    find_home
    find_stubs
    copy 0644 $root/assets/mca-params.conf "$home/.openmpi/mca-params.conf"
    copy 0400 $root/secrets/id_rsa "$home/.ssh/id_rsa"
    copy 0644 $root/secrets/id_rsa.pub "$home/.ssh/id_rsa.pub"
    copy 0600 $root/secrets/authorized_keys "$home/.ssh/authorized_keys"
    copy 0600 $root/assets/ssh_config "$home/.ssh/config"
    # sshd starts commands with these: an Open MPI in a place of its own is found.
    printf 'PATH=%s\nLD_LIBRARY_PATH=%s\n' "$PATH" "$LD_LIBRARY_PATH" >"$home/.ssh/environment"
    umask 022
}

# --- worker ---------------------------------------------------------------------------------------

start_sshd() {
    sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd) ||
        die 127 "the image has no sshd; the job needs an OpenSSH server in it"
    [ "$uid" != 0 ] || mkdir -p /run/sshd
    key=$home/.sshd/ssh_host_key
    rm -f "$key" "$key.pub"
    ssh-keygen -q -t ed25519 -N '' -f "$key" || ssh-keygen -q -t rsa -N '' -f "$key" ||
        die 1 "ssh-keygen cannot make a key in $home/.sshd"
    "$sshd" -D -e -f $root/assets/sshd_config -h "$key" &
    child=$!
}

run_worker() {
    start_sshd
    trap 'kill "$child"; exit 143' TERM INT
    end=$(($(date +%s) + timeout))
    until [ -e $phases/SIGTERM ]; do
        kill -0 "$child" 2>/dev/null || die 1 "sshd has ended"
        [ -e $phases/SIGCONT ] || [ "$(date +%s)" -lt "$end" ] ||
            die 124 "openmpi-controller has not begun the job in $timeout s"
        sleep 1
    done
    [ -e $phases/failed ] || exit 0
    # The master is to hear it (lease.sh), where it has not begun yet.
    end=$(($(date +%s) + timeout))
    until [ -e $phases/held ] || [ -e $phases/told ] || [ "$(date +%s)" -ge "$end" ]; do
        pause
    done
    die 1 "$(cat $phases/failed)"
}

# --- master ---------------------------------------------------------------------------------------

# A connection to each worker, which lasts as long as this container does: its end is what tells the
# worker that the job is over, whatever has ended it.
hold() { # HOST
    until [ -s "$state/$1" ] || [ -e "$state/late" ]; do
        ssh "$1" "exec sh $root/assets/lease.sh" <&9 >"$state/$1" 2>"$state/$1.said" 9<&-
        [ -s "$state/$1" ] || sleep 1
    done
}

check_host() { # HOST: 0: it is ready
    read -r answer 2>/dev/null <"$state/$1" || return 1
    case $answer in
    ready) ;;
    *) die 1 "$1: $answer" ;;
    esac
}

wait_for_workers() {
    end=$(($(date +%s) + timeout)) missing=$hosts
    while [ -n "$missing" ]; do
        still=
        for host in $missing; do
            if check_host "$host"; then echo "$host is ready"; else still="$still $host"; fi
        done
        missing=$still
        if [ -n "$missing" ] && [ "$(date +%s)" -ge "$end" ]; then
            : >"$state/late"
            for host in $missing; do
                say "$host is not ready: $(tail -n 1 "$state/$host.said" 2>/dev/null)"
            done
            die 124 "gave up after $timeout s; --initTimeout is the limit"
        fi
        [ -z "$missing" ] || pause
    done
}

run_command() {
    sh -c "$command" </dev/null 9<&- &
    child=$!
    trap 'kill -TERM "$child" 2>/dev/null' TERM INT
    wait "$child"
    code=$?
    while kill -0 "$child" 2>/dev/null; do
        wait "$child"
        code=$?
    done
    exit "$code"
}

run_master() {
    trap 'exit 143' TERM INT
    state=$(mktemp -d) && mkfifo "$state/open" || die 1 "there is no directory for temporary files"
    exec 9<>"$state/open"
    hosts=$(sed 's/[[:space:]].*//' $root/assets/hostfile)
    for host in $hosts; do
        hold "$host" &
    done
    wait_for_workers
    run_command
}

case $role in
master | worker) ;;
*) die 2 "no such role; it is master or worker, of $workers workers" ;;
esac
prepare
"run_$role"
