# SPDX-License-Identifier: Apache-2.0
"""What it is all for: an ordinary user trains on several hosts, in an image that knows nothing."""
import json

import everywhere
import mpis
import pytest
from bed import Node
from built import PROGRAMS
from variants import rest

HOME = Node.home()
USERS_IMAGE = 'uber/horovod:0.12.1-tf1.8.0-py3.5'  # such names users have; here it is trainer


@pytest.mark.timeout(400)
@pytest.mark.parametrize('nodes', [rest(2), 4])
def test_an_ordinary_user_trains_on_several_hosts_in_an_image_without_sshd(clean4, nodes):
    first = clean4[1]
    first.run(['mkdir', '-p', 'work'], check=True)
    for program in ('sshd', 'mpirun', 'reigen'):
        found = first.run(['docker', 'run', '--rm', 'trainer', 'sh', '-c',
                           f'command -v {program} /usr/sbin/{program}'])
        assert not found.stdout, found.stdout
    hosts = ','.join(f'node{i}:{4 // nodes}' for i in range(1, nodes + 1))
    done = first.run([PROGRAMS.reigen, 'run', '-H', hosts, '--image', 'trainer', '--', 'python',
                      '/examples/pytorch_mnist.py', '--epochs', '1', '--out', 'model',
                      '--report', 'report.json'], cwd=f'{HOME}/work', timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(first.path('work/report.json').read_text())
    assert [rank['rank'] for rank in report['ranks']] == [0, 1, 2, 3], report
    assert report['epochs'][-1]['accuracy'] > 0.9, report
    made = [p for p in first.path('work').rglob('*')]
    assert len(made) >= 2
    assert {(p.stat().st_uid, p.stat().st_gid) for p in made} == {(2001, 2001)}
    first.run(['rm', '-rf', 'work'], check=True)


@pytest.mark.timeout(400)
@pytest.mark.parametrize('name', ['openmpi5', rest('mpich5'), 'impi'])
def test_the_users_mpi_starts_the_same_job_in_the_same_image(clean4, name):
    """The MPI is mounted; the image has none, and no sshd. (Open MPI 4: test_engines.py.)"""
    first, second = clean4[1], clean4[2]
    for node in (first, second):  # MPICH wants the directory on all hosts
        node.run(['mkdir', '-p', 'work'], check=True)
        node.docker('tag', 'trainer', USERS_IMAGE)
    prefix = mpis.prefix(name)
    # A prefix may be a virtual environment with a python of its own.
    words = ['reigen run -H node1:1,node2:1 --timeout 150', f'--image {USERS_IMAGE}',
             f'--mount {prefix}',
             f'-x PATH={prefix}/bin:/usr/local/bin:/usr/bin:/bin -- mpirun /usr/bin/python',
             '/examples/pytorch_mnist.py --epochs 1 --batch-size 256 --out model',
             '--report report.json']
    for attempt in range(2):  # Open MPI 5 hangs now and then (docs/mpi.md)
        done = first.run([PROGRAMS.reigen, *' '.join(words).split()[1:]], cwd=f'{HOME}/work',
                         timeout=180)
        if done.returncode == 0:
            break
    assert done.returncode == 0, (attempt, done.stdout + done.stderr)
    report = json.loads(first.path('work/report.json').read_text())
    assert [rank['rank'] for rank in report['ranks']] == [0, 1], report
    assert report['epochs'][-1]['accuracy'] > 0.5, report
    made = list(first.path('work').rglob('*'))
    assert {(p.stat().st_uid, p.stat().st_gid) for p in made} == {(2001, 2001)}
    for node in (first, second):
        node.run(['rm', '-rf', 'work'], check=True)


@pytest.mark.timeout(400)
@pytest.mark.parametrize('platform', ['local', 'ssh'])
def test_one_command_line_runs_here_and_on_hosts(clean4, platform):
    """test_everywhere in tests/slurm and tests/kubernetes: the same on theirs."""
    first = clean4[1]
    everywhere.give(first, clean4[2])
    for node in (first, clean4[2]):
        node.docker('tag', 'trainer', everywhere.IMAGE)
    places = everywhere.run(first, platform, env={'REIGEN_HOSTS': 'node1:2,node2:2'})
    assert places == (['node1'] * 2 + ['node2'] * 2 if platform == 'ssh' else places[:1] * 4)
