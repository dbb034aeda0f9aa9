# SPDX-License-Identifier: Apache-2.0
"""The bindings under PyTorch 2, which are the same files as under 1.13: nothing is compiled."""
import os
import re
import subprocess
from pathlib import Path

import preloaded
import pytest
from variants import rest
from wait import LEAST

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PYTHON = ROOT / 'build/envs/torch2/bin/python'
#: What ranks share that need not show how they import: 6 s of a processor. The first optimizer, or
#: DDP, imports Dynamo, whether somebody compiles or not.
MODULES = ['torch', 'torch.distributed.tensor', 'torch._dynamo']


@pytest.fixture(scope='session', autouse=True)
def torch2():
    done = subprocess.run([ROOT / 'tools/frameworks.sh', 'torch2'], capture_output=True,
                          text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def site():
    """Where the packages are installed."""
    return subprocess.run([ROOT / '.venv/bin/python', '-c',
                           'import sysconfig; print(sysconfig.get_path("purelib"))'],
                          capture_output=True, text=True, check=True).stdout.strip()


def environment(**more):
    """Of a rank; what it imports of an environment's packages is compiled once."""
    return {**os.environ, 'PYTHONPATH': site(), 'OMP_NUM_THREADS': '1',
            'PYTHONDONTWRITEBYTECODE': '', **more}


def forked_python(python=PYTHON, **more):
    """What stands in the place of python in a command: its ranks are forks of one process that has
    imported PyTorch, with these variables."""
    return preloaded.command(python, MODULES, environment(**more))


def run_ranks(np, *argv, python=(PYTHON,)):
    done = subprocess.run([ROOT / '.venv/bin/reigen', 'run', '-np', str(np), '--', *python, *argv],
                          capture_output=True, text=True, timeout=200, env=environment(),
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_forked(np, *argv, **more):
    """The same without a launcher."""
    statuses, output = preloaded.ranks(PYTHON, MODULES, np, argv, environment(**more), HERE,
                                       200 / LEAST)
    assert statuses == [0] * np, output
    return output


pytestmark = pytest.mark.timeout(1500)


@pytest.mark.parametrize('np', [rest(2), 3])
def test_collectives_training_and_objects_work_with_torch_2(np):
    assert f'all good on {np} ranks with torch 2' in run_ranks(
        np, HERE / 'train.py', python=forked_python())


@pytest.mark.parametrize('program', ['operations', 'training', 'changing', 'failures', 'misuse',
                                     'elastic'])
def test_what_holds_with_torch_1_holds_with_torch_2(program):
    run_forked(2, ROOT / f'tests/python/ranks/{program}.py')


@pytest.mark.parametrize('program', ['operations', 'training'])
def test_cuda_tensors_work_with_torch_2_on_the_stand_in(program):
    standin = Path(os.environ.get('REIGEN_TEST_BUILD', ROOT / 'build')) / 'tests/standin'
    run_forked(2, ROOT / f'tests/python/ranks/cuda_{program}.py', 'own',
               LD_LIBRARY_PATH=str(standin), REIGEN_NCCL=str(standin / 'libnccl.so.2'),
               STANDIN_DELAY_US='20', STANDIN_CUDA_MEMORY=str(200 << 20))


def test_a_mistake_is_told_with_its_cause_and_the_users_line():
    done = subprocess.run(
        ['/usr/bin/python3', ROOT / 'bench/mistakes.py', '--check', '--only',
         'exception,init,shape,exit,script,host'], capture_output=True, text=True, timeout=400,
        check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize('version, np, launcher', [
    (1, 3, 'horovodrun'), rest(1, 3, 'mpirun'), rest(2, 2, 'horovodrun'), (2, 2, 'mpirun'),
    rest(2, 4, 'horovodrun'), rest(2, 4, 'mpirun')])
def test_ranks_stay_in_step_through_a_hundred_inits_and_wrong_calls(launcher, version, np):
    commands = {'horovodrun': [ROOT / '.venv/bin/horovodrun'],
                'mpirun': ['mpirun', '--allow-run-as-root', '--oversubscribe',
                           '-x', 'PYTHONPATH', '-x', 'OMP_NUM_THREADS']}
    env = environment()
    done = subprocess.run(
        [*commands[launcher], '-np', str(np), PYTHON if version == 2 else '/usr/bin/python3',
         ROOT / 'tests/python/ranks/suite.py'], capture_output=True, text=True, timeout=400,
        env=env, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count('100 turns') == np


def test_example_trains_with_torch_2(tmp_path):
    output = run_ranks(2, ROOT / 'examples/pytorch_mnist.py', '--epochs', '1', '--out', tmp_path)
    accuracy = [float(a) for a in re.findall(r'accuracy[ =:]+(0\.\d+|1\.0+)', output)]
    assert accuracy and accuracy[-1] > 0.85, output


def test_ranks_of_torchrun_meet(tmp_path):
    """One command of torchrun's, without Reigen's launcher; its ranks differ from the variables of
    an mpirun around it, which count for nothing."""
    script = tmp_path / 'rank.py'
    script.write_text('import os, torch, reigen, horovod.torch as hvd\n'
                      'hvd.init()\n'
                      's = hvd.allreduce(torch.ones(3) * hvd.rank(), op=hvd.Sum).tolist()\n'
                      'boot = reigen.describe().splitlines()[0]\n'
                      'os.write(1, f"{hvd.rank()} {hvd.size()} {hvd.local_rank()} {s[0]} {boot}'
                      '\\n".encode())\n')
    done = subprocess.run([PYTHON, '-m', 'torch.distributed.run', '--standalone',
                           '--nproc_per_node', '3', '--no-python', *forked_python(), script],
                          capture_output=True, text=True, timeout=200, check=False,
                          env=environment(PMI_FD='99', PMI_RANK='0', PMI_SIZE='2'))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f'{r} 3 {r} 3.0 boot: env' for r in range(3)]
