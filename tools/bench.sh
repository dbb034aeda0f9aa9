#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make bench: packages, build, the peers, then bench/bench.py with the arguments given here;
# with --against TREE this tree beside another one of Reigen (bench/against.py); with --gpu figures
# of this machine's GPU (tools/gpu.sh).
set -eu
cd "$(dirname "$0")/.."
case " $* " in
*' -h '* | *' --help '*) exec /usr/bin/python3 bench/bench.py --help ;;
esac
if [ "${1:-}" = --gpu ]; then
    shift
    exec tools/gpu.sh bench "$@"
fi
tools/deps.sh bench
# shellcheck source=tools/progress.sh
. tools/progress.sh
tools/build.sh --quiet
if [ "${1:-}" = --against ]; then
    shift
    exec /usr/bin/python3 bench/against.py "$@"
fi
bench/horovod.sh || true
tools/frameworks.sh tf >/dev/null || true
tools/frameworks.sh torch2 >/dev/null || true
tools/mpis.sh openmpi5 >/dev/null || true
/usr/bin/python3 bench/bench.py "$@"
[ $# = 0 ] || exit 0
/usr/bin/python3 bench/elastic.py --write
# Simulated hosts are made by root only.
if [ "$(id -u)" != 0 ]; then
    echo 'bench: run as root to measure hosts, containers and engines too'
    exit 0
fi
tools/deps.sh hosts
/usr/bin/python3 bench/hosts.py --write
/usr/bin/python3 bench/engines.py --ssh --write
/usr/bin/python3 bench/between.py --write
/usr/bin/python3 bench/diagnosis.py --write
/usr/bin/python3 bench/regress.py --record
tools/deps.sh slurm
/usr/bin/python3 bench/slurm.py --write
tools/deps.sh kubernetes
/usr/bin/python3 bench/kubernetes.py --write
