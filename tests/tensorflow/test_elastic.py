# SPDX-License-Identifier: Apache-2.0
"""TensorFlow and Keras in jobs whose hosts come and go. The ranks share an import of it."""
import os
import re

import preloaded
import pytest
from conftest import ENV, ROOT, python_of
from elastic_job import ElasticJob, Script
from variants import rest

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def job(request, tmp_path):
    """job(options, script, *argv)"""
    started = []

    def start(options, script, *argv):
        started.append(ElasticJob(
            tmp_path, ['-np', '2', '--min-np', '2', *options],
            [*preloaded.command(python_of(request.param), ['tensorflow'], {**os.environ, **ENV}),
             ROOT / 'tests/tensorflow/ranks' / script, tmp_path / 'go', *argv], **ENV))
        return started[-1]
    yield start
    for one in started:
        one.kill()


def lose_one_and_gain_one(it, script, going):
    it.wait('loss .*4 ranks', count=3)
    it.lose('b')
    it.wait(f'{going}.*2 ranks')
    it.wait('loss .*2 ranks', count=2)
    script.tell('a:2', 'c:1')
    it.wait(f'{going}.*3 ranks')
    it.wait('loss .*3 ranks', count=2)
    (it.folder / 'go').touch()
    output = it.end()
    assert len(re.findall('done . of 3', output)) == 3, output
    assert output.count(' pid ') == 5, 'ranks that are left keep their processes'
    assert 'Traceback' not in output, output
    return output


@pytest.mark.parametrize('job', ['tf', rest('tf215')], indirect=True)
def test_a_loop_of_ones_own_loses_a_host_and_gains_one(job, tmp_path):
    script = Script(tmp_path, 'a:2', 'b:2')
    it = job(['--host-discovery-script', script.path], 'elastic_tape.py')
    output = lose_one_and_gain_one(it, script, 'goes on at batch')
    batches = [int(b) for b in re.findall(r'batch (\d+): loss', output)]
    assert batches == sorted(set(batches)), output


@pytest.mark.parametrize('job, which', [('tf', 'keras'), rest('tf', 'tf.keras'),
                                        rest('tf215', 'keras'), ('tf215', 'tf.keras')],
                         indirect=['job'])
def test_fit_loses_a_host_and_gains_one(job, tmp_path, which):
    script = Script(tmp_path, 'a:2', 'b:2')
    it = job(['--host-discovery-script', script.path], 'elastic_fit.py', which)
    output = lose_one_and_gain_one(it, script, 'goes on at epoch')
    epochs = [int(e) for e in re.findall(r'epoch (\d+): loss', output)]
    assert epochs == sorted(set(epochs)), output
