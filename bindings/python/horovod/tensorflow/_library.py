# SPDX-License-Identifier: Apache-2.0
"""Loading the kernels into TensorFlow, and telling TensorFlow what it should know of them."""
import ctypes
import os
import re
from typing import Any, Dict, Optional

import tensorflow as tf

import reigen._lib
from reigen import _core

OLDEST = (2, 12)
NAME = 'libreigen_tensorflow.so'

#: Operations between which no order is kept: they are matched by name. In a function, TensorFlow
#: would run operations with side effects one after the other.
_UNORDERED = frozenset(f'Horovod{kind}' for kind in (
    'Allreduce', 'GroupedAllreduce', 'Allgather', 'GroupedAllgather', 'Broadcast',
    'Reducescatter', 'GroupedReducescatter', 'Alltoall', 'AgreeOnGradients', 'Size', 'LocalSize',
    'Rank', 'LocalRank', 'ProcessSetIncluded'))


def _path() -> str:
    """Beside libreigen.so, or in the build tree that it lies in."""
    beside = os.path.join(os.path.dirname(os.path.abspath(reigen._lib.path)), NAME)
    build = os.path.dirname(os.path.dirname(os.path.dirname(beside)))
    tried = [beside, os.path.join(build, 'bindings', 'tensorflow', NAME)]
    for path in tried:
        if os.path.exists(path):
            return path
    raise ImportError(f'{NAME} was not found; looked for {" and ".join(tried)}. Run make in the '
                      'source tree, or install the package again.')


def load() -> Any:
    """The module of the operations' Python functions.

    Raises ImportError for a TensorFlow before 2.12, and when the kernels cannot be registered.
    """
    version = tuple(int(part) for part in tf.__version__.split('.')[:2])
    if version < OLDEST:
        raise ImportError(f'horovod.tensorflow needs TensorFlow 2.12 or later, whose C API has '
                          f'asynchronous kernels; this is TensorFlow {tf.__version__}.')
    path = _path()
    try:
        library = tf.load_op_library(path)
    except (tf.errors.OpError, RuntimeError) as error:
        raise ImportError(f'{path} cannot be loaded into TensorFlow {tf.__version__}: {error}') \
            from error
    kernels = ctypes.PyDLL(path)
    kernels.reigen_tensorflow_failure.restype = ctypes.c_char_p
    failure = kernels.reigen_tensorflow_failure()
    if failure:
        raise ImportError(f'TensorFlow {tf.__version__} does not take the kernels of {path}: '
                          f'{failure.decode()}')
    # All ranks of the next job count the operations without a name from the same number.
    _core.after_shutdown.append(kernels.reigen_tensorflow_reset)
    _core.after_apart.append(kernels.reigen_tensorflow_reset)
    _core.after_fork.append(kernels.reigen_tensorflow_reset)
    _core.after_join.append(kernels.reigen_tensorflow_joined)
    for kind in _UNORDERED:
        words = re.sub('(?<!^)(?=[A-Z])', '_', kind).lower()
        _functions[kind] = getattr(library, words)
    _allow_any_order()
    return library


# ---------------------------------------------------------------------------- calling them

_functions: Dict[str, Any] = {}


def add(kind: str, inputs: tuple, attrs: tuple, name: Optional[str]) -> Any:
    """Make an operation with TensorFlow's own function for it: in graphs, and where the fast way
    of eager mode does not know what to do with an input."""
    return _functions[kind](*inputs, **dict(zip(attrs[::2], attrs[1::2])), name=name)


try:
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.eager import context, core
    from tensorflow.python.framework import ops

    _fast = pywrap_tfe.TFE_Py_FastPathExecute
    _context = context.context
    _Refused, _Fallback = core._NotOkStatusException, core._FallbackException
    _raise = ops.raise_from_not_ok_status

    def execute(kind: str, inputs: tuple, attrs: tuple) -> Any:
        """Execute an operation eagerly. TensorFlow's own functions take three times as long, mostly
        for attributes that have their default value."""
        try:
            return _fast(_context(), kind, None, *inputs, *attrs)
        except _Fallback:
            return add(kind, inputs, attrs, None)
        except _Refused as error:
            return _raise(error, None)
except (ImportError, AttributeError):
    def execute(kind: str, inputs: tuple, attrs: tuple) -> Any:
        """Execute an operation eagerly."""
        return add(kind, inputs, attrs, None)


# ---------------------------------------------------------------------------- graphs

def _allow_any_order() -> None:
    try:
        from tensorflow.python.framework import auto_control_deps
        auto_control_deps.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS |= _UNORDERED
    except (ImportError, AttributeError, TypeError):
        pass  # Only slower: one collective after the other.


def refuse_xla(kind: str) -> None:
    """Raise NotImplementedError while a function is traced that XLA is going to compile."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import control_flow_util

    if control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph()):
        raise NotImplementedError(
            f'{kind} cannot be compiled by XLA (jit_compile=True). Leave the collective outside of '
            'the compiled function: compile the computation of the gradients in a tf.function of '
            'its own and reduce them after it, or set jit_compile=False (in Keras: '
            'model.compile(..., jit_compile=False)).')
