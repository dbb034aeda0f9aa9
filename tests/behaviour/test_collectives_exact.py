# SPDX-License-Identifier: Apache-2.0
"""Every operation gives what a single process computes, with the same bits on every rank, whatever
the order, the timing, the sizes and the planes."""
import os

import pytest

from ranks import SLOWER, run, two_hosts

SEED = int(os.environ.get('REIGEN_SWEEP_SEED', '20261121'))
#: What one of the long tests takes.
LONG_S = float(os.environ.get('REIGEN_SWEEP_SECONDS', '120'))
PLANES = {'shm': {'REIGEN_PLANES': 'shm,tcp'}, 'tcp': {'REIGEN_PLANES': 'tcp'}}


def exact(size, ms=1500, seed=SEED, max_nbytes=4 << 20, threads=1, **options):
    ranks = run('exact', ms, seed, max_nbytes, threads, size=size, timeout=ms / 1000 + 40,
                **options)
    results = {line for r in ranks for line in r.lines if line.startswith('exact ')}
    assert len(results) == 1, results
    words = results.pop().split()
    # Slow machines do less in the time, but never nothing.
    assert int(words[2]) >= 3, words
    return int(words[2])


def half_by_tcp(rank):
    """Two ranks share memory, each of the others is a node of its own."""
    return PLANES['shm' if rank < 2 else 'tcp']


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [1, 2, 3, 4])
def test_random_operations_over_shared_memory_are_exact(size):
    exact(size, env=PLANES['shm'])


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [2, 3, 4])
def test_random_operations_over_tcp_are_exact(size):
    exact(size, seed=SEED + 1, env=PLANES['tcp'])


@pytest.mark.sanitize
@pytest.mark.parametrize('sockets', [2, 7])
def test_random_operations_over_several_sockets_are_exact(sockets):
    exact(3, seed=SEED + 7, env={**PLANES['tcp'], 'REIGEN_SOCKETS_PER_PAIR': sockets})


@pytest.mark.sanitize
def test_random_operations_over_nodes_of_different_size_are_exact():
    exact(4, seed=SEED + 2, each=half_by_tcp)


def test_random_operations_over_two_hosts_are_exact(tmp_path):
    with two_hosts(tmp_path) as (env, enter):
        exact(4, seed=SEED + 3, env=env, enter=enter(4))
        exact(3, seed=SEED + 4, env=env, enter=enter(3))


@pytest.mark.sanitize
@pytest.mark.parametrize('planes', PLANES)
def test_four_threads_at_once_are_exact(planes):
    exact(2, seed=SEED + 5, max_nbytes=256 << 10, threads=4, env=PLANES[planes])


def test_small_fusion_buffer_and_small_cache_change_no_result():
    env = {'REIGEN_FUSION_THRESHOLD': 10000, 'REIGEN_CACHE_CAPACITY': 8}
    exact(3, seed=SEED + 6, max_nbytes=64 << 10, env=env)
    exact(3, seed=SEED + 6, max_nbytes=64 << 10, env={**env, **PLANES['tcp']})


@pytest.mark.soak
@pytest.mark.timeout((2 * LONG_S + 300) * SLOWER)
def test_random_operations_over_two_hosts_stay_exact_for_long(tmp_path, record_property):
    ms, nrounds = int(LONG_S * 1000 / 6), 0
    with two_hosts(tmp_path) as (env, enter):
        for seed in range(SEED + 40, SEED + 43):
            nrounds += exact(4, ms=ms, seed=seed, env=env, enter=enter(4))
            nrounds += exact(5, ms=ms, seed=seed, max_nbytes=64 << 10, env=env, enter=enter(5))
    record_property('rounds', nrounds)


@pytest.mark.soak
@pytest.mark.timeout((LONG_S + 300) * SLOWER)
@pytest.mark.parametrize('planes', PLANES)
def test_threads_stay_exact_for_long(planes, record_property):
    record_property('rounds', exact(4, ms=int(LONG_S * 1000 / 2), seed=SEED + 50,
                                    max_nbytes=256 << 10, threads=4, env=PLANES[planes]))
