# SPDX-License-Identifier: Apache-2.0
"""horovod.torch on CUDA tensors, on the stand-ins for the driver and NCCL (ranks/gpu.py): no host
access to their memory goes unseen, nor an order that the streams do not have."""
import os
import signal
from pathlib import Path

import pytest

import jobs
from variants import rest

STANDIN = Path(os.environ.get('REIGEN_TEST_BUILD', jobs.ROOT / 'build')) / 'tests/standin'
#: The machine may be busy with other things.
LIMIT_S = 170


def standin(**more):
    return {'LD_LIBRARY_PATH': str(STANDIN), 'REIGEN_NCCL': str(STANDIN / 'libnccl.so.2'),
            'STANDIN_DELAY_US': '20', 'STANDIN_CUDA_MEMORY': str(200 << 20),
            **{name: str(value) for name, value in more.items()}}


@pytest.mark.parametrize('size, devices', [
    (1, 'own'), rest(2, 'own'), (4, 'own'), (2, 'same'), rest(4, 'same')])
def test_every_operation_on_a_gpu_gives_what_numpy_computes(all_pass, size, devices):
    all_pass(size, 'cuda_operations.py', devices, env=standin(), limit=LIMIT_S)


def test_without_nccl_operations_go_through_the_host(all_pass):
    all_pass(2, 'cuda_operations.py', 'own', 'check_reductions_of_all_types',
             env=standin(REIGEN_NCCL='/nowhere/libnccl.so.2'), limit=LIMIT_S)


@pytest.mark.parametrize('size, devices', [rest(2, 'own'), (4, 'own'), (2, 'same')])
def test_training_on_a_gpu_equals_training_on_the_cpu(all_pass, size, devices):
    all_pass(size, 'cuda_training.py', devices, env=standin(), limit=LIMIT_S)


def test_a_rank_that_is_killed_in_a_collective_is_an_error_on_the_others(start):
    ranks = start(3, 'cuda_bad.py', 'killed', env=standin(),
                  more={1: {'STANDIN_NCCL_KILL_AFTER': '3'}})
    assert ranks.wait(LIMIT_S) == [0, -signal.SIGKILL, 0], ranks.output()


@pytest.mark.parametrize('case, size, more', [
    ('memory', 2, {'STANDIN_CUDA_MEMORY': 8 << 20}), ('shutdown', 2, {}), ('forked', 1, {}),
    ('broken', 2, {'STANDIN_CUDA_ECC_AFTER': 400})])
def test_what_goes_wrong_is_a_clear_error(all_pass, case, size, more):
    all_pass(size, 'cuda_bad.py', case, env=standin(**more), limit=LIMIT_S)


@pytest.mark.parametrize('text, driver, more', [
    ('shows no device', 'driver', {'CUDA_VISIBLE_DEVICES': ''}),
    ('is for CUDA 10.2', 'driver', {'STANDIN_CUDA_VERSION': 10020}),
])
def test_a_gpu_that_cannot_be_used_is_a_value_error(all_pass, text, driver, more):
    all_pass(2, 'cuda_bad.py', 'refused', text, driver, env=standin(**more), limit=LIMIT_S)


def test_without_a_driver_cuda_tensors_are_a_value_error(all_pass, tmp_path):
    # The loader looks no further, also on a machine that has one.
    (tmp_path / 'libcuda.so.1').touch()
    all_pass(2, 'no_driver.py', env={'LD_LIBRARY_PATH': str(tmp_path)}, limit=LIMIT_S)


def test_the_check_for_a_real_gpu_passes(all_pass):
    all_pass(2, 'script.py', jobs.ROOT / 'tests/gpu/check_torch.py', env=standin(), limit=LIMIT_S)


@pytest.mark.parametrize('script, arguments', [
    ('pytorch_mnist.py', ['--epochs', '1', '--batch-size', '2000', '--test-batch-size', '5000']),
    ('pytorch_synthetic_benchmark.py', ['--batch-size', '2', '--num-iters', '1',
                                        '--num-warmup-batches', '1',
                                        '--num-batches-per-iter', '2'])])
def test_an_example_uses_the_gpus(all_pass, script, arguments):
    ranks = all_pass(2, 'script.py', jobs.ROOT / 'examples' / script, *arguments, env=standin(),
                     limit=LIMIT_S)
    assert 'GPU' not in ranks.text(0), ranks.text(0)
