# SPDX-License-Identifier: Apache-2.0
"""The estimator of horovod.spark.lightning."""
import json
import subprocess
from pathlib import Path

import jobs
import pytest

pytestmark = pytest.mark.timeout(960)


def made(*words):
    """The packages of an environment that a program of tools/ makes."""
    done = subprocess.run([jobs.ROOT / 'tools' / words[0], *words[1:]], capture_output=True,
                          text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(Path(done.stdout.strip()).parents[1].glob('lib/python*/site-packages'))


@pytest.fixture(scope='module')
def packages(tmp_path_factory):
    """PyTorch, and of Lightning's environment what that needs: torchmetrics would load
    transformers, if they were there, in each process."""
    few, there = tmp_path_factory.mktemp('few'), made('trainers.sh')
    for name in ('pytorch_lightning*', 'lightning_*', 'torchmetrics*', 'yaml', 'tqdm*'):
        for path in there.glob(name):
            (few / path.name).symlink_to(path)
    return f'{made("frameworks.sh", "torch2")}:{few}'


@pytest.fixture(scope='module')
def modern(program, packages, tmp_path_factory):
    """What lightning_job.py found, without a session of Spark's."""
    return json.loads(program('spark', 'lightning_job.py', tmp_path_factory.mktemp('modern'),
                              'modern', also=packages, limit=900).splitlines()[-1])


@pytest.fixture(scope='module')
def on_spark(program, packages, tmp_path_factory):
    """And with one."""
    return json.loads(program('spark', 'lightning_job.py', tmp_path_factory.mktemp('spark'),
                              'spark', also=packages, limit=900).splitlines()[-1])


def test_lightning_learns_the_digits_and_goes_on(modern):
    found = modern
    history = found['history']
    assert found['right'] > 0.75, history
    assert found['untouched'] and found['related']
    best = min(history, key=lambda one: one['val_loss'])
    assert best['right'] == pytest.approx(found['right'], abs=0.01), history
    assert history[:2] == found['first'] and [one['epoch'] for one in history] == [0, 1, 2, 3, 4]
    assert {'checkpoint.h5.ckpt', 'logs'} < set(found['run']), found['run']
    assert {'history.jsonl', 'lightning_logs'} <= set(found['logs']), found['logs']


def test_ranks_of_lightning_stay_equal_and_schedulers_go_on(modern):
    history = modern['history']
    for number, one in enumerate(history):
        assert one['apart'] == 0, history
        assert one['rate'] == pytest.approx(0.04 * 0.8 ** number), history  # of both ranks
        assert one['rows'] == 150, history  # on each


def test_hooks_of_lightning_1_are_called(modern):
    # Behind the epochs of validation and of training; the second fit begins anew.
    assert [one['ends'] for one in modern['history']] == [2, 4, 2, 4, 6]


@pytest.mark.soak
def test_lightning_trains_a_plain_module(on_spark):
    found = on_spark['legacy']
    assert found['kept'] == [] and found['moved']
    first, last = found['history']
    assert set(first) == {'epoch', 'train_loss', 'train_right_digit', 'val_loss',
                          'val_right_digit'}
    assert last['train_loss'] < first['train_loss'] and last['val_loss'] < first['val_loss']


@pytest.mark.soak
def test_lightning_stops_early_and_takes_a_data_module(on_spark):
    assert [one['epochs'] for one in on_spark['stopped']] == [0, 1]
    assert on_spark['output'] == 10
    told = on_spark['profile']
    assert ['profile'] in told or ['fit', 'profile'] in told, told


@pytest.mark.parametrize('name, text', [
    ('optimizer', 'ValueError: optimizer: a LightningModule does it in configure_optimizers'),
    ('untrainable', 'ValueError: optimizer is needed'),
    ('strategy', 'ValueError: trainer_args: strategy is given by the ranks'),
    ('argument', "ValueError: trainer_args: this Lightning's Trainer has no gpus"),
    ('minibatch', 'ValueError: train_minibatch_fn: there is none here'),
    ('gpus', 'ValueError: num_gpus is 2: a rank has one GPU'),
    ('nan', 'ValueError: terminate_on_nan: body.0.weight is not finite after step 3'),
])
def test_what_lightning_cannot_do_is_told(modern, name, text):
    assert text in modern['errors'][name], modern['errors']
