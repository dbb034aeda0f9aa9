# SPDX-License-Identifier: Apache-2.0
"""Starting jobs on simulated hosts and in containers, each time beside what it is compared with.

usage: bench/hosts.py [--hosts 2,16,64,128,256] [--runs 3] [--write]

Prints tables; --write puts them into docs/benchmarks-launch.md, with the targets. What the columns
are stands there, and in PAGE_TEXT. Needs root and tests/bed; everything runs on this machine.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / 'docs/benchmarks-launch.md'
PAGE_TEXT = """# Benchmarks: starting on hosts and in containers

`bench/hosts.py --write` (as root) measures this page on simulated hosts of one machine. Figures are
medians; within a run all take turns.

## Hosts reached by ssh

Nearly all of the time is that of ssh and sshd; runs: {runs}. *first* is `reigen run -H
node1:1,... -- true` when no host has the agent, *cold* when all have it. *pdsh* is `pdsh -R ssh
-f 64 -w ... true`. *barrier* is from the last host's being ready to the end of a first barrier.

{hosts}

Targets: with 64 hosts cold at most 1.1 times pdsh, and a barrier within 1.5 s; a cost per host that
does not rise to 256.

## Standard input

The same bytes to `wc -c` on another host, the start included; runs: {feeding_runs}. Within ssh
Reigen encrypts once more, which two cores feel.

{feeding}

## Containers

Two hosts with two ranks each of a C program; image and agents are there; runs: {container_runs}.
The limit is one ssh connection and 1.3 times `docker run`.

{containers}

Measured {now} on {cores} cores, load {load:.1f} at the end.
"""
sys.path.insert(0, str(ROOT / 'tests'))

import containers  # noqa: E402 (needs the path above)
import feeding  # noqa: E402
from bed import Cluster  # noqa: E402
from starting import REIGEN, build_barrier, timed  # noqa: E402


def barrier_time(output, hosts):
    events = [json.loads(line) for line in output.splitlines()]
    ready = [e['time'] for e in events if e['event'] == 'host' and e['phase'] == 'ready']
    met = [e['time'] for e in events if e['event'] == 'output' and e['text'] == 'met']
    assert len(ready) == hosts and len(met) == hosts
    return max(met) - max(ready)


def forget_agents(cluster):
    for node in cluster.nodes:
        subprocess.run(['rm', '-rf', node.path('.cache/reigen')], check=True)


def measure(count, runs, program):
    with Cluster(count) as cluster:
        first = cluster[1]
        names = [node.name for node in cluster.nodes]
        hosts = ','.join(f'{name}:1' for name in names)
        jobs = {
            'pdsh': ['pdsh', '-R', 'ssh', '-f', '64', '-w', ','.join(names), 'true'],
            'first': [REIGEN, 'run', '-H', hosts, '--', 'true'],
            'cold': [REIGEN, 'run', '-H', hosts, '--', 'true'],
            'barrier': [REIGEN, 'run', '--json', '-H', hosts, '--', program],
        }
        found = {name: [] for name in jobs}
        for _ in range(runs):
            forget_agents(cluster)
            for name, argv in jobs.items():
                seconds, output = timed(first, argv)
                found[name].append(barrier_time(output, count) if name == 'barrier' else seconds)
    return {name: statistics.median(values) for name, values in found.items()}


def hosts_table(counts, runs):
    """The table's lines, printed as they come."""
    program = build_barrier()
    lines = ['| hosts | pdsh | first | cold | cold / pdsh | cold per host | barrier |',
             '|---|---|---|---|---|---|---|']
    print('\n'.join(lines))
    for count in counts:
        m = measure(count, runs, program)
        lines.append(f'| {count} | {m["pdsh"]:.2f} s | {m["first"]:.2f} s | {m["cold"]:.2f} s | '
                     f'{m["cold"] / m["pdsh"]:.2f} | {1000 * m["cold"] / count:.1f} ms | '
                     f'{m["barrier"]:.2f} s |')
        print(lines[-1], flush=True)
    return '\n'.join(lines)


def containers_table(runs):
    m = containers.measure(runs)
    limit = m['ssh'] + 1.3 * m['docker']
    lines = ['| | s | at most | |', '|---|---|---|---|',
             f'| `ssh node2 true` | {m["ssh"]:.3f} | | |',
             f'| `docker run --rm --network host IMAGE true` | {m["docker"]:.3f} | | |',
             '| `reigen run -H node1:2,node2:2 --image IMAGE`, to the first barrier | '
             f'{m["reigen"]:.3f} | {limit:.3f} | {verdict(m["reigen"] <= limit)} |',
             '| from there to the end of reigen, containers removed | '
             f'{m["end"]:.3f} | 1 | {verdict(m["end"] <= 1)} |']
    print('\n'.join(lines))
    return '\n'.join(lines)


def verdict(good):
    return 'pass' if good else 'fail'


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--hosts', default='2,16,64,128,256')
    parser.add_argument('--runs', type=int, default=3)
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    hosts = hosts_table([int(n) for n in args.hosts.split(',')], args.runs)
    in_containers = containers_table(3 * args.runs)
    fed = feeding.table(args.runs)
    if args.write:
        now = datetime.datetime.now(datetime.timezone.utc)
        PAGE.write_text(PAGE_TEXT.format(
            hosts=hosts, containers=in_containers, runs=args.runs, container_runs=3 * args.runs,
            feeding=fed, feeding_runs=args.runs,
            now=f'{now:%Y-%m-%d %H:%M} UTC', cores=len(os.sched_getaffinity(0)),
            load=os.getloadavg()[0]))


if __name__ == '__main__':
    main()
