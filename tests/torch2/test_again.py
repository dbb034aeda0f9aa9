# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the backend "reigen": groups that are made again after a loss."""
import subprocess

import pytest
from elastic_job import ElasticJob
from test_torch2 import HERE, PYTHON, site, torch2  # noqa: F401  a fixture, used by itself
from test_distributed import environment, run

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize('backend', ['reigen', 'cpu:reigen,cuda:gloo'])
def test_who_is_left_makes_a_group_again_and_again(backend, tmp_path):
    done = subprocess.run([PYTHON, HERE / 'distributed_again.py', 'losses', tmp_path, backend],
                          capture_output=True, text=True, timeout=250, env=environment(),
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count('has survived') == 2, done.stdout + done.stderr


def test_another_thread_ends_what_a_thread_waits_for(tmp_path):
    assert 'all ended' in run('torchrun', 2, HERE / 'distributed_again.py', 'ended', tmp_path)


@pytest.mark.parametrize('when', ['told', 'met'])
def test_a_rank_is_lost_while_a_group_meets(when, tmp_path):
    job = ElasticJob(tmp_path, ['-np', '2', '--min-np', '2', '-H', 'a:1,b:1,c:1', '--'],
                     [PYTHON, HERE / 'meeting_lost.py', tmp_path, when],
                     launcher=('reigen', 'run'), PYTHONPATH=site())
    try:
        assert job.end().count('gone on') == 2
    finally:
        job.kill()
