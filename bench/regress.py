# SPDX-License-Identifier: Apache-2.0
"""Has Reigen become slower between hosts? A few figures, each beside the one that was recorded.

usage: bench/regress.py [--record]

Ends with 1, and says which, when one is more than a quarter worse than that of
docs/benchmarks-hosts.json; --record writes them there, if all could be measured. It takes some
twenty seconds, two minutes at most, on simulated hosts.

What is measured has its bound in the network, or is counted, or stands beside Open MPI in the same
round: it tells of the code and not of this machine. What else runs here adds time to one round and
not to another one. So recorded is the median of the rounds, and judged is the best of them, but for
those in which MPI itself was held up. Rounds go on while a row is still too large: another one
cannot make a program pass that sends more, or waits once more. This process and its hosts go before
all others meanwhile.
"""
import argparse
import contextlib
import json
import statistics
import sys
import time

import simulated
from simulated import ROOT, Layout

sys.path.insert(0, str(ROOT / 'tests'))

from bed import Network, first  # noqa: E402 (needs the path above)

RECORD = ROOT / 'docs/benchmarks-hosts.json'
WORSE = 1.25
#: A peer's round that takes so much longer than its best tells nothing.
HELD_UP = 1.5
ROUNDS_RECORD, ROUNDS_MAX, SECONDS_MAX = 5, 8, 100
#: (rate, delay one way in ms, layout, sizes, pattern of many tensors)
TIMED = [('1gbit', 0.0, '2x1', [1 << 20, 16 << 20], None),
         ('1gbit', 0.0, '4x1', [4 << 20], None),
         ('1gbit', 1.0, '2x1', [4, 64 << 10], None),
         ('1gbit', 1.0, '4x1', [4, 64 << 10], '300x1024')]
#: (layout, sizes): beside MPI, at 10 Gb/s
BESIDE = [('2x1', [4, 64 << 10, 1 << 20])]
#: (layout, bytes, runs): what is counted, on a network without a limit
COUNTED = [('2x1', 1 << 20, 20), ('4x1', 1 << 20, 20)]


def least_us(rate, delay_ms, layout, nbytes):
    """The payload's time on the line, and the way of one message."""
    mbit = float(rate.removesuffix('gbit')) * 1e3
    return delay_ms * 1e3 + 2 * (layout.hosts - 1) / layout.hosts * nbytes * 8 / mbit


def timed_round(net):
    """{row: (us, us that line and way need at least)}"""
    found = {}
    for rate, delay_ms, text, sizes, pattern in TIMED:
        layout, where = Layout(text), f'{rate} + {delay_ms:g} ms, {text}'
        net.change(rate, delay_ms)
        for nbytes, us in simulated.allreduces(net, layout, 'reigen', sizes, 60).items():
            found[f'{where}, {nbytes} B'] = us, least_us(rate, delay_ms, layout, nbytes)
        us = simulated.many(net, layout, 'reigen', pattern, 60) if pattern else None
        if us:
            count, nbytes = (int(n) for n in pattern.split('x'))
            found[f'{where}, {pattern} grouped'] = us, least_us(rate, delay_ms, layout,
                                                                count * nbytes)
    return found


def beside_round(net):
    """{row: (us, MPI's us)}"""
    found = {}
    net.change('10gbit')
    for text, sizes in BESIDE:
        ours, peers = (simulated.allreduces(net, Layout(text), name, sizes, 60)
                       for name in ('reigen', 'mpi'))
        found.update({f'10gbit, {text}, {nbytes} B, of MPI': (ours[nbytes], peers[nbytes])
                      for nbytes in sizes if nbytes in ours and nbytes in peers})
    return found


def counted_round(net):
    """{row: (bytes sent, bytes that any algorithm sends at least)}"""
    found = {}
    net.change()
    for text, nbytes, runs in COUNTED:
        layout = Layout(text)
        total = simulated.wire_bytes(net, layout, 'reigen', nbytes, runs)
        if total:
            found[f'bytes sent, {text}, {nbytes} B'] = total, 2 * (layout.hosts - 1) * nbytes
    return found


def ratios(pairs):
    """Of the rounds of one row, but for those in which what is compared with was held up."""
    quiet = HELD_UP * min(against for _, against in pairs)
    return [value / against for value, against in pairs if against <= quiet]


def too_large(found, record):
    """Rows whose best round is too large, or that no round has."""
    return [row for row, was in record.items()
            if row not in found or min(ratios(found[row])) > WORSE * was]


def incomplete(found, before):
    """Rows that some round has not, or that the record has and no round. Recorded without them,
    they would not be judged from then on."""
    return sorted({row for row, pairs in found.items() if len(pairs) < ROUNDS_RECORD}
                  | set(before) - set(found))


@contextlib.contextmanager
def a_network():
    with first(), Network(4) as net:
        yield net


def measure(rounds, record):
    """{row: [pair of each round]}. With a record, until all are good enough."""
    found, deadline = {}, time.monotonic() + SECONDS_MAX
    with a_network() as net:
        for _ in range(rounds):
            for measured in (timed_round, beside_round, counted_round):
                for row, pair in measured(net).items():
                    found.setdefault(row, []).append(pair)
            if record and (not too_large(found, record) or time.monotonic() > deadline):
                break
    return found


def show(found, record):
    bad = too_large(found, record)
    print('times and bytes, as multiples of the least, or of MPI\'s time: best round, recorded')
    for row in sorted({*found, *record}):
        now = f'{min(ratios(found[row])):.2f}' if row in found else '-'
        was = f'{record[row]:.2f}' if row in record else '-'
        print(f'  {row:<44} {now:>7} {was:>7}  {"WORSE" if row in bad else ""}')
    return bad


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--record', action='store_true')
    args = parser.parse_args(argv)
    whole = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record = {} if args.record else whole.get('regress', {})
    if not record and not args.record:
        print(f'regress: {RECORD} has no record; bench/regress.py --record writes one')
        return 1
    found = measure(ROUNDS_RECORD if args.record else ROUNDS_MAX, record)
    if args.record:
        gone = incomplete(found, whole.get('regress', {}))
        if gone:
            print(f'regress: not measured in each round, so nothing is recorded: {"; ".join(gone)}')
            return 1
        whole['regress'] = {row: round(statistics.median(ratios(pairs)), 3)
                            for row, pairs in found.items()}
        RECORD.write_text(json.dumps(whole, indent=1) + '\n')
    return 1 if show(found, record) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
