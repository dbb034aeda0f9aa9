# SPDX-License-Identifier: Apache-2.0
"""A host whose network is cut is named within 10 s, and costs an elastic job its lease and a step
(cuts.py). What fails says how to have it again by itself.

REIGEN_SWEEP_SEED: from which seed on make soak cuts hosts.
"""
import os

import pytest

from cuts import Cut
from trials import seeds, table, try_all

SEED = int(os.environ.get('REIGEN_SWEEP_SEED', '4711'))
JOBS = {
    'an elastic job goes on, and gets it back': dict(
        kind='elastic', phase='step', hosts=('a:1', 'b:2', 'c:1'), place=1, comes_back=True),
    'an elastic job goes on with what is left at the launcher': dict(
        kind='elastic', phase='step', hosts=('a:1', 'b:2', 'c:1'), place=0, comes_back=True),
    'a fixed job waits for it': dict(
        kind='fixed', phase='step', hosts=('a:1', 'b:1'), place=1, comes_back=True),
    'a fixed job ends with its lease': dict(
        kind='fixed', phase='commit', hosts=('a:2', 'b:1'), place=2, comes_back=False),
}


@pytest.mark.parametrize('what', JOBS)
def test_a_cut_host_is_named_and_ends_its_ranks(what):
    assert 'silent for' in Cut(SEED, **JOBS[what]).run()['cause']


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_host_is_cut_in_any_phase():
    seen, failed = try_all(seeds(SEED, 24), 3, Cut)
    print('\n'.join(table(seen)))
    assert not failed, '\n\n'.join(failed)
