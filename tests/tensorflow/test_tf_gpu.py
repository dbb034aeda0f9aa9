# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's operations on a GPU, for which a pluggable device stands in."""
import os
import subprocess
from pathlib import Path

import pytest
from conftest import HERE, ROOT, python_of, run_ranks

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(scope='module')
def package():
    """TensorFlow's own folder."""
    done = subprocess.run(
        [python_of('tf'), '-c', 'import importlib.util as u; '
         'print(u.find_spec("tensorflow").submodule_search_locations[0])'],
        capture_output=True, text=True, timeout=60, check=True)
    return Path(done.stdout.split()[-1])


@pytest.fixture(scope='module')
def standin(package, tmp_path_factory):
    """The device, compiled with the headers of the TensorFlow that loads it."""
    path = tmp_path_factory.mktemp('device') / 'libstandin.so'
    done = subprocess.run(
        ['cc', '-shared', '-fPIC', '-O1', '-g', '-std=gnu11', '-fvisibility=hidden',
         '-D_GNU_SOURCE', '-I', package / 'include', '-o', path, HERE / 'device/standin.c',
         package / 'libtensorflow_framework.so.2', '-pthread'],
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return path


def test_operations_take_tensors_of_a_gpu_by_the_hosts_memory(standin):
    output = run_ranks('tf', 2, 'gpu.py', standin)
    for rank in range(2):
        assert f'all good on rank {rank}' in output, output


def test_tensorflow_gives_the_streams_of_plug_in_devices_only(package):
    """Why the kernels have their arguments in host memory (docs/python.md). Where this fails
    TensorFlow may have changed that."""
    library = (package / 'libtensorflow_framework.so.2').read_bytes()
    assert b'Accessing device stream is only supported for pluggable devices.' in library


def test_the_program_of_make_check_gpu_works_on_a_cpu():
    """On a GPU it is run by that target alone."""
    done = subprocess.run(
        [python_of('tf'), ROOT / 'tests/gpu/check_tf.py', '2', 'cpu'], capture_output=True,
        text=True, timeout=400, check=False, stdin=subprocess.DEVNULL,
        env={**os.environ, 'PYTHONPATH': str(ROOT / 'bindings/python'), 'OMP_NUM_THREADS': '1',
             'TF_CPP_MIN_LOG_LEVEL': '3', 'CUDA_VISIBLE_DEVICES': ''})
    assert done.returncode == 0, done.stdout + done.stderr
    assert '80 operations as on the CPU' in done.stdout, done.stdout
