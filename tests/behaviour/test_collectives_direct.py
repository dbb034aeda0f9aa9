# SPDX-License-Identifier: Apache-2.0
"""Operations between nodes go directly once they are known, if that is quicker: they come to one
end on all ranks, whatever some of them do meanwhile."""
import pytest

from ranks import run, two_hosts
from variants import rest

TCP = {'REIGEN_PLANES': 'tcp'}


def direct(size, seed, rounds=30, **options):
    ranks = run('direct', seed, rounds, size=size, timeout=60, **options)
    assert all(f'rounds {rounds}' in r.lines for r in ranks)
    # What was in flight when one left has ended, or is cancelled, on all the others.
    ends = {line for r in ranks for line in r.lines if line.startswith('end ')}
    assert len(ends) == 1, ends


def pair_by_shm(rank):
    """Two ranks share memory, each of the others is a node of its own."""
    return {'REIGEN_PLANES': 'shm,tcp' if rank < 2 else 'tcp'}


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [2, 3, 4, 5])
def test_small_sums_come_to_one_end_over_tcp(size):
    direct(size, 7 + size, env=TCP)


@pytest.fixture(params=['alpha', 'beta'])
def model(tmp_path, request):
    """A slow network: what is not small goes directly, too, and by shots where they are quicker."""
    text = {'alpha': 'net.alpha_ns 1000000\n', 'beta': 'net.alpha_ns 300000\nnet.beta_ps 8000\n'}
    path = tmp_path / 'model'
    path.write_text(text[request.param])
    return {'REIGEN_MODEL': path}


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [rest(2), 3, rest(4), 5])
def test_sums_of_all_sizes_come_to_one_end_where_the_network_is_slow(size, model):
    direct(size, 57 + size, env={**TCP, **model})
    direct(size, 67 + size, each=lambda rank: {**pair_by_shm(rank), **model})


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [3, 4, 5])
def test_small_sums_come_to_one_end_over_nodes_of_different_size(size):
    direct(size, 17 + size, each=pair_by_shm)


def test_small_sums_come_to_one_end_over_two_hosts(tmp_path):
    with two_hosts(tmp_path) as (env, enter):
        direct(4, 31, env=env, enter=enter(4))


@pytest.mark.sanitize
@pytest.mark.parametrize('capacity', [0, 3, 6])
def test_numbers_that_are_called_in_change_no_end(capacity):
    env = {**TCP, 'HOROVOD_CACHE_CAPACITY': capacity}
    direct(3, 41 + capacity, env=env)
    direct(2, 42 + capacity, env=env)
