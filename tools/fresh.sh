#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make fresh` does: try commands in a Debian 12 that has nothing but git and make.
#
# usage: tools/fresh.sh [COMMAND...]      default: what the README tells a newcomer to type
#   e.g. tools/fresh.sh 'make check ARGS=unit'
#
# Your own machine hides what an installation script forgets. The last commit is cloned into a new
# root, and bash runs COMMAND there as root, with an empty HOME, in mount and pid name spaces of its
# own: whatever it starts or installs is gone when it ends. Only the network is this machine's, as
# are the places where apt and pip look; and ccache's folder, where CCACHE_DIR names it: then ccache
# is there as well, before `make check` installs it. The root's base is made once by debootstrap,
# below build/bed (REIGEN_BED_DIR names another folder; it has to lie on a disk's file system, not
# on an overlay).
#
# Exit status: COMMAND's; 77 where this machine can't do it.
set -euo pipefail
cd "$(dirname "$0")/.."
limit_s=3000
# After su, root may have an ordinary user's PATH.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
newcomer='make demo
make check
make wheel
/usr/bin/python3 -m venv --system-site-packages ~/try
~/try/bin/pip install build/dist/*.whl
. ~/try/bin/activate
horovodrun -np 2 python examples/pytorch_mnist.py --epochs 1'

refuse() {
    echo "fresh: $*" >&2
    exit 77
}
[ "$(id -u)" = 0 ] || refuse 'only root can make a root of its own; try: sudo make fresh'
tools/deps.sh fresh
commands=${*:-$newcomer}
place=$(realpath -m "${REIGEN_BED_DIR:-build/bed}")/fresh
mkdir -p "$place"

# How this machine reaches packages, copied into a root: apt's sources and proxies, pip's settings,
# certificates, name service. And packages come without what only people read, as in Debian's own
# slim images.
settle() {
    local file
    printf 'path-exclude=/usr/share/%s/*\n' info locale man >"$1/etc/dpkg/dpkg.cfg.d/slim"
    echo force-unsafe-io >>"$1/etc/dpkg/dpkg.cfg.d/slim"
    rm -f "$1/etc/apt/sources.list"
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        [ ! -f "$file" ] || cp "$file" "$1$file"
    done
    for file in /etc/apt/apt.conf.d/*; do
        ! grep -qiE 'proxy|acquire|cert' "$file" || cp "$file" "$1$file"
    done
    for file in /etc/pip.conf /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
        [ ! -f "$file" ] || cp --dereference "$file" "$1$file"
    done
}

base=slim packages=ca-certificates,git,make
[ -z "${CCACHE_DIR-}" ] || base=slim-ccache packages=$packages,ccache
make_base() {
    local mirror
    echo "fresh: making Debian's base in $place, once; some two minutes"
    rm -rf "${place:?}/$base"
    mkdir -p "$place/debs"
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -n 1)
    if ! debootstrap --variant=minbase --include="$packages" \
        --cache-dir="$place/debs" bookworm "$place/$base" "$mirror" >"$place/base.log" 2>&1; then
        tail -n 5 "$place/base.log" >&2
        refuse "debootstrap failed; $place/base.log says why"
    fi
    settle "$place/$base"
    rm -rf "$place/debs"
    : >"$place/$base/.complete"
}
exec 9>"$place/lock"
flock 9
[ -e "$place/$base/.complete" ] || make_base 9>&-
flock -u 9

own=$(mktemp -d "$place/run.XXXXXX")
trap 'rm -rf --one-file-system "$own"' EXIT
mkdir -p "$own/changes/src" "$own/work" "$own/root"
git clone -q . "$own/changes/src/reigen"

# Runs as process 1 of the new name spaces: $0 is the base, $1 this run's folder, $2 the commands.
inside='
    mount -t overlay -o "lowerdir=$0,upperdir=$1/changes,workdir=$1/work" fresh "$1/root" ||
        { echo "fresh: overlayfs refuses $0; REIGEN_BED_DIR names another folder" >&2; exit 77; }
    cd "$1/root"
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount --rbind /sys/fs/cgroup sys/fs/cgroup
    mount --rbind /dev dev
    mount -t tmpfs tmpfs tmp
    mount -t tmpfs tmpfs run
    if [ -n "${CCACHE_DIR-}" ]; then
        mkdir run/ccache
        mount --bind "$CCACHE_DIR" run/ccache
    fi
    exec chroot . env -i HOME=/root TERM=dumb LANG=C.UTF-8 ${CI:+CI=$CI} \
        ${CCACHE_DIR:+CCACHE_DIR=/run/ccache} \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -c "cd /src/reigen && set -ex && eval \"\$0\"" "$2"
'
timeout --kill-after=10 "$limit_s" \
    unshare --mount --pid --fork --kill-child bash -euc "$inside" "$place/$base" "$own" "$commands"
