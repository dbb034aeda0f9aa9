# SPDX-License-Identifier: Apache-2.0
"""The table and the targets of the training steps (bench/training.py)."""
MODELS = {'mlp': 'MLP', 'conv': 'convolutional', 'big': 'large layers', 'deep': 'many layers'}
SERIES = 'training'


def _over(r, np, names, model):
    """(the fastest one's time above a single process's, its time), in us; None where unknown."""
    alone = r.us(1, 'alone', SERIES, model)
    best = r.best(np, names, [SERIES], model)
    return (best - alone, best) if alone is not None and best is not None else None


def targets(r, peers):
    """Rows as report.ratio_targets gives them."""
    rows = []
    for np in r.raw['np']:
        ours = {m: _over(r, np, ['reigen-py'], m) for m in MODELS}
        theirs = {m: _over(r, np, peers, m) for m in MODELS}
        known = [m for m in MODELS if ours[m] and theirs[m]]
        if np == 2 and len(known) == len(MODELS):
            total = sum(theirs[m][0] for m in known)
            rows.append(('Training, 2 ranks: time above one process, four models, against the best '
                         'peer', 0.5, 'max',
                         [sum(ours[m][0] for m in known) / total if total > 0 else None]))
        if known:
            rows.append((f'Training, {np} ranks: slowest model against the best peer', 1.03, 'max',
                         [ours[m][1] / theirs[m][1] for m in known]))
    return rows


def table(r, np, peers, labels, tabled):
    """Lines of the table for this number of ranks; none when nothing was measured."""
    names = [n for n in [*peers, 'reigen-py'] if n in tabled and
             any(r.us(np, n, SERIES, m) for m in MODELS)]
    if not names:
        return []
    lines = [f'## Training steps, {np} ranks', '',
             '| ms | one process | ' + ' | '.join(labels[n] for n in names) + ' | ratio |',
             '|---|---|' + '---|' * (len(names) + 1)]
    for model, title in MODELS.items():
        cells = [_ms(r, 1, 'alone', model)] + [_ms(r, np, n, model) for n in names]
        ratio = r.ratio(np, 'reigen-py', peers, SERIES, model)
        lines.append(f'| {title} | ' + ' | '.join(cells)
                     + f' | {"-" if ratio is None else f"{ratio:.2f}"} |')
    return lines + ['']


def _ms(r, np, name, model):
    found = r.times.get((np, name, SERIES, model))
    return f'{found[0] / 1e3:.1f}' if found else '-'
