# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's operations, which are kernels in C, under both versions of TensorFlow."""
import subprocess

import pytest
from conftest import ROOT, python_of, run_ranks

pytestmark = pytest.mark.timeout(1500)


@pytest.mark.parametrize('name, np', [('tf', 3), ('tf215', 2)])
def test_operations_gradients_errors_and_order(name, np):
    # The last rank dies at the end, and the others say what they were told.
    output = run_ranks(name, np, 'ops.py', 'die', expect=7)
    for rank in range(np):
        assert f'all good on rank {rank}' in output, output
    for rank in range(np - 1):
        assert f'told on rank {rank}' in output, output


def test_an_old_tensorflow_is_refused_by_name():
    """Without one: a module that says it is TensorFlow 2.11."""
    script = ('import sys, types; import reigen\n'
              'tf = types.ModuleType("tensorflow"); tf.__version__ = "2.11.1"\n'
              'sys.modules["tensorflow"] = tf\n'
              'import importlib.util as u, horovod, os\n'
              'path = os.path.join(list(horovod.__path__)[0], "tensorflow", "_library.py")\n'
              'spec = u.spec_from_file_location("library", path)\n'
              'library = u.module_from_spec(spec); spec.loader.exec_module(library)\n'
              'library.load()\n')
    done = subprocess.run([python_of('tf'), '-c', script], capture_output=True, text=True,
                          timeout=60, check=False,
                          env={'PYTHONPATH': str(ROOT / 'bindings/python'), 'PATH': '/usr/bin'})
    assert done.returncode == 1
    assert 'needs TensorFlow 2.12 or later' in done.stderr and '2.11.1' in done.stderr
