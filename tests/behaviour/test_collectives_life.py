# SPDX-License-Identifier: Apache-2.0
"""Joining with uneven data, forking, progress while nobody waits, many names, init again and
again."""
import pytest

from ranks import SLOWER, run, two_hosts

TCP = {'REIGEN_PLANES': 'tcp'}


@pytest.mark.sanitize
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
@pytest.mark.parametrize('size', [1, 2, 4])
def test_ranks_with_uneven_data_join(size, env):
    run('joins', size=size, env=env)


@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_more_names_than_there_are_entries_come_by_while_a_host_has_joined(env):
    run('joins', 18000, size=2, env=env)


def test_ranks_of_two_hosts_join(tmp_path):
    with two_hosts(tmp_path) as (env, enter):
        run('joins', size=4, env=env, enter=enter(4))


@pytest.mark.sanitize
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_a_forked_child_has_nothing_of_the_runtime(env):
    run('forked', size=2, env=env)


@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
@pytest.mark.parametrize('size', [2, 4])
def test_operations_go_on_while_nobody_waits(size, env):
    run('progress', 1000, size=size, env=env)


@pytest.mark.parametrize('env', [{}, {'REIGEN_CACHE_CAPACITY': 64}, TCP],
                         ids=['shm', 'small-cache', 'tcp'])
def test_ten_thousand_names_take_bounded_memory(env):
    ranks = run('progress', 20000, size=2, env=env)
    for rank in ranks:
        words = rank.wait_line('names').split()
        # By then as many names are remembered as ever will be.
        assert int(words[6]) - int(words[2]) < 4096, rank.lines


@pytest.mark.sanitize
@pytest.mark.parametrize('size,env', [(1, {}), (2, {}), (4, {}), (2, TCP)],
                         ids=['one', 'two', 'four', 'tcp'])
def test_init_and_shutdown_fifty_times(size, env):
    # A shutdown that waits for a tick of the communication thread takes up to 100 ms; one by TCP,
    # whose last bytes the other kernel may acknowledge late, takes 40 ms at times.
    limit_ms = 3500 if env else 2000
    ranks = run('again', 50, 0, 0, limit_ms * SLOWER, size=size, env=env)
    for number, rank in enumerate(ranks):
        assert rank.lines == [f'rank {number} of {size}'] * 50


@pytest.mark.sanitize
@pytest.mark.parametrize('env', [{}, TCP], ids=['shm', 'tcp'])
def test_shutdown_while_other_threads_are_in_calls(env):
    for rank in run('quit', 5, size=3, env=env):
        assert rank.lines[-1] == 'round 4'


def test_shutdown_of_two_hosts_while_other_threads_are_in_calls(tmp_path):
    with two_hosts(tmp_path) as (env, enter):
        run('quit', 5, size=4, env=env, enter=enter(4))
