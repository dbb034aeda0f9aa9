# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes cluster of simulated hosts that the tests of this folder share; see
tests/bed/kube.py."""
import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / 'behaviour'), str(TESTS / 'hosts'),
                str(TESTS / 'kubernetes')]

import originals  # noqa: E402 (needs the path above)
import prepare  # noqa: E402
from bed import KubeCluster, kube_store  # noqa: E402


TIME_LIMIT = 180


@pytest.hookimpl(tryfirst=True)  # xdist's own reads the groups
def pytest_collection_modifyitems(items):
    """As in tests/hosts: a test's time is without its fixtures', and only root can make hosts. With
    --dist=loadgroup those that share a cluster run one after the other, and no cluster is made
    twice."""
    for item in items:
        if Path(item.fspath).parent != Path(__file__).parent:
            continue
        mark = item.get_closest_marker('timeout')
        limit = mark.args[0] if mark and mark.args else TIME_LIMIT
        item.add_marker(pytest.mark.timeout(limit, func_only=True), append=False)
        group = 'originals3' if 'originals3' in item.fixturenames else 'kube3'
        item.add_marker(pytest.mark.xdist_group(group))
        if os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason='simulated hosts need root'))


@pytest.fixture(scope='session')
def kube3():
    """Three nodes with images of all kinds."""
    with KubeCluster(3, images=prepare.IMAGES) as cluster:
        yield cluster


@pytest.fixture
def kube(kube3):
    """A new namespace of kube3."""
    with kube3.namespace() as space:
        yield space


@pytest.fixture(scope='session')
def originals3(tmp_path_factory):
    """Three nodes with the image of the original chart's values, by its name there."""
    with KubeCluster(3, images=prepare.original(tmp_path_factory.mktemp('original'))) as cluster:
        for node in cluster.nodes:
            kube_store.ctr(node, 'tag', '--force', kube_store.tag('original'),
                           f'docker.io/{originals.IMAGE}')
        yield cluster


@pytest.fixture
def original(originals3):
    """A new namespace of originals3."""
    with originals3.namespace() as space:
        yield space
