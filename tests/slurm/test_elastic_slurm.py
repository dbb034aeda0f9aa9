# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs on Slurm: nodes fail, or are taken out of the job, and the others go on."""
import re
import subprocess

import pytest
from bed import SlurmCluster

import everywhere
from built import PROGRAMS, ROOT
from jobs import READY, seconds_until_gone, wait_for

PROGRAM = ROOT / 'tests/programs/elastic_steps.py'

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def cluster():
    """Three nodes, of which tests lose some."""
    with SlurmCluster(3) as cluster:
        yield cluster


class Job:
    """A job of PROGRAM on three nodes, one rank on each; its output is the file `out`."""

    def __init__(self, cluster, *options, ask=('--nodes', '3'), inside=(), np=3):
        self.cluster = cluster
        self.stop_file, self.out = cluster.head.path('stop'), cluster.head.path('out')
        for file in (self.stop_file, self.out):
            file.unlink(missing_ok=True)
        program = cluster.head.write('steps.py', PROGRAM.read_text())
        argv = [*inside, PROGRAMS.reigen, 'run', '--on', 'slurm', *options, *ask, '-np', np,
                '--min-np', 1, '--ranks-per-host', '1', '--', 'python3', program,
                f'{cluster.head.home()}/stop']
        with self.out.open('w') as file:
            self.process = cluster.head.popen([str(word) for word in argv], stdout=file,
                                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def text(self):
        return self.out.read_text() if self.out.exists() else ''

    def wait(self, pattern, timeout=READY):
        def find():
            assert self.process.poll() in (None, 0), self.text()
            return re.search(pattern, self.text(), re.M)
        return wait_for(find, pattern, timeout)

    def number(self):
        return next(iter(self.cluster.squeue()))

    def stop(self):
        self.stop_file.touch()

    def end(self):
        code = self.process.wait(READY)
        return code, self.text()


@pytest.fixture
def job(cluster):
    return lambda *options, **more: Job(cluster, *options, **more)


def survive(it, nleft, lost):
    """The survivors take steps, end well, and leave nothing behind."""
    it.wait(rf'step \d+ size {nleft}$')
    it.stop()
    code, text = it.end()
    assert code == 0, text
    assert len(re.findall(r'place \d+ pid', text)) == 3, 'survivors keep their processes'
    assert len(re.findall(rf'done . of {nleft}', text)) == nleft, text
    seconds_until_gone([node for node in it.cluster.nodes if node.name not in lost])
    return text


def test_a_node_that_loses_its_power_is_lost_alone(cluster, job):
    """Slurm does not know of it yet: its agent's link tells."""
    it = job()
    it.wait('step 3 size 3')
    cluster[3].kill()
    text = survive(it, 2, ['node3'])
    assert 'host node3 is set aside for the rest of the job: ' in text, text
    assert 'lost with its host (' in text and 'node1' not in text, text


@pytest.mark.parametrize('no_kill', [False, True])
def test_a_node_that_is_set_down_is_lost_alone(cluster, job, no_kill):
    """In an allocation of the user's, and in one that Reigen asks for."""
    inside = ('salloc', '--quiet', '--no-kill', '-N3') if no_kill else ()
    it = job(inside=inside, ask=() if no_kill else ('--nodes', '3'))
    it.wait('step 3 size 3')
    cluster.ask('scontrol', 'update', 'NodeName=node2', 'State=DOWN', 'Reason=test')
    text = survive(it, 2, ['node2'])
    assert 'host node2 is set aside' in text and 'Slurm says that this node has failed' in text, \
        text


@pytest.mark.parametrize('update', ['NumNodes=2', 'ReqNodeList=node1,node3'])
def test_a_job_that_is_shrunk_goes_on_and_nothing_has_failed(cluster, job, update):
    it = job()
    it.wait('step 3 size 3')
    cluster.ask('scontrol', 'update', f'JobId={it.number()}', update)
    left = 'node3' if update == 'NumNodes=2' else 'node2'
    text = survive(it, 2, [])
    assert f'{left}: Slurm has taken this node out of the job' in text, text
    assert 'set aside' not in text, text


def test_what_is_cancelled_ends_with_the_code_for_that(cluster, job):
    it = job()
    it.wait('step 3 size 3')
    cluster.ask('scancel', it.number())
    code, text = it.end()
    assert code == 75 and 'Slurm ends it: ' in text, text
    seconds_until_gone(cluster.nodes)


def test_a_node_that_is_dead_at_the_start_costs_the_others_nothing(cluster, job):
    """srun gives the whole step up for it, so the others get another one."""
    cluster.head.write('late.sh', f'#!/bin/sh\ntouch there\nwhile [ ! -e go ]; do sleep 0.1; done\n'
                       'exec "$@"\n', mode=0o755)
    it = job(inside=('salloc', '--quiet', '--no-kill', '-N3', './late.sh'), ask=(), np=2)
    wait_for(cluster.head.path('there').exists, 'the allocation')
    cluster[2].kill()
    cluster.head.write('go', '')
    it.wait(r'step \d+ size 2$')
    it.stop()
    code, text = it.end()
    assert code == 0 and 'host node2 is set aside' in text, text
    assert 'srun cannot start its agent' in text, text


def test_a_submitted_job_is_elastic_as_well(cluster, job):
    """Its head is an agent, on the first node."""
    it = job('--submit')
    assert it.process.wait(READY) == 0, it.text()
    number = it.number()
    it.out = cluster.head.path(f'reigen-{number}.log')
    it.wait('step 3 size 3')
    cluster[3].kill()
    it.wait(r'step \d+ size 2$')
    it.stop()
    wait_for(lambda: 'done 0 of 2' in it.text() and 'done 1 of 2' in it.text(), 'the end')
    status = cluster.head.run([PROGRAMS.reigen, 'status', str(number)])
    assert 'host node3 is set aside for the rest of the job: ' in it.text(), it.text()
    wait_for(lambda: 'exit 0' in cluster.head.path(
        f'.local/state/reigen/slurm/{number}').read_text(), status.stdout)


@pytest.fixture
def requeues():
    """Three nodes of a Slurm that puts no job back into its queue by itself."""
    # Credentials live two minutes as a rule, and a requeued job waits until its old ones are dead.
    with SlurmCluster(3, settings={'JobRequeue': 0, 'AuthInfo': 'cred_expire=10',
                                   'SlurmdTimeout': 15}) as cluster:
        yield cluster


def restarts(cluster, number):
    shown = cluster.ask('scontrol', 'show', 'job', str(number))
    return int(re.search(r' Restarts=(\d+)', shown)[1])


@pytest.mark.parametrize('again', [True, False])
def test_a_submitted_job_that_loses_its_heads_node_begins_again_on_others(requeues, again):
    """Or is over, where it may not be put back into the queue."""
    it = Job(requeues, '--submit', *([] if again else ['--slurm-option=--no-requeue']),
             ask=('--nodes', '2'), np=2)
    assert it.process.wait(READY) == 0, it.text()
    number = it.number()
    it.out = requeues.head.path(f'reigen-{number}.log')
    it.wait('step 3 size 2')
    requeues[1].kill()
    if not again:
        wait_for(lambda: not requeues.squeue(), 'the end of the job', 120)
        return
    wait_for(lambda: restarts(requeues, number) == 1, 'the job in the queue again', 120)
    wait_for(lambda: requeues.squeue()[number] == 'RUNNING', 'the job again', 120)
    it.stop()
    wait_for(lambda: 'done 0 of 2' in it.text() and 'done 1 of 2' in it.text(), 'the end')
    assert 'the job begins again: 1 of 3 times at most' in it.text(), it.text()
    wait_for(lambda: 'exit 0' in requeues.head.path(
        f'.local/state/reigen/slurm/{number}').read_text(), 'its code')


def test_containers_of_nodes_that_are_taken_go_with_them(slurm):
    it = Job(slurm, '--image', everywhere.IMAGE)
    it.wait('step 3 size 3')
    slurm.ask('scontrol', 'update', f'JobId={it.number()}', 'NumNodes=2')
    text = survive(it, 2, [])
    assert 'node3: Slurm has taken this node out of the job' in text, text


def test_a_node_in_reserve_takes_the_place_of_a_lost_one(cluster, job):
    it = job('--max-np', '2', inside=('salloc', '--quiet', '--no-kill', '-N3'), ask=(), np=2)
    it.wait('step 3 size 2')
    cluster.ask('scontrol', 'update', 'NodeName=node2', 'State=DOWN', 'Reason=test')
    it.wait('place 2 pid')
    it.wait(r'train 1 of 2 at \d+\n(.*\n)*.*train 1 of 2 at')
    it.stop()
    code, text = it.end()
    assert code == 0 and len(re.findall('done . of 2', text)) == 2, text
