# SPDX-License-Identifier: Apache-2.0
"""The packages as such: loading, importing, examples."""
import gzip
import json
import os
import re
import shutil
import struct
import subprocess

import pytest

import jobs
from variants import rest

PACKAGES = jobs.ROOT / 'bindings/python'
EXAMPLES = jobs.ROOT / 'examples'


def run(code, env=None, limit=60):
    variables = {**os.environ, 'PYTHONPATH': str(PACKAGES), 'PYTHONDONTWRITEBYTECODE': '1',
                 'REIGEN_LIBRARY': jobs.library(), **(env or {})}
    for name in ('RANK', 'WORLD_SIZE', 'REIGEN_RANK'):
        variables.pop(name, None)
    return subprocess.run([jobs.python(), *code], env=variables, capture_output=True,
                          text=True, timeout=limit, check=False)


def test_a_missing_library_is_an_import_error_that_says_what_to_do():
    done = run(['-c', 'import reigen'], {'REIGEN_LIBRARY': '/rg-not-there/libreigen.so'})
    assert done.returncode == 1
    assert 'ImportError: libreigen.so was not found' in done.stderr
    assert '/rg-not-there/libreigen.so' in done.stderr and 'run make' in done.stderr.lower()


def test_a_foreign_library_is_an_import_error_that_names_it():
    done = run(['-c', 'import reigen'], {'REIGEN_LIBRARY': '/lib/x86_64-linux-gnu/libc.so.6'})
    assert 'ImportError' in done.stderr and 'cannot be used as libreigen.so' in done.stderr


def test_an_optimizer_is_ready_for_others_where_ranks_may_come():
    """Also in elastic jobs of Spark's and Ray's processes, which have no variable that says so."""
    code = ("""
import types
import horovod.torch as hvd, torch
from reigen import _lib, boot
def alone(limit):
    boot.meet(0, 1, lambda blob: [blob], 60, lambda: None)
for elastic in (None, types.SimpleNamespace(epoch=_lib.Epoch)):
    with boot.lending(alone, elastic):
        hvd.init()
        model = torch.nn.Linear(1, 1)
        print(hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1))._hooked)
""")
    done = run(['-c', code])
    assert done.stdout == 'False\nTrue\n', done.stderr


def test_without_a_driver_the_gpu_is_refused_and_the_host_works():
    code = ("""
import ctypes, os
try:
    ctypes.CDLL('libcuda.so.1')
    raise SystemExit(3)
except OSError:
    pass
lib = ctypes.CDLL(os.environ['REIGEN_LIBRARY'])
lib.reigen_last_error.restype = ctypes.c_char_p
print(lib.reigen_use_device(0, None), lib.reigen_last_error().decode())
import horovod.torch as hvd, torch
hvd.init()
print(hvd.allreduce(torch.ones(3), name='x').tolist())
""")
    done = run(['-c', code])
    if done.returncode == 3:
        pytest.skip('this machine has a driver')
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith('-2 there is no GPU driver: libcuda.so.1 is not there'), done.stderr
    assert second == '[1.0, 1.0, 1.0]'


def test_importing_horovod_adds_at_most_20_ms_to_torch(tmp_path):
    code = ('import time; a = time.process_time(); import torch, ctypes; b = time.process_time(); '
            'import horovod.torch; print(time.process_time() - b, b - a)')
    # With its modules compiled, as after an installation; torch's are already. It is processor
    # time, as the machine has other things to do as well. Those slow the processor down, too:
    # torch's own import, of 0.8 s where nothing else runs, says how much.
    shutil.copytree(PACKAGES, tmp_path / 'installed')
    env = {'PYTHONDONTWRITEBYTECODE': '', 'PYTHONPATH': str(tmp_path / 'installed')}
    runs = [[float(word) for word in run(['-c', code], env).stdout.split()] for _ in range(4)]
    assert any(added < max(0.02, 0.02 * torchs / 0.8) for added, torchs in runs[1:]), runs


def test_horovod_names_are_all_there_and_take_what_they_took():
    done = run([str(jobs.HERE / 'ranks/surface.py'), str(jobs.HERE / 'surface.txt')])
    assert done.returncode == 0, done.stdout + done.stderr


# Modules of Horovod's that are not offered, as docs/python.md lists them.
ABSENT = ['horovod.mxnet', 'horovod.runner.common.service',
          'horovod.runner.common.service.compute_service',
          'horovod.runner.common.service.driver_service',
          'horovod.runner.common.service.task_service', 'horovod.runner.common.util.network',
          'horovod.runner.driver', 'horovod.runner.driver.driver_service',
          'horovod.runner.elastic.registration', 'horovod.runner.elastic.rendezvous',
          'horovod.runner.http', 'horovod.runner.http.http_client',
          'horovod.runner.http.http_server', 'horovod.runner.task',
          'horovod.runner.task.task_service', 'horovod.runner.task_fn',
          'horovod.runner.util.cache']


def test_what_is_absent_says_what_to_use_instead():
    code = ('import importlib, sys\n'
            'for name in sys.argv[1:]:\n'
            '    try:\n'
            '        importlib.import_module(name)\n'
            '    except ImportError as error:\n'
            '        print(f"{name}: {error}")\n'
            'from horovod.runner.elastic import worker\n'
            'try:\n'
            '    from horovod.runner.elastic.worker import WorkerNotificationService\n'
            'except ImportError as error:\n'
            '    print(f"worker: {error}")\n'
            'print(hasattr(worker, "nothing"))\n')
    done = run(['-c', code, *ABSENT])
    said = dict(line.split(': ', 1) for line in done.stdout.splitlines()[:-1])
    assert set(said) == {*ABSENT, 'worker'}, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == 'False'
    page = (jobs.ROOT / 'docs/python.md').read_text()
    for name, text in said.items():
        # What is wrong, and another way: never "No module named", which an unlisted one would say.
        assert ' Reigen' in text and len(text) > 80, name
        assert name == 'worker' or any(f'`{part}`' in page or f'`{part}.*`' in page for part in
                                       (name, name.rpartition('.')[0])), name


def test_the_digits_of_the_examples_are_whole_and_small():
    total = 0
    for kind, most in (('train', 20000), ('t10k', 10000)):
        counts = []
        for what, ndim in (('images-idx3', 3), ('labels-idx1', 1)):
            path = EXAMPLES / 'data' / f'{kind}-{what}-ubyte.gz'
            total += path.stat().st_size
            data = gzip.decompress(path.read_bytes())
            magic, count = struct.unpack('>II', data[:8])
            assert magic == 0x800 + ndim
            assert len(data) == 4 + 4 * ndim + count * (784 if ndim == 3 else 1)
            counts.append(count)
        assert counts == [most, most]
    assert total < 5_000_000


def test_mnist_runs_alone_and_says_how_it_went(tmp_path):
    report = tmp_path / 'report.json'
    done = run([str(EXAMPLES / 'pytorch_mnist.py'), '--epochs', '1', '--batch-size', '256',
                '--lr', '0.04', '--report', str(report), '--out', str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert 'identical to the bit on all 1 ranks' in done.stdout
    found = json.loads(report.read_text())
    assert found['epochs'][0]['accuracy'] > 0.9 and (tmp_path / 'model.pt').exists()


def test_mnist_trains_two_ranks_to_the_same_bits(all_pass, tmp_path):
    ranks = all_pass(2, EXAMPLES / 'pytorch_mnist.py', '--epochs', '1', '--fp16-allreduce',
                     '--batch-size', '128', '--lr', '0.02')
    assert 'identical to the bit on all 2 ranks' in ranks.text(0)
    assert 'accuracy 0.9' in ranks.text(0)


@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize('size', [rest(2), 4])
def test_the_examples_with_pytorch_run(all_pass, size):
    ranks = all_pass(size, EXAMPLES / 'process_sets.py', '--steps', '30', limit=150)
    assert 'identical to the bit in each team' in ranks.text(0)
    ranks = all_pass(size, EXAMPLES / 'adasum.py', '--steps', '30', limit=150)
    assert f'identical to the bit on all {size} ranks' in ranks.text(0)
    ranks = all_pass(size, EXAMPLES / 'pytorch_mnist.py', '--epochs', '1', '--use-adasum',
                     '--batch-size', '64', '--lr', '0.02', limit=150)
    assert f'identical to the bit on all {size} ranks' in ranks.text(0)
    assert float(re.search(r'accuracy (0[.]\d+)', ranks.text(0))[1]) > 0.8


def test_the_synthetic_benchmark_runs(all_pass):
    ranks = all_pass(2, EXAMPLES / 'pytorch_synthetic_benchmark.py', '--batch-size', '2',
                     '--num-iters', '2', '--num-batches-per-iter', '1', '--use-adasum')
    assert 'Total img/sec on 2 rank(s)' in ranks.text(0)
