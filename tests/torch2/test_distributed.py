# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over the backend "reigen", with the current PyTorch.

The programs run many checks each, as most of the time goes into the start of the ranks.
REIGEN_TORCH names another PyTorch's python.
"""
import json
import os
import re
import socket
import subprocess
from pathlib import Path

import preloaded
import pytest
from test_torch2 import MODULES, environment, forked_python
from variants import rest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PYTHON = os.environ.get('REIGEN_TORCH') or ROOT / 'build/envs/torch2/bin/python'

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope='session', autouse=True)
def torch2():
    if 'REIGEN_TORCH' in os.environ:
        return
    done = subprocess.run([ROOT / 'tools/frameworks.sh', 'torch2'], capture_output=True,
                          text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def run(launcher, np, *argv, **more):
    """The program's output; it must succeed. more: variables."""
    if launcher == 'forked':
        statuses, output = forked(np, *argv, **more)
        assert statuses == [0] * np, output
        return output
    command = {'torchrun': [PYTHON, '-m', 'torch.distributed.run', '--nproc-per-node', str(np),
                            '--master-port', str(free_port())],
               'reigen': [ROOT / '.venv/bin/reigen', 'run', '-np', str(np), '--']}
    done = subprocess.run([*command[launcher], *argv], capture_output=True, text=True, timeout=200,
                          env=environment(**more), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def forked(np, *argv, **more):
    """The exit statuses of such ranks, and what they said."""
    return preloaded.ranks(PYTHON, MODULES, np, argv, environment(**more), HERE)


@pytest.mark.parametrize('launcher, np', [('forked', 2), ('reigen', 3)])
def test_every_operation_gives_what_it_should(launcher, np, tmp_path):
    python = forked_python(PYTHON) if launcher == 'reigen' else []
    assert f'all good on {np} ranks' in run(launcher, np, *python, HERE / 'distributed_checks.py',
                                            tmp_path / 'store')


@pytest.mark.parametrize('launcher, np', [rest('torchrun', 2), ('forked', 4)])
def test_ddp_fsdp2_zero_and_dtensor_train(launcher, np):
    assert f'all trained on {np} ranks' in run(launcher, np, HERE / 'distributed_training.py')


def test_what_torch_compile_makes_gives_the_same():
    assert 'all compiled on 2 ranks' in run('forked', 2, HERE / 'distributed_compiled.py')


def test_a_profiler_sees_each_operation():
    assert 'all told to the profiler' in run('forked', 2, HERE / 'distributed_profile.py')


@pytest.mark.parametrize('mode, np', [('mistakes', 3), ('late', 2), ('abort', 3), ('horovod', 2),
                                      ('again', 3), ('forks', 2), ('sockets', 2)])
def test_what_goes_wrong_is_told_and_the_rest_goes_on(mode, np, tmp_path):
    assert 'all told' in run('forked', np, HERE / 'distributed_failures.py', mode,
                             tmp_path / 'store')


def test_a_rank_that_is_killed_is_told_to_the_others():
    statuses, output = forked(3, HERE / 'distributed_failures.py', 'killed')
    assert statuses == [0, -9, 0], output
    for rank in (0, 2):
        assert f'rank {rank} was told' in output, output


def test_cuda_tensors_are_in_the_order_of_streams():
    """On the stand-ins for the driver and NCCL."""
    standin = ROOT / 'build/tests/standin'
    assert 'all good on GPUs' in run(
        'forked', 2, HERE / 'distributed_cuda.py', LD_LIBRARY_PATH=str(standin),
        REIGEN_NCCL=str(standin / 'libnccl.so.2'), STANDIN_DELAY_US='20',
        STANDIN_CUDA_MEMORY=str(200 << 20))


def test_two_devices_can_have_two_backends(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text(
        'import os, torch, torch.distributed as d; '
        'd.init_process_group("cpu:reigen,cuda:gloo"); '
        't = torch.ones(3); d.all_reduce(t); w = d.all_reduce(t, async_op=True); w.wait(); '
        'g = d.new_group([0, 1]); d.barrier(g); o = torch.empty(6); '
        'd.all_gather_into_tensor(o, t); d.destroy_process_group(); '
        'os.write(1, b"%.1f\\n" % o.sum().item())')  # whole lines of both ranks
    printed = run('torchrun', 2, '--no-python', *forked_python(PYTHON), script)
    assert printed.split() == ['24.0', '24.0']


def test_reigen_bench_measures_gloo_under_torchrun():
    """torchrun tells its ranks to use a store of its own, where gloo's processes must not look."""
    output = run('torchrun', 2, '--no-python', ROOT / '.venv/bin/reigen', 'bench', '--peer', 'gloo',
                 '--python', PYTHON, '--op', 'all', '--max-bytes', '64', '--iterations', '3',
                 '--rounds', '2', '--check', '--json', '-')
    rows = json.loads(output)['rows']
    for row in rows:
        has = row['operation'] != 'join'
        assert row['results']['reigen']['wrong'] == 0
        assert (row['results']['gloo']['time_us'] is not None) == has, row
    assert len({row['operation'] for row in rows}) == 9


def test_importing_torch_loads_one_small_file_of_reigen():
    script = ('import torch, sys; print(hasattr(torch.distributed.Backend, "REIGEN"), '
              'sorted(m for m in sys.modules if "reigen" in m)); import horovod.torch as h; '
              'h.init(); torch.distributed.init_process_group("reigen", rank=0, world_size=1, '
              'store=torch.distributed.HashStore()); print("torch._dynamo" in sys.modules)')
    done = subprocess.run([PYTHON, '-c', script], capture_output=True, text=True, timeout=60,
                          env=environment(), check=True)
    assert done.stdout.splitlines() == ["True ['_reigen_torch']", 'False'], (
        'Dynamo takes seconds, and is for those who compile')


def test_an_old_torch_has_no_such_backend_and_says_so():
    """Debian's PyTorch 1.13, which horovod.torch works with."""
    done = subprocess.run([ROOT / '.venv/bin/python', '-c',
                           'import reigen.torch, reigen.distributed'],
                          capture_output=True, text=True, timeout=60, env=environment(),
                          check=False)
    assert re.search(r'ImportError: The backend "reigen" .* needs PyTorch 2\.13', done.stderr)


def test_the_example_trains():
    assert 'reigen' in run('reigen', 2, PYTHON, ROOT / 'examples/ddp.py', '--epochs', '2')
