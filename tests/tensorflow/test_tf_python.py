# SPDX-License-Identifier: Apache-2.0
"""Training with horovod.tensorflow on two ranks: loops of one's own, and graphs with sessions."""
import pytest
from conftest import run_ranks

pytestmark = pytest.mark.timeout(1500)


def test_tapes_and_graphs_train_as_one_rank_with_the_whole_batch_would(ranks):
    assert 'all good on 2 ranks' in ranks(2, 'python.py', 'tape', 'graph', 'lacking',
                                          'lacking_graph')


def test_process_sets_train_apart():
    assert 'all good on 3 ranks' in run_ranks('tf215', 3, 'subsets.py')
