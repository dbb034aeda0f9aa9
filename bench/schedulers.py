# SPDX-License-Identifier: Apache-2.0
"""What it takes until Spark's tasks and Ray's workers are ranks, how fast these are, and how fast
estimators read; each beside the same without Reigen's part, by turns.

usage: bench/schedulers.py [--write] [--rounds N] [--only spark,ray,reading]
       bench/schedulers.py spark|ray ROUNDS    one part, in a Python that has it, as JSON

--write makes docs/benchmarks-schedulers.md. The start is that of four ranks, from the call to the
results of an empty function; the bare ones are a barrier stage of as many tasks in the same warm
session, and as many actors that are created, called once and ended. Each begins when Ray has all of
its CPUs back, as it looks ever more seldom whether there is room for a placement group, while
actors get what comes at once. An allreduce is one of two ranks there, beside two of `reigen run`.
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

from schedulers_rank import nothing, reduces

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / 'docs/benchmarks-schedulers.md'
SIZE, ROUNDS = 4, 15
#: Of the allreduce: bytes, and how many follow each other in a round.
REDUCED = [(1 << 10, 2000), (4 << 20, 60)]
PARTS = ['spark', 'ray', 'reading']


# --- within a Python that has the scheduler -------------------------------------------------------

def spark_ways():
    """({name: what is called}, the allreduce, what is called before each, what ends the session)"""
    from pyspark.sql import SparkSession

    import horovod.spark
    session = SparkSession.builder.master(f'local[{SIZE}]').config('spark.ui.enabled', 'false') \
        .getOrCreate()
    context = session.sparkContext
    context.setLogLevel('ERROR')

    def bare():
        # Without a barrier() of Spark's in it, which waits a second between two looks.
        context.parallelize(range(SIZE), SIZE).barrier().mapPartitions(list).collect()

    def ours():
        horovod.spark.run(nothing, num_proc=SIZE, verbose=0)
    return ({'bare': bare, 'start': ours},
            lambda: horovod.spark.run(reduces, (REDUCED,), num_proc=2, verbose=0)[0],
            lambda: None, session.stop)


def ray_ways():
    import ray

    from horovod.ray import RayExecutor
    ray.init(num_cpus=SIZE, include_dashboard=False, log_to_driver=False)

    class Bare:
        def call(self):
            return None

    def bare():
        actors = [ray.remote(Bare).options(num_cpus=1).remote() for _ in range(SIZE)]
        ray.get([actor.call.remote() for actor in actors])
        for actor in actors:
            ray.kill(actor)

    def on(size, function, *args):
        executor = RayExecutor(num_workers=size)
        executor.start()
        found = executor.run(function, args)
        executor.shutdown()
        return found

    def room():
        while ray.available_resources().get('CPU') != SIZE:
            time.sleep(0.05)
    return ({'bare': bare, 'start': lambda: on(SIZE, nothing)},
            lambda: on(2, reduces, REDUCED)[0], room, ray.shutdown)


def measure(ways, before, rounds):
    """By name, the seconds of each round; a first one is not counted."""
    found = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            before()
            begun = time.perf_counter()
            way()
            if number:
                found[name].append(time.perf_counter() - begun)
    return found


def part(name, rounds):
    import reigen
    os.environ.update(RAY_USAGE_STATS_ENABLED='0', PYSPARK_PYTHON=sys.executable)
    ways, reduced, before, end = {'spark': spark_ways, 'ray': ray_ways}[name]()
    try:
        found = measure(ways, before, rounds)
        for _ in range(max(rounds // 3, 3)):
            before()
            for (nbytes, _), here, there in zip(REDUCED, reduced(),
                                                reigen.run(reduces, (REDUCED,), np=2)[0]):
                found.setdefault(f'{nbytes} here', []).append(here)
                found.setdefault(f'{nbytes} there', []).append(there)
    finally:
        end()
    print(json.dumps(found))


# --- all of them ----------------------------------------------------------------------------------

#: The part, what, against what, the names of both in what was found, and the goal.
ROWS = [
    ('spark', '`horovod.spark.run()`, 4 ranks', 'barrier stage', 'start', 'bare', 1.3),
    ('ray', '`RayExecutor` start, run, shutdown, 4 workers', '4 actors', 'start', 'bare', 1.3),
    *((name, f'allreduce, {size}, 2 ranks on {name.capitalize()}', '`reigen run`',
       f'{nbytes} here', f'{nbytes} there', 1.0)
      for name in ('spark', 'ray') for size, (nbytes, _) in zip(('1 KiB', '4 MiB'), REDUCED)),
    ('reading', 'rows of 50 columns, in order', "pyarrow's scanner", 'in order', 'scanner', 0.7),
    ('reading', 'shuffled', "pyarrow's scanner", 'shuffled', 'scanner', 0.7),
]


def found_by(name, rounds):
    """What one part has measured, in the environment that has it."""
    python = subprocess.run([ROOT / 'tools/frameworks.sh', 'ray' if name == 'ray' else 'spark'],
                            stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    words = [ROOT / 'bench/reading.py'] if name == 'reading' else [__file__, name]
    env = {**os.environ, 'PYTHONPATH': f'{ROOT}/bindings/python:{ROOT}/bench',
           'REIGEN_LIBRARY': str(ROOT / 'build/src/libreigen.so'),
           'REIGEN_LAUNCHER': str(ROOT / '.venv/bin/reigen')}
    done = subprocess.run([python, *words, str(rounds)], stdout=subprocess.PIPE, text=True, env=env,
                          timeout=1200, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def shown(part_name, value):
    if part_name == 'reading':
        return f'{value / 1e6:.2f}M/s'
    return f'{value * 1000:.0f}ms' if value > 0.01 else f'{value * 1e6:.0f}us'


def table(found):
    lines = ['| what / against | ratio | least, greatest | goal | medians |',
             '|---|---|---|---|---|']
    for name, what, against, ours, theirs, goal in ROWS:
        if name in found:
            pairs = found[name][ours], found[name][theirs]
            ratios = sorted(one / other for one, other in zip(*pairs))
            middle = ' / '.join(shown(name, statistics.median(values)) for values in pairs)
            lines.append(f'| {what} / {against} | {statistics.median(ratios):.2f} | '
                         f'{ratios[0]:.2f}, {ratios[-1]:.2f} | '
                         f'{">=" if name == "reading" else "<="} {goal} | {middle} |')
    return lines


def page(found, load, rounds):
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
    return '\n'.join([
        '# Benchmarks: Spark and Ray', '',
        f'`bench/schedulers.py --write` measured this: {stamp}, {os.cpu_count()} cores, load '
        f'{load:.1f} at the start, {rounds} rounds by turns. Rows are read in order, or shuffled '
        'as estimators do.', '', *table(found), ''])


def main():
    if sys.argv[1:2] and sys.argv[1] in ('spark', 'ray'):
        part(sys.argv[1], int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n', maxsplit=1)[0])
    parser.add_argument('--rounds', type=int, default=ROUNDS)
    parser.add_argument('--only', default=','.join(PARTS))
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    load = os.getloadavg()[0]
    text = page({name: found_by(name, args.rounds) for name in args.only.split(',')}, load,
                args.rounds)
    print(text, end='')
    if args.write:
        PAGE.write_text(text, encoding='utf-8')


if __name__ == '__main__':
    main()
