# SPDX-License-Identifier: Apache-2.0
"""What the model predicts, beside what bench/between.py has measured: a table in docs/model.md.

usage: bench/predicted.py        write it anew, from docs/benchmarks-hosts.json

The rate of each line is what iperf3 reached there, and the delay is known. The other five numbers
are those, of a grid, by which most rows come within a fifth.
"""
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import plot
import report_between

ROOT = Path(__file__).resolve().parents[1]
PAGE, RECORD = ROOT / 'docs/model.md', ROOT / 'docs/benchmarks-hosts.json'
BEGIN, END = '<!-- bench/predicted.py writes what follows -->', '<!-- to here -->'
CORES = 2
NEAR = 0.2
#: name: what is tried. base_ns is alpha without the line's delay. Where there are more ranks than
#: cores, all but the line takes crowding_pct of ranks by cores.
GRID = {'base_ns': (500, 1000, 3000, 5000, 10000), 'message_ns': (5000, 8000, 11000, 15000),
        'copy_ps': (100, 200, 300, 400, 600), 'gamma_ps': (25, 50, 100),
        'crowding_pct': (50, 75, 100, 125, 150)}
TEXT = """\
Beta is the rate here that iperf3 reached on the same line, and alpha the line's delay and
{base_us:g} us more. This and the rest are fitted, the same for all {rows} rows: message
{message_us:g} us, copy {copy_ps} ps and reduction {gamma_ps} ps per byte; where there are more
ranks than cores, all of it is multiplied by {crowding:g} x ranks / cores, but by 1 at least.
**{near} of {rows}**
predictions are within a fifth of what was [measured](benchmarks-hosts.md); the mean error is
{error:.0%}. The table has the least and the greatest of predicted by measured, of {sizes} sizes
from {least} to {most}, by network (1g-0.1 is 1 Gb/s with 0.1 ms) and hosts x ranks.
"""


class Row:
    def __init__(self, network, layout, nbytes, us, alpha_ns, beta_ps):
        self.network, self.layout, self.nbytes, self.us = network, layout, nbytes, us
        self.alpha_ns, self.beta_ps = alpha_ns, beta_ps
        self.hosts, self.per_host = (int(n) for n in layout.split('x'))


def rows_of(raw):
    """The rows of Reigen's allreduces on lines whose rate iperf3 has measured."""
    found = report_between.Results(raw)
    rows = []
    for network, layout, nbytes in found.keys('allreduce'):
        us = found.get('allreduce', network, layout, nbytes, 'reigen')
        gbit = found.get('iperf', network, layout, 'gbit', 'iperf3')
        if us and gbit:
            delay_us = found.rate(network)[1]
            rows.append(Row(network, layout, int(nbytes), us, round(delay_us * 1e3),
                            round(8000 / gbit)))
    return rows


def compiled(folder):
    program = Path(folder) / 'predict'
    libraries = [ROOT / 'build/src' / name for name in ('model/librg_model.a', 'base/librg_base.a')]
    subprocess.run(['cc', '-std=c11', '-I', ROOT / 'src', ROOT / 'bench/predict.c', *libraries,
                    '-o', program], check=True)
    return program


def predict(program, rows, processor):
    """us of each row."""
    asked = []
    for row in rows:
        ranks = row.hosts * row.per_host
        crowding = max(100, processor['crowding_pct'] * ranks // CORES) if ranks > CORES else 100
        asked.append([row.alpha_ns + processor['base_ns'], row.beta_ps, processor['message_ns'],
                      processor['copy_ps'], processor['gamma_ps'],
                      crowding, row.hosts, row.per_host, row.nbytes])
    told = subprocess.run([program], input='\n'.join(' '.join(map(str, a)) for a in asked),
                          capture_output=True, text=True, check=True).stdout.split()
    return [int(ns) / 1e3 for ns in told]


def judge(rows, predicted):
    """(how many are within a fifth, the mean error)."""
    errors = [abs(us / row.us - 1) for us, row in zip(predicted, rows)]
    return sum(e <= NEAR for e in errors), sum(errors) / len(errors)


def fit(program, rows):
    def quality(processor):
        near, error = judge(rows, predict(program, rows, processor))
        return near, -error

    return max((dict(zip(GRID, values)) for values in itertools.product(*GRID.values())),
               key=quality)


def cell(ratios):
    """The least and the greatest, bold where one is not near."""
    ends = [f'{end:.2f}' if abs(end - 1) <= NEAR else f'**{end:.2f}**'
            for end in (min(ratios), max(ratios))]
    return ' - '.join(ends)


def table(rows, predicted):
    ratios = {}
    for us, row in zip(predicted, rows):
        ratios.setdefault((row.network, row.layout), []).append(us / row.us)
    layouts = list(dict.fromkeys(layout for _, layout in ratios))
    lines = ['| | ' + ' | '.join(layouts) + ' |', '|---|' + '---|' * len(layouts)]
    for network in dict.fromkeys(network for network, _ in ratios):
        lines.append(f'| {network} | ' + ' | '.join(
            cell(ratios[network, layout]) if (network, layout) in ratios else ''
            for layout in layouts) + ' |')
    return lines


def section(raw):
    rows = rows_of(raw)
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(folder)
        best = fit(program, rows)
        predicted = predict(program, rows, best)
    near, error = judge(rows, predicted)
    sizes = sorted({row.nbytes for row in rows})
    text = TEXT.format(rows=len(rows), near=near, error=error, sizes=len(sizes),
                       least=plot.size_name(sizes[0]), most=plot.size_name(sizes[-1]),
                       base_us=best['base_ns'] / 1e3, message_us=best['message_ns'] / 1e3,
                       crowding=best['crowding_pct'] / 100, **best)
    return '\n'.join([BEGIN, text, *table(rows, predicted), END])


def write():
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + section(json.loads(RECORD.read_text())['raw']) + after)


if __name__ == '__main__':
    sys.exit(write())
