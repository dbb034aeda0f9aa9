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


class Tree:
    """A built tree: its launcher, library and Python, and its own program of bench/ours.c."""

    def __init__(self, name, root):
        self.root = Path(root).resolve()
        self.reigen = self.root / '.venv/bin/reigen'
        self.python = self.root / '.venv/bin/python'
        self.program = bench.OUT / f'ours-{name}'
        self.name = name
        lib = self.root / 'build/src/coll'
        subprocess.run(['cc', '-O2', f'-I{self.root}/include', '-o', self.program,
                        bench.BENCH / 'ours.c', bench.BENCH / 'measure.c', f'-L{lib}', '-lreigen',
                        f'-Wl,-rpath,{lib}'], check=True)

    def measure(self, what, argv, np, options):
        """{(what, np, series, item): median in microseconds} of one run."""
        out = bench.OUT / f'against-{self.name}.jsonl'
        out.unlink(missing_ok=True)
        command = [self.reigen, 'run', '-np', np, '--', *argv, '--out', out, *options]
        log = bench.OUT / f'against-{self.name}.log'
        if not bench.run_all([(command, bench.environment())], log):
            raise SystemExit(f'against: {self.name} failed, see {log}')
        return {(what, np, m['series'], str(m.get('bytes', m.get('pattern')))): m['median_us']
                for m in map(json.loads, out.read_text().splitlines())}

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
    plain = ['--sizes', args.sizes, '--many', args.many, '--budget-ms', args.budget_ms]
    for np in args.np:
        found |= tree.measure('C', [tree.program], np, plain)
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
    args.sizes = ','.join(str(bench.parse_nbytes(size)) for size in args.sizes.split(','))
    args.many = ','.join(bench.parse_many(many) for many in args.many.split(','))
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
