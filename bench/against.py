# SPDX-License-Identifier: Apache-2.0
"""This tree beside another one of Reigen, both built, in interleaved rounds.

usage: bench/against.py OTHER [--rounds N] [--np N,...] [--sizes 4,64K,1M] [--many 300x1K]
                        [--models mlp,deep] [--budget-ms N]

Prints each figure's ratio, this tree's time by the other's: of the lower quartiles of their rounds,
and of their best rounds. Each round measures both trees one behind the other. Other work on the
computer only ever adds time, to whole rounds; the quicker rounds are those of the trees themselves.
Nothing is written but build/bench/.
"""
import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

import bench
import peers


class Tree:
    """A built tree: its launcher, library and Python. The library is measured by this tree's
    reigen bench."""

    def __init__(self, name, root):
        self.root = Path(root).resolve()
        self.reigen = self.root / '.venv/bin/reigen'
        self.python = self.root / '.venv/bin/python'
        self.name = name
        self.out = bench.OUT / f'against-{name}.json'

    def run(self, argv, np, **variables):
        """Under this tree's launcher; SystemExit when it fails."""
        log = bench.OUT / f'against-{self.name}.log'
        command = [self.reigen, 'run', '-np', np, '--', *argv]
        if not bench.run_all([(command, bench.environment(**variables))], log):
            raise SystemExit(f'against: {self.name} failed, see {log}')
        return True

    def measure_c(self, np, args):
        """As measure, of the C API."""
        library = str(self.root / 'build/src/coll/libreigen.so')
        found = peers.measure(peers.command(bench.REIGEN), None, args.sizes, args.many,
                              args.budget_ms, self.out,
                              lambda argv: self.run(argv, np, REIGEN_LIBRARY=library))
        return {('C', np, m['series'], str(m.get('bytes', m.get('pattern')))): m['median_us']
                for m in found}

    def measure(self, what, argv, np, options):
        """{(what, np, series, item): median in microseconds} of one run."""
        self.out.unlink(missing_ok=True)
        self.run([*argv, '--out', self.out, *options], np)
        return {(what, np, m['series'], str(m.get('bytes', m.get('pattern')))): m['median_us']
                for m in map(json.loads, self.out.read_text().splitlines())}

    def launch(self):
        """As measure, of the start and the end of four ranks of `true`."""
        times = []
        for _ in range(5):
            start = time.monotonic()
            subprocess.run([self.reigen, 'run', '-np', '4', '--', 'true'], check=True)
            times.append((time.monotonic() - start) * 1e6)
        return {('launch', 4, 'true', '-'): statistics.median(times)}


def one_round(tree, args):
    found = tree.launch()
    plain = ['--sizes', ','.join(map(str, args.sizes)), '--many', ','.join(args.many),
             '--budget-ms', args.budget_ms]
    for np in args.np:
        found |= tree.measure_c(np, args)
        found |= tree.measure('Python', [tree.python, bench.BENCH / 'hvd.py'], np, plain)
        if args.models:
            found |= tree.measure('training', [tree.python, bench.BENCH / 'training.py', '--mode',
                                               'hvd'], np,
                                  ['--models', args.models, '--budget-ms', args.budget_ms * 5])
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].split('\n\n')[0])
    parser.add_argument('other')
    parser.add_argument('--rounds', type=int, default=8)
    parser.add_argument('--np', default='2,4')
    parser.add_argument('--sizes', default='4,4K,64K,1M,16M')
    parser.add_argument('--many', default='300x1K')
    parser.add_argument('--models', default='mlp,deep')
    parser.add_argument('--budget-ms', type=int, default=300)
    args = parser.parse_args()
    args.np = [int(n) for n in args.np.split(',')]
    args.sizes = [bench.parse_nbytes(size) for size in args.sizes.split(',')]
    args.many = [bench.parse_many(many) for many in args.many.split(',')]
    bench.OUT.mkdir(parents=True, exist_ok=True)
    trees = [Tree('this', bench.ROOT), Tree('other', args.other)]
    times = {tree.name: {} for tree in trees}
    for number in range(args.rounds):
        # Who goes first changes, as what a round leaves behind may help or hurt the second.
        for tree in trees if number % 2 == 0 else trees[::-1]:
            for key, median_us in one_round(tree, args).items():
                times[tree.name].setdefault(key, []).append(median_us)
        print(f'round {number + 1} of {args.rounds}', flush=True)
    print(f'\n{"figure":40} {"this, us":>10} {"other":>10} {"quartile":>9} {"best":>7}')
    ratios = []
    for key, this in times['this'].items():
        other = times['other'][key]
        quartiles = [statistics.quantiles(t, n=4)[0] for t in (this, other)]
        ratios.append(quartiles[0] / quartiles[1])
        print(f'{" ".join(map(str, key)):40} {quartiles[0]:10.2f} {quartiles[1]:10.2f} '
              f'{ratios[-1]:9.3f} {min(this) / min(other):7.3f}')
    print(f'all figures: geometric mean {statistics.geometric_mean(ratios):.3f}, '
          f'highest {max(ratios):.3f}')


if __name__ == '__main__':
    main()
