# SPDX-License-Identifier: Apache-2.0
"""What is left of a job on Ray when the program that has started it is killed."""
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / 'behaviour'))
from processes import assert_gone, state  # noqa: E402
from wait import until  # noqa: E402

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope='module')
def cluster(begin, tmp_path_factory):
    """(the folder of its programs, the short one of its own); it has two nodes."""
    temp = tempfile.mkdtemp(prefix='ray-', dir='/tmp')
    folder = tmp_path_factory.mktemp('driver')
    nodes = begin('ray', 'ray_driver_job.py', folder, temp, 'cluster')
    try:
        until(lambda: (folder / 'address').exists() or nodes.poll() is not None, 'a cluster', 60)
        yield folder, temp
    finally:
        nodes.terminate()
        try:
            nodes.wait(timeout=60)
            assert_gone(temp)
        finally:
            nodes.kill()
            shutil.rmtree(temp, ignore_errors=True)


@pytest.mark.parametrize('kind', ['fixed', 'elastic'])
def test_ranks_on_two_nodes_end_with_the_driver_that_is_killed(begin, cluster, kind):
    """One of them waits for a tensor, the other one for ever; nothing of either is left."""
    folder, temp = cluster
    files = [folder / f'{kind}-{rank}' for rank in (0, 1)]
    driver = begin('ray', 'ray_driver_job.py', folder, temp, kind)
    try:
        until(lambda: all(file.exists() for file in files) or driver.poll() is not None,
              'two ranks', 60)
        ranks = [file.read_text(encoding='utf-8').split() for file in files]
        assert len({node for _, node in ranks}) == 2, ranks
        assert not any(state(int(pid)) in 'XZ' for pid, _ in ranks), ranks
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    until(lambda: all(state(int(pid)) in 'XZ' for pid, _ in ranks), 'the end of the ranks')
    left = [*(folder / 'tmp').rglob('*reigen*'), *Path('/dev/shm').glob('*reigen*')]
    assert not left, left
