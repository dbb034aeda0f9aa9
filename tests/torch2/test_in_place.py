# SPDX-License-Identifier: Apache-2.0
"""examples/ddp_elastic.py: process groups that are made again in the same processes."""
import re

import pytest
from elastic_job import ElasticJob, Script
from test_torch2 import HERE, forked_python, site, torch2  # noqa: F401  a fixture, used by itself
from variants import rest

pytestmark = pytest.mark.timeout(300)


class Training(ElasticJob):
    def __init__(self, folder, how, *options):
        super().__init__(folder, ['-np', '2', '--min-np', '2', *options, '--'],
                         [*forked_python(REIGEN_ELASTIC='1'), HERE / 'ddp_digits.py', folder, how,
                          '--steps', '120'],
                         launcher=('reigen', 'run'), PYTHONPATH=site())

    def accuracy(self, ranks):
        """All ranks end with the same."""
        (self.folder / 'go').touch()
        found = re.findall(r'accuracy ([\d.]+)', self.end())
        assert len(found) == ranks and len(set(found)) == 1, found
        return float(found[0])


@pytest.fixture(scope='module')
def training(tmp_path_factory):
    started = []

    def start(*options):
        started.append(Training(tmp_path_factory.mktemp('training'), *options))
        return started[-1]
    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope='module')
def undisturbed(training):
    return training('destroy', '-H', 'a:2,b:2').accuracy(4)


@pytest.mark.parametrize('how, host, whole', [
    rest('destroy', 'b', False, id='rank'), pytest.param('abort', 'b', True, id='host'),
    pytest.param('destroy', 'a', False, id='oldest')])
def test_a_group_loses_a_host_and_gains_two(training, undisturbed, tmp_path, how, host, whole):
    script = Script(tmp_path, 'a:2', 'b:2')
    it = training(how, '--host-discovery-script', script.path)
    it.wait('step 60: .* 4 ranks')
    it.lose(host, whole)
    it.wait('at step 60 with 2 ranks')
    it.wait('step 80: .* 2 ranks')
    script.tell({'a': 'b:2', 'b': 'a:2'}[host], 'c:1', 'd:1')
    it.wait('at step 80 with 4 ranks')
    assert it.accuracy(4) > undisturbed - 0.02
    text = it.out.read_text()
    assert len(re.findall(' pid ', text)) == 6, 'ranks that are left keep their processes'
    steps = [int(step) for step in re.findall(r'step (\d+): loss', text)]
    assert steps == list(range(20, 121, 20))
