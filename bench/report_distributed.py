# SPDX-License-Identifier: Apache-2.0
"""The tables and targets of bench/distributed.py."""
import math

from plot import shown, size_name

KIB = 1 << 10
ABOVE_NEEDED = 0.02  # of a step alone: what gloo adds must be more, or its share means nothing


def targets(found):
    """[(what, limit, measured)] of one number of ranks."""
    rows, np = [], found['np']
    sizes = found['allreduce']
    small = [s['gloo'] for n, s in sizes.items() if n <= 16 * KIB]
    large = [s['gloo'] for n, s in sizes.items() if n >= 64 * KIB]
    if small:
        rows.append((f'torch.distributed, {np} ranks, 4 B to 16 KiB: worst against gloo', 0.2,
                     max(small)))
    if large:
        rows.append((f'torch.distributed, {np} ranks, 64 KiB to 64 MiB: worst against gloo', 0.6,
                     max(large)))
    share = above(found['steps'].values())
    if share is not None:
        rows.append((f"DDP, {np} ranks: time of a step above one rank's, {len(found['steps'])} "
                     'models, against gloo', 0.5, share))
    if sizes:
        ratios = [s['hvd'] for s in sizes.values()]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        rows.append((f'all_reduce, {np} ranks: geometric mean against hvd', 1.15, mean))
        rows.append((f'all_reduce, {np} ranks: worst against hvd', 1.15, max(ratios)))
    if found['steps']:
        rows.append((f'DDP, {np} ranks: slowest model against hvd', 1.15,
                     max(s['hvd'] for s in found['steps'].values())))
    return rows


def above(steps):
    """What reigen adds to the steps of one rank alone, by what gloo adds; None: it adds nothing."""
    ours = sum(s['us']['reigen'] - s['us']['alone'] for s in steps)
    theirs = sum(s['us']['gloo'] - s['us']['alone'] for s in steps)
    alone = sum(s['us']['alone'] for s in steps)
    return ours / theirs if theirs > ABOVE_NEEDED * alone else None


def us(value):
    return f'{value:.0f}' if value >= 100 else f'{value:.3g}'


BACKENDS = ('reigen', 'gloo', 'hvd')


def head(unit, everything, first=()):
    columns = [*first, *(f'{name}, {found["np"]} ranks' for found in everything
                         for name in BACKENDS)]
    return [f'| {unit} | ' + ' | '.join(columns) + ' |', '|---|' + '---|' * len(columns)]


def tables(everything):
    """The lines of all numbers of ranks, side by side; what PyTorch takes by itself, and the
    ratios of each round, are in the record."""
    measured = [found for found in everything if found['allreduce']]
    lines = []
    if measured:
        lines += ['## torch.distributed', '', f'all_reduce of PyTorch {measured[0]["torch"]}, '
                  'waited for; *hvd* is `hvd.allreduce`.', '', *head('us', measured)]
        for nbytes in shown(measured[0]['allreduce']):
            cells = [us(found['allreduce'][nbytes]['us'][n]) for found in measured
                     for n in BACKENDS]
            lines.append(f'| {size_name(nbytes)} | ' + ' | '.join(cells) + ' |')
        lines.append('')
    trained = [found for found in everything if found['steps']]
    if trained:
        lines += ['Training steps by DDP, and by `hvd.DistributedOptimizer`:', '',
                  *head('ms', trained, ['one rank'])]
        for name, row in trained[0]['steps'].items():
            cells = [row['us']['alone'], *(found['steps'][name]['us'][n] for found in trained
                                           for n in BACKENDS)]
            lines.append(f'| {name} | ' + ' | '.join(f'{cell / 1e3:.2f}' for cell in cells) + ' |')
        lines.append('')
    return lines


def page(everything):
    """All of it, with its own table of targets."""
    lines = ['| target | at most | measured | |', '|---|---|---|---|']
    for found in everything:
        lines += [f'| {what} | {limit} | {value:.2f} | {"pass" if value <= limit else "MISSED"} |'
                  for what, limit, value in targets(found)]
    return [*lines, '', *tables(everything)]
