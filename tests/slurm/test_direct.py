# SPDX-License-Identifier: Apache-2.0
"""Ranks that srun itself starts, with no launcher of ours: `srun --mpi=pmix python train.py`."""
import json

import pytest
from bed import SlurmCluster

import mpis
from built import ROOT

AGAIN = ROOT / 'build/tests/programs/again'
RANK = ROOT / 'tests/hosts/ranks/boot.py'
PYTHON = '/usr/bin/python3'
# Of four ranks, so that the two nodes differ.
PER_NODE = 3


@pytest.fixture(scope='module')
def plain():
    with SlurmCluster(2, kill_wait=1) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nothing_stays(plain):
    yield
    plain.assert_clean()
    plain.wait_idle(timeout=30)


def srun(cluster, mpi, *words, beside=None, **env):
    return cluster.head.run(['srun', '-N2', '-n4', f'--mpi={mpi}', '--kill-on-bad-exit=1',
                             f'--distribution=plane={PER_NODE}', *words],
                            env={**mpis.environment('openmpi4', beside), **env}, timeout=90)


def said(done):
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{')]
    return sorted(lines, key=lambda line: line['rank'])


@pytest.mark.parametrize('mpi,boot', [('pmix', 'pmix'), ('pmi2', 'pmi')])
def test_python_ranks_know_their_places(plain, mpi, boot):
    lines = said(srun(plain, mpi, PYTHON, RANK))
    assert lines == [{'rank': r, 'size': 4, 'local_rank': r % 3, 'local_size': 3 if r < 3 else 1,
                      'cross_size': 2 if r % 3 == 0 else 1, 'boot': boot, 'nodes': '4 on 2 nodes',
                      'sum': 10.0} for r in range(4)]


@pytest.mark.parametrize('mpi', ['pmix', 'pmi2'])
def test_c_ranks_meet_leave_and_meet_again(plain, mpi):
    done = srun(plain, mpi, AGAIN, '3', '60000', '1')
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.split('\n')) == sorted(
        [f'rank {r} of 4' for r in range(4)] * 3 + ['']), done.stdout


def test_a_program_with_open_mpi_works(plain):
    lines = said(srun(plain, 'pmix', PYTHON, RANK, 'beside', beside='openmpi4'))
    assert [(line['boot'], line['rank'], line['sum'], line['mpi']) for line in lines] == [
        ('pmix', r, 10.0, [r, 4, 10]) for r in range(4)]


@pytest.mark.parametrize('mpi', ['pmix', 'pmi2'])
@pytest.mark.parametrize('how', ['raise', 'exit'])
def test_a_rank_that_fails_ends_the_job(plain, mpi, how):
    done = srun(plain, mpi, PYTHON, RANK, how)
    assert done.returncode != 0, done.stdout + done.stderr


def test_without_a_way_to_meet_it_is_said(plain):
    """srun --mpi=none starts strangers: no job of one rank each, in silence."""
    done = srun(plain, 'none', PYTHON, RANK)
    assert done.returncode != 0, done.stdout
    assert '--mpi=pmix' in done.stderr, done.stderr
