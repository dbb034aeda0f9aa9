# SPDX-License-Identifier: Apache-2.0
"""Load and want of memory are no loss: nobody is set aside, nothing starts again, and steps go on
(burdens.py). What fails says how to have it again by itself.

REIGEN_SWEEP_SEED: from which seed on make soak burdens jobs.
"""
import os

import pytest

from burdens import BURDENS, permits
from trials import seeds, try_all

SEED = int(os.environ.get('REIGEN_SWEEP_SEED', '4711'))
#: Seconds in make check-all.
SHORT_S = 5

EACH = pytest.mark.parametrize('kind', [
    pytest.param(kind, marks=pytest.mark.skipif(
        not permits(make.kind), reason=f'no cgroup of {make.kind} can be made here'))
    for kind, make in BURDENS.items()])


@EACH
@pytest.mark.slow
def test_a_burden_of_seconds_is_no_loss(kind):
    burden = BURDENS[kind](SEED)
    burden.seconds = SHORT_S
    assert burden.run()['steps']


@EACH
@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_burden_is_no_loss(kind):
    _, failed = try_all(seeds(SEED, 6), 2, BURDENS[kind])
    assert not failed, '\n\n'.join(failed)
