# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's ranks of an elastic job, whose launcher is played: what its kernels are at when a
rank dies ends in an error, and the process goes on with the others."""
import sys

import pytest

from conftest import ENVS, HERE, ROOT, python_of

sys.path.append(str(ROOT / 'tests/python'))
import epochs  # noqa: E402


@pytest.mark.parametrize('what', ['function', 'fit'])
@pytest.mark.parametrize('name', ENVS)
def test_a_rank_is_killed_and_another_one_comes(tmp_path, name, what):
    ranks = epochs.Job(HERE / 'ranks/epochs.py', what, tmp_path / 'stop', python=python_of(name),
                       env={'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': '',
                            'TF_ENABLE_ONEDNN_OPTS': '0'})
    try:
        ranks.start(2)
        ranks.wait_for(0, 'epoch 1 ' + ('step 3' if what == 'function' else 'batch 1'), 90)
        ranks.kill(0)
        ranks.wait_for(1, 'epoch 2 size 1')
        ranks.start(1)
        ranks.wait_for(2, 'epoch 3 ' + ('step' if what == 'function' else 'batch'), 90)
        ranks.kill(1)
        ranks.wait_for(2, 'epoch 4 size 1')
        (tmp_path / 'stop').touch()
        assert ranks.wait() == [-9, -9, 0], ranks.output()
        assert 'from 0' not in ranks.text(2).split('epoch 4')[1], ranks.output()
    finally:
        ranks.close()
