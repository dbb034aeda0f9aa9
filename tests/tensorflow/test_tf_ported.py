# SPDX-License-Identifier: Apache-2.0
"""What scripts written for Horovod rely on, as their launchers start them."""
import pytest
from conftest import run_ranks
from variants import rest

pytestmark = pytest.mark.timeout(1500)


@pytest.mark.parametrize('name, np, launcher', [
    rest('tf', 2, 'horovodrun'), ('tf', 2, 'mpirun'), rest('tf215', 4, 'mpirun'),
    ('tf215', 3, 'horovodrun')])
def test_scripts_for_horovod_find_what_they_rely_on(name, np, launcher):
    # A collective that a rank leaves out is named, instead of being waited for.
    output = run_ranks(name, np, 'python.py', 'ported', launcher=launcher,
                       env={'HOROVOD_STALL_CHECK_TIME_SECONDS': '60',
                            'HOROVOD_STALL_SHUTDOWN_TIME_SECONDS': '120'})
    assert f'all good on {np} ranks' in output
