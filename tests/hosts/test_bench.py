# SPDX-License-Identifier: Apache-2.0
"""reigen bench on two hosts, started by ssh and by MPI's own mpirun, beside that MPI and gloo."""
import json
import subprocess

import pytest
from bed import Cluster

import built
import mpis
from built import PROGRAMS

LIMIT = 180
QUICK = ['--iterations', '3', '--rounds', '2', '--warmup', '1', '--max-bytes', '64k', '--factor',
         '64', '--json', '-']


@pytest.fixture(scope='module')
def hosts():
    with Cluster(2) as cluster:
        yield cluster
        cluster.assert_clean()


def judge(done, peers=()):
    """The rows of what has been measured, all of which is right."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    for row in found['rows']:
        assert set(row['results']) == {'reigen', *peers}
        assert row['results']['reigen']['wrong'] == 0, row
    return found


def test_reigen_bench_starts_itself_by_ssh(hosts):
    path = '/tmp/bench.model'       # of the host itself
    done = hosts[1].run([PROGRAMS.reigen, 'bench', '-H', 'node1:2,node2:2', '--op', 'all',
                         '--check', '--fit', path, *QUICK], env=built.environment(), timeout=LIMIT)
    found = judge(done)
    assert found['ranks'] == 4 and found['hosts'] == 2
    assert any('tcp' in line for line in found['runtime'])
    assert all(row['predicted_us'] > 0 for row in found['rows'] if row['operation'] != 'join' and
               row['bytes'])
    assert 'net.alpha_ns' in hosts[1].run(['cat', path], timeout=LIMIT).stdout


@pytest.mark.parametrize('group', [1, 3])
@pytest.mark.parametrize('name', ['openmpi4', 'mpich4'])
def test_the_launcher_s_mpi_takes_turns(name, group):
    env = {**mpis.ordinary_environment(), **mpis.environment(name)}
    command = mpis.mpirun(name, 2, PROGRAMS.reigen, 'bench', '--peer', 'mpi', '--op', 'all',
                          '--type', 'int32,float16', '--check', '--group', group, *QUICK)
    done = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    for row in judge(done, ['mpi'])['rows']:
        mpi = row['results']['mpi']
        has = row['operation'] != 'join' and row['type'] != 'float16'
        assert (mpi['time_us'] is not None) == has, row
        assert has or 'MPI has no' in mpi['note']


def test_mpi_and_gloo_side_by_side_on_two_hosts(hosts):
    command = mpis.mpirun('openmpi4', 2, PROGRAMS.reigen, 'bench', '--peer', 'mpi,gloo', '--python',
                          PROGRAMS.python, '--check', *QUICK, hosts=['node1', 'node2'])
    done = hosts[1].run(command, env={**mpis.environment('openmpi4'),
                                      'GLOO_SOCKET_IFNAME': 'eth0'}, timeout=LIMIT)
    found = judge(done, ['mpi', 'gloo'])
    assert found['hosts'] == 2
    for row in found['rows']:
        assert row['results']['mpi']['time_us'] > 0 and row['results']['gloo']['time_us'] > 0
