# SPDX-License-Identifier: Apache-2.0
"""Small helpers of the TensorFlow binding."""
import os
from typing import Any

import tensorflow as tf

from reigen import _core


def _executing_eagerly() -> bool:
    return tf.executing_eagerly()


def _has_eager() -> bool:
    return True


def _make_subgraph(function):
    """The function as a tf.function."""
    return tf.function(function)


def _cache(function):
    """Remember the results of calls whose arguments are hashable."""
    results = {}

    def wrapper(*args):
        key = (args, _executing_eagerly())
        if key not in results:
            results[key] = function(*args)
        return results[key]

    return wrapper


def native(variable: Any) -> Any:
    """The tf.Variable of a Keras 3 variable; anything else as it is."""
    value = getattr(variable, 'value', None)
    return variable if value is None or callable(value) else value


def variable_key(variable: Any):
    """A hashable that is equal for the same variable, Keras's or TensorFlow's."""
    variable = native(variable)
    return variable.ref() if hasattr(variable, 'ref') else id(variable)


def vars_to_refs(vars):
    """Hashable references of variables, nested as they are (lists become tuples)."""
    if isinstance(vars, (list, tuple)):
        return tuple(vars_to_refs(v) for v in vars)
    return native(vars).ref()


def refs_to_vars(refs):
    """The variables that vars_to_refs() was given, as lists."""
    if isinstance(refs, (list, tuple)):
        return [refs_to_vars(r) for r in refs]
    return refs.deref()


def alone(size: int) -> bool:
    """True when reducing over `size` ranks changes nothing, now and later: an elastic job of one
    rank may grow, and what is recorded is to be as among others."""
    return size == 1 and not _core.may_grow() and os.environ.get('REIGEN_ALONE') != '1'
