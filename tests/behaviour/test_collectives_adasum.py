# SPDX-License-Identifier: Apache-2.0
"""Adasum gives what a tree computed in one process gives, for any number of ranks."""
import pytest

from ranks import run, two_hosts

PLANES = {'shm': {'REIGEN_PLANES': 'shm,tcp'}, 'tcp': {'REIGEN_PLANES': 'tcp'}}


def adasum(size, largest=100003, **options):
    ranks = run('adasum', largest, size=size, **options)
    results = {line for r in ranks for line in r.lines if line.startswith('adasum ')}
    assert len(results) == 1, results
    return results.pop()


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [1, 2, 3, 5])
def test_adasum_over_shared_memory_is_the_tree_and_the_same_in_every_run(size):
    assert adasum(size, env=PLANES['shm']) == adasum(size, env=PLANES['shm'])


@pytest.mark.sanitize
@pytest.mark.parametrize('size', [2, 4])
def test_adasum_over_tcp_is_the_tree(size):
    adasum(size, env=PLANES['tcp'])


@pytest.mark.sanitize
def test_adasum_over_nodes_of_different_size_is_the_tree():
    adasum(4, each=lambda rank: PLANES['shm' if rank < 2 else 'tcp'])


@pytest.mark.slow
@pytest.mark.parametrize('planes', ['shm', 'tcp'])
def test_adasum_of_large_tensors_and_many_ranks_is_the_tree(planes):
    for size in (6, 7):
        adasum(size, largest=300007, env=PLANES[planes])


@pytest.mark.slow
def test_adasum_over_two_hosts_is_the_tree(tmp_path):
    with two_hosts(tmp_path) as (env, enter):
        adasum(5, env=env, enter=enter(5))
