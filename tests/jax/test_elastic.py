# SPDX-License-Identifier: Apache-2.0
"""horovod.jax in jobs whose hosts come and go."""
import os
import re
import sys
from pathlib import Path

import preloaded
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / 'tests'))
from elastic_job import ElasticJob, Script  # noqa: E402

#: Of each rank; they share an import of JAX.
ENV = {'PYTHONPATH': str(ROOT / 'bindings/python'), 'JAX_PLATFORMS': 'cpu', 'OMP_NUM_THREADS': '1',
       'PYTHONDONTWRITEBYTECODE': ''}

pytestmark = pytest.mark.timeout(300, func_only=True)


@pytest.fixture
def job(python, tmp_path):
    started = []

    def start(how, *options):
        started.append(ElasticJob(
            tmp_path, ['-np', '2', '--min-np', '2', *options],
            [*preloaded.command(python, ['jax'], {**os.environ, **ENV}),
             ROOT / 'tests/jax/ranks/elastic.py', tmp_path / 'go', how], **ENV))
        return started[-1]
    yield start
    for one in started:
        one.kill()


@pytest.mark.parametrize('how, host', [('jit', 'b'), ('plain', 'a')])
def test_training_loses_a_host_and_gains_one(job, tmp_path, how, host):
    script = Script(tmp_path, 'a:2', 'b:2')
    it = job(how, '--host-discovery-script', script.path)
    it.wait('loss .*4 ranks', count=3)
    it.lose(host)
    it.wait('goes on at batch .*2 ranks')
    it.wait('loss .*2 ranks', count=2)
    script.tell({'a': 'b:2', 'b': 'a:2'}[host], 'c:1')
    it.wait('goes on at batch .*3 ranks')
    it.wait('loss .*3 ranks', count=2)
    (tmp_path / 'go').touch()
    output = it.end()
    assert len(re.findall('done . of 3', output)) == 3, output
    assert output.count(' pid ') == 5, 'ranks that are left keep their processes'
    assert 'Traceback' not in output, output
    batches = [int(b) for b in re.findall(r'batch (\d+): loss', output)]
    assert batches == sorted(set(batches)), output
    losses = [float(x) for x in re.findall(r'loss ([\d.]+),', output)]
    assert losses[-1] < losses[0] / 2, output
