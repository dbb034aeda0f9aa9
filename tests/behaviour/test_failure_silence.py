# SPDX-License-Identifier: Apache-2.0
"""Silence is no death: a network that is away for a while, a process that stands still, one that is
slow to start. What is really gone is named, when it has been silent for long."""
import os
import signal
import subprocess
import time
from contextlib import ExitStack

import processes
import pytest

from ranks import SLOWER, job, state, struck, two_hosts
from wait import soon

SIZE = 4 # two on each host
BOTH = pytest.mark.parametrize('apart', [False, True], ids=['seen', 'unseen'])


def all_ready(ranks):
    for rank in ranks:
        rank.wait_line('round ')


def goes_on(ranks):
    """Rounds are counted that come after this call; then the job is told to end, and does."""
    for rank in ranks:
        now = len(rank.lines)
        assert rank.until(lambda r=rank, n=now: any(line.startswith('round ')
                                                    for line in r.lines[n + 1:]),
                          40 * SLOWER), state(ranks)
    ranks[0].child.stdin.write('end\n')
    ranks[0].child.stdin.flush()
    for rank in ranks:
        rank.wait_line('done')
        assert rank.wait(20 * SLOWER) == 0, state(ranks)


def link(enter, way):
    subprocess.run([*enter(2)(0), 'ip', 'link', 'set', 'wire0', way], check=True)


def process_of(rank):
    """The rank itself, where unshare and a shell stand in front of it."""
    pid = rank.child.pid
    while below := processes.children(pid):
        pid = below[0]
    return pid


@BOTH
@pytest.mark.parametrize('seconds', [6, pytest.param(15, marks=pytest.mark.slow)])
def test_a_network_that_is_away_for_a_while_ends_nothing(seconds, apart, tmp_path):
    with two_hosts(tmp_path, apart) as (env, enter), \
            job('lasting', size=SIZE, env=env, enter=enter(SIZE)) as ranks:
        all_ready(ranks)
        link(enter, 'down')
        time.sleep(seconds)  # patient: so long the network is away
        link(enter, 'up')
        goes_on(ranks)


@BOTH
def test_a_rank_that_stands_still_is_waited_for(apart, tmp_path):
    """Four jobs, in each of which another rank is stopped."""
    with two_hosts(tmp_path, apart) as (env, enter), ExitStack() as stack:
        jobs = [stack.enter_context(job('lasting', size=SIZE, env=env, enter=enter(SIZE)))
                for _ in range(SIZE)]
        for ranks in jobs:
            all_ready(ranks)
        pids = [process_of(ranks[which]) for which, ranks in enumerate(jobs)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(7)  # patient: so long they stand still
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        for ranks in jobs:
            goes_on(ranks)


STARTING = [(0, 'listen', 2), (1, 'eventfd', 1), (2, 'memfd_create', 1), (0, 'epoll_create1', 1),
            (2, 'epoll_create1', 1)]


def test_a_rank_that_stands_still_while_it_starts_is_waited_for(tmp_path):
    """The others meet what they need of it again, though half-open connections end after 10 s."""
    with two_hosts(tmp_path, True) as (env, enter), ExitStack() as stack:
        jobs = [stack.enter_context(job(
            'lasting', size=SIZE, env={**env, 'REIGEN_START_TIMEOUT': 60 * SLOWER},
            enter=enter(SIZE),
            each=lambda r, at=at: struck(*at[1:], signal.SIGSTOP) if r == at[0] else {}))
            for at in STARTING]
        for (which, _, _), ranks in zip(STARTING, jobs):
            ranks[which].wait_line('struck ')
        time.sleep(12)  # patient: so long they stand still
        for (which, _, _), ranks in zip(STARTING, jobs):
            os.kill(process_of(ranks[which]), signal.SIGCONT)
        for ranks in jobs:
            all_ready(ranks)
            goes_on(ranks)


def test_a_host_that_is_cut_for_good_is_named(tmp_path):
    with two_hosts(tmp_path, True) as (env, enter), \
            job('lasting', size=SIZE, env={**env, 'REIGEN_SILENCE_SECONDS': 4},
                enter=enter(SIZE)) as ranks:
        all_ready(ranks)
        link(enter, 'down')
        since = time.monotonic()
        for i, rank in enumerate(ranks):
            line = rank.wait_line('error ')
            other = 2 if i < 2 else 0
            assert f'rank {other} on host' in line, line
            assert 'nothing was heard of it for 4 s (REIGEN_SILENCE_SECONDS)' in line, line
            assert soon(since, 20 * SLOWER)
        for rank in ranks:
            assert rank.wait(20 * SLOWER) == 0, state(ranks)


def test_silence_is_known_by_its_variable():
    with job('lasting', size=2, env={'REIGEN_SILENCE_SECONDS': 1}) as ranks:
        assert ranks[0].wait(20 * SLOWER) == 1
        assert 'REIGEN_SILENCE_SECONDS=1: heartbeats come every second; give at least 3' in \
            ranks[0].err
