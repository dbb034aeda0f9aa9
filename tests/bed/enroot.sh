#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In the place of NVIDIA's enroot, which cannot be had where the tests run. It takes enroot's
# options, and no others: for those, as enroot does, it prints a line of help and ends with 0.
# What it was called with goes to ~/enroot.log. An image is a file of one line; a container sees
# the host's directories under a root of its own, in the file /image the image's address, and no
# more of the environment than enroot would hand on. Like enroot it becomes the command, in the
# same process.
usage() { echo "Usage: enroot $1 [options]"; exit 0; }
fail() { echo "[ERROR] $1" >&2; exit 1; }

log="$(printf '%q ' "$(hostname)" "$@") NVIDIA_VISIBLE_DEVICES=$NVIDIA_VISIBLE_DEVICES"
echo "$log RESTRICT_DEV=$ENROOT_RESTRICT_DEV LOGIN=$ENROOT_LOGIN_SHELL" >>"$HOME/enroot.log"
verb=$1; shift

if [ "$verb" = import ]; then
    while :; do case $1 in
    -a|--arch) shift 2 ;;
    --arch=*) shift ;;
    -o|--output) out=$2; shift 2 ;;
    --output=*) out=${1#*=}; shift ;;
    --) shift; break ;;
    -?*) usage import ;;
    *) break ;;
    esac; done
    [[ $1 == docker://* || $1 == dockerd://* ]] || fail "Invalid argument: $1"
    [[ $1 != *nosuch* ]] || fail "URL https://registry/v2/ returned error code: 404"
    [ ! -e "$out" ] || fail "File already exists: $out"
    echo '[INFO] Creating squashfs filesystem...' >&2
    echo "hsqs $1" >"$out"
    exit 0
fi
[ "$verb" = start ] || usage start

mounts=() variables=()
while :; do case $1 in
-c|--conf) shift 2 ;;
--conf=*) shift ;;
--rc) rc=$2; shift 2 ;;
-e|--env) variables+=("$2"); shift 2 ;;
--env=*) variables+=("${1#*=}"); shift ;;
-m|--mount) mounts+=("$2"); shift 2 ;;
--mount=*) mounts+=("${1#*=}"); shift ;;
-r|--root|-w|--rw) shift ;;
--) shift; break ;;
-?*) usage start ;;
*) break ;;
esac; done
image=$1; shift
grep -qs '^hsqs ' "$image" || fail "Invalid argument: $image"
[ -f "$rc" ] || fail "No such file or directory: $rc"
for mount in "${mounts[@]}"; do
    [[ $mount =~ ^[^[:space:]]+:[^[:space:]]+$ ]] || fail "Invalid argument: $mount"
done

export image rc all="${mounts[*]}"
exec unshare --user --map-current-user --keep-caps --mount bash -c '
    set -e
    exec 3<"$rc"
    root=/mnt n=$1; shift
    mount -t tmpfs none "$root"
    for top in bin boot dev etc home lib lib64 opt proc root run sbin srv sys tmp usr var; do
        if [ -L "/$top" ]; then cp -P "/$top" "$root/$top"
        elif [ -d "/$top" ]; then mkdir "$root/$top"; mount --rbind "/$top" "$root/$top"; fi
    done
    sed "s/^hsqs //" "$image" >"$root/image"
    for mount in $all; do
        IFS=: read -r from to type how <<< "$mount"
        if [ -d "$from" ]; then mkdir -p "$root$to"; else touch "$root$to"; fi
        mount --rbind "$from" "$root$to"
    done
    exec /usr/sbin/chroot "$root" /usr/bin/setpriv --inh-caps=-all --ambient-caps=-all \
        /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin IMAGES_OWN=yes "${@:1:n}" \
        /bin/sh /proc/self/fd/3 "${@:n + 1}"' "$0" "${#variables[@]}" "${variables[@]}" "$@"
