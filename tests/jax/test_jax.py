# SPDX-License-Identifier: Apache-2.0
"""horovod.jax between several ranks of this host."""
import os
import re
import signal
import subprocess

import jobs
import pytest

#: Of the test alone: the first one may also have to install JAX.
pytestmark = pytest.mark.timeout(300, func_only=True)


@pytest.mark.parametrize('size', [1, 3])
def test_every_operation_inside_and_outside_of_jit(all_pass, size):
    all_pass(size, 'operations.py', limit=240)


def test_programs_for_cuda_devices_have_our_calls_in_order(all_pass):
    all_pass(3, 'cuda.py')


def test_nothing_waits_for_a_thread_where_xla_has_one(all_pass):
    all_pass(4, 'operations.py',
             'check_more_collectives_than_threads_in_another_order_on_each_rank',
             env={'NPROC': '1'})


def test_training_equals_one_process_with_all_batches(all_pass):
    all_pass(2, 'training.py')


def test_a_dead_rank_is_an_exception_in_compiled_programs(start):
    ranks = start(3, 'life.py')
    statuses = ranks.wait(120)
    assert statuses[2] == -signal.SIGKILL, ranks.output()
    assert statuses[:2] == [0, 0], ranks.output()
    assert 'told' in ranks.text(0) and 'told' in ranks.text(1)


def test_the_example_learns_digits_and_all_ranks_agree(all_pass):
    size = 2
    ranks = all_pass(size, jobs.ROOT / 'examples/jax_mnist.py', '--epochs', '1', '--batch-size',
                     str(256 // size), '--lr', str(0.1 / size))
    assert f'identical to the bit on all {size} ranks' in ranks.text(0)
    accuracy = re.findall(r'accuracy (0\.\d+)', ranks.text(0))
    assert accuracy and float(accuracy[-1]) > 0.85, ranks.text(0)


def test_the_program_of_make_check_gpu_works_on_a_cpu(python):
    """On a GPU it is run by that target alone."""
    done = subprocess.run(
        [python, jobs.ROOT / 'tests/gpu/check_jax.py', '2', 'cpu'], capture_output=True, text=True,
        timeout=240, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, 'JAX_PLATFORMS': 'cpu', 'REIGEN_LIBRARY': str(jobs.library()),
             'PYTHONPATH': str(jobs.ROOT / 'bindings/python')})
    assert done.returncode == 0, done.stdout + done.stderr
    assert '126 operations of compiled programs as on the CPU' in done.stdout, done.stdout
