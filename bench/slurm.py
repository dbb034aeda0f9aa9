# SPDX-License-Identifier: Apache-2.0
"""Jobs in Slurm beside what Slurm and Docker take for themselves, on simulated nodes.

usage: bench/slurm.py [--rounds N] [--nodes N] [--write]

All commands run inside one allocation, on the login node, and take turns: `srun true` and our own
job of `true` on two nodes and on many; a container of Docker's; the first output of a script of
`srun reigen srun-docker`, and the time from the script's end to srun's. Prints a table of medians
and 10th percentiles; --write puts it into docs/benchmarks-slurm.md.
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
PAGE = ROOT / 'docs/benchmarks-slurm.md'
REIGEN = ROOT / '.venv/bin/reigen'
AGAIN = ROOT / 'build/tests/programs/again'
FEW = 2
DOCKER_FACTOR = 1.2  # of docker run's time, beside srun's
END_MS = 1000
MANY_FACTOR = 1.5
BARE_MS = 50

PAGE_TEXT = """# Benchmarks: Slurm

`bench/slurm.py --write` measures this page anew: simulated nodes on one machine with Slurm 22.05,
and Docker where there are containers; inside an allocation, milliseconds as the median (10th
percentile) of {rounds} rounds in which everything takes turns.

{table}

{targets}

Measured {now} on {cores} cores, load {load:.1f} at the end.
"""


# ---------------------------------------------------------------------------- inside the allocation

def timed(argv, env=None):
    begin = time.perf_counter()
    done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False, env={**os.environ, **(env or {})})
    took = (time.perf_counter() - begin) * 1000
    if done.returncode:
        raise SystemExit(f'{argv}: {done.returncode}\n{done.stdout}{done.stderr}')
    return took, done.stdout


def plain(count):
    """Jobs without containers: what Slurm takes, and what we take."""
    here = ['-N', count, '-n', count]
    library = {'REIGEN_LIBRARY': str(ROOT / 'build/src/coll/libreigen.so')}
    found = {'srun': timed(['srun', *here, 'true'])[0],
             'ours': timed([REIGEN, 'run', '--on', 'slurm', '-np', count, '--', 'true'])[0]}
    if count == FEW:
        found['srun pmix'] = timed(['srun', *here, '--mpi=pmix', 'true'])[0]
        found['ours pmix'] = timed(['srun', *here, '--mpi=pmix', AGAIN, 1, 60000, 1], library)[0]
    return found


def contained():
    script = ('a=$(date +%s%N); docker run --rm --network=host base true; b=$(date +%s%N); '
              'echo $((b-a))')
    alone = int(timed(['srun', '-N1', '-n1', 'sh', '-c', script])[1]) / 1e6
    # Nodes of one machine share its cores, so a job's containers wait for each other.
    both = timed(['srun', '-N', FEW, '-n', FEW, 'sh', '-c', script])[1]
    docker = max(int(word) for word in both.split()) / 1e6
    srun = timed(['srun', '-N', FEW, '-n', FEW, 'true'])[0]
    begin = time.time()
    done = timed(['srun', '-N', FEW, '-n', FEW, REIGEN, 'srun-docker', '--container=base',
                  '--script=./times.sh'])[1]
    end, (first, last) = time.time(), (int(word) / 1e9 for word in done.split())
    return {'srun': srun, 'alone': alone, 'docker': docker, 'first': (first - begin) * 1000,
            'end': (end - last) * 1000}


def inside(plan):
    for number in range(plan['rounds'] + 1):  # the first warms up
        found = contained() if plan['containers'] else plain(plan['nodes'])
        if number:
            print(json.dumps(found), flush=True)


# ---------------------------------------------------------------------------- outside

def measure(rounds, nodes, containers):
    """{name: [milliseconds, ...]}"""
    sys.path.insert(0, str(ROOT / 'tests'))
    from bed import SlurmCluster
    plan = {'rounds': rounds, 'nodes': nodes, 'containers': containers}
    samples = {}
    with SlurmCluster(nodes, dockerd=containers, images=['base'] if containers else []) as cluster:
        cluster.head.write('times.sh', '#!/bin/sh\ndate +%s%N\nsleep 0.3\ndate +%s%N\n', mode=0o755)
        done = cluster.head.run(['salloc', '-N', nodes, '-n', nodes, '/usr/bin/python3', __file__,
                                 '--inside', json.dumps(plan)], timeout=900)
        if done.returncode:
            raise SystemExit(f'bench: {done.stdout}{done.stderr}')
        for line in done.stdout.splitlines():
            for name, took in json.loads(line).items():
                samples.setdefault(name, []).append(took)
    return samples


def cell(values):
    return f'{statistics.median(values):.0f} ({sorted(values)[len(values) // 10]:.0f})'


def rows(few, many, nodes, docker):
    yield f'`srun true` on {FEW} nodes', few['srun']
    yield f'`reigen run --on slurm -- true` on {FEW} nodes', few['ours']
    yield f'`srun --mpi=pmix true` on {FEW} nodes', few['srun pmix']
    yield 'likewise a C program with our runtime: init, one allreduce, shutdown', few['ours pmix']
    yield f'`srun true` on {nodes} nodes', many['srun']
    yield f'`reigen run --on slurm -- true` on {nodes} nodes', many['ours']
    yield '`docker run --rm --network=host IMAGE true` on one node', docker['alone']
    yield f'likewise on {FEW} nodes at once, which share the machine', docker['docker']
    yield f'`srun reigen srun-docker` on {FEW} nodes: first output', docker['first']
    yield 'likewise: from the end of the script to the end of srun', docker['end']


def targets(few, many, nodes, docker):
    median = statistics.median
    bound = median(docker['srun']) + DOCKER_FACTOR * median(docker['docker'])
    yield (f'first output: `srun true` + {DOCKER_FACTOR} x `docker run` at once', f'{bound:.0f} ms',
           median(docker['first']), bound)
    yield ('from the script\'s end to srun\'s', f'{END_MS} ms', median(docker['end']), END_MS)
    bound = MANY_FACTOR * median(many['srun'])
    yield (f'{nodes} nodes without containers: {MANY_FACTOR} x `srun true`', f'{bound:.0f} ms',
           median(many['ours']), bound)
    bound = median(few['srun']) + BARE_MS
    yield (f'{FEW} nodes without containers: `srun true` + {BARE_MS} ms', f'{bound:.0f} ms',
           median(few['ours']), bound)


def page(args):
    few = measure(args.rounds, FEW, False)
    many = measure(args.rounds, args.nodes, False)
    docker = measure(args.rounds, FEW, True)
    data = few, many, args.nodes, docker
    table = ['| | ms |', '|---|---|', *(f'| {name} | {cell(v)} |' for name, v in rows(*data))]
    limits = ['| target | at most | measured | |', '|---|---|---|---|']
    limits += [f'| {name} | {most} | {found:.0f} ms | {"pass" if found <= bound else "MISSED"} |'
               for name, most, found, bound in targets(*data)]
    now = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
    return PAGE_TEXT.format(rounds=args.rounds, table='\n'.join(table), now=now,
                            targets='\n'.join(limits), cores=os.cpu_count(),
                            load=os.getloadavg()[0])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--rounds', type=int, default=11)
    parser.add_argument('--nodes', type=int, default=64)
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--inside', type=json.loads)
    args = parser.parse_args()
    if args.inside:
        inside(args.inside)
        return
    text = page(args)
    print(text)
    if args.write:
        PAGE.write_text(text)


if __name__ == '__main__':
    main()
