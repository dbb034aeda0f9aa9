# SPDX-License-Identifier: Apache-2.0
"""reigen simulate --from: a script's steps, recorded here and predicted elsewhere."""
import json
import os
import signal
import subprocess

import pytest

import built
from built import PROGRAMS
from processes import wait_for
from wait import patience, until

LIMIT = 120
UNEVEN = PROGRAMS.build / 'tests/programs/uneven'

#: Three layers, whose optimizer sends a gradient for each, and a sum that is waited for.
TORCH = '''
import sys
import torch
import horovod.torch as hvd

torch.set_num_threads(1)
hvd.init()
model = torch.nn.Sequential(*[torch.nn.Linear(300, 300, bias=False) for _ in range(3)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 300)).sum()
    loss.backward()
    optimizer.step()
    hvd.allreduce(loss.detach(), name='loss')
'''

ENDLESS = TORCH.replace('range(int(sys.argv[1]))', 'iter(int, 1)')


def simulate(*arguments, cwd=None, **env):
    return subprocess.run([PROGRAMS.reigen, 'simulate', *map(str, arguments)], text=True,
                          capture_output=True, timeout=LIMIT * patience(), cwd=cwd,
                          env=built.environment(**env))


@pytest.fixture
def place(tmp_path):
    """A folder with a `python` in front, in which recordings are made: what is left there shows."""
    (tmp_path / 'bin').mkdir()
    (tmp_path / 'bin/python').symlink_to(PROGRAMS.python)
    (tmp_path / 'tmp').mkdir()
    return tmp_path


def env_of(place):
    return {'PATH': f'{PROGRAMS.python.parent}:{os.environ["PATH"]}', 'TMPDIR': place / 'tmp'}


def recorded(place, *arguments):
    saved = place / 'saved.json'
    done = simulate('--save', saved, '--json', '-', *arguments, cwd=place, **env_of(place))
    assert done.returncode == 0, done.stderr
    assert not list((place / 'tmp').iterdir())
    return json.loads(done.stdout), json.loads(saved.read_text()), done.stderr


def test_a_script_of_pytorch_is_recorded_and_ended(place):
    (place / 'train.py').write_text(ENDLESS)
    found, saved, told = recorded(place, '--from', 'train.py', '--steps', 8, '--hosts', '1,16',
                                  '--bandwidth', '1gbit')
    assert 'recorded 8 steps of train.py, each with' in told
    assert (saved['reigen_model'], saved['name'], saved['ranks'], saved['steps']) == \
        (1, 'train.py', 1, 8)
    gradients = [op for op in saved['operations'] if op['bytes'] >= 4 * 300 * 300]
    assert sum(op['bytes'] for op in gradients) // 4 in range(3 * 300 * 300, 3 * 300 * 300 + 100)
    loss, = [op for op in saved['operations'] if op['name'] == 'allreduce.loss']
    assert loss['bytes'] == 4 and loss['waits'] and saved['operations'][0]['waits']
    assert all(op['compute_ms'] >= 0 for op in saved['operations'])
    one, many = found['rows']
    assert one['step_ms'] == pytest.approx(found['compute_ms']) and one['efficiency'] == 1
    assert many['step_ms'] > one['step_ms'] and many['runs'] >= 2
    assert found['model'] == 'train.py' and found['type'] == 'as recorded'
    assert 270000 <= found['parameters'] <= 270100


def test_a_saved_model_is_simulated_again_and_scaled(place):
    found, _, _ = recorded(place, '--steps', 5, '--np', 2, '--hosts', '4', '--', UNEVEN, 10, 5)
    again = simulate('--model', place / 'saved.json', '--hosts', '4', '--json', '-')
    assert again.returncode == 0, again.stderr
    again = json.loads(again.stdout)
    assert again['rows'][0]['step_ms'] == pytest.approx(found['rows'][0]['step_ms'], rel=1e-6)
    assert again['compute_ms'] >= 5, 'the pause; but not the wait for rank 1'
    slower = simulate('--model', place / 'saved.json', '--hosts', '4', '--step-ms', 500)
    assert slower.returncode == 0 and "one rank's step alone: 500.0 ms" in slower.stdout
    assert ' ms with 2 ranks; each computes for ' in slower.stdout


def test_any_program_with_arguments_and_one_that_ends(place):
    (place / 'train.py').write_text(TORCH)
    for words in (['--from', 'train.py', '--', 40], ['--', 'python', 'train.py', 40]):
        _, saved, _ = recorded(place, '--steps', 100, '--hosts', 1, *words)
        assert saved['name'] == 'train.py' and 3 <= saved['steps'] <= 40


@pytest.mark.parametrize('script, code, said', [
    ('import sys; print("no data"); sys.exit(7)', 7, ['it failed, with exit code 7', 'no data']),
    ('print("done")', 1, ['it has ended without any operation', 'done']),
    ('import sys; sys.exit(2)', 2, ['exit code 2, before it had taken']),
    ('raise KeyError("lost")', 1, ['exit code 1, before it had taken 3 steps', "KeyError: 'lost'"]),
    (TORCH.replace('int(sys.argv[1])', '2'), 1, ['and no part of them is a step', 'for longer']),
])
def test_what_takes_no_steps_is_told_with_its_last_lines(place, script, code, said):
    (place / 'train.py').write_text(script)
    done = simulate('--from', 'train.py', '--save', 'saved.json', cwd=place, **env_of(place))
    assert done.returncode == code and not done.stdout, done.stderr
    for words in said:
        assert words in done.stderr, done.stderr
    assert 'Try ' not in done.stderr, 'the command line is fine'
    assert not (place / 'saved.json').exists() and not list((place / 'tmp').iterdir())


@pytest.mark.parametrize('signo', [signal.SIGINT, signal.SIGTERM])
def test_told_to_end_it_ends_the_script_first(place, signo):
    child = subprocess.Popen([PROGRAMS.reigen, 'simulate', '--steps', '1000', '--', UNEVEN, '0',
                              '300'], stderr=subprocess.PIPE, text=True, stdout=subprocess.PIPE,
                             env=built.environment(**env_of(place)))
    timeline = until(lambda: list((place / 'tmp').glob('*/timeline.json')), 'a recording', LIMIT)
    assert timeline
    rank = until(lambda: [int(entry) for entry in os.listdir('/proc') if entry.isdigit()
                          and started(entry, place)], 'the rank', LIMIT)
    child.send_signal(signo)
    out, told = child.communicate(timeout=LIMIT * patience())
    assert child.returncode == 128 + signo and not out, told
    assert 'told to end before enough was recorded' in told
    assert not list((place / 'tmp').iterdir())
    wait_for(lambda: not any(started(str(pid), place) for pid in rank), 'the rank to end')


def started(pid, place):
    """Whether this process is a rank that is recorded there."""
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as words, open(f'/proc/{pid}/environ', 'rb') as env:
            return words.read().startswith(bytes(UNEVEN)) and str(place).encode() in env.read()
    except OSError:
        return False


@pytest.mark.parametrize('arguments, said', [
    (['--from', 'nowhere.py'], '--from nowhere.py: No such file'),
    (['--from', 'here.py', '--model', 'vgg16'], 'not together with --from'),
    (['--params', '7e9', '--layers', '2', '--', 'true'], 'simulate --: not together with --params'),
    (['--model', 'vgg16', '--save', 'x'], '--save x: only what is recorded is saved'),
    (['--from', 'here.py', '--', 'python', 'here.py'], 'it stands behind -- again'),
    (['--from', 'here.py', '--steps', '2'], '--steps'),
    (['--from', 'here.py', '--save', 'x', '--json', 'x'], '--json goes there as well'),
    (['--model', './nowhere.json'], './nowhere.json'),
    (['--model', './here.py'], '--model ./here.py: line 1'),
    (['--model', './odd.json'], 'it is no model of reigen simulate --save'),
    (['--model', './new.json'], 'of version 2, and this reigen reads 1'),
    (['--model', './none.json'], 'it has 0 operations'),
    (['--model', './bad.json'], '"bytes" of operation 2 is missing, or out of its range'),
    (['--model', './good.json', '--type', 'float16'], 'has types of its own'),
])
def test_mistakes_are_told_with_their_value(place, arguments, said):
    good = {'name': 'a', 'kind': 'ALLREDUCE', 'type': 'float32', 'bytes': 4, 'compute_ms': 1,
            'waits': True}
    files = {'here.py': 'print()', 'odd.json': '{}', 'new.json': '{"reigen_model": 2}',
             'none.json': '{"reigen_model": 1, "operations": []}',
             'good.json': json.dumps({'reigen_model': 1, 'operations': [good]}),
             'bad.json': json.dumps({'reigen_model': 1,
                                     'operations': [good, {**good, 'bytes': -1}]})}
    for name, text in files.items():
        (place / name).write_text(text)
    done = simulate(*arguments, cwd=place, **env_of(place))
    assert done.returncode == 2 and said in done.stderr and not done.stdout, done.stderr
