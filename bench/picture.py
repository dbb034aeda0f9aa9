# SPDX-License-Identifier: Apache-2.0
"""The picture at the top of docs/benchmarks.md: what one allreduce takes, as bars.

usage: bench/picture.py          draw docs/benchmarks.svg anew, from the records in docs/

It shows what docs/benchmarks.json and docs/benchmarks-hosts.json have. bench.py and between.py draw
it again when they write these; a test holds it against both.
"""
import json
import math
import sys
from pathlib import Path

import plot
import report
import report_between

DOCS = Path(__file__).resolve().parents[1] / 'docs'
RECORD, RECORD_BETWEEN, PICTURE = 'benchmarks.json', 'benchmarks-hosts.json', 'benchmarks.svg'
SIZES = (4 << 10, 1 << 20, 16 << 20)
FLOAT_NBYTES = 4
OURS = 'Reigen'
#: What a reader knows them by, as report.py and report_between.py name them in their records.
ONE_HOST = {'reigen-py': OURS, 'hvd-mpi': 'Horovod, MPI', 'hvd-gloo': 'Horovod, gloo',
            'tdist': 'torch.distributed, gloo'}
BETWEEN = {'reigen': OURS, 'mpi': 'Open MPI, TCP', 'gloo': 'torch.distributed, gloo'}
NETWORK, LAYOUT, RANKS = '10g-0.1', '2x1', 2

WIDTH, NAMES, COLUMN, GAP = 880, 176, 212, 22
BAR, PITCH, VALUE = 15, 23, 68
#: On a light page and on a dark one.
COLOURS = {'text': ('#24292f', '#e6e8eb'), '.soft': ('#5d6670', '#a3a9b3'),
           '.ours': ('#c02942', '#f27c8d'), '.peer': ('#a9b0ba', '#6d7681'),
           '.line': ('#c9ced6', '#444b54')}


class Group:
    """Contenders in one place: `rows` is [(name, {bytes: us})]."""

    def __init__(self, title, note, rows):
        self.title, self.note = title, note
        self.rows = [(name, times) for name, times in rows if times]


def one_host(record):
    found = report.Results({**record, 'times': {tuple(row[:4]): tuple(row[4:])
                                                for row in record['times']}})
    rows = [(label, times_of(lambda s, n=name: found.us(RANKS, n, 'out', s)))
            for name, label in ONE_HOST.items()]
    return Group(f'{RANKS} ranks on one host', f'On one host: called from Python, measured '
                 f'{when(record)}.', rows)


def between_hosts(record):
    found = report_between.Results(record['raw'])
    rows = [(label, times_of(lambda s, n=name: found.get('allreduce', NETWORK, LAYOUT, s, n)))
            for name, label in BETWEEN.items()]
    rate, delay_ms = record['raw']['networks'][NETWORK]
    network = f'{report_between.network_name(rate, 0)} and {delay_ms:g} ms each way'
    return Group(f'{RANKS} hosts with {network}', 'Between hosts: simulated ones of one machine; '
                 f'Reigen and Open MPI called from C, measured {when(record["raw"])}.', rows)


def when(record):
    rounds = record['rounds']
    return f'{record["when"][:10]} in {rounds} round{"s" if rounds > 1 else ""}'


def times_of(look):
    return {size: look(size) for size in SIZES if look(size) is not None}


def time_text(us):
    """All in one unit, so that figures compare as the bars do: three digits, two where small."""
    ms = us / 1e3
    decimals = max(0, (2 if ms >= 1 else 1) - math.floor(math.log10(ms)))
    return f'{ms:.{decimals}f} ms'


def header(number, size):
    count = size // FLOAT_NBYTES
    words = f'{count / 1e6:.1f} million' if count >= 1e6 else f'{count:,}'
    return (f'<text x="{column_x(number)}" y="76">{words} numbers <tspan class="soft">'
            f'({plot.size_name(size)})</tspan></text>')


# ---------------------------------------------------------------------------- drawing

def style():
    def rules(dark):
        return ''.join(f'{name}{{fill:{colours[dark]}}}' for name, colours in COLOURS.items())

    return ('<style>text{font:13px system-ui,sans-serif}.title{font-size:17px;font-weight:600}'
            f'.bold{{font-weight:600}}.small{{font-size:11.5px}}{rules(0)}'
            f'@media(prefers-color-scheme:dark){{{rules(1)}}}</style>')


def label(x, y, content, kind='', anchor='start'):
    return plot.text(x, y, content, anchor, f'class="{kind}"' if kind else '')


def column_x(number):
    return NAMES + GAP + number * (COLUMN + GAP)


def bars(groups, y, name, times):
    """One contender's bars, one in each column, with their times behind them."""
    ours = name == OURS
    parts = [label(NAMES + 8, y + BAR - 3, name, 'bold' if ours else '', 'end')]
    for number, size in enumerate(SIZES):
        if size not in times:
            continue
        longest = max(row[size] for g in groups for _, row in g.rows if size in row)
        x, width = column_x(number), max(times[size] / longest * (COLUMN - VALUE), 1)
        parts += [f'<rect class="{"ours" if ours else "peer"}" x="{x:.1f}" y="{y:.1f}" '
                  f'width="{width:.1f}" height="{BAR}" rx="2"/>',
                  label(x + width + 5, y + BAR - 3, time_text(times[size]), 'bold' if ours else '')]
    return parts


def group_parts(groups, group, y):
    """(its lines, where the next one begins)"""
    parts = [label(8, y + 14, group.title, 'bold'),
             f'<rect class="line" x="8" y="{y + 21}" width="{WIDTH - 16}" height="1"/>']
    y += 30
    top = y
    for name, times in group.rows:
        parts += bars(groups, y, name, times)
        y += PITCH
    parts += [f'<rect class="line" x="{column_x(n) - 1.5:.1f}" y="{top - 3}" width="1" '
              f'height="{y - top}"/>' for n in range(len(SIZES))]
    return parts, y + 8


def described(groups):
    """The picture for those who do not see it."""
    return ' '.join(f'{g.title}: ' + '; '.join(
        f'{name} ' + ', '.join(f'{time_text(us)} for {plot.size_name(s)}' for s, us in t.items())
        for name, t in g.rows) + '.' for g in groups)


def draw(groups):
    title = 'How long it takes to add up a tensor over all ranks'
    parts = [label(8, 26, title, 'title'),
             label(8, 46, 'One allreduce of so many numbers of type float32. Shorter is better.',
                   'soft')]
    parts += [header(n, size) for n, size in enumerate(SIZES)]
    y = 84
    for group in groups:
        lines, y = group_parts(groups, group, y)
        parts += lines
    notes = ['All bars of a column have the same scale, which begins at 0.',
             *(g.note for g in groups)]
    for note in notes:
        y += 16
        parts.append(label(8, y, note, 'soft small'))
    body = '\n'.join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 12}" role="img">\n'
            f'<title>{plot.escape(title)}</title>\n<desc>{plot.escape(described(groups))}</desc>\n'
            f'{style()}\n{body}\n</svg>\n')


# ---------------------------------------------------------------------------- the records

def groups_of(where):
    """What the records in this folder have; one that is not there, or has not these sizes, is left
    out."""
    found = []
    for name, make in ((RECORD, one_host), (RECORD_BETWEEN, between_hosts)):
        path = where / name
        record = json.loads(path.read_text()) if path.exists() else {}
        if 'times' in record or NETWORK in record.get('raw', {}).get('networks', {}):
            found.append(make(record))
    return [group for group in found if group.rows]


def write(where):
    groups = groups_of(where)
    if groups:
        (where / PICTURE).write_text(draw(groups))


if __name__ == '__main__':
    write(DOCS)
    sys.exit(0)
