# SPDX-License-Identifier: Apache-2.0
"""examples/pytorch_mnist_elastic.py, whose hosts come and go while it trains."""
import json
import math
from collections import Counter

import pytest
from elastic_job import ElasticJob, Script
from test_torch2 import HERE, forked_python, site, torch2  # noqa: F401  a fixture, used by itself
from variants import rest

pytestmark = pytest.mark.timeout(600)
#: All ranks wait for the test at this step; a pass of two hosts has 79.
HOLD, IMAGES = 60, 20000


class Training(ElasticJob):
    def __init__(self, folder, *options):
        super().__init__(folder, ['-np', '2', '--min-np', '2', *options],
                         [*forked_python(), HERE / 'elastic_digits.py', folder, str(HOLD),
                          '--epochs', '2', '--log-interval', '1', '--report', folder / 'report'],
                         PYTHONPATH=site())

    def report(self):
        (self.folder / 'go').touch()
        self.end()
        return json.loads((self.folder / 'report').read_text())

    def used(self):
        """{(step, size): the images that all ranks together have used in it}."""
        found = {}
        for file in self.folder.glob('used-*'):
            for line in file.read_text().splitlines():
                step, size, *images = map(int, line.split())
                found.setdefault((step, size), []).extend(images)
        return found


@pytest.fixture(scope='module')
def training(tmp_path_factory):
    """training(options): it has begun."""
    started = []

    def start(*options):
        started.append(Training(tmp_path_factory.mktemp('training'), *options))
        return started[-1]
    yield start
    for one in started:
        one.kill()


def assert_each_image_once(it, losses):
    """In each pass; but where the ranks do not divide what is left, some are used again at its
    end, so that all ranks have equally many."""
    used, passes = it.used(), {}
    for step, position, size, _ in losses:
        passes.setdefault(math.ceil(position), Counter()).update(used[step, size])
    assert len(passes) == 2
    for images in passes.values():
        assert len(images) == IMAGES
        assert sum(images.values()) - IMAGES < 4


@pytest.fixture(scope='module')
def undisturbed(training):
    """The accuracy of such a training without any change."""
    it = training('-H', 'a:2,b:2')
    report = it.report()
    assert_each_image_once(it, report['losses'])
    return report['accuracies'][-1]


@pytest.mark.parametrize('host, whole', [
    rest('b', False, id='rank'), pytest.param('b', True, id='host'),
    pytest.param('a', False, id='oldest')])
def test_training_loses_a_host_and_gains_two(training, undisturbed, tmp_path, host, whole):
    script = Script(tmp_path, 'a:2', 'b:2')
    it = training('--host-discovery-script', script.path)
    it.wait('step 20, .*4 ranks')
    it.lose(host, whole)
    it.wait(r'goes on at step \d+ with 2 ranks')
    script.tell({'a': 'b:2', 'b': 'a:2'}[host], 'c:1', 'd:1')
    it.wait(r'goes on at step \d+ with 4 ranks', count=2)
    report = it.report()

    losses = report['losses']
    assert [step for step, *_ in losses] == list(range(1, len(losses) + 1)), 'each counts once'
    sizes = [size for _, _, size, _ in losses]
    assert [s for i, s in enumerate(sizes) if i == 0 or sizes[i - 1] != s] == [4, 2, 4]
    assert_each_image_once(it, losses)
    assert it.out.read_text().count(' pid ') == 6, 'ranks that are left keep their processes'
    assert report['accuracies'][-1] > undisturbed - 0.02
