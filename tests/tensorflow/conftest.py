# SPDX-License-Identifier: Apache-2.0
"""Jobs of ranks under each TensorFlow: `ranks` is a function of the number of ranks, the name of a
script in tests/tensorflow/ranks and its arguments, and gives what the job has written."""
import os
import subprocess
from pathlib import Path

import preloaded
import pytest
from wait import LEAST

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
#: Names of tools/frameworks.sh: the current TensorFlow with Keras 3, 2.15 with Keras 2.
ENVS = ('tf', 'tf215')
LIMIT_S = 400
#: Of each rank.
ENV = {'PYTHONPATH': str(ROOT / 'bindings/python'), 'OMP_NUM_THREADS': '1',
       'TF_CPP_MIN_LOG_LEVEL': '3', 'TF_ENABLE_ONEDNN_OPTS': '0', 'PYTHONDONTWRITEBYTECODE': '',
       'CUDA_VISIBLE_DEVICES': ''}

_pythons = {}


@pytest.fixture(scope='session', autouse=True)
def temporary(tmp_path_factory):
    """TensorFlow writes a file for each function that it compiles, and a rank that is killed leaves
    its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('TMPDIR', str(tmp_path_factory.mktemp('tmp')))
        yield


def python_of(name):
    """The python of an environment, which is made where it is not there yet."""
    if name not in _pythons:
        done = subprocess.run([ROOT / 'tools/frameworks.sh', name], capture_output=True, text=True,
                              timeout=1200, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        _pythons[name] = done.stdout.split()[-1]
    return _pythons[name]


#: How a job may be started.
LAUNCHERS = {'reigen': [ROOT / '.venv/bin/reigen', 'run'],
             'horovodrun': [ROOT / '.venv/bin/horovodrun'],
             'mpirun': ['mpirun', '--allow-run-as-root', '--oversubscribe']}


def run_ranks(name, np, script, *argv, env=None, expect=0, launcher='reigen'):
    """Run a script as np ranks in an environment; its output. The build tree's library is used."""
    script = HERE / 'ranks' / script if not os.path.isabs(script) else script
    env = {**os.environ, **ENV, **(env or {})}
    if launcher == 'forked':
        statuses, output = preloaded.ranks(python_of(name), ['tensorflow'], np, [script, *argv],
                                           env, HERE, LIMIT_S / LEAST)
        assert statuses == [expect] * np, output[-40000:]
        return output
    done = subprocess.run(
        [*LAUNCHERS[launcher], '-np', str(np), python_of(name), script, *map(str, argv)],
        capture_output=True, text=True, timeout=LIMIT_S, check=False, env=env)
    assert done.returncode == expect, done.stdout[-20000:] + done.stderr[-20000:]
    return done.stdout + done.stderr


@pytest.fixture(params=ENVS)
def ranks(request):
    """run_ranks under each TensorFlow in turn, without a launcher: an import of TensorFlow takes
    7 s of a processor, and so the ranks share one."""
    return lambda np, script, *argv, **options: run_ranks(
        request.param, np, script, *argv, **{'launcher': 'forked', **options})
