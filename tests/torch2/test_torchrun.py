# SPDX-License-Identifier: Apache-2.0
"""A real script of DDP by reigen torchrun, and by PyTorch's torchrun."""
import subprocess

import pytest
from elastic_job import ElasticJob
from test_distributed import free_port
from test_torch2 import (HERE, PYTHON, environment, forked_python, site,
                         torch2)  # noqa: F401  a fixture, used by itself
from variants import rest
from wait import until

pytestmark = pytest.mark.timeout(300)


class Training(ElasticJob):
    def __init__(self, folder, backend, *options):
        (folder / 'hold').touch()
        # No resolver knows the hosts' names.
        super().__init__(folder, [*options, '--env', 'MASTER_ADDR=127.0.0.1', '--no-python'],
                         [*forked_python(), HERE / 'ddp_steps.py', folder, backend],
                         launcher=('reigen', 'torchrun'), PYTHONPATH=site())


@pytest.fixture
def training(tmp_path):
    started = []

    def start(*args):
        started.append(Training(tmp_path, *args))
        return started[-1]
    yield start
    for one in started:
        one.kill()


def result(text):
    line, = (line for line in text.splitlines() if 'parameters ' in line)
    return line.split('parameters ')[1].split()


@pytest.fixture(scope='module')
def undisturbed(tmp_path_factory):
    done = subprocess.run(
        [PYTHON, '-m', 'torch.distributed.run', '--nnodes=1', '--nproc-per-node=4',
         '--master-port', str(free_port()), '--no-python', *forked_python(), HERE / 'ddp_steps.py',
         tmp_path_factory.mktemp('plain'), 'gloo'], capture_output=True, text=True, timeout=200,
        env=environment(), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return result(done.stdout)


@pytest.mark.parametrize('backend', [rest('gloo'), 'reigen'])
def test_a_killed_rank_costs_a_restart_from_the_checkpoint(training, undisturbed, backend):
    it = training(backend, '--nnodes=1:2', '--nproc-per-node=2', '--max-restarts=3', '-H', 'a,b',
                  '--rdzv-backend=c10d')
    it.wait('begins at 0, restart 0', count=4)
    it.wait('place 3 on b')
    until((it.folder / 'checkpoint').exists, 'a checkpoint')
    it.lose('b')
    it.wait('rank . of 4 begins at [1-6], restart 1', count=4)
    text = it.end()
    assert 'set aside' not in text
    ours = result(text)
    assert [float(x) for x in ours[1:]] == pytest.approx([float(x) for x in undisturbed[1:]],
                                                         rel=1e-5)


def test_a_lost_host_leaves_the_training_to_the_others(training):
    it = training('gloo', '--nnodes=1:2', '--nproc-per-node=2', '--max-restarts=3', '-H', 'a,b')
    it.wait('begins at 0, restart 0', count=4)
    it.lose('b', whole=True)
    it.wait(r'rank . of 2 begins at \d, restart 1', count=2)
    assert result(it.end())
