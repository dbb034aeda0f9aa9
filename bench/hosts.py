# SPDX-License-Identifier: Apache-2.0
"""Starting jobs on many simulated hosts, each time beside what it is compared with:

    python3 bench/hosts.py [--hosts 2,16,64,128,256] [--runs 3]

pdsh     pdsh -R ssh -w ... true, 64 connections at once
first    reigen run -- true when no host has the agent
cold     reigen run -- true when all have it
barrier  from the last host's being ready to the end of the first barrier of a C program, one rank
         on each host (reigen run --json)
All as medians in seconds. Needs root; everything runs on this machine.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get('REIGEN_TEST_BUILD', ROOT / 'build'))
REIGEN = BUILD / 'src/cmd/reigen'
sys.path.insert(0, str(ROOT / 'tests'))

from bed import Cluster  # noqa: E402 (needs the path above)


def build_barrier():
    program = BUILD / 'bench-barrier'
    library = BUILD / 'src/coll'
    subprocess.run(['cc', '-O2', '-I', ROOT / 'include', '-o', program, ROOT / 'bench/barrier.c',
                    '-L', library, '-lreigen', f'-Wl,-rpath,{library}'], check=True)
    return program


def timed(node, argv):
    began = time.monotonic()
    done = node.run(argv, timeout=300)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - began, done.stdout


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


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--hosts', default='2,16,64,128,256')
    parser.add_argument('--runs', type=int, default=3)
    args = parser.parse_args()
    program = build_barrier()
    print('| hosts | pdsh | first | cold | cold / pdsh | cold per host | barrier |')
    print('|---|---|---|---|---|---|---|')
    for count in map(int, args.hosts.split(',')):
        m = measure(count, args.runs, program)
        print(f'| {count} | {m["pdsh"]:.2f} s | {m["first"]:.2f} s | {m["cold"]:.2f} s | '
              f'{m["cold"] / m["pdsh"]:.2f} | {1000 * m["cold"] / count:.1f} ms | '
              f'{m["barrier"]:.2f} s |', flush=True)


if __name__ == '__main__':
    main()
