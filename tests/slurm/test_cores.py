# SPDX-License-Identifier: Apache-2.0
"""Ranks stay on the cores that Slurm gave their job, bound to one each or not.

The nodes have this machine's first two cores, which Slurm's task/affinity gives out one by one."""
import re

import pytest

from bed import SlurmCluster
from bed.cores import SHOW, cores, expand
from built import PROGRAMS
from jobs import clean_up, wait_for

IMAGES = pytest.mark.parametrize('image', [(), ('--image', 'base')], ids=['bare', 'container'])


@pytest.fixture(scope='module')
def pair():
    if cores()[:2] != [{0}, {1}]:
        pytest.skip('CPUs 0 and 1 are not two cores that may be used')
    with SlurmCluster(2, cpus=2, gpus=0, task='affinity', dockerd=True,
                      images=['base']) as cluster:
        yield cluster


@pytest.fixture
def slurm(pair):
    pair.wait_idle()
    yield pair
    try:
        pair.assert_clean()
        pair.wait_idle()
    finally:
        clean_up(pair)


def cpus(slurm, *options, inside, command=('sh', '-c', f'echo $REIGEN_RANK $({SHOW})')):
    """{rank: its cpus} of a job in an allocation; and what was said beside."""
    argv = ['salloc', '--quiet', *inside, PROGRAMS.reigen, 'run', '--on', 'slurm',
            '--no-tag-output', *options, '--', *command]
    done = slurm.head.run(argv, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line.split() for line in done.stdout.splitlines()]
    return {int(rank): expand(text) for rank, text in told}, done.stderr


@IMAGES
def test_every_node_binds_its_ranks_to_its_own_cores(slurm, image):
    found, said = cpus(slurm, '--bind-to', 'core', '--report-bindings', *image,
                       inside=['-N2', '-n4'])
    assert found == {0: {0}, 1: {1}, 2: {0}, 3: {1}}, said
    reported = re.findall(r'rank (\d) on node(\d): cpus ([\d,-]+)', said)
    assert sorted(reported) == [('0', '1', '0'), ('1', '1', '1'), ('2', '2', '0'),
                                ('3', '2', '1')], said


@IMAGES
def test_ranks_stay_on_the_cores_of_their_allocation(slurm, image):
    """The first core of each node is another job's: bound or not, ranks run on the second."""
    slurm.head.run(['salloc', '--quiet', '-N2', '-n2', '--no-shell'], check=True)
    wait_for(lambda: 'RUNNING' in slurm.squeue().values(), 'the other job')
    try:
        for options in ((), ('--bind-to', 'core')):
            found, said = cpus(slurm, *options, *image, inside=['-N2', '-n2'])
            assert found == {0: {1}, 1: {1}}, (options, said)
    finally:
        slurm.cancel_all()


def test_a_container_cannot_take_another_jobs_cores(slurm):
    """What is in it may ask for the other core, and does not get it."""
    found, said = cpus(slurm, '--image', 'base', inside=['-N1', '-n1'], command=(
        'sh', '-c', f'taskset -pc 0,1 $$ >/dev/null; echo $REIGEN_RANK $({SHOW})'))
    assert found == {0: {0}}, said


def test_more_ranks_than_the_allocation_has_cores_are_refused_or_not_bound(slurm):
    argv = ['salloc', '--quiet', '-N2', '-n2', PROGRAMS.reigen, 'run', '--on', 'slurm', '-np', '4',
            '-H', 'node1:2,node2:2', '--bind-to', 'core']
    done = slurm.head.run([*argv, '--', 'true'], timeout=60)
    assert done.returncode == 2, done.stderr
    assert re.search(r'2 ranks on node\d, which has 1 core', done.stderr), done.stderr
    done = slurm.head.run([*argv, '--oversubscribe', '--', 'sh', '-c', SHOW], timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f'[{r}] 0' for r in range(4)]
    assert 'node2: 2 ranks on 1 core are not bound' in done.stderr, done.stderr


def test_a_launcher_with_fewer_cores_than_its_job_does_not_count_its_own(slurm):
    """It is a task of one core; its agents have all that the job has on the same node."""
    done = slurm.head.run([
        'salloc', '--quiet', '-N1', '-n2', 'srun', '-n1', '--exact', PROGRAMS.reigen, 'run', '--on',
        'slurm', '--no-tag-output', '-H', 'node1:2', '--bind-to', 'core', '--report-bindings', '--',
        'sh', '-c', SHOW], timeout=60)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ['0', '1'], done.stderr
    assert 'rank 1 on node1: cpus 1' in done.stderr, done.stderr
