# SPDX-License-Identifier: Apache-2.0
"""The estimators of horovod.spark, and what they are made of."""
import ctypes
import json
import os
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CHECKS = [(path.name, name) for path in sorted(HERE.glob('*_checks.py'))
          for name in re.findall(r'^def (check_\w+)', path.read_text(), re.M)]
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope='module')
def told(program, tmp_path_factory):
    """told(file) -> by the name of each check there its traceback, '' when it went well."""
    done = {}

    def of(file):
        if file not in done:
            done[file] = json.loads(program('spark', 'checks.py', tmp_path_factory.mktemp('checks'),
                                            file))
        return done[file]
    return of


@pytest.mark.parametrize('file, name', CHECKS)
def test_without_spark(told, file, name):
    assert told(file)[name] == '', told(file)[name]


@pytest.fixture(scope='module')
def trained(program, site, tmp_path_factory):
    """What estimator_job.py found, with PyTorch from another environment."""
    return json.loads(program('spark', 'estimator_job.py', tmp_path_factory.mktemp('trained'),
                              'local[2]', 'pytorch', also=site('torch2')))


def test_a_model_of_keras_2_learns_goes_on_and_comes_back(program, site, tmp_path):
    out = program('spark', 'keras2_job.py', tmp_path, 'local[2]', 'few', also=site('tf'))
    found = json.loads(out.splitlines()[-1])
    assert found['keras'].startswith('2.') and found['same'] is True, found
    assert found['names'] == ['loss', 'mae', 'val_loss', 'val_mae'] and found['epochs'] == [4, 12]
    assert found['losses'][11] < found['losses'][3] < found['losses'][0] / 10, found


def small_disk(folder):
    """A function, for a process to call as it begins: it and those below it find a disk of a
    megabyte there, which goes with them."""
    libc, clone_newns, ms_rec_private = ctypes.CDLL(None, use_errno=True), 0x20000, 0x44000

    def mount():
        for done in (libc.unshare(clone_newns),
                     libc.mount(b'none', b'/', None, ms_rec_private, None),
                     libc.mount(b'none', os.fsencode(folder), b'tmpfs', 0, b'size=1m')):
            if done != 0:
                raise OSError(ctypes.get_errno(), f'no disk at {folder}')
    return mount


@pytest.fixture(scope='module')
def on_hosts(program, site, tmp_path_factory):
    """By the names of jobs what estimator_job.py found, on two hosts of a cluster."""
    folder = tmp_path_factory.mktemp('hosts')
    (folder / 'full').mkdir()
    out = program('spark', 'estimator_job.py', folder, 'hosts', 'few rows', 'full',
                  also=site('torch2'), preexec_fn=small_disk(folder / 'full'))
    return {one['name']: one for one in map(json.loads, out.splitlines())}


def test_ranks_on_other_hosts_train_with_fewer_rows_than_ranks(on_hosts):
    found = on_hosts['few rows']
    assert found['executors'] == 2 and found['rows'] == 3
    assert len(found['losses']) == 3 and found['losses'][2] < found['losses'][0], found


def test_a_model_of_ones_own_predicts_by_rows(on_hosts):
    found = on_hosts['few rows']
    assert found['by rows'] == pytest.approx(found['predicted'])
    assert found['own'] == [pytest.approx([10 * y, 2 * x])
                            for x, y in enumerate(found['predicted'])]


def test_a_store_without_room_is_named_and_nothing_is_left(on_hosts):
    found = on_hosts['full']
    assert re.match(r'OSError: \[Errno 28\] The store cannot write \S+/intermediate_train_data\S+: '
                    r'No space left on device. The store is full: make room', found['error']), found
    assert found['left'] == ['runs'], found
    assert re.match(r'OSError: The store cannot write memory:\S+: UnsupportedFileSystemException: '
                    'No FileSystem for scheme "memory". Spark has no package for this file ',
                    found['no connector']), found


@pytest.fixture(scope='module')
def by_keras(program, site, tmp_path_factory):
    """By the names of jobs what keras_job.py found, with TensorFlow from another environment."""
    out = program('spark', 'keras_job.py', tmp_path_factory.mktemp('keras'), 'local[2]', 'keras',
                  'ends', 'hands over', also=site('tf'))
    found = map(json.loads, re.findall('^{"name": .*', out, re.M))
    return {one['name']: one for one in found}


@pytest.fixture(scope='module')
def keras(by_keras):
    return by_keras['keras']


def test_two_ranks_learn_the_digits_and_the_model_transforms(trained):
    assert trained['right'] > 0.75, (trained['right'], trained['history'])
    assert trained['columns'] == ['number', 'pixels', 'digit', 'digit__output']
    assert trained['named'] == 3 and trained['untouched']
    last = trained['history'][-1]
    # Of the same rows, by the ranks and by transform().
    assert last['validation']['all_metrics'][0]['right_digit'] == \
        pytest.approx(trained['right'], abs=0.001)
    assert last['train']['loss'] < trained['history'][0]['train']['loss'] / 2


def test_a_run_goes_on_from_its_checkpoint_without_writing_the_rows_again(trained):
    assert [one['epoch'] for one in trained['first']] == [0, 1]
    assert trained['history'][:2] == trained['first']
    assert [one['epoch'] for one in trained['history']] == [0, 1, 2, 3, 4]
    assert trained['run'] == ['checkpoint.h5', 'logs'] and trained['id'] == 'torch'
    assert trained['files'] == 8 and not trained['rewritten']
    assert trained['rate'] == pytest.approx(0.02)  # of one rank


def test_all_that_a_fit_can_be_told_goes_together(trained):
    found = trained['together']
    assert [one['epoch'] for one in found['history']] == [0, 1, 2]
    for part in ('train', 'validation'):
        assert found['history'][2][part]['loss'] < found['history'][0][part]['loss'], found
        assert set(found['history'][0][part]['all_metrics'][0]) == {'right_digit', 'off_odd'}
    assert found['columns'] == ['the pixels.x', 'digit', 'odd', 'digit__output', 'odd__output']
    assert found['kinds'] == ['vector', 'double'] and found['rows'] == 240
    assert 'rank 1 on localhost: signal 9' in found['killed'] and found['kept'] == 1
    assert found['steps'] == '24'  # of the two epochs that were left
    assert "a column 'digit__output' already: drop it" in found['again']
    assert 'metrics: 1 for 2 label_cols: one for each' in found['outputs']
    assert 'backward_passes_per_step is 0: it is 1 or more' in found['passes']


def test_what_is_saved_is_loaded(trained):
    assert trained['loaded'] == trained['right']
    assert trained['pair'] and trained['epochs'] == 3
    assert trained['related'] and trained['respelt'] == ['d']


@pytest.mark.parametrize('name, text', [
    ('column', "ValueError: the DataFrame has no column 'pixel'; it has number, pixels, digit"),
    ('type', "TypeError: column 'when' is timestamp"),
    ('text', "TypeError: column 'name' is text: give its values numbers"),
    ('null', "ValueError: column 'gap' has 1 nulls in 1500 rows: fill them"),
    ('empty', 'ValueError: the DataFrame has no rows'),
    ('nothing to validate', 'ValueError: validation: there are no rows in file:'),
    ('callbacks', 'ValueError: callbacks: PyTorch has none; do it in train_minibatch_fn'),
    ('store', 'The store cannot write file:///dev/null/runs'),
    ('both', 'ValueError: backend and num_proc: tell one of them'),
])
def test_what_cannot_be_is_told(trained, name, text):
    assert text in trained['errors'][name], trained['errors']


def test_keras_learns_the_digits_and_the_model_transforms(keras):
    history = keras['history']
    assert set(history) == {f'{part}{name}' for part in ('', 'val_') for name in (
        'loss', 'digit_loss', 'odd_loss', 'digit_accuracy', 'odd_off', 'odd_each')}
    assert [len(one) for one in history['val_odd_each']] == [1] * 3  # a number for each class
    best = min(range(3), key=history['val_loss'].__getitem__)
    assert keras['right'] > 0.7, (keras['right'], history)
    # Of the same rows, by the ranks and by transform(), and of the model that was the best.
    assert history['val_digit_accuracy'][best] == pytest.approx(keras['right'], abs=0.001)
    assert keras['columns'][4:] == ['digit__output', 'odd__output']
    assert keras['kinds'] == ['vector', 'double']
    assert keras['untouched'] and keras['rate'] == pytest.approx(0.003)  # of one rank
    assert keras['run'] == ['checkpoint.h5', 'logs', 'state.npz']


def test_a_killed_fit_of_keras_goes_on(keras):
    assert 'rank 1 on localhost: signal 9' in keras['killed']
    assert keras['kept'] == [1, pytest.approx(0.003)]  # the rate of one rank
    assert keras['epochs'].split() == ['0', '1', '1', '2'] and keras['steps'] == 90
    assert len(keras['history']['loss']) == 3
    # Of HorovodRunner's callback, on the ranks.
    assert 'sparkdl:epoch 1 begins' in keras['shown'], keras['shown']
    assert re.search(r'sparkdl:epoch 2, .*val_loss: [\d.]+', keras['shown']), keras['shown']


def test_what_keras_has_saved_is_loaded(keras):
    found = keras['saved']
    assert found['right'] == keras['right'] and found['same'] == [True] * 12
    assert found['epochs'] == 3 and found['files'] > 1
    assert found['related'] and found['format'] == 'HDF'


def test_ranks_end_together_where_one_alone_wants_to(by_keras):
    """Where a loss is not a number, one rank knows of it a step before the other."""
    begins = [f'[{rank}]<stdout>:begins {epoch}' for epoch in range(2) for rank in range(2)]
    epochs, shown = by_keras['ends']['nan']
    assert epochs == 1 and shown == sorted([
        *begins[:2], '[0]<stdout>:ended after epoch 1, as a callback wanted on rank 0, 1'])
    assert by_keras['ends']['written'] is None  # JSON has no NaN
    epochs, shown = by_keras['ends']['enough']
    assert epochs == 2 and shown == sorted([
        *begins, '[0]<stdout>:ended after epoch 2, as a callback wanted on rank 0'])


def test_a_model_above_what_spark_brings_comes_by_the_store(by_keras):
    found = by_keras['hands over']
    assert found['limit'] == '4m' and found['bytes'] > 6 << 20 and found['runs'] == []


@pytest.mark.parametrize('name, text', [
    ('weights', 'ValueError: loss_weights: 1 for 2 label_cols: one for each'),
    ('labels', 'ValueError: loss_weights: 2 for 1 label_cols: one for each'),
    ('loss', "ValueError: loss is needed, such as 'mse'"),
    ('model', 'ValueError: model is a builtins.builtin_function_or_method: it is a keras.Model'),
    ('optimizer', "it is an optimizer of the model's package keras, or its name"),
    ('other', "ValueError: reader_pool_type='process': threads read the rows; leave it out"),
])
def test_what_cannot_be_with_keras_is_told(keras, name, text):
    assert text in keras['errors'][name], keras['errors']
