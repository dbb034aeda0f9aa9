# SPDX-License-Identifier: Apache-2.0
"""The user's own mpirun through reigen rsh, through the least there could be, and through ssh.

usage: bench/engines.py [--rounds N] [--nodes N] [--ssh] [--only NAME,...] [--write]

Simulated hosts (tests/bed), two ranks of `true` on each, agents already up: one job of `--engine
script` runs all of it, so that what is measured is mpirun from its start to its end. In a round
every MPI runs once with each way to start its daemons: reigen rsh; barersh (bench/barersh.c), which
hands its descriptors to a process beside the daemon and does nothing else; and, with --ssh, ssh.
Prints a table of medians and 10th percentiles; --write puts it into docs/benchmarks-engines.md.
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
OUT = ROOT / 'build/bench/engines'
PAGE = ROOT / 'docs/benchmarks-engines.md'
REIGEN = ROOT / '.venv/bin/reigen'
MPIS = {'openmpi4': 'Open MPI 4.1', 'openmpi5': 'Open MPI 5.0', 'mpich4': 'MPICH 4.0',
        'mpich5': 'MPICH 5.0', 'impi': 'Intel MPI 2021'}
OTHERS = {'pdsh': 'pdsh', 'one': 'one command'}
AGENT_VARIABLES = ['OMPI_MCA_plm_rsh_agent', 'PRTE_MCA_plm_ssh_agent', 'HYDRA_LAUNCHER_EXEC',
                   'I_MPI_HYDRA_BOOTSTRAP_EXEC']
LIMIT = 15   # s, of one run
# What an engine through Reigen may cost beside the same through barersh: whichever is more.
FACTOR, MORE_MS = 1.5, 25

PAGE_TEXT = """# Benchmarks: the user's own mpirun

`bench/engines.py --ssh --write` measures this page: {nodes} simulated hosts on one machine, two
ranks of `true` on each, agents already up. Milliseconds from mpirun's start to its end are the
median (10th percentile) of {rounds} rounds in turns. *barersh* is the least that could stand in
for ssh: a unix socket, and a process that runs the command. Reigen may take 1.5 times as long, or
25 ms more. *pdsh* and *one command* run `true` without an MPI. Runs that failed or took more than
15 s are counted and left out; Open MPI 5 has such by any way when ranks end at once.

{table}

Measured {now} on {cores} cores, load {load:.1f} at the end.
"""


# ---------------------------------------------------------------------------- inside the job

def prefix(name):
    return subprocess.run([ROOT / 'tools/mpis.sh', name], capture_output=True, text=True,
                          check=True, timeout=900).stdout.strip()


def case(name, way, prefixes):
    """(argv, environment) of one run."""
    agent = {'reigen': os.environ['REIGEN_RSH'], 'barersh': str(OUT / 'barersh'),
             'ssh': '/usr/bin/ssh'}[way]
    env = {**os.environ, 'BARERSH_DIR': str(OUT)}
    if way != 'reigen':
        env.update({v: agent for v in AGENT_VARIABLES})
    hosts = [entry.rpartition(':')[0] for entry in os.environ['hostlist'].split(',')]
    if name == 'one':
        return [agent, hosts[-1], 'true'], env
    if name == 'pdsh':
        return ['pdsh', '-f', str(len(hosts)), '-R', 'exec', '-w', ','.join(hosts), agent, '%h',
                'true'], env
    env['PATH'] = f'{prefixes[name]}/bin:{env["PATH"]}'
    return ['mpirun', 'true'], env


def measure(argv, env):
    """Milliseconds, or None when it failed or hung."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None
    return (time.perf_counter() - begin) * 1000 if done.returncode == 0 else None


def inside(plan):
    for number in range(plan['rounds'] + 1):  # the first warms up
        for name in plan['names']:
            for way in plan['ways']:
                took = measure(*case(name, way, plan['prefixes']))
                if number:
                    print(json.dumps([name, way, took]), flush=True)


# ---------------------------------------------------------------------------- outside

def run(args):
    sys.path.insert(0, str(ROOT / 'tests'))
    from bed import Cluster
    OUT.mkdir(parents=True, exist_ok=True)
    subprocess.run(['cc', '-O2', '-o', OUT / 'barersh', ROOT / 'bench/barersh.c'], check=True)
    names = args.only or [*MPIS, *OTHERS]
    plan = {'rounds': args.rounds, 'names': names, 'ways': ['reigen', 'barersh'],
            'prefixes': {n: prefix(n) for n in names if n in MPIS}}
    if args.ssh:
        plan['ways'].append('ssh')
    samples = {}
    with Cluster(args.nodes) as cluster:
        OUT.chmod(0o777)
        for node in cluster.nodes:
            node.popen([OUT / 'barersh', 'serve', OUT, node.name])
        hosts = ','.join(f'{node.name}:2' for node in cluster.nodes)
        job = cluster[1].popen([REIGEN, 'run', '-H', hosts, '--engine', 'script', '--',
                                '/usr/bin/python3', __file__, '--inside', json.dumps(plan)],
                               stdout=subprocess.PIPE, text=True)
        for line in job.stdout:
            name, way, took = json.loads(line)
            samples.setdefault(name, {}).setdefault(way, []).append(took)
        if job.wait() != 0:
            raise SystemExit('bench: the job failed')
    return names, plan['ways'], samples


def cell(values):
    good = sorted(v for v in values if v is not None)
    if not good:
        return '-'
    failed = len(values) - len(good)
    return (f'{statistics.median(good):.0f} ({good[len(good) // 10]:.0f})' +
            (f', {failed} of {len(values)} failed' if failed else ''))


def median(values):
    good = [v for v in values if v is not None]
    return statistics.median(good) if good else None


def table(names, ways, samples):
    titles = {'reigen': 'reigen rsh', 'barersh': 'barersh', 'ssh': 'ssh'}
    lines = ['| | ' + ' | '.join(titles[w] for w in ways) + ' | reigen / barersh | at most | |',
             '|---|' + '---|' * (len(ways) + 3)]
    for name in names:
        row = samples[name]
        ours, bare = median(row['reigen']), median(row['barersh'])
        ratio, limit, verdict = '-', '-', '-'
        if ours and bare:
            most = max(FACTOR * bare, bare + MORE_MS)
            ratio, limit = f'{ours / bare:.2f}', f'{most:.0f}'
            verdict = 'pass' if ours <= most else 'MISSED'
        lines.append(f'| {(MPIS | OTHERS)[name]} | ' + ' | '.join(cell(row[w]) for w in ways) +
                     f' | {ratio} | {limit} | {verdict} |')
    return lines


def page(args, lines):
    now = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
    return PAGE_TEXT.format(nodes=args.nodes, rounds=args.rounds, table='\n'.join(lines), now=now,
                            cores=os.cpu_count(), load=os.getloadavg()[0])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('--rounds', type=int, default=11)
    parser.add_argument('--nodes', type=int, default=2)
    parser.add_argument('--ssh', action='store_true')
    parser.add_argument('--only', type=lambda text: text.split(','))
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--inside', type=json.loads)
    args = parser.parse_args()
    if args.inside:
        inside(args.inside)
        return
    text = page(args, table(*run(args)))
    print(text)
    if args.write:
        PAGE.write_text(text)


if __name__ == '__main__':
    main()
