# SPDX-License-Identifier: Apache-2.0
"""make check-gpu and make bench ARGS=--gpu, on the stand-ins for the driver and NCCL.

Their programs work, find what is wrong, and say clearly when there is no GPU.
"""
import os
import subprocess

import pytest

from built import PROGRAMS, ROOT, environment

STANDIN = PROGRAMS.build / 'tests/standin'


@pytest.fixture
def make(tmp_path):
    """make(*arguments, VARIABLE=value): run it with the stand-ins."""
    def run(*arguments, gpu=True, **more):
        there = {'LD_LIBRARY_PATH': STANDIN, 'REIGEN_NCCL': STANDIN / 'libnccl.so.2',
                 'REIGEN_BUILD': PROGRAMS.build, 'STANDIN_CUDA_MEMORY': 200 << 20,
                 'STANDIN_DELAY_US': 5} if gpu else {}
        env = environment(REIGEN_GPU_OUT=tmp_path / 'out', **there, **more)
        env.pop('MAKEFLAGS', None)
        return subprocess.run(['make', '-s', '-C', ROOT, *arguments], env=env, capture_output=True,
                              text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
    return run


def test_check_gpu_compares_all_operations_with_the_host(make):
    done = make('check-gpu', 'ARGS=1,2')
    assert done.returncode == 0, done.stderr
    assert '1 rank on one GPU, by NCCL: ' in done.stdout
    assert '2 ranks on one GPU, by staging: ' in done.stdout
    assert done.stdout.count('of 11 types') == 2
    assert 'a rank that dies: the other one has its error' in done.stdout
    # The stand-ins are not for frameworks, so these are left out, whether or not they are here.
    for framework in ('horovod.jax', 'horovod.tensorflow'):
        assert f'{framework}: not tried' in done.stdout


def test_check_gpu_fails_when_the_gpu_does(make):
    done = make('check-gpu', 'ARGS=1', STANDIN_CUDA_ECC_AFTER=200)
    assert done.returncode != 0
    assert 'CUDA_ERROR' in done.stderr or ' gave ' in done.stderr, done.stderr


def test_check_gpu_fails_where_one_rank_is_not_served_by_nccl(make):
    done = make('check-gpu', 'ARGS=1', REIGEN_PLANES='shm,tcp')
    assert done.returncode != 0
    assert 'one rank was not served by NCCL' in done.stderr


@pytest.mark.parametrize('what', [['check-gpu'], ['bench', 'ARGS=--gpu']])
def test_no_gpu_is_an_error_that_says_so(make, tmp_path, what):
    # The loader looks no further, also on a machine that has one.
    (tmp_path / 'libcuda.so.1').touch()
    done = make(*what, gpu=False, LD_LIBRARY_PATH=tmp_path)
    assert done.returncode != 0
    assert 'no GPU can be used here: there is no libcuda.so.1' in done.stderr


def test_a_driver_that_shows_no_gpu_is_an_error_that_says_so(make):
    done = make('check-gpu', CUDA_VISIBLE_DEVICES='')
    assert done.returncode != 0
    assert 'no GPU can be used here: the driver shows no GPU' in done.stderr, done.stderr


def test_what_is_missing_to_build_is_named(make, tmp_path):
    """A PATH with the shell's commands and a compiler, but without meson."""
    path = tmp_path / 'bin'
    path.mkdir()
    for folder in os.environ['PATH'].split(':'):
        for command in ('sh', 'mkdir', 'dirname', 'cc', 'gcc', 'as', 'ld', 'collect2', 'python3'):
            if os.path.exists(f'{folder}/{command}') and not (path / command).exists():
                (path / command).symlink_to(f'{folder}/{command}')
    env = environment(PATH=path, LD_LIBRARY_PATH=STANDIN, REIGEN_GPU_OUT=tmp_path / 'out')
    done = subprocess.run([ROOT / 'tools/gpu.sh', 'check'], env=env, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 69
    for package in ('meson', 'ninja-build', 'pkg-config'):
        assert f'apt-get install {package})' in done.stderr, done.stderr


def test_bench_gpu_prints_its_tables_and_writes_nothing_of_a_stand_in(make):
    page = ROOT / 'docs/benchmarks-gpu.md'
    before = page.read_text()
    done = make('bench', 'ARGS=--gpu --rounds 2 --sizes 4,1048576 --staged 4194304')
    assert done.returncode == 0, done.stderr
    for line in ('allreduce from 1 MiB, against bare NCCL in C: worst', '| 1 MiB | ',
                 'staging against the bus', 'nothing is written: this GPU has no name'):
        assert line in done.stdout
    assert page.read_text() == before
