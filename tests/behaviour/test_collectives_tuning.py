# SPDX-License-Identifier: Apache-2.0
"""Parameters that change while a job runs change no result, and what was found is in the log."""
import pytest

from ranks import run

HEADER = ('hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,'
          'cycle_time_ms,tensor_fusion_threshold,score,spin_us')
PLANES = {'shm': {'REIGEN_PLANES': 'shm,tcp'}, 'tcp': {'REIGEN_PLANES': 'tcp'}}


@pytest.mark.sanitize
@pytest.mark.parametrize('planes', ['shm', 'tcp'])
def test_autotuning_tries_a_grid_and_ends_with_the_best(tmp_path, planes):
    log = tmp_path / 'log.csv'
    run('tune', 80, size=3, env={**PLANES[planes], 'HOROVOD_AUTOTUNE': 1,
                                 'HOROVOD_AUTOTUNE_LOG': log,
                                 'HOROVOD_AUTOTUNE_WARMUP_SAMPLES': 1,
                                 'HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE': 2,
                                 'HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES': 20})
    header, *rows = log.read_text().splitlines()
    assert header == HEADER
    # The warm-up, at most 20 samples, and the best of them again.
    assert 10 < len(rows) <= 22
    tried = {(row.split(',')[5], row.split(',')[7]) for row in rows}
    assert len(tried) >= 9
    best = rows[-1].split(',')
    assert float(best[6]) > 0 and (best[5], best[7]) in tried


def test_what_the_user_has_set_is_kept(tmp_path):
    log = tmp_path / 'log.csv'
    run('tune', 40, size=2, env={**PLANES['tcp'], 'HOROVOD_AUTOTUNE': 1,
                                 'HOROVOD_FUSION_THRESHOLD': 123456,
                                 'HOROVOD_AUTOTUNE_LOG': log,
                                 'HOROVOD_AUTOTUNE_WARMUP_SAMPLES': 0,
                                 'HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE': 1})
    rows = log.read_text().splitlines()[1:]
    assert {row.split(',')[7] for row in rows} == {'-1', '0'}
    assert {abs(int(row.split(',')[5]) - 123456) < 1024 for row in rows} == {True}
