#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install the Debian packages that one purpose needs and this machine lacks.
#
# usage: tools/deps.sh [--list] build|demo|check|check-all|soak|hosts|slurm|kubernetes|fresh|deb|
# usage:                        bench
#
# Says what it installs; says nothing when nothing is missing (one dpkg-query, some 30 ms). As root,
# or through sudo. Where there is no apt it names the packages and goes on, since the same things
# may be installed under other names; the build then says what it does not find.
set -eu

build='meson ninja-build gcc g++ libc6-dev pkg-config musl-tools linux-libc-dev libsodium-dev
    libbearssl-dev libfyaml-dev libjansson-dev uthash-dev libcmocka-dev python3
    python3-venv'
torch='python3-torch python3-numpy python3-cloudpickle libopenblas0-pthread'
check='python3-pytest python3-pytest-timeout python3-pytest-xdist python3-yaml python3-pyte man-db
    bash-completion zsh fish util-linux procps psmisc binutils openssh-client openssh-server
    iproute2 openssl libcurl4-openssl-dev curl wget ccache'
check_all='valgrind ca-certificates default-jre-headless'
fuzz='clang libclang-rt-14-dev'
# Simulated hosts with all that runs on them: tests/hosts.
hosts='iproute2 iptables iputils-ping util-linux procps docker.io runc podman crun fuse-overlayfs
    slirp4netns containernetworking-plugins uidmap openssh-server openssh-client pdsh tcsh
    csh fish zsh openmpi-bin libopenmpi-dev mpich libmpich-dev debootstrap busybox-static musl-tools
    qemu-user-static ca-certificates'
# Slurm on the simulated hosts: tests/slurm.
slurm='slurm-wlm munge libpmix-dev'
# Kubernetes on the simulated hosts: tests/kubernetes. tests/bed/kube_build.py fetches or builds
# what Debian lacks: a newer Go, kubectl, Helm and Kubernetes itself.
kubernetes='containerd runc containernetworking-plugins iptables conntrack iproute2 util-linux
    procps openssl curl'
# A Debian with nothing: tools/fresh.sh.
fresh='debootstrap util-linux git'
# make deb: which packages a program needs.
deb='dpkg-dev'
# The peers, and simulated hosts.
bench='cmake libopenmpi-dev openmpi-bin iperf3 ca-certificates iproute2 iptables util-linux procps
    openssh-client openssh-server'
# To compile Horovod against Debian's PyTorch.
bench="$bench libtorch-dev pybind11-dev python3-dev python3-pip python3-wheel python3-setuptools
    python3-cffi python3-psutil python3-yaml python3-cloudpickle python3-packaging"


# Debian's PyTorch is wanted unless the user's own python has one.
if [ "${1-}" != --list ] && sh "$(dirname "$0")/python.sh" --has-torch; then
    torch=
fi

list=
if [ "${1-}" = --list ]; then
    list=1
    shift
fi
case ${1-} in
build | demo) want="$build $torch" ;;
check) want="$build $torch $check" ;;
check-all) want="$build $torch $check $check_all $hosts $slurm $kubernetes $fresh $deb" ;;
soak) want="$build $torch $check $check_all $fuzz" ;;
hosts) want="$build $torch $check $hosts" ;;
slurm) want="$build $torch $check $hosts $slurm" ;;
kubernetes) want="$build $torch $check $hosts $kubernetes" ;;
fresh) want="$fresh" ;;
deb) want="$build $deb" ;;
bench) want="$build $torch $bench" ;;
*)
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
    ;;
esac
# shellcheck disable=SC2086  # a list of words
want=$(printf '%s\n' $want)
if [ -n "$list" ]; then
    echo "$want"
    exit 0
fi

# The packages of $want that are not installed, on one line.
missing() {
    # shellcheck disable=SC2086
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' $want 2>/dev/null |
        awk -v want="$want" '
            $1 == "installed" { have[$2] = 1 }
            END { n = split(want, w, "\n")
                  for (i = 1; i <= n; i++) if (!(w[i] in have)) printf "%s ", w[i] }'
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    mkdir -p build
    if [ ! -e "build/.deps-told-$1" ]; then
        echo "packages: no apt-get here. Reigen needs what Debian calls:" >&2
        echo "$want" | tr '\n' ' ' | fold -s -w 96 | sed 's/^/    /' >&2
        echo >&2
        : >"build/.deps-told-$1"
    fi
    exit 0
fi

lacking=$(missing)
[ -n "$lacking" ] || exit 0

# After su, root may have an ordinary user's PATH, in which dpkg misses programs.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "packages: only root can install these, and there is no sudo here:" >&2
        echo "    apt-get install $lacking" >&2
        exit 77
    fi
    root=sudo
fi

# shellcheck source=tools/progress.sh
. "$(dirname "$0")/progress.sh"
log=$(mktemp "${TMPDIR:-/tmp}/reigen-apt.XXXXXX")
policy=/usr/sbin/policy-rc.d
trap 'rm -f "$log"; [ -z "${guarded-}" ] || $root rm -f "$policy"' EXIT
# The tests start their own daemons; installing those packages is to start none here.
case $lacking in
*docker.io* | *openssh-server* | *slurm* | *munge*)
    if [ ! -e "$policy" ]; then
        guarded=1
        printf '#!/bin/sh\nexit 101\n' | $root tee "$policy" >/dev/null
        $root chmod 755 "$policy"
    fi
    ;;
esac
apt() {
    progress "packages: apt-get $1" "$log" $root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
}
# It asks for a password now, and not below a line that changes. (sudo -v may ask for one although
# the commands need none: it wants every rule of the user to be without one.)
[ -z "$root" ] || sudo true

echo "packages: installing $lacking"
# A fresh machine has no lists at all; an old one has lists that name files which are gone.
# shellcheck disable=SC2086
if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 ||
    ! apt install --no-install-recommends $lacking; then
    # dpkg itself may have been interrupted the last time. It asks nothing, as nobody sees it.
    if [ -n "$(dpkg --audit 2>/dev/null)" ]; then
        $root env DEBIAN_FRONTEND=noninteractive dpkg --force-confdef --force-confold \
            --configure -a </dev/null >>"$log" 2>&1 || true
    fi
    if ! apt update || ! apt install --no-install-recommends $lacking; then
        tail -n 20 "$log" >&2
        echo "packages: apt-get could not install $lacking" >&2
        exit 69
    fi
fi
lacking=$(missing)
if [ -n "$lacking" ]; then
    echo "packages: apt-get says that it is done, but these are still missing: $lacking" >&2
    exit 69
fi
