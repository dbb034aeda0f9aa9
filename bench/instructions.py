# SPDX-License-Identifier: Apache-2.0
"""Instructions per operation of this tree beside another one of Reigen, both built, by callgrind.

usage: bench/instructions.py OTHER [--rounds N] [--cases "NAME;..."] [--grown RATIO]

A case is measured twice with different numbers of operations; the difference has no start and no
end in it. How often a rank looks while it waits for another one is chance: functions that differ
between rounds of one tree are left out of the sums (the share that is left is printed), and stand
in the total alone, whose least round counts. Each function that has grown is listed.
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
from pathlib import Path

import bench

SMALL, TCP = ['--bytes', '4'], {'REIGEN_PLANES': 'tcp'}
MANY = ['--bytes', '1k', '--group', '300']
#: name: (ranks, variables, options of reigen bench, the two numbers of operations)
CASES = {
    '4 bytes, 1 rank': (1, {}, SMALL, (200, 2200)),
    '4 bytes, 2 ranks': (2, {}, SMALL, (200, 2200)),
    'many, 1 rank': (1, {}, [*MANY, '--separate'], (20, 120)),
    'many, 2 ranks': (2, {}, [*MANY, '--separate'], (20, 120)),
    'grouped, 1 rank': (1, {}, MANY, (20, 120)),
    'grouped, 2 ranks': (2, {}, MANY, (20, 120)),
    '4 bytes, tcp': (2, TCP, SMALL, (200, 2200)),
    '64 KiB, tcp': (2, TCP, ['--bytes', '64k'], (50, 550)),
    '1 MiB, tcp': (2, TCP, ['--bytes', '1m'], (20, 120)),
    'many, tcp': (2, TCP, [*MANY, '--separate'], (20, 120)),
}
#: A function of which rounds differ by no more does the same in each of them.
STEADY, LEAST = 0.01, 1.0
ROW = re.compile(r"\s*([\d,]+)\s+\S.*?:(\S+?)(?:'\d+)?(?: \[.*\])?$")


def read(path):
    """{function: its own instructions}."""
    text = subprocess.run(['callgrind_annotate', '--threshold=100', '--show-percs=no', path],
                          check=True, capture_output=True, text=True).stdout
    found = collections.Counter()
    for row in filter(None, map(ROW.match, text.splitlines())):
        # What the compiler has changed of a function has the function's name.
        found[row[2].split('.')[0]] += int(row[1].replace(',', ''))
    return found


def run(root, np, variables, options, iterations):
    """{function: instructions of all ranks}, of so many operations and what is around them."""
    out = bench.OUT / 'instructions'
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    subprocess.run([root / '.venv/bin/reigen', 'run', '-np', str(np), '--', 'valgrind', '--quiet',
                    '--trace-children=yes', '--tool=callgrind', f'--callgrind-out-file={out}/%p',
                    bench.REIGEN, 'bench', '--rounds', '1', '--warmup', '10', *options,
                    '--iterations', str(iterations)],
                   env={**os.environ, **variables,
                        'REIGEN_LIBRARY': str(root / 'build/src/coll/libreigen.so')},
                   check=True, capture_output=True)
    return sum(map(read, out.iterdir()), collections.Counter())


def one_round(root, np, variables, options, numbers):
    """{function: instructions per operation and rank}."""
    few, many = (run(root, np, variables, options, n) for n in numbers)
    return {name: (many[name] - few[name]) / (numbers[1] - numbers[0]) / np for name in many}


def steady(rounds):
    """{function: instructions}, of those that do the same in every round."""
    found = {}
    for name in set().union(*rounds):
        seen = [round.get(name, 0) for round in rounds]
        if max(seen) - min(seen) <= max(LEAST, STEADY * max(seen)):
            found[name] = min(seen)
    return found


def compare(name, this, other, grown):
    kept = [steady(this), steady(other)]
    wild = {n for k, rounds in zip(kept, (this, other)) for n in set().union(*rounds) - set(k)}
    mine, theirs = ({n: count for n, count in k.items() if n not in wild} for k in kept)
    totals = [min(sum(round.values()) for round in rounds) for rounds in (this, other)]
    sums = [sum(k.values()) for k in (mine, theirs)]
    print(f'| {name} | {sums[1]:,.0f} | {sums[0]:,.0f} | {sums[0] / sums[1]:.3f} '
          f'| {100 * sums[1] / totals[1]:.0f} % | {totals[1]:,.0f} | {totals[0]:,.0f} |',
          flush=True)
    for function in sorted(mine, key=mine.get, reverse=True):
        before, now = theirs.get(function, 0), mine[function]
        if now > max(before * grown, before + sums[1] / 1000):
            print(f'    {function}: {before:,.1f}, now {now:,.1f}', flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].split('\n\n')[0])
    parser.add_argument('other', type=Path)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--cases', default=';'.join(CASES), help='separated by semicolons')
    parser.add_argument('--grown', type=float, default=1.01)
    args = parser.parse_args()
    print('| operation | before | now | ratio | of all | total before | total now |\n'
          '|---|---|---|---|---|---|---|', flush=True)
    for name in args.cases.split(';'):
        rounds = [[one_round(root, *CASES[name]) for _ in range(args.rounds)]
                  for root in (bench.ROOT, args.other.resolve())]
        compare(name, *rounds, args.grown)


if __name__ == '__main__':
    main()
