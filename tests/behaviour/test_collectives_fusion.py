# SPDX-License-Identifier: Apache-2.0
"""The fusion threshold changes no result, and a job has one; nothing is tuned while it runs."""
import pytest

from ranks import job, run

PLANES = {'shm': {'REIGEN_PLANES': 'shm,tcp'}, 'tcp': {'REIGEN_PLANES': 'tcp'}}


@pytest.mark.sanitize
@pytest.mark.parametrize('planes', ['shm', 'tcp'])
def test_ranks_that_were_told_different_thresholds_use_that_of_rank_0(planes):
    # They must cut their tensors alike, or they wait for each other for ever.
    run('fused', 20, size=3, env=PLANES[planes],
        each=lambda rank: {'HOROVOD_FUSION_THRESHOLD': [200000, 1, 1 << 27][rank]})


def test_a_job_that_asks_for_autotuning_is_told_once_that_it_has_none(tmp_path):
    log = tmp_path / 'log.csv'
    with job('fused', 2, size=2, env={'HOROVOD_AUTOTUNE': 1, 'HOROVOD_AUTOTUNE_LOG': log}) as ranks:
        assert [rank.wait(60) for rank in ranks] == [0, 0]
        assert [rank.err.count('HOROVOD_AUTOTUNE has no effect') for rank in ranks] == [1, 0]
    assert not log.exists()
