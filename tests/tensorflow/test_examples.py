# SPDX-License-Identifier: Apache-2.0
"""The examples that use TensorFlow and Keras learn the digits that come with them."""
import re

import pytest
from conftest import ROOT, run_ranks

pytestmark = pytest.mark.timeout(1500)


def accuracy(output):
    found = re.findall(r'accuracy (0\.\d+|1\.0+)$', output, re.M)
    assert found, output[-5000:]
    return float(found[-1])


def example(env, np, name, *options):
    return run_ranks(env, np, ROOT / 'examples' / f'{name}.py', '--epochs', '1', *options)


@pytest.mark.parametrize('env, np, name, options', [
    ('tf', 2, 'tensorflow2_mnist', ()),
    ('tf', 4, 'tensorflow2_keras_mnist', ('--batch-size', '64')),
    ('tf215', 4, 'tensorflow_mnist', ('--batch-size', '64')),
    ('tf', 2, 'keras_mnist', ()),
])
def test_an_example_learns_within_one_pass(env, np, name, options):
    assert accuracy(example(env, np, name, *options)) > 0.8


def test_the_advanced_example_goes_on_from_its_checkpoint(tmp_path):
    options = ('--out', tmp_path, '--warmup-epochs', '1')
    first = accuracy(example('tf', 2, 'keras_mnist_advanced', *options))
    output = run_ranks('tf', 2, ROOT / 'examples/keras_mnist_advanced.py', '--epochs', '2',
                       *options)
    assert 'going on after 1 epochs' in output and accuracy(output) > max(0.75, first)
