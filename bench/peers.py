# SPDX-License-Identifier: Apache-2.0
"""Reigen's C API, MPI and gloo as `reigen bench` measures them, for all pages alike."""
import json

#: series: what reigen bench is asked for. Those named many-* have patterns of tensors, the others
#: sizes of one.
SERIES = {'out': [], 'in': ['--in-place'], 'many-grouped': [], 'many-calls': ['--separate']}
#: Of those who are measured; a peer has no grouped call.
SERIES_OF = {None: list(SERIES), 'mpi': ['out', 'in', 'many-calls'],
             'gloo': ['out', 'in', 'many-calls']}
IN_PLACE_MIN = 1 << 20      # what differs is bandwidth
ROUNDS = 10


def command(reigen, peer=None, *more):
    """The words that measure one peer alone, or Reigen itself."""
    return [reigen, 'bench', *(['--peer', peer, '--peers-alone', *more] if peer else [])]


def runs(peer, sizes, many):
    """[(series, pattern or None, options)]: what one run of reigen bench each measures."""
    found = []
    for series in SERIES_OF[peer]:
        options = SERIES[series]
        if series.startswith('many'):
            for pattern in many:
                count, _, nbytes = pattern.partition('x')
                found.append((series, pattern, [*options, '--group', count, '--bytes', nbytes]))
            continue
        least = IN_PLACE_MIN if series == 'in' else 0
        chosen = [str(nbytes) for nbytes in sizes if nbytes >= least]
        if chosen:
            found.append((series, None, [*options, '--bytes', ','.join(chosen)]))
    return found


def read(path):
    """{bytes: (us, us of the 10th percentile)} of the one who was measured."""
    rows = json.loads(path.read_text())['rows']
    return {row['bytes']: (result['time_us'], result['p10_us']) for row in rows
            for result in row['results'].values() if result['time_us'] is not None}


def measure(command, peer, sizes, many, budget_ms, out, run):
    """What a contender of measure.py's would write: a dict for each figure. run(argv) is to start
    the ranks of one run and tell whether all was well; who fails once is not asked again."""
    found = []
    for series, pattern, options in runs(peer, sizes, many):
        out.unlink(missing_ok=True)
        if not run([*command, *options, '--rounds', ROUNDS, '--seconds', budget_ms / 1e3,
                    '--json', out]):
            break
        for nbytes, (median, tenth) in read(out).items():
            found.append({'series': series, 'median_us': median, 'p10_us': tenth,
                          **({'pattern': pattern} if pattern else {'bytes': nbytes})})
    return found
