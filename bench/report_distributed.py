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


def above(steps, base='alone'):
    """What reigen adds to the steps of one rank alone, or of a DDP that sends nothing ('front'), by
    what gloo adds; None: it adds nothing."""
    ours = sum(s['us']['reigen'] - s['us'][base] for s in steps)
    theirs = sum(s['us']['gloo'] - s['us'][base] for s in steps)
    alone = sum(s['us'][base] for s in steps)
    return ours / theirs if theirs > ABOVE_NEEDED * alone else None


def us(value):
    return f'{value:.0f}' if value >= 100 else f'{value:.3g}'


def tables(found):
    """The lines of one number of ranks."""
    lines = []
    if found['allreduce']:
        lines += [f'## torch.distributed, {found["np"]} ranks', '',
                  f'all_reduce of PyTorch {found["torch"]}, waited for. "PyTorch itself" is a '
                  'group that does nothing.', '',
                  '| us | reigen | gloo | hvd | PyTorch itself | to gloo | to hvd |',
                  '|---|---|---|---|---|---|---|']
        for nbytes in shown(found['allreduce']):
            row = found['allreduce'][nbytes]
            cells = ' | '.join(us(row['us'][n]) for n in ('reigen', 'gloo', 'hvd', 'front'))
            lines.append(f'| {size_name(nbytes)} | {cells} | {row["gloo"]:.2f} | '
                         f'{row["hvd"]:.2f} |')
        lines.append('')
    if found['steps']:
        lines += ['Training steps by DDP, and by hvd.DistributedOptimizer; *DDP itself* sends '
                  'nothing:', '',
                  '| ms | one rank | reigen | gloo | hvd | DDP itself | '
                  "above one rank's, to gloo | above DDP itself, to gloo | to hvd |",
                  '|---|---|---|---|---|---|---|---|---|']
        for name, row in found['steps'].items():
            cells = ' | '.join(f'{row["us"][n] / 1e3:.2f}'
                               for n in ('alone', 'reigen', 'gloo', 'hvd', 'front'))
            shares = ' | '.join('-' if share is None else f'{share:.2f}'
                                for share in (above([row]), above([row], 'front')))
            lines.append(f'| {name} | {cells} | {shares} | {row["hvd"]:.2f} |')
        lines.append('')
    return lines


def page(everything):
    """All of it, with its own table of targets."""
    lines = ['| target | at most | measured | |', '|---|---|---|---|']
    for found in everything:
        lines += [f'| {what} | {limit} | {value:.2f} | {"pass" if value <= limit else "MISSED"} |'
                  for what, limit, value in targets(found)]
    return lines + [''] + [line for found in everything for line in tables(found)]
