# SPDX-License-Identifier: Apache-2.0
"""What bench/between.py measured, as a page with targets, tables and pictures, and as a record."""
import json
import statistics

import plot
from simulated import LABELS, Layout

#: Of what a line carries, Ethernet, IP and TCP take the rest.
PAYLOAD = 1448 / 1514
#: Two that are both at the line's rate differ by no more than this.
SAME = 1.02
PEERS = ('gloo', 'mpi')
#: Of a training step: what it may take more than alone, of what the best peer takes more.
ABOVE_MAX = 0.6
SMALL_MAX, LARGE_MIN, LARGEST = 64 << 10, 256 << 10, 64 << 20
#: Of gradients, by bench/training.py's models.
GRADIENT_NBYTES = {'mlp': 2678824, 'conv': 4799528, 'big': 33615912, 'deep': 3274792}
MODELS = {'mlp': 'MLP', 'conv': 'convolutional', 'big': 'large layers', 'deep': 'many layers'}
TRAINING = """\
*alone* is as many single processes. The target is that and 0.6 of what the best peer adds to it.
*iperf3* is how long an allreduce of all gradients takes at the rate of its slowest stream: with
large layers on 4x1 longer than Reigen may add. All ranks have `OMP_NUM_THREADS=1`.
"""
LINE_BOUND = """\
At 10 Gb/s it is the two cores, not the line. On 4x1 (perf, 2026-11-28) the kernel takes 0.56 ns of
a core for a byte of an allreduce, and 0.64 for one of iperf3's; the sums take another 13 %.
"""
MANY_BOUND = """\
Two round trips cannot be reached here: 460,800 bytes of each host take 2.84 of them.
"""
PAGE = """# Benchmarks: between hosts

`bench/between.py --write` (as root) measures this page: simulated hosts of one machine, each with a
cable to one switch. Reigen, Open MPI 4.1 over TCP and torch.distributed over gloo take turns. A
figure is the median over {rounds} rounds or more of an allreduce of float32; in C, for gloo in
Python and in place. Tables show some sizes, pictures 2x1, and [the record](benchmarks-hosts.json)
has all.

- *1 Gb/s + 1 ms*: a packet takes 1 ms to another host, and the answer 1 ms back.
- *4x1*: four hosts with one rank each. All work, the network's too, is done by the same {cores}
  cores; *iperf3* is what the slowest stream of TCP alone reaches there.
- TCP sends by Reno.
- **Bold** figures miss a target.

## Targets

{targets}

{sections}

Measured {when} UTC on {cores} cores, load {load:.1f} at the start, in {took_s:.0f} s.
"""


def network_name(rate, delay_ms):
    return rate.replace('gbit', ' Gb/s') + (f' + {delay_ms:g} ms' if delay_ms else '')


def time_text(us):
    if us is None:
        return '-'
    return f'{us:,.1f}' if us < 100 else f'{us:,.0f}'


def ratio_text(value):
    return '-' if value is None else f'{value:.2f}'


class Results:
    def __init__(self, raw):
        self.raw = raw
        self.values = {tuple(row[:4]): row[4] for row in raw['values']}

    def get(self, part, network, layout, item, name):
        """The median over the rounds; None where nothing was measured."""
        found = self.values.get((part, network, str(layout), str(item)), {}).get(name)
        return statistics.median(found) if found else None

    def rate(self, network):
        """(bits per us, delay one way in us)"""
        rate, delay_ms = self.raw['networks'][network]
        return float(rate.removesuffix('gbit')) * 1e3, delay_ms * 1e3

    def keys(self, part):
        return [key[1:] for key in self.values if key[0] == part]


# ---------------------------------------------------------------------------- judging

def judge_allreduce(r, network, layout, nbytes):
    """{what was compared: (ratio, limit)} of one row of the tables."""
    ours = r.get('allreduce', network, layout, nbytes, 'reigen')
    peers = {n: r.get('allreduce', network, layout, nbytes, n) for n in PEERS}
    known = [us for us in peers.values() if us]
    checks = {}
    if not ours:
        return checks
    if nbytes <= SMALL_MAX:
        for name, limit in (('mpi', 1.1), ('gloo', 0.5)):
            if peers[name]:
                checks[name] = (ours / peers[name], limit)
    elif known:
        checks['best peer'] = (ours / min(known), SAME)
    mbit, delay = r.rate(network)
    if delay == 1000 and layout == '2x1' and nbytes in (4, SMALL_MAX):
        checks['round trip'] = (ours / (2 * delay + nbytes * 8 / mbit), 1.1)
    if nbytes == LARGEST:
        reached = r.get('iperf', network, layout, 'gbit', 'iperf3')
        line = min(mbit / 1e3 * PAYLOAD, reached or 1e9)
        hosts = Layout(layout).hosts
        gbit = 2 * (hosts - 1) / hosts * nbytes * 8 / ours / 1e3
        checks['line'] = (line / gbit, 1 / 0.9)
    return checks


def judge_rest(r):
    """[(what, ratio or value, limit)]"""
    rows = []
    for network, layout, item in r.keys('many'):
        ours = r.get('many', network, layout, item, 'reigen')
        if ours:
            rows.append((f'{item} grouped, {layout}, {network}: round trips',
                         ours / (2 * r.rate(network)[1]), 2))
    for network, layout, item in r.keys('wire'):
        ours = r.get('wire', network, layout, item, 'reigen')
        if ours:
            least = 2 * (Layout(layout).hosts - 1) * int(item)
            rows.append((f'bytes on the wire, {layout}, {plot.size_name(int(item))}: '
                         'of the minimum', ours / least, 1.02))
    for network, layout, item in r.keys('wireup'):
        ours = r.get('wireup', network, layout, item, 'reigen')
        if ours:
            ranks = Layout(layout).ranks
            rows.append((f'wire-up of {ranks} ranks on 4 hosts, s', ours,
                         0.2 if ranks == 16 else 0.5))
    for network, layout, item in r.keys('training'):
        above = {n: over_alone(r, network, layout, item, n) for n in ('reigen', 'gloo', 'hvd-mpi')}
        peers = [us for n, us in above.items() if n != 'reigen' and us is not None]
        if above['reigen'] is not None and peers and min(peers) > 0:
            rows.append((f'training, {MODELS[item]}, {layout}: above one rank\'s, of the best '
                         'peer\'s', max(above['reigen'], 0) / min(peers), ABOVE_MAX))
    return rows


def over_alone(r, network, layout, model, name):
    step = r.get('training', network, layout, model, name)
    alone = r.get('training', network, layout, model, 'alone')
    return step - alone if step is not None and alone is not None else None


def verdict(ratio, limit):
    return 'pass' if ratio <= limit else 'MISSED'


#: How the page sums up rows of judge_rest that begin alike.
REST = {'bytes on the wire': 'bytes on the wire, of the minimum',
        'training': "training: time above one rank's, of the best peer's"}
GROUPS = {
    'mpi': '4 B to 64 KiB against Open MPI over TCP', 'gloo': '4 B to 64 KiB against gloo',
    'round trip': '1 ms, 2x1, 4 B and 64 KiB against one round trip and the line\'s time',
    'best peer': '256 KiB to 64 MiB against the best peer',
    'line': '64 MiB: what iperf3 or the line reaches, of ours',
}


def target_table(r):
    """(lines, how many were missed, the record's rows)"""
    groups, record = {}, []
    for network, layout, item in r.keys('allreduce'):
        for what, (ratio, limit) in judge_allreduce(r, network, layout, int(item)).items():
            groups.setdefault(what, []).append((ratio, limit, f'{network} {layout} '
                                                + plot.size_name(int(item))))
            record.append({'row': f'allreduce {network} {layout} {item} {what}', 'ratio': ratio,
                           'limit': limit})
    single = []
    for what, value, limit in judge_rest(r):
        record.append({'row': what, 'ratio': value, 'limit': limit})
        kind, _, where = what.partition(', ')
        if kind in REST:
            groups.setdefault(kind, []).append((value, limit, where.partition(': ')[0]))
        else:
            single.append(f'| {what} | {limit:g} | | {value:.2f} | | {verdict(value, limit)} |')
    missed = sum(row['ratio'] > row['limit'] for row in record)
    return [*group_lines(groups), *single], missed, record


def group_lines(groups):
    """The head, and a line for each kind of comparison: how many rows pass, and the worst."""
    lines = ['| what | limit | rows that pass | worst | where | |', '|---|---|---|---|---|---|']
    for what, text in {**GROUPS, **REST}.items():
        if what in groups:
            good = sum(ratio <= limit for ratio, limit, _ in groups[what])
            ratio, limit, where = max(groups[what])
            lines.append(f'| {text} | {limit:.2f} | {good} of {len(groups[what])} | {ratio:.2f} | '
                         f'{where} | {verdict(ratio, limit)} |')
    return lines


# ---------------------------------------------------------------------------- tables

def size_table(r, network, rows):
    """A line for each size, and a cell for each contender with each layout of one rank a host."""
    layouts = list(dict.fromkeys(layout for _, layout, _ in rows))
    layouts = [layout for layout in layouts if Layout(layout).ranks == Layout(layout).hosts] \
        or layouts
    names = ('reigen', *PEERS)
    lines = ['| us | ' + ' | '.join(f'{layout} {LABELS[n]}' for layout in layouts for n in names)
             + ' |', '|---|' + '---|' * (len(layouts) * len(names))]
    for item in map(str, plot.shown([int(n) for n in dict.fromkeys(n for _, _, n in rows)])):
        cells = []
        for layout in layouts:
            checks = judge_allreduce(r, network, layout, int(item)).values()
            us = [time_text(r.get('allreduce', network, layout, item, n)) for n in names]
            bold = '**' if any(ratio > limit for ratio, limit in checks) else ''
            cells += [f'{bold}{us[0]}{bold}', *us[1:]]
        lines.append(f'| {plot.size_name(int(item))} | ' + ' | '.join(cells) + ' |')
    return lines


def has_table(r, network):
    """No line of a real network is without delay, and of those with the same one the last, the
    quickest, has a table: the others have a picture, where such are there."""
    delays = {n: delay for n, (_, delay) in r.raw['networks'].items()}
    last = {delay: n for n, delay in delays.items()}
    return last[delays[network]] == network and (bool(delays[network]) or not any(delays.values()))


def network_section(r, network, where):
    title = network_name(*r.raw['networks'][network])
    rows = [k for k in r.keys('allreduce') if k[0] == network]
    if not rows:
        return []
    lines = [f'## {title}', '']
    curves = {f'{LABELS[n]}': [(int(k[2]), r.get('allreduce', *k, n)) for k in rows
                               if k[1] == rows[0][1] and r.get('allreduce', *k, n)]
              for n in (*PEERS, 'reigen')}
    curves = {n: sorted(c) for n, c in curves.items() if len(c) > 1}
    if curves:
        picture = f'benchmarks-hosts-{network}.svg'
        (where / picture).write_text(plot.curves(f'Allreduce, {title}, {rows[0][1]}', curves))
        lines += [f'![time by size, {title}]({picture})', '']
    if has_table(r, network):
        lines += [*size_table(r, network, rows), '']
    return lines


def rest_table(r, part, title, names, text):
    keys = [k for k in r.values if k[0] == part]
    names = [n for n in names if any(r.get(*k, n) is not None for k in keys)]
    if not keys or not names:
        return []
    lines = [f'## {title}', '', '| | ' + ' | '.join(LABELS.get(n, n) for n in names) + ' |',
             '|---|' + '---|' * len(names)]
    for key in keys:
        lines.append(f'| {key[2]}, {key[3]} | '
                     + ' | '.join(text(r.get(*key, n)) for n in names) + ' |')
    return lines + ['']


def training_table(r):
    """A step of each model, beside what it may take, and what iperf3 needs for its gradients."""
    keys, names = r.keys('training'), ('gloo', 'hvd-mpi')
    names = [n for n in names if any(r.get('training', *k, n) is not None for k in keys)]
    if not keys:
        return []
    lines = ['## Training steps at 10 Gb/s + 0.1 ms, ms', '',
             '| | alone | Reigen | target | ' + ' | '.join(LABELS[n] for n in names)
             + ' | iperf3 |', '|---|---|---|---|' + '---|' * len(names) + '---|']
    for network, layout, model in keys:
        alone, ours, *peers = (r.get('training', network, layout, model, n)
                               for n in ('alone', 'reigen', *names))
        best = min((us for us in peers if us is not None), default=None)
        target = alone + ABOVE_MAX * (best - alone) if alone and best else None
        gbit = r.get('iperf', network, layout, 'gbit', 'iperf3')
        hosts = Layout(layout).hosts
        wire = 2 * (hosts - 1) / hosts * GRADIENT_NBYTES[model] * 8 / gbit / 1e3 if gbit else None
        bold = '**' if ours and target and ours > target else ''
        lines.append(f'| {layout}, {model} | {ms(alone)} | {bold}{ms(ours)}{bold} | '
                     + ' | '.join(ms(us) for us in (target, *peers, wire)) + ' |')
    return [*lines, '', TRAINING]


def ms(us):
    return '-' if us is None else f'{us / 1e3:.2f}'


def render(raw, where):
    """(the page, how many targets were missed, the record's rows); pictures go into `where`."""
    r = Results(raw)
    targets, missed, record = target_table(r)
    sections = []
    for network in raw['networks']:
        sections += network_section(r, network, where)
    if any(key[0] == 'iperf' for key in r.values):
        sections += ['## What stops 64 MiB', '', LINE_BOUND]
    sections += rest_table(r, 'many', 'Many tensors at once, us', ('reigen', *PEERS), time_text)
    if any(key[0] == 'many' for key in r.values):
        sections.append(MANY_BOUND)
    sections += rest_table(r, 'wireup', 'From exec to the end of init, s, the slowest rank',
                           ('reigen', 'mpi'), lambda v: '-' if v is None else f'{v:.3f}')
    sections += training_table(r)
    page = PAGE.format(**{**raw, 'targets': '\n'.join(targets),
                          'sections': '\n'.join(sections).rstrip('\n')})
    return page, missed, record


def write(raw, where):
    """Write the page, the pictures and the record; how many targets were missed."""
    where.mkdir(parents=True, exist_ok=True)
    page, missed, record = render(raw, where)
    (where / 'benchmarks-hosts.md').write_text(page)
    path = where / 'benchmarks-hosts.json'
    old = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**old, 'rows': record, 'raw': raw}, indent=1) + '\n')
    return missed
