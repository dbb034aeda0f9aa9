# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the backend "reigen": groups that are made again after a loss, by PyTorch
alone and by the packages that do so around a script."""
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from elastic_job import ElasticJob
from test_torch2 import (HERE, PYTHON, environment, forked_python, site,
                         torch2)  # noqa: F401  a fixture, used by itself
from test_distributed import ROOT, free_port, run
from variants import rest
from wait import until

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize('backend', ['reigen', rest('cpu:reigen,cuda:gloo')])
def test_who_is_left_makes_a_group_again_and_again(backend, tmp_path):
    done = subprocess.run([PYTHON, HERE / 'distributed_again.py', 'losses', tmp_path, backend],
                          capture_output=True, text=True, timeout=250, env=environment(),
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count('has survived') == 2, done.stdout + done.stderr


def test_another_thread_ends_what_a_thread_waits_for(tmp_path):
    assert 'all ended' in run('forked', 2, HERE / 'distributed_again.py', 'ended', tmp_path)


def test_an_exception_while_a_group_is_made_leaves_nothing_of_it(tmp_path):
    assert 'all begun again' in run('forked', 2, HERE / 'distributed_interrupted.py', tmp_path)


@pytest.mark.parametrize('when', ['told', 'met'])
def test_a_rank_is_lost_while_a_group_meets(when, tmp_path):
    job = ElasticJob(tmp_path, ['-np', '2', '--min-np', '2', '-H', 'a:1,b:1,c:1', '--'],
                     [*forked_python(REIGEN_ELASTIC='1'), HERE / 'meeting_lost.py', tmp_path, when],
                     launcher=('reigen', 'run'), PYTHONPATH=site())
    try:
        assert job.end().count('gone on') == 2
    finally:
        job.kill()


# ---------------------------------------------------------------------------- packages around it

@pytest.fixture(scope='module')
def resilience():
    """The python of an environment with torchft and NVIDIA's extension."""
    done = subprocess.run([ROOT / 'tools/trainers.sh', 'resilience'], capture_output=True,
                          text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.strip())


class Replicas:
    """examples/torchft_ddp.py as two jobs, and the lighthouse of torchft."""

    def __init__(self, folder, python):
        self.folder, self.python, self.children = folder, python, []
        address = f'127.0.0.1:{free_port()}'
        self.env = environment(TORCHFT_LIGHTHOUSE=f'http://{address}', RUST_LOG='warn')
        self.start('lighthouse', python.parent / 'torchft_lighthouse', '--min_replicas', '1',
                   '--bind', address, '--join_timeout_ms', '10000',
                   '--heartbeat_timeout_ms', '2000')

    def start(self, name, *command):
        with self.out(name).open('w') as file:
            self.children.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file,
                                                  stderr=file, env=self.env))
        return self.children[-1]

    def replica(self, number):
        return self.start(number, ROOT / '.venv/bin/reigen', 'run', '-np', '1', '--max-restarts',
                          '1', '--', *forked_python(self.python), HERE / 'torchft_digits.py',
                          self.folder,
                          '--replica', str(number), '--steps', '120')

    def out(self, name):
        return self.folder / f'{name}.out'

    def wait(self, name, pattern, count=1):
        def find():
            found = re.findall(pattern, self.out(name).read_text(), re.M)
            return found if len(found) >= count else None
        return until(find, f'{count} x {pattern} of {name}', 60,
                     seen=lambda: self.out(name).read_text()[-3000:])[-1]

    def kill(self):
        for child in self.children:
            if child.poll() is None:
                child.terminate()
                child.wait()


def test_a_replica_of_torchft_is_lost_and_comes_back(resilience, tmp_path):
    it = Replicas(tmp_path, resilience)
    try:
        jobs = [it.replica(0), it.replica(1)]
        pids = [int(it.wait(number, r'pid (\d+)')) for number in (0, 1)]
        for number in (0, 1):
            it.wait(number, 'beats')
        (tmp_path / 'go.0').touch()
        for number in (0, 1):
            it.wait(number, 'step 60: .* 2 replicas')
        (tmp_path / 'go.60').touch()
        os.kill(pids[1], signal.SIGKILL)
        it.wait(0, 'step 80: .* 1 replicas')
        it.wait(1, r'pid (\d+)', 2)
        (tmp_path / 'go.back').touch()
        it.wait(1, 'beats', 2)
        (tmp_path / 'go.80').touch()
        for number in (0, 1):
            assert jobs[number].wait(120) == 0, it.out(number).read_text()
            it.wait(number, 'step 120: .* 2 replicas')
        ends = [it.wait(number, r'accuracy 0\.\d+, parameters .*') for number in (0, 1)]
        assert ends[0] == ends[1]
        assert len(re.findall('pid ', it.out(0).read_text())) == 1
    finally:
        it.kill()


def test_nvidias_in_process_restart_goes_on(resilience):
    """A rank raises, and a rank is killed: its Wrapper ends the groups from a thread of its own."""
    env = environment(MASTER_ADDR='localhost', MASTER_PORT=str(free_port()),
                      WRAPPER_PORT=str(free_port()), WORLD_SIZE='3')
    ranks = [subprocess.Popen([*forked_python(resilience), HERE / 'restarted.py'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**env, 'RANK': str(rank)}) for rank in range(3)]
    outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, -signal.SIGKILL], outputs
    for rank in (0, 1):
        assert f'rank {rank} of 2 has come to the end' in outputs[rank], outputs[rank]
