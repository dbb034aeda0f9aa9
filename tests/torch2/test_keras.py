# SPDX-License-Identifier: Apache-2.0
"""Keras 3 on PyTorch: the checks of tests/tensorflow, without TensorFlow."""
import re

import pytest
from test_torch2 import ROOT, run_forked, run_ranks, torch2  # noqa: F401  a fixture, used by itself

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setenv('KERAS_BACKEND', 'torch')


def test_fit_trains_as_one_rank_with_the_whole_batch_would():
    output = run_forked(2, ROOT / 'tests/tensorflow/ranks/python.py', 'fit')
    assert 'all good on 2 ranks' in output


def test_a_gradient_that_one_rank_lacks_counts_as_zeros():
    assert 'all good' in run_forked(2, ROOT / 'tests/torch2/keras_missing.py')


def test_example_trains_keras_on_torch():
    # In 79 steps of 128 images plain Keras itself, without ranks, ends anywhere from 0.82 to 0.92,
    # by its seed; twice as many steps settle it (0.89 and above).
    output = run_ranks(2, ROOT / 'examples/keras_mnist.py', '--epochs', '1', '--batch-size', '64')
    found = re.findall(r'accuracy (0\.\d+|1\.0+)$', output, re.M)
    assert found and float(found[-1]) > 0.8, output
