# SPDX-License-Identifier: Apache-2.0
"""Slurm clusters of simulated hosts that the tests of this folder share; see tests/bed/slurm.py."""
import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / 'behaviour'), str(TESTS / 'hosts'),
                str(TESTS / 'slurm')]

from bed import SlurmCluster  # noqa: E402 (needs the path above)
import everywhere  # noqa: E402 (needs the path above)
from jobs import KILL_WAIT, clean_up  # noqa: E402


TIME_LIMIT = 180


def pytest_addoption(parser):
    parser.addoption('--times', type=int, default=10,
                     help='how many times a test that ends jobs at random moments does so')
    parser.addoption('--proctracks', default='pgid,cgroup,linuxproc',
                     help='ways in which Slurm knows processes: pgid, cgroup, linuxproc')
    parser.addoption('--seed', type=int, default=6, help='of those random moments')


def pytest_collection_modifyitems(items):
    """As in tests/hosts: a test's time is without its fixtures', and only root can make hosts."""
    for item in items:
        if Path(item.fspath).parent != Path(__file__).parent:
            continue
        mark = item.get_closest_marker('timeout')
        limit = mark.args[0] if mark and mark.args else TIME_LIMIT
        item.add_marker(pytest.mark.timeout(limit, func_only=True), append=False)
        if os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason='simulated hosts need root'))


@pytest.fixture(scope='session')
def cluster3():
    """A login node, and three nodes with dockerd and the images base and trainer;
    proctrack/linuxproc."""
    with SlurmCluster(3, dockerd=True, images=['base', f'trainer={everywhere.IMAGE}'],
                      kill_wait=KILL_WAIT) as cluster:
        yield cluster


@pytest.fixture
def slurm(cluster3):
    """cluster3, idle; the test fails where it leaves a job, a process or a container."""
    cluster3.wait_idle()
    yield cluster3
    finish(cluster3)


def finish(cluster):
    try:
        cluster.assert_clean()
        cluster.wait_idle(timeout=30)
    finally:
        clean_up(cluster)
