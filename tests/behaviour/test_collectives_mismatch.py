# SPDX-License-Identifier: Apache-2.0
"""Ranks that mean different things by one name all get Horovod's sentence with both ranks in it,
and the job goes on."""
import re
from contextlib import ExitStack

import pytest

from ranks import job, run, two_hosts

IN_USE = ('Requested to allreduce, allgather, or broadcast a tensor with the same name as another '
          'tensor that is currently being processed.  If you want to request another tensor, use a '
          'different tensor name.')


def shapes(op, some, another):
    return (f'Mismatched {op} tensor shapes: One rank sent a tensor of shape {{}}, but another '
            'rank sent a tensor of shape {}.', some, another)


# By case: the sentence, and what the others and what the odd rank has in it.
SENTENCES = {
    'type': ('Mismatched data types: One rank had type {}, but another rank had type {}.',
             'float32', 'int64'),
    'broadcast': ('Mismatched data types: One rank had type {}, but another rank had type {}.',
                  'float32', 'uint8'),
    'reduction': ('Mismatched reduction operation: One rank sent reduction op {}, but another rank '
                  'sent reduction op {}.', '1', '4'),
    'prescale': ('Mismatched prescale and/or postscale factors: One rank sent factors {}, but '
                 'another rank sent factors {}.', '(1, 1)', '(0.5, 1)'),
    'postscale': ('Mismatched prescale and/or postscale factors: One rank sent factors {}, but '
                  'another rank sent factors {}.', '(1, 1)', '(1, 2)'),
    'shape': shapes('ALLREDUCE', '[6]', '[5]'),
    'dimensions': shapes('ALLREDUCE', '[6]', '[2, 3]'),
    'scatter': shapes('REDUCESCATTER', '[6, 3]', '[5, 3]'),
    'gather': ('Mismatched ALLGATHER tensor shapes: One rank sent a tensor with dimension 1 equal '
               'to {}, but another rank sent a tensor with dimension 1 equal to {}.', '3', '2'),
    'exchange': ('Mismatched ALLTOALL tensor shapes: One rank sent a tensor with dimension 1 equal '
                 'to {}, but another rank sent a tensor with dimension 1 equal to {}.', '3', '2'),
    'gather_dimensions': ('Mismatched ALLGATHER tensor shapes: One rank sent a tensor of rank {}, '
                          'but another rank sent a tensor of rank {}.', '2', '1'),
    'root': ('Mismatched BROADCAST root ranks: One rank specified root rank {}, but another rank '
             'specified root rank {}.', '0', '1'),
    'group': shapes('ALLREDUCE', '[6]', '[5]'),
}
# Between hosts only a digest of a group travels.
GROUP_BETWEEN_HOSTS = (
    'Mismatched ALLREDUCE tensor shapes: One rank sent a group of {} elements, but another rank '
    'sent a group of {} elements, or in other shapes.', '14', '13')
REFUSED = {
    'reduction': '6 is no reduction', 'bool average': 'bool', 'type': 'type', 'dimensions': '17',
    'negative dimension': '-1', 'process set': 'rocess set', 'adasum': 'Adasum takes float16',
    'root': 'broadcast received invalid root rank {size} for provided process set',
    'scalar gather': 'rank-zero tensor|scalar',
    'scatter max': 'Reducescatter currently only supports AVERAGE and SUM.',
    'scalar scatter': 'Reducescatter does not support scalar inputs',
    'uneven': 'splits not provided, but first dimension of tensor is not an even multiple of the '
              'number of workers.',
    'sum': 'Sum of splits entries is greater than the first dimension of tensor.',
    'count': 'Number of entries in splits does not equal number of workers.',
    'negative': '-1|egative',
}


def texts(lines, case):
    return [line[len(case) + 2:] for line in lines if line.startswith(f'{case}: ')]


def check_case(lines, case, size, hosts):
    between = case == 'group' and hosts
    sentence, same, other = GROUP_BETWEEN_HOSTS if between else SENTENCES[case]
    found = texts(lines, case)
    # A group's members share their group's fate and its cause.
    assert len(found) == (3 if case == 'group' else 2), (case, lines)
    for text in found:
        wanted = sentence.format(same, other), sentence.format(other, same)
        assert any(w in text for w in wanted), (case, text)
        assert case == 'group' or re.match(rf'\w+\.{case}: ', text), text
        # Both ranks, with what each has; the odd rank is the last one.
        ranks = {int(r) for r in re.findall(r'rank (\d+): ', text)}
        assert len(ranks) == 2 and size - 1 in ranks and max(ranks) < size, text


def check(ranks, hosts=False):
    size = len(ranks)
    for rank in ranks:
        for case in SENTENCES if size > 1 else ():
            check_case(rank.lines, case, size, hosts)
            assert texts(rank.lines, case) == texts(ranks[0].lines, case), case
        for case, pattern in REFUSED.items():
            if case != 'uneven' or size > 1:
                text, = texts(rank.lines, f'refused {case}')
                assert re.search(pattern.format(size=size), text), (case, text)
        text, = texts(rank.lines, 'before')
        assert text.startswith('Horovod has not been initialized; use hvd.init().')
    if size > 1:
        text, = texts(ranks[0].lines, 'in use')
        assert IN_USE in text


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [1, 2, 3, 4])
def test_mismatches_are_told_on_every_rank_over_shared_memory(size):
    check(run('mismatch', size=size))


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [2, 3])
def test_mismatches_are_told_on_every_rank_over_tcp(size):
    check(run('mismatch', size=size, env={'REIGEN_PLANES': 'tcp'}), hosts=True)


def test_mismatches_are_told_on_every_rank_of_two_hosts(tmp_path):
    with two_hosts(tmp_path) as (env, enter):
        check(run('mismatch', size=4, env=env, enter=enter(4)))


KINDS = {'blocking': ('ALLREDUCE', 'ALLGATHER'), 'waited': ('REDUCESCATTER', 'BROADCAST'),
         'group': ('ALLREDUCE', 'ALLGATHER'), 'request': ('ALLREDUCE', 'BROADCAST')}


def crossed_text(one, rank_one, other, rank_other):
    return (rf'Mismatched operations: One rank did an {one}, but another rank did an {other}\. '
            rf'\(rank {rank_one}: {one}, rank {rank_other}: {other}\)')


def says_crossed(line, kinds, ranks):
    (one, other), (a, b) = kinds, ranks
    return re.search(crossed_text(one, a, other, b), line) or \
        re.search(crossed_text(other, b, one, a), line)


def test_ranks_that_wait_in_other_kinds_of_one_name_are_told_both():
    with ExitStack() as stack:
        jobs = {case: stack.enter_context(job('crossed', case, size=2))
                for case in (*KINDS, 'late', 'half')}
        jobs['set'] = stack.enter_context(job('crossed', 'set', size=3))
        for case, ranks in jobs.items():
            for rank in ranks:
                assert rank.wait(60) == 0, (case, rank.lines, rank.err)
                if case in ('late', 'half'):
                    assert rank.lines == ['well']
                elif case == 'set':
                    assert says_crossed(rank.lines[0], KINDS['blocking'], (1, 2)), rank.lines
                    assert 'x: ' in rank.lines[0]
                else:
                    assert says_crossed(rank.lines[0], KINDS[case], (0, 1)), (case, rank.lines)
                    assert 'x: ' in rank.lines[0] or case == 'group'


def test_hosts_that_wait_in_other_kinds_of_one_name_are_told_both(tmp_path):
    with two_hosts(tmp_path) as (env, enter):
        with ExitStack() as stack:
            jobs = {case: stack.enter_context(job('crossed', case, size=2, env=env,
                                                  enter=enter(2)))
                    for case in ('blocking', 'request', 'late', 'half')}
            for case, ranks in jobs.items():
                for rank in ranks:
                    assert rank.wait(60) == 0, (case, rank.lines, rank.err)
                    assert rank.lines == ['well'] if case in ('late', 'half') else \
                        says_crossed(rank.lines[0], KINDS[case], (0, 1)), (case, rank.lines)
