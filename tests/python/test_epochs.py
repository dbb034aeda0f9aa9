# SPDX-License-Identifier: Apache-2.0
"""Ranks of an elastic job, whose launcher is played: they lose each other and meet again."""
import re

import pytest

import epochs
import jobs
from wait import until


@pytest.fixture
def job(tmp_path):
    """job(what, env=...) -> epochs.Job, and its stop(), which lets the ranks end."""
    started = []

    def make(*what, program='epochs.py', env=None):
        made = epochs.Job(program, *what, tmp_path / 'stop', env=env)
        made.stop = (tmp_path / 'stop').touch
        started.append(made)
        return made
    yield make
    for each in started:
        each.close()


def test_one_is_killed_and_two_come_and_the_loss_goes_on_from_the_commit(job):
    ranks = job('train')
    ranks.start(3)
    ranks.wait_for(0, 'epoch 1 step 7')
    ranks.kill(0)
    ranks.wait_for(1, 'epoch 2 rank 0 size 2')
    ranks.wait_for(2, 'epoch 2 step')
    ranks.start(2)
    ranks.wait_for(1, 'epoch 3 rank 0 size 4')
    ranks.wait_for(4, 'epoch 3 rank 3 size 4')
    ranks.wait_for(3, 'epoch 3 step')
    ranks.stop()
    assert ranks.wait() == [-9, 0, 0, 0, 0], ranks.output()
    assert 'resets [2, 4]' in ranks.text(1) and 'resets [] ' in ranks.text(3), ranks.output()


def test_hosts_that_come_and_go_interrupt_at_a_commit_and_nothing_is_lost(job):
    ranks = job('train')
    ranks.start(2)
    ranks.wait_for(0, 'epoch 1 step 4')
    ranks.start(1)
    ranks.wait_for(2, 'epoch 2 step')
    ranks.drop(0)
    ranks.wait_for(1, 'epoch 3 rank 0 size 2')
    ranks.wait_for(2, 'epoch 3 step')
    ranks.stop()
    assert ranks.wait() == [-15, 0, 0], ranks.output()
    assert 'Traceback' not in ranks.text(0), ranks.output()
    assert ranks.updates == 2


def test_process_sets_live_on_with_those_of_their_ranks_that_are_left(job):
    ranks = job('sets', env={'HOROVOD_DYNAMIC_PROCESS_SETS': '1'})
    ranks.start(4)
    ranks.wait_for(0, 'epoch 1 rank 0 of 4 static [0, 2] dynamic [1, 2]')
    ranks.wait_for(3, 'epoch 1 step 2')
    ranks.kill(0)
    # The places 1, 2, 3 are the ranks 0, 1, 2 now.
    ranks.wait_for(3, 'epoch 2 rank 2 of 3 static [1] dynamic [0, 1]')
    ranks.wait_for(3, 'epoch 2 step')
    ranks.start(1)
    ranks.wait_for(4, 'epoch 3 rank 3 of 4 static [1] dynamic [0, 1]')
    ranks.wait_for(4, 'epoch 3 step')
    ranks.kill(2)
    ranks.wait_for(4, 'epoch 4 rank 2 of 3 static [] dynamic [0]')
    ranks.wait_for(4, 'epoch 4 step')
    ranks.kill(3)  # 1 and 4 are left, and then the set is one of all ranks
    ranks.kill(4)
    ranks.wait_for(1, 'rank 0 of 1 static [] dynamic [0]')
    ranks.stop()
    assert ranks.wait() == [-9, 0, -9, -9, -9], ranks.output()


FLIGHTS = 21  # as many kinds as ranks/flight.py has


@pytest.mark.parametrize('planes', ['', 'tcp'])
def test_whatever_is_in_flight_ends_in_an_error_and_nothing_is_left_of_it(job, planes):
    # Threads that meet in malloc get arenas of their own, each of two maps.
    ranks = job(FLIGHTS + 1, program='flight.py',
                env={'REIGEN_PLANES': planes, 'MALLOC_ARENA_MAX': '1'})
    ranks.start(3)
    for number in range(1, FLIGHTS + 1):
        def all_at_it():
            return len(ranks.members) == 3 and all(f'epoch {number} at' in ranks.text(place)
                                                   for place in ranks.members)
        until(all_at_it, f'epoch {number}', 40, ranks.output)
        ranks.held = True  # until the new one is there, so that each epoch has three
        ranks.kill(ranks.members[2])
        ranks.start(1)
        waiting = [*ranks.members[:2], len(ranks.places) - 1]
        until(lambda: all(ranks.places[place].meets for place in waiting),
              f'those who are left after epoch {number}', 40, ranks.output)
        ranks.release()
    statuses = ranks.wait()
    assert statuses == [0, 0, *[-9] * FLIGHTS, 0], ranks.output()
    for place in (0, 1):
        errors = re.findall(r'errno (\d+)', ranks.text(place))
        assert errors == ['104'] * FLIGHTS, ranks.output()
        held = [dict(zip(words[::2], map(int, words[1::2]))) for words in
                (line.split() for line in re.findall('holds (.*)', ranks.text(place)))]
        assert len(held) == FLIGHTS
        # Some descriptors come with what an epoch does, and none more with each.
        for what, more in (('descriptors', 4), ('threads', 0), ('maps', 16)):
            assert held[-1][what] <= held[1][what] + more, (what, held)
        assert held[-1]['anonymous'] < held[1]['anonymous'] + (32 << 10), held


# Where a rank is when it is struck: as it makes what the others are to find of it, or later.
STRUCK = [('memfd_create', 1), ('memfd_create', 2), ('eventfd', 1), ('eventfd', 2),
          ('epoll_create1', 1), ('sendmsg', 1), ('sendmsg', 2), ('listen', 1), ('listen', 2)]


@pytest.mark.parametrize('planes', ['', 'tcp'])
def test_a_death_while_the_ranks_meet_makes_them_meet_again(job, planes):
    ranks = job(program='meeting.py', env={'REIGEN_PLANES': planes})
    ranks.start(2)
    died = 0
    for where, count in STRUCK:
        ranks.start(1, env={'LD_PRELOAD': str(jobs.build() / 'tests/programs/libstruck.so'),
                            'TEST_STRUCK_AT': f'{where} {count} 9'})
        new = len(ranks.places) - 1
        until(lambda: ranks.places[new].dead or 'rank 2 size 3' in ranks.text(new),
              f'the end or the beginning of place {new}', 30, ranks.output)
        if ranks.places[new].dead:
            died += 1
        else:  # it does not come by there
            ranks.kill(new)
        until(lambda: len(ranks.members) == 2 and f'epoch {ranks.number} ' in ranks.text(1),
              'the next epoch of those that are left', 30, ranks.output)
    assert died >= 3, ranks.output()
    ranks.stop()
    assert ranks.wait()[:2] == [0, 0], ranks.output()
    assert len(set(re.findall('steps .*', ranks.text(0) + ranks.text(1)))) == 1, ranks.output()


@pytest.mark.parametrize('what, text', [
    ('unsendable', "rank 0's state cannot be sent: lock: cannot pickle '_thread.lock' object"),
    ('half', 'restored to')])
def test_a_state_that_cannot_be_sent_or_is_sent_half_is_a_clear_error(job, what, text):
    ranks = job(what)
    ranks.start(2)
    ranks.wait_for(1, text)
    ranks.stop()
    assert ranks.wait() == ([1, 1] if what == 'unsendable' else [-9, 0]), ranks.output()
    if what == 'unsendable':
        assert 'the state cannot be sent: lock' in ranks.text(0), ranks.output()


def test_who_swallows_the_error_meets_the_others_all_the_same(job):
    ranks = job('swallow')
    ranks.start(3)
    ranks.wait_for(2, 'epoch 1 size 3')
    ranks.kill(2)
    ranks.wait_for(0, 'epoch 2 size 2')
    assert 'swallowed' in ranks.text(0), ranks.output()
    ranks.stop()
    assert ranks.wait() == [0, 0, -9], ranks.output()
