# SPDX-License-Identifier: Apache-2.0
"""Tables, targets and plots from what bench.py measured."""
import math
import re

import plot
import report_distributed
import report_training
from plot import shown, size_name

LABELS = {
    'cmpi': 'C MPI_Allreduce', 'cmpi5': 'Open MPI 5', 'reigen-c': 'Reigen, C',
    'hvd-mpi': 'Horovod, MPI', 'hvd-gloo': 'Horovod, gloo', 'tdist': 'torch.distributed',
    'tdist2': 'torch.distributed, current', 'reigen-py': 'Reigen, Python',
}
#: Of a full run the tables have these; pictures, ratios and the record have all.
TABLED = ['cmpi', 'reigen-c', 'hvd-mpi', 'tdist', 'reigen-py']
#: How many tensors are reduced.
MANY = {'many-calls': 'n calls', 'many-grouped': 'grouped'}
C_PEERS = ['cmpi', 'cmpi5']
PYTHON_PEERS = ['hvd-mpi', 'hvd-gloo', 'tdist', 'tdist2']
KIB, MIB = 1 << 10, 1 << 20


def tabled(names):
    return [n for n in names if n in TABLED] if set(TABLED) <= set(names) else names


def pattern_name(pattern):
    count, nbytes = pattern.split('x')
    return f'{count} x {size_name(int(nbytes))}'


def us(value):
    """Three figures."""
    if value is None:
        return '-'
    return f'{value:.0f}' if value >= 100 else f'{value:.3g}'


class Results:
    """Look-ups in the measurements; everything that is absent is None."""

    def __init__(self, raw):
        self.raw = raw
        self.times = raw['times']

    def us(self, np, name, series, item):
        found = self.times.get((np, name, series, item))
        return found[0] if found else None

    def cell(self, np, name, series, item):
        found = self.times.get((np, name, series, item))
        return us(found[0]) if found else '-'

    def best(self, np, names, series, item):
        found = [self.us(np, n, s, item) for n in names for s in series]
        return min((f for f in found if f is not None), default=None)

    def ratio(self, np, ours, peers, series, item, peer_series=None):
        """Our time over the best peer's, or None."""
        mine = self.us(np, ours, series, item)
        best = self.best(np, peers, peer_series or [series], item)
        return mine / best if mine is not None and best else None


# ---------------------------------------------------------------------------- targets

def judge(ratios, how):
    """The mean, or the largest, of the ratios that exist; None: there is none."""
    known = [r for r in ratios if r is not None]
    if not known:
        return None
    if how == 'mean':
        return math.exp(sum(map(math.log, known)) / len(known))
    return max(known)


def ratio_targets(r):
    """(what, limit, how, ratios) of every target that is a ratio."""
    sizes = r.raw['sizes']

    def series(np, ours, peers, chosen, kinds=('out',)):
        return [r.ratio(np, ours, peers, k, s) for k in kinds for s in chosen]

    small = [s for s in sizes if s <= 16 * KIB]
    middle = [s for s in sizes if s >= 4 * KIB]
    large = [s for s in sizes if s >= MIB]
    rows = [
        ('Python, 2 ranks, 4 B to 16 KiB: worst against torch.distributed', 0.25, 'max',
         series(2, 'reigen-py', ['tdist', 'tdist2'], small)),
        ('C, 2 ranks, from 4 KiB: worst against C MPI', 2, 'max',
         series(2, 'reigen-c', C_PEERS, middle)),
        ('C, 2 ranks, from 1 MiB: worst against C MPI', 1, 'max',
         series(2, 'reigen-c', C_PEERS, large)),
        ('C, 2 ranks, from 1 MiB, in place: worst against C MPI', 1, 'max',
         series(2, 'reigen-c', C_PEERS, large, ['in'])),
        ('C, 4 ranks: geometric mean against C MPI', 0.8, 'mean',
         series(4, 'reigen-c', C_PEERS, sizes)),
        ('C, 4 ranks: worst against C MPI', 1.15, 'max', series(4, 'reigen-c', C_PEERS, sizes)),
        ('Python, 4 ranks: geometric mean against the best peer', 0.8, 'mean',
         series(4, 'reigen-py', PYTHON_PEERS, sizes)),
        ('Python, 4 ranks: worst against the best peer', 1.15, 'max',
         series(4, 'reigen-py', PYTHON_PEERS, sizes)),
    ]
    pattern = f'300x{KIB}'
    for np in (2, 4):
        # Like with like, but C has to beat whatever is best in Python.
        for what, name, ours, limit, theirs in (
                ('grouped_allreduce', 'reigen-py', 'many-grouped', 0.25, ['many-grouped']),
                ('through C', 'reigen-c', 'many-calls', 0.25, ['many-calls', 'many-grouped']),
                ('300 Python calls', 'reigen-py', 'many-calls', 0.5, ['many-calls'])):
            rows.append((f'300 x 1 KiB, {np} ranks, {what}: against the best peer', limit, 'max',
                         [r.ratio(np, name, PYTHON_PEERS, ours, pattern, theirs)]))
    return rows + report_training.targets(r, PYTHON_PEERS)


def plain_targets(raw):
    """(what, limit, measured, format) of the others."""
    launch = raw['launch']
    ratio = None
    if 'reigen' in launch and 'mpirun' in launch:
        ratio = middle(launch['reigen']) / middle(launch['mpirun'])
    agent, library = raw['agent_nbytes'], raw['library_nbytes']
    return [
        ('reigen run -np 4 -- true: against mpirun', 0.6, ratio, '{:.2f}'),
        ('make demo', 120, raw['demo_s'], '{:.0f} s'),
        ('reigen-agent, stripped', 512, agent and agent / KIB, '{:.0f} KiB'),
        ('libreigen.so, stripped', 1024, library and library / KIB, '{:.0f} KiB'),
    ]


def middle(values):
    return sorted(values)[len(values) // 2]


def target_table(r):
    """The lines of two tables, and how many targets were missed: what was missed with so many ranks
    has a column for each number, and what goes by no number one."""
    by_ranks, others, missed = {}, [], 0
    for what, limit, value, form in all_targets(r):
        missed += value > limit
        said = form.format(value) + (' MISSED' if value > limit else '')
        ranks = re.search(r',? (\d+) ranks', what)
        if ranks:
            same = what.replace(ranks[0], '', 1), form.format(limit)
            by_ranks.setdefault(same, {})[int(ranks[1])] = said
        else:
            others.append(f'| {what} | {form.format(limit)} | {said} |')
    rows = {key: said for key, said in by_ranks.items()
            if any('MISSED' in text for text in said.values())}
    count = sum(map(len, by_ranks.values()))
    lines = [f'Of {count} targets these are not met, and all others are:', '',
             '| target | at most | ' + ' | '.join(f'{np} ranks' for np in r.raw['np']) + ' |',
             '|---|---|' + '---|' * len(r.raw['np'])] if rows else []
    lines += [f'| {what} | {limit} | ' + ' | '.join(said.get(np, '') for np in r.raw['np']) + ' |'
              for (what, limit), said in rows.items()]
    return [*lines, '', '| target | at most | measured |', '|---|---|---|', *others], missed


def all_targets(r):
    """[(what, limit, measured, format)] of all that was measured."""
    found = [(what, limit, judge(ratios, how), '{:.2f}')
             for what, limit, how, ratios in ratio_targets(r)]
    found += [(*row, '{:.2f}') for one in r.raw['distributed']
              for row in report_distributed.targets(one)]
    return [row for row in found + plain_targets(r.raw) if row[2] is not None]


# ---------------------------------------------------------------------------- tables

#: Who is in the tables of sizes, and beside whom.
SIDES = {'ratio, C': ('reigen-c', C_PEERS), 'ratio, Python': ('reigen-py', PYTHON_PEERS)}


def size_row(r, np, names, ratios, series, nbytes):
    """The cells behind the size; None where nothing was measured."""
    cells = [r.cell(np, n, series, nbytes) for n in names]
    if all(c == '-' for c in cells):
        return None
    found = [r.ratio(np, *SIDES[title], series, nbytes) for title in ratios]
    return cells + ['-' if ratio is None else f'{ratio:.2f}' for ratio in found]


def size_table(r, np):
    names = tabled([n for n in LABELS if any(r.us(np, n, 'out', s) for s in r.raw['sizes'])])
    if not names:
        return []
    ratios = [title for title, (ours, _) in SIDES.items() if ours in names]
    lines = ['| us | ' + ' | '.join([*(LABELS[n] for n in names), *ratios]) + ' |',
             '|---|' + '---|' * (len(names) + len(ratios))]
    for nbytes in shown(r.raw['sizes']):
        cells = size_row(r, np, names, ratios, 'out', nbytes)
        if cells:
            lines.append(f'| {size_name(nbytes)} | ' + ' | '.join(cells) + ' |')
    return lines + ['']


def many_table(r):
    """A row for each way, a column for each number of ranks: of the first pattern."""
    columns = [(np, p) for np in r.raw['np'] for p in r.raw['many'][:1]]
    measured = [n for n in LABELS if any(r.us(np, n, s, p) for s in MANY for np, p in columns)]
    ways = [(n, s) for n in tabled(measured) for s in MANY
            if any(r.us(np, n, s, p) for np, p in columns)]
    if not ways:
        return []
    lines = ['## Many tensors at once', '',
             '| us | ' + ' | '.join(f'{np} ranks, {pattern_name(p)}' for np, p in columns) + ' |',
             '|---|' + '---|' * len(columns)]
    for name, series in ways:
        lines.append(f'| {LABELS[name]}, {MANY[series]} | '
                     + ' | '.join(r.cell(np, name, series, p) for np, p in columns) + ' |')
    return lines + ['']


def launch_table(launch):
    if not launch:
        return []
    lines = ['## Start and end of four ranks of `true`', '', '| | median | fastest |',
             '|---|---|---|']
    for name, times in launch.items():
        lines.append(f'| {name} | {middle(times) * 1e3:.1f} ms | {min(times) * 1e3:.1f} ms |')
    return lines + ['']


#: Beside what each of them stands.
WITHOUT = {'eager, hvd.allreduce': 'eager, tf.identity',
           'function, 32 times hvd.allreduce': 'function, 32 times x + 1'}


def tensorflow_table(r):
    rows = [key[3].split(', ', 1) for key in r.times if key[2] == 'tensorflow']
    if not rows:
        return []
    lines = ['## TensorFlow: one hvd.allreduce, 2 ranks', '',
             'The median of fifteen rounds; *without* is tf.identity, or x + 1.', '',
             '| us | without | hvd.allreduce |', '|---|---|---|']
    for size, how in rows:
        if how in WITHOUT:
            us = [r.cell(2, 'reigen-py', 'tensorflow', f'{size}, {h}') for h in (WITHOUT[how], how)]
            lines.append(f'| {size}, {how.replace(" hvd.allreduce", "").rstrip(",")} | '
                         + ' | '.join(us) + ' |')
    return lines + ['']


INTRO = """# Benchmarks

In each step of training, ranks wait for the sums of their gradients. This is how long they wait for
one tensor:

![bars: what one allreduce takes, on one host and between two hosts](benchmarks.svg)

This page is of one host. Others have [several hosts](benchmarks-hosts.md), the start [on hosts and
in containers](benchmarks-launch.md), [by your own mpirun](benchmarks-engines.md), [in
Slurm](benchmarks-slurm.md) and [on Kubernetes](benchmarks-kubernetes.md), and [the loss of a
rank](benchmarks-elastic.md). [For GPUs](benchmarks-gpu.md) there is nothing yet.

`make bench` writes this page. `make bench ARGS=--quick` takes a minute or two and writes nothing.

- A figure is the median over {rounds} rounds in turns, of float32. The tables show a part;
  [the record](benchmarks.json) has all sizes and all peers.
- A ratio is Reigen's time divided by that of the best of all peers. Below 1 Reigen is faster.
- MPI and Horovod 0.28.1 are with Debian's Open MPI 4.1, torch.distributed and a second Horovod
  over gloo.
{peers}- A training step is that of a model in bench/training.py, with one thread per process. At
  best it takes as long as *one process* alone.

Measured {when} UTC on {cores} cores ({cpu}), load {load:.1f} at the start, in {took_s:.0f} s.
{absent}"""


def intro(raw):
    absent = sorted(set(raw['absent']))
    note = f'Absent: {"; ".join(LABELS[n] for n in absent)}.\n' if absent else ''
    return INTRO.format(**{**raw, 'absent': note, 'peers': peers(raw['peers'])})


def peers(found):
    """The lines of those that have a version of their own."""
    lines = ''
    if 'torch' in found:
        lines += (f'- *torch.distributed, current* is PyTorch {found["torch"]}, from PyPI; the '
                  'other is Debian\'s.\n')
    if 'openmpi5' in found:
        xhc = 'with `coll_xhc_priority 100`' if found['xhc'] else 'which has no component xhc'
        lines += f'- *Open MPI 5* is {found["openmpi5"]} from PyPI, {xhc}.\n'
    return lines


def render(raw, plots):
    """The page as text, and how many targets were missed. Writes the plots into `plots`."""
    r = Results(raw)
    targets, missed = target_table(r)
    lines = [intro(raw), '## Targets', '', *targets, '']
    for np in raw['np']:
        lines += [f'## Allreduce, {np} ranks', '']
        name = f'benchmarks-np{np}.svg'
        curves = {LABELS[n]: [(s, r.us(np, n, 'out', s)) for s in raw['sizes']
                              if r.us(np, n, 'out', s)] for n in LABELS}
        curves = {n: c for n, c in curves.items() if len(c) > 1}
        if curves:
            (plots / name).write_text(plot.curves(f'Allreduce, {np} ranks', curves))
            lines += [f'![time by size, {np} ranks]({name})', '']
        lines += size_table(r, np)
    lines += many_table(r)
    for np in raw['np']:
        lines += report_training.table(r, np, PYTHON_PEERS, LABELS, TABLED)
    lines += report_distributed.tables(r.raw['distributed'])
    lines += tensorflow_table(r)
    lines += launch_table(raw['launch'])
    return '\n'.join(lines).rstrip('\n') + '\n', missed
