# SPDX-License-Identifier: Apache-2.0
"""A part of PyTorch's own tests for a backend, with "reigen" in gloo's place: pytorch_suite.py runs
all of them by hand. gloo passes each of these on CPUs."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PYTHON = os.environ.get('REIGEN_TORCH') or ROOT / 'build/envs/torch2/bin/python'

TESTS = ['test_DistributedDataParallelCPU', 'test_DistributedDataParallelCPU_grad_is_view',
         'test_accumulate_gradients_no_sync_allreduce_with_then_hook', 'test_all_gather_complex',
         'test_all_gather_coalesced_with_empty', 'test_all_gather_object_subgroup',
         'test_all_reduce_coalesced_full_group_max', 'test_all_reduce_sum_async',
         'test_all_reduce_sum_complex', 'test_barrier_timeout_full_group',
         'test_batch_isend_irecv_gloo_tags', 'test_ddp_comparison',
         'test_ddp_logging_data_cpu', 'test_destroy_group',
         'test_gather_object_subgroup', 'test_get_future', 'test_monitored_barrier_gloo',
         'test_monitored_barrier_gloo_rank_0_timeout', 'test_new_subgroups_with_group_param',
         'test_reduce_full_group_product', 'test_scatter_object_list',
         'test_send_recv_any_source', 'test_sparse_all_reduce_sum', 'test_static_graph_api_cpu']

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope='session', autouse=True)
def torch2():
    if 'REIGEN_TORCH' in os.environ:
        return
    done = subprocess.run([ROOT / 'tools/frameworks.sh', 'torch2'], capture_output=True,
                          text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def run(log, *argv):
    site = subprocess.run([ROOT / '.venv/bin/python', '-c',
                           'import sysconfig; print(sysconfig.get_path("purelib"))'],
                          capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run([PYTHON, HERE / 'pytorch_suite.py', '--log', log, *argv],
                          capture_output=True, text=True, timeout=500, check=False,
                          env={**os.environ, 'PYTHONPATH': site})
    words = Path(f'{log}-reigen.log').read_text(encoding='utf-8', errors='replace')[-4000:]
    return done, done.stdout + done.stderr + words


def test_what_pytorch_asks_of_gloo_holds(tmp_path):
    done, words = run(tmp_path / 'log', '--without-gloo', *TESTS)
    assert done.returncode == 0, words
    assert f'reigen: {len(TESTS)} of {len(TESTS)} passed' in done.stdout, words


def test_what_pytorch_asks_of_mpi_holds(tmp_path):
    tests = ['test_all_to_all_complex', 'test_all_to_all_single_unequal_split_group']
    done, words = run(tmp_path / 'log', '--name', 'mpi', *tests)
    assert done.returncode == 0, words
    assert 'reigen: 2 of 2 passed' in done.stdout, words


def test_a_failure_is_told(tmp_path):
    """Of the name itself, which no replacement hides."""
    done, _ = run(tmp_path / 'log', '--without-gloo', 'test_get_backend')
    assert 'failed, by its name: Backend.test_get_backend' in done.stdout
    assert 'reigen: 0 of 1 passed' in done.stdout


#: A test file such as --file takes, of one rank. One test names no backend, and one makes no group.
FILE = '''
import os
import unittest
from unittest import mock

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

PLACE = {'RANK': '0', 'WORLD_SIZE': '1', 'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '0'}


class Tests(unittest.TestCase):
    @mock.patch.dict(os.environ, PLACE)
    def test_without_a_name(self):
        mesh = init_device_mesh('cpu', (1,))
        self.assertEqual([dist.get_backend(), dist.get_backend(mesh.get_group())], ['reigen'] * 2)
        dist.destroy_process_group()

    def test_without_a_group(self):
        pass
'''


def test_a_file_of_tests_runs(tmp_path):
    """And what passes without a group of Reigen is counted, as it tells nothing."""
    file = tmp_path / 'some_tests.py'
    file.write_text(FILE, encoding='utf-8')
    done, words = run(tmp_path / 'log', '--without-gloo', '--file', file)
    assert done.returncode == 0, words
    assert 'reigen: 2 of 2 passed' in done.stdout, words
    assert '1 of those that passed made no group of Reigen' in done.stdout, words
