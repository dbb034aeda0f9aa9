# SPDX-License-Identifier: Apache-2.0
"""The property sweep: all types, operations and reductions, sizes from 0 to 64 MiB spread over the
powers of two, groups, factors, in place and not, on 1 to 8 ranks over both planes, from one thread
and from several, submitted in random order with random pauses. Each result is compared with a
single process's: integers to the last bit, floating types within their rounding; and all ranks
must hold the same bits. (tests/programs/exact.c does it.)

REIGEN_SWEEP_SECONDS, REIGEN_SWEEP_SEED: another time, another sample. What fails says its seed,
its round and the operation, and how to run the same again. REIGEN_SWEEP_REPORT: a file for the
table of what was tried.
"""
import collections
import os

import pytest

from ranks import SLOWER, run

SEED = int(os.environ.get('REIGEN_SWEEP_SEED', '4711'))
LARGE, SMALL = 64 << 20, 2 << 20
PLANES = ('shm,tcp', 'tcp')
KINDS = ('allreduce', 'allgather', 'broadcast', 'alltoall', 'reducescatter')
TYPES = ('uint8', 'int8', 'uint16', 'int16', 'int32', 'int64', 'float16', 'float32', 'float64',
         'bool', 'bfloat16')


def seconds(otherwise):
    return float(os.environ.get('REIGEN_SWEEP_SECONDS', otherwise))


def one(size, planes, ms, seed, max_nbytes, threads):
    """One job. {(kind, type) or (reduction,): tensors}"""
    try:
        ranks = run('exact', int(ms), seed, max_nbytes, threads, size=size,
                    timeout=ms / 1000 + 120, env={'REIGEN_PLANES': planes})
    except BaseException:
        print(f'sweep: exact {int(ms)} {seed} {max_nbytes} {threads} on {size} ranks, '
              f'REIGEN_PLANES={planes}')
        raise
    hashes = {line for r in ranks for line in r.lines if line.startswith('exact ')}
    assert len(hashes) == 1, (hashes, seed)
    words = [line.split() for line in ranks[0].lines if line.startswith(('cases', 'reductions'))]
    return {tuple(w[1:-1]): int(w[-1]) for w in words}


def sweep(total_s, most_ranks):
    """Every number of ranks over every plane, all for the same time; tensors are large with up to
    so many ranks. The cases of all."""
    cases, jobs = collections.Counter(), [(size, planes) for planes in PLANES
                                          for size in range(1, 9)]
    for number, (size, planes) in enumerate(jobs):
        # The ranks' start is a part of the time; a round with large tensors goes on beyond it.
        ms = max(300, 1000 * total_s / len(jobs) - 400)
        max_nbytes = LARGE if size <= most_ranks else SMALL
        cases += one(size, planes, ms, SEED + number, max_nbytes, 1 + (number % 3 == 2))
    report(cases)
    return cases


def report(cases):
    lines = ['tensors'.ljust(14) + ''.join(k.rjust(15) for k in KINDS)]
    lines += [t.ljust(14) + ''.join(str(cases[k, t]).rjust(15) for k in KINDS) for t in TYPES]
    lines += [f'{w[0]}: {n}' for w, n in cases.items() if len(w) == 1]
    lines += [f'together: {sum(n for w, n in cases.items() if len(w) == 2)}, seed {SEED}']
    print('\n'.join(lines))
    if os.environ.get('REIGEN_SWEEP_REPORT'):
        with open(os.environ['REIGEN_SWEEP_REPORT'], 'w', encoding='utf-8') as out:
            out.write('\n'.join(lines) + '\n')


@pytest.mark.timeout(600)
def test_a_sample_of_all_operations_is_exact():
    cases = sweep(seconds(24), 3)
    assert all(any(cases[k, t] for t in TYPES) for k in KINDS), cases
    assert all(any(cases[k, t] for k in KINDS) for t in TYPES), cases


@pytest.mark.soak
@pytest.mark.timeout((2 * seconds(240) + 600) * SLOWER)
def test_minutes_of_all_operations_are_exact(record_property):
    total_s = seconds(240)
    cases = sweep(total_s, 8)
    record_property('tensors', sum(n for words, n in cases.items() if len(words) == 2))
    assert total_s < 240 or all(cases[k, t] for k in KINDS for t in TYPES), cases
