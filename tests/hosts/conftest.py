# SPDX-License-Identifier: Apache-2.0
"""Clusters of simulated hosts that the tests of this folder share; see tests/bed."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / 'behaviour')]

from bed import Cluster, images  # noqa: E402 (needs the path above)


TIME_LIMIT = 180


def pytest_collection_modifyitems(items):
    """A test's time does not count what its fixtures build, which has limits of its own. Without
    root there are no hosts: say so per test rather than fail in each fixture."""
    for item in items:
        if Path(item.fspath).parent != Path(__file__).parent:
            continue
        mark = item.get_closest_marker('timeout')
        limit = mark.args[0] if mark and mark.args else TIME_LIMIT
        item.add_marker(pytest.mark.timeout(limit, func_only=True), append=False)
        if os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason='simulated hosts need root'))


@pytest.fixture(scope='session')
def cluster2():
    """Two hosts with sshd and dockerd, and images of all kinds."""
    with Cluster(2, dockerd=True, images=['base', 'debian', 'distroless', 'musl',
                                          'scratch-static']) as cluster:
        yield cluster


@pytest.fixture(scope='session')
def cluster4():
    """Four hosts with sshd and dockerd, and the images base and trainer."""
    with Cluster(4, dockerd=True, images=['base', 'trainer']) as cluster:
        yield cluster


@pytest.fixture
def clean2(cluster2):
    """cluster2, and the test fails where it leaves a process or a container on a node."""
    yield cluster2
    cluster2.assert_clean()


@pytest.fixture
def clean4(cluster4):
    """cluster4, likewise."""
    yield cluster4
    cluster4.assert_clean()


@pytest.fixture(scope='session')
def docker_context(tmp_path_factory):
    """The build context that deploy/docker/build.sh writes from this checkout."""
    folder = tmp_path_factory.mktemp('docker') / 'horovod-docker'
    done = subprocess.run([TESTS.parent / 'deploy/docker/build.sh', '--context', folder],
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope='session')
def horovod_image(docker_context):
    """deploy/docker/Dockerfile on Debian with its PyTorch, and TensorFlow from PyPI."""
    return images.build('horovod:latest', docker_context, args={
        'BASE': images.recipe('trainer'), 'PYTORCH_VERSION': '', 'TENSORFLOW_VERSION': '2.15.0',
        'KERAS_VERSION': ''})


@pytest.fixture(scope='session')
def nets():
    """Two hosts on two networks, both with docker0 as Docker makes it, and dockerd with base."""
    with Cluster(2, dockerd=True, docker0=True, networks=2, images=['base']) as cluster:
        yield cluster
