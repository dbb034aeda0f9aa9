# SPDX-License-Identifier: Apache-2.0
"""Keras's fit() with horovod.keras and horovod.tensorflow.keras, on Keras 2 and 3."""
import pytest

pytestmark = pytest.mark.timeout(1500)


def test_fit_trains_as_one_rank_with_the_whole_batch_would(ranks):
    assert 'all good on 2 ranks' in ranks(2, 'python.py', 'fit', 'surface')
