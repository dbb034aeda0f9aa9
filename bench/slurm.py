# SPDX-License-Identifier: Apache-2.0
"""Jobs in Slurm beside what Slurm and Docker take for themselves, on simulated nodes.

usage: bench/slurm.py [--rounds N] [--nodes N] [--write]

All commands run inside one allocation, on the login node, and take turns, in the opposite order
every other round: `srun true` and our own job of `true` on two nodes and on many; a C program that
srun starts; a container of Docker's; the first output of a script of `srun reigen srun-docker`, and
the time from the script's end to srun's. Each begins when nothing is left of the step before.
Prints a table of medians and 10th percentiles, and which targets were met; --write puts it into
docs/benchmarks-slurm.md. Ends with 1 when a target was missed.
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
SETTLE_S = 30
DOCKER_FACTOR = 1.2  # of docker run's time, beside srun's
END_MS = 1000
MANY_FACTOR = 1.5
BARE_MS = 50
PMIX_MS = 50

PAGE_TEXT = """# Benchmarks: Slurm

`bench/slurm.py --write` measures this page: simulated nodes on one machine with Slurm 22.05, and
Docker for containers. Milliseconds within an allocation are the median (10th percentile) of
{rounds} rounds in turns.

{table}

{targets}

Measured {now} on {cores} cores; load before it {load:.1f}.
"""


# ---------------------------------------------------------------------------- inside the allocation

def ask(argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=True)
    return done.stdout


def settle():
    """A step's end takes the nodes some time after srun has returned."""
    deadline = time.monotonic() + SETTLE_S
    while ask(['squeue', '-h', '-s', '-o', '%i', '-j', os.environ['SLURM_JOB_ID']]).strip():
        if time.monotonic() > deadline:
            raise SystemExit('a step of the allocation does not end')
        time.sleep(0.02)
    time.sleep(0.1)


def timed(argv, env=None):
    settle()
    begin = time.perf_counter()
    done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=120, check=False, env={**os.environ, **(env or {})})
    took = (time.perf_counter() - begin) * 1000
    if done.returncode:
        raise SystemExit(f'{argv}: {done.returncode}\n{done.stdout}{done.stderr}')
    return took, done.stdout


def take_turns(commands, number):
    """{name: milliseconds} of {name: (argv, env)}"""
    names = list(commands) if number % 2 else list(commands)[::-1]
    return {name: timed(*commands[name])[0] for name in names}


def plain(count, number):
    """Jobs without containers: what Slurm takes, and what we take."""
    here = ['srun', '-N', count, '-n', count]
    commands = {'srun': (here + ['true'],),
                'ours': ([REIGEN, 'run', '--on', 'slurm', '-np', count, '--', 'true'],)}
    if count == FEW:
        library = {'REIGEN_LIBRARY': str(ROOT / 'build/src/coll/libreigen.so')}
        commands |= {'srun pmix': (here + ['--mpi=pmix', 'true'],),
                     'ours pmix': (here + ['--mpi=pmix', AGAIN, 1, 60000, 1], library)}
    return take_turns(commands, number)


def in_containers():
    """(first output, from the last to the end of srun) of a script in containers"""
    settle()
    begin = time.time()
    done = subprocess.run(['srun', '-N', str(FEW), '-n', str(FEW), str(REIGEN), 'srun-docker',
                           '--container=base', '--script=./times.sh'], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, check=False)
    end = time.time()
    if done.returncode:
        raise SystemExit(f'srun-docker: {done.returncode}\n{done.stdout}{done.stderr}')
    first, last = (int(word) / 1e9 for word in done.stdout.split())
    return (first - begin) * 1000, (end - last) * 1000


def contained():
    script = ('a=$(date +%s%N); docker run --rm --network=host base true; b=$(date +%s%N); '
              'echo $((b-a))')
    alone = int(timed(['srun', '-N1', '-n1', 'sh', '-c', script])[1]) / 1e6
    # Nodes of one machine share its cores, so a job's containers wait for each other.
    both = timed(['srun', '-N', FEW, '-n', FEW, 'sh', '-c', script])[1]
    first, end = in_containers()
    return {'alone': alone, 'docker': max(int(word) for word in both.split()) / 1e6,
            'srun': timed(['srun', '-N', FEW, '-n', FEW, 'true'])[0], 'first': first, 'end': end}


def inside(plan):
    for number in range(plan['rounds'] + 1):  # the first warms up
        found = contained() if plan['containers'] else plain(plan['nodes'], number)
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
        done = cluster.head.run(['salloc', '-Q', '-N', nodes, '-n', nodes, '/usr/bin/python3',
                                 __file__, '--inside', json.dumps(plan)], timeout=1800)
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
    bound = median(few['srun pmix']) + PMIX_MS
    yield (f'the C program: `srun --mpi=pmix true` + {PMIX_MS} ms', f'{bound:.0f} ms',
           median(few['ours pmix']), bound)


def page(args):
    """The text, and whether all targets were met."""
    load = os.getloadavg()[0]
    few = measure(args.rounds, FEW, False)
    many = measure(args.rounds, args.nodes, False)
    docker = measure(args.rounds, FEW, True)
    data = few, many, args.nodes, docker
    found = list(targets(*data))
    table = ['| | ms |', '|---|---|', *(f'| {name} | {cell(v)} |' for name, v in rows(*data))]
    limits = ['| target | at most | measured | |', '|---|---|---|---|']
    limits += [f'| {name} | {most} | {took:.0f} ms | {"pass" if took <= bound else "MISSED"} |'
               for name, most, took, bound in found]
    now = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
    text = PAGE_TEXT.format(rounds=args.rounds, table='\n'.join(table), now=now,
                            targets='\n'.join(limits), cores=os.cpu_count(), load=load)
    return text, all(took <= bound for _, _, took, bound in found)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--rounds', type=int, default=21)
    parser.add_argument('--nodes', type=int, default=64)
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--inside', type=json.loads)
    args = parser.parse_args()
    if args.inside:
        inside(args.inside)
        return 0
    for program in (REIGEN, AGAIN):
        if not program.exists():
            raise SystemExit(f'bench: there is no {program}: run `make` and `make check` first')
    text, good = page(args)
    print(text)
    if args.write:
        PAGE.write_text(text)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
