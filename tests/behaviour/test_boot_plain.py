# SPDX-License-Identifier: Apache-2.0
"""Ranks that find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT alone, and ranks that
do not."""
import errno
import time

import pytest

from ranks import Rank, SLOWER, free_port, program, rank_environment, state
from wait import soon


def start(rank, size, port, *arguments, **more):
    return Rank([*program('again'), *(arguments or (1,))],
                rank_environment(rank, size, port, **more))


@pytest.fixture
def ranks():
    started = []
    yield started
    for rank in started:
        rank.close()


def failed(rank, *errors, timeout=20):
    assert rank.wait(timeout * SLOWER) == 3, state([rank])
    _, code, text = rank.lines[-1].split(' ', 2)
    assert -int(code) in errors, rank.lines
    return text


@pytest.mark.sanitize
def test_missing_ranks_are_named_when_the_time_is_over(ranks):
    port = free_port()
    for rank in (0, 2):
        ranks.append(start(rank, 4, port, 1, 1500))
    since = time.monotonic()
    assert 'ranks 1, 3' in failed(ranks[0], errno.ETIMEDOUT)
    failed(ranks[1], errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET)
    assert soon(since, 6 * SLOWER)


def test_without_rank_0_the_others_say_so(ranks):
    ranks.append(start(1, 2, free_port(), 1, 1000))
    assert 'rank 0' in failed(ranks[0], errno.ETIMEDOUT)


def test_two_ranks_of_one_number_are_refused(ranks):
    port = free_port()
    for rank in (0, 1, 1):
        ranks.append(start(rank, 3, port, 1, 2000))
    texts = [failed(rank, errno.ETIMEDOUT, errno.EINVAL, errno.EEXIST, errno.ECONNREFUSED,
                    errno.ECONNRESET) for rank in ranks]
    assert any('rank 1' in text for text in texts[1:]), texts
    assert 'rank 2' in texts[0] or 'rank 1' in texts[0], texts


def test_ranks_of_jobs_of_different_size_do_not_meet(ranks):
    port = free_port()
    ranks += [start(0, 2, port, 1, 2000), start(1, 3, port, 1, 2000)]
    for rank in ranks:
        failed(rank, errno.ETIMEDOUT, errno.EINVAL, errno.ECONNREFUSED)


def test_two_jobs_side_by_side_on_one_port(ranks):
    port = free_port()
    for name in ('a', 'b'):
        ranks += [start(r, 3, port, 5, REIGEN_JOB_ID=name) for r in range(3)]
    for number, rank in enumerate(ranks):
        assert rank.wait(60 * SLOWER) == 0, state(ranks)
        assert rank.lines == [f'rank {number % 3} of 3'] * 5


def test_a_rank_that_comes_late_is_waited_for(ranks):
    port = free_port()
    ranks.append(start(1, 2, port))
    time.sleep(1.2)  # patient: it is late
    ranks.append(start(0, 2, port))
    for rank in ranks:
        assert rank.wait(30 * SLOWER) == 0, state(ranks)


@pytest.mark.parametrize('name,value', [('RANK', '2'), ('RANK', '-1'), ('RANK', 'one'),
                                        ('WORLD_SIZE', '0'), ('MASTER_PORT', '70000'),
                                        ('REIGEN_STALL_SECONDS', 'soon'),
                                        ('REIGEN_PLANES', 'smoke'),
                                        ('REIGEN_SOCKETS_PER_PAIR', '9'),
                                        ('REIGEN_SOCKETS_PER_PAIR', 'many'),
                                        ('REIGEN_TCP_CONGESTION', 'vegas'),
                                        ('REIGEN_FUSION_THRESHOLD', '-1')])
def test_broken_variables_are_named(ranks, name, value):
    ranks.append(start(0, 2, free_port(), 1, 3000, **{name: value}))
    text = failed(ranks[0], errno.EINVAL, errno.ERANGE)
    assert name in text and value in text, text


def test_one_rank_alone_needs_nothing(ranks):
    env = {k: v for k, v in rank_environment(0, 1, 1).items()
           if k not in ('RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT')}
    ranks.append(Rank([*program('again'), 3], env))
    assert ranks[0].wait(20 * SLOWER) == 0, state(ranks)
    assert ranks[0].lines == ['rank 0 of 1'] * 3


def test_a_job_can_be_tried_again_after_a_failed_init(ranks):
    port = free_port()
    first = start(0, 2, port, 1, 500)
    ranks.append(first)
    failed(first, errno.ETIMEDOUT)
    ranks += [start(r, 2, port) for r in range(2)]
    for rank in ranks[1:]:
        assert rank.wait(30 * SLOWER) == 0, state(ranks)


def test_a_job_without_a_key_says_so_once(ranks):
    port = free_port()
    ranks += [start(r, 2, port, REIGEN_INSECURE=1) for r in range(2)]
    for rank in ranks:
        assert rank.wait(30 * SLOWER) == 0, state(ranks)
    assert 'REIGEN_INSECURE=1: whoever can reach' in ranks[0].err, state(ranks)
    assert not ranks[1].err, state(ranks)


# ---- who inherits a rank's variables

def heir(rank, size, port, how):
    return Rank([*program('heir'), how], rank_environment(rank, size, port))


@pytest.mark.sanitize
def test_a_child_of_a_rank_is_told_that_the_place_is_taken(ranks):
    port = free_port()
    ranks += [heir(r, 2, port, 'child') for r in range(2)]
    for number, rank in enumerate(ranks):
        assert rank.wait(60 * SLOWER) == 0, state(ranks)
        said, = (line for line in rank.lines if line.startswith('heir '))
        assert f'heir -{errno.EBUSY} rank {number}: process {rank.child.pid}, ' in said, said
        assert 'REIGEN_BOOT=single' in said, said


def test_a_child_of_the_only_rank_runs_alone(ranks):
    ranks.append(heir(0, 1, free_port(), 'child'))
    assert ranks[0].wait(60 * SLOWER) == 0, state(ranks)
    assert 'heir 0 rank 0 of 1' in ranks[0].lines, state(ranks)


def test_a_child_takes_the_place_that_its_parent_has_left(ranks):
    port = free_port()
    ranks += [heir(r, 2, port, 'after') for r in range(2)]
    for number, rank in enumerate(ranks):
        assert rank.wait(60 * SLOWER) == 0, state(ranks)
        assert f'heir 0 rank {number} of 2' in rank.lines, state(ranks)
