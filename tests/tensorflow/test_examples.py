# SPDX-License-Identifier: Apache-2.0
"""The examples that use TensorFlow and Keras learn the digits that come with them."""
import os
import re
import subprocess

import pytest
from conftest import LIMIT_S, ROOT, python_of, run_ranks

pytestmark = pytest.mark.timeout(1500)


def accuracy(output):
    found = re.findall(r'accuracy (0\.\d+|1\.0+)$', output, re.M)
    assert found, output[-5000:]
    return float(found[-1])


def example(env, np, name, *options, launcher='forked', epochs=1):
    """Without a launcher the ranks share one import of TensorFlow."""
    return run_ranks(env, np, ROOT / 'examples' / f'{name}.py', '--epochs', str(epochs), *options,
                     launcher=launcher)


@pytest.mark.parametrize('env, np, name, options, launcher', [
    ('tf', 2, 'tensorflow2_mnist', (), 'reigen'),
    ('tf', 4, 'tensorflow2_keras_mnist', ('--batch-size', '64'), 'forked'),
    ('tf215', 4, 'tensorflow_mnist', ('--batch-size', '64'), 'forked'),
    ('tf', 2, 'keras_mnist', (), 'forked'),
    ('tf', 3, 'keras_mnist_advanced_modified', (), 'forked'),
])
def test_an_example_learns_within_one_pass(env, np, name, options, launcher):
    assert accuracy(example(env, np, name, *options, launcher=launcher)) > 0.8


def test_the_advanced_example_goes_on_from_its_checkpoint(tmp_path):
    options = ('--out', tmp_path, '--warmup-epochs', '1')
    first = accuracy(example('tf', 2, 'keras_mnist_advanced', *options))
    output = example('tf', 2, 'keras_mnist_advanced', *options, epochs=2)
    assert 'going on after 1 epochs' in output and accuracy(output) > max(0.75, first)


def test_the_script_for_slurm_trains_on_two_hosts():
    """As srun-docker starts it: once, with hostlist and np, which it gives to mpirun."""
    path = f'{os.path.dirname(python_of("tf215"))}:{os.environ["PATH"]}'
    done = subprocess.run(
        [ROOT / '.venv/bin/reigen', 'run', '-H', 'localhost:1,127.0.0.2:1', '--engine', 'script',
         '--', ROOT / 'examples/slurm/tensorflow_mnode/hvd_mnist_example.sh', '--epochs=1'],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
        env={**os.environ, 'PATH': path, 'PYTHONPATH': str(ROOT / 'bindings/python'),
             'OMP_NUM_THREADS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': '',
             'PYTHONDONTWRITEBYTECODE': ''})
    found = re.search(r'^1 epochs: accuracy (0\.\d+) on 2 ranks$', done.stdout, re.M)
    assert found and float(found[1]) > 0.8, done.stdout + done.stderr
