# SPDX-License-Identifier: Apache-2.0
"""Ray Train's trainers, whose workers horovod.ray.train makes the ranks of a job."""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / 'tests/behaviour'))
from processes import assert_gone  # noqa: E402

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope='module')
def folder(program, tmp_path_factory):
    """What the runs have left there. torch finds the backend by what is installed."""
    temp = tempfile.mkdtemp(prefix='ray-', dir='/tmp')  # Ray's sockets need a short path
    folder = tmp_path_factory.mktemp('train')
    installed = next((ROOT / '.venv').glob('lib/python3*/site-packages'))
    try:
        program('apps', 'ray_train_job.py', folder, temp, also=installed, limit=540)
        yield folder
        assert_gone(temp)
    finally:
        shutil.rmtree(temp, ignore_errors=True)


@pytest.fixture(scope='module')
def said(folder):
    """By the name of the run: '', or how it failed."""
    lines = (folder / 'told').read_text(encoding='utf-8').splitlines()
    return {line['name']: line['said'] for line in map(json.loads, lines)}


@pytest.mark.parametrize('name', ['trainer', 'torch', 'gloo'])
def test_two_workers_train_one_model(folder, said, name):
    """hvd.init() works in HorovodTrainer, and in TorchTrainer with any backend."""
    assert said[name] == ''
    first, second = (json.loads((folder / f'{name}-{rank}').read_text(encoding='utf-8'))
                     for rank in (0, 1))
    assert first[1:] == second[1:] and [first[0], second[0]] == [0, 1]
    total, weight, bias = first[1:]
    assert total == 3 and abs(weight - 3) < 0.1 and abs(bias - 1) < 0.1, first


def test_a_worker_that_dies_ends_the_run(said):
    """Ray Train names it, and where it has waited the other one does."""
    assert said['dies'].startswith('WorkerGroupError: '), said
    assert 'world_rank=1' in said['dies'] and 'The actor died' in said['dies'], said
    assert 'Horovod has been shut down by this rank' not in said['dies'], said


def test_ray_train_starts_other_workers_where_one_has_died(folder, said):
    assert said['again'] == ''
    assert len(list((folder / 'again').glob('1-*'))) == 2
    totals = [(folder / 'again' / f'total-{rank}').read_text(encoding='utf-8') for rank in (0, 1)]
    assert totals == ['2.0', '2.0']


def test_what_a_worker_raises_ends_the_others(said):
    assert "KeyError: 'a bad column'" in said['raises'], said
