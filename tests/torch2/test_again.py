# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the backend "reigen": groups that are made again after a loss."""
import pytest
from test_torch2 import HERE, torch2  # noqa: F401  a fixture, used by itself
from test_distributed import run

pytestmark = pytest.mark.timeout(300)


def test_another_thread_ends_what_a_thread_waits_for(tmp_path):
    assert 'all ended' in run('torchrun', 2, HERE / 'distributed_again.py', 'ended', tmp_path)
