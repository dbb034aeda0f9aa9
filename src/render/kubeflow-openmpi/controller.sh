# SPDX-License-Identifier: Apache-2.0
# What the container openmpi-controller of a worker runs, in its working directory: before the job
# the wait for GPUs and a download, after it an upload. openmpi-job learns of it by two files,
# SIGCONT (begin) and SIGTERM (end).
set -u
. /kubeflow/openmpi/assets/settings.sh
phases=.openmpi-controller
worker= master= num_gpus=0 timeout_secs=300
download_data_from= download_data_to= upload_data_from= upload_data_to=
while [ $# -ge 2 ]; do
    case $1 in
    --worker) worker=$2 ;;
    --master) master=$2 ;;
    --num-gpus) num_gpus=$2 ;;
    --timeout-secs) timeout_secs=$2 ;;
    --download-data-from) download_data_from=$2 ;;
    --download-data-to) download_data_to=$2 ;;
    --upload-data-from) upload_data_from=$2 ;;
    --upload-data-to) upload_data_to=$2 ;;
    *) echo "controller: unknown option $1" >&2 && exit 2 ;;
    esac
    shift 2
done

die() { # CODE WORDS...
    code=$1
    shift
    echo "controller: $*" >&2
    echo "$*" >$phases/failed
    : >$phases/SIGTERM
    # The pod's name is found for as long as this is here, and the master is to hear the reason.
    end=$(($(date +%s) + timeout_secs))
    until [ "$watch" != lease ] || [ -e $phases/held ] || [ -e $phases/told ] || late; do
        sleep 1
    done
    exit "$code"
}

begin() {
    umask 000 # openmpi-job may have another user
    mkdir $phases || {
        echo "controller: $phases is there already, and this cannot run twice" >&2
        exit 1
    }
    trap ': >$phases/SIGTERM' EXIT
    trap 'exit 143' TERM INT
    end=$(($(date +%s) + timeout_secs))
}

late() {
    [ "$(date +%s)" -ge "$end" ]
}

wait_for_gpus() {
    [ "$num_gpus" -gt 0 ] || return 0
    until [ -e /proc/driver/nvidia/version ]; do
        ! late || die 124 "the node has no driver of NVIDIA after $timeout_secs s"
        sleep 1
    done
}

copy() { # FROM TO
    command -v aws >/dev/null || die 127 "cannot copy $1 to $2: the image has no aws;" \
        "choose one that has it by --controllerImage"
    for try in 1 2 3 4 5; do
        aws s3 cp --recursive "$1" "$2" && return 0
        echo "controller: copying $1 to $2 failed, try $try of 5" >&2
        [ "$try" -eq 5 ] || sleep "$try"
    done
    die 1 "cannot copy $1 to $2"
}

# The master holds a connection to openmpi-job (lease.sh).
watch_lease() {
    until [ -e $phases/held ]; do
        ! late || die 124 "the master has not come in $timeout_secs s"
        sleep 1
    done
    until [ -e $phases/over ]; do
        sleep 1
    done
}

# With an init script of the user's: its name is there while it runs. Ours tells whether names can
# be found at all.
watch_name() {
    seen= missed=0
    until [ "$missed" -ge 3 ]; do
        if getent hosts "$master" >/dev/null; then
            seen=yes missed=0
        elif [ -n "$seen" ] && getent hosts "$worker" >/dev/null; then
            missed=$((missed + 1))
        fi
        [ -n "$seen" ] || ! late || die 124 "the master has not come in $timeout_secs s"
        sleep 2
    done
}

begin
wait_for_gpus
[ -z "$download_data_from" ] || copy "$download_data_from" "$download_data_to"
: >$phases/SIGCONT
end=$(($(date +%s) + timeout_secs))
"watch_$watch"
[ -z "$upload_data_from" ] || copy "$upload_data_from" "$upload_data_to"
