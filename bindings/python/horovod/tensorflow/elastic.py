# SPDX-License-Identifier: Apache-2.0
"""Elastic training: state that survives a change of the ranks."""
import functools
from typing import Any, Callable, Iterable, Optional

import tensorflow as tf

from horovod.common.elastic import ObjectState, run_fn
from horovod.common.exceptions import HorovodInternalError
from horovod.tensorflow.functions import (broadcast_object, broadcast_object_fn,
                                          broadcast_variables, default_session)
from horovod.tensorflow.mpi_ops import init, rank, shutdown
from horovod.tensorflow.util import native

#: What a collective that has lost a rank may end with. A mismatch is a FailedPreconditionError: it
#: would come again.
_ERRORS = (tf.errors.UnknownError, tf.errors.AbortedError, tf.errors.CancelledError,
           tf.errors.UnavailableError)


def run(func: Callable) -> Callable:
    """Decorator: run func(state, ...) again from the last commit when ranks fail or change.

    A failed collective, which TensorFlow reports as one of its own errors, is a failed rank.
    """
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        try:
            return func(state, *args, **kwargs)
        except _ERRORS as error:
            if 'Horovod' in str(error):
                raise HorovodInternalError(str(error)) from error
            raise

    return run_fn(wrapper, _reset)


def _reset() -> None:
    shutdown()
    init()


def optimizer_variables(optimizer: Any) -> list:
    """The variables of an optimizer; of Keras 2 they are a method, of Keras 3 a property."""
    if optimizer is None:
        return []
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


class TensorFlowKerasState(ObjectState):
    """A Keras model, its optimizer, and any objects given by keyword.

        state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0, epoch=0)
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs):
        self.model = model
        if not _built(model):
            raise ValueError('Model must be built first. Run `model.build(input_shape)`.')
        self.optimizer = optimizer or getattr(model, 'optimizer', None)
        self.backend = backend
        self._saved: Any = None
        super().__init__(bcast_object=broadcast_object, get_rank=rank, **kwargs)
        self._save_model()

    def _variables(self) -> list:
        return [native(v) for v in [*self.model.weights, *optimizer_variables(self.optimizer)]]

    def save(self) -> None:
        self._save_model()
        super().save()

    def restore(self) -> None:
        found = self._variables()
        for variable, value in zip(found, self._saved):
            variable.assign(value)
        # Made since the last commit: the optimizer had not run yet.
        for variable in found[len(self._saved):]:
            variable.assign(tf.zeros_like(variable))
        super().restore()

    def sync(self) -> None:
        """Give every rank the state of rank 0."""
        # A rank that has just come may not have the optimizer's variables yet.
        counts = broadcast_object(len(self._variables()))
        if len(self._variables()) < counts and hasattr(self.optimizer, 'build'):
            self.optimizer.build(self.model.trainable_variables)
        broadcast_variables(self._variables()[:counts], root_rank=0)
        super().sync()
        self._save_model()

    def _save_model(self) -> None:
        self._saved = [v.numpy() for v in self._variables()]


def _built(model: Any) -> bool:
    return bool(getattr(model, 'built', True))


class TensorFlowState(ObjectState):
    """Variables of a graph of TensorFlow 1, or any list of variables, and objects by keyword."""

    def __init__(self, variables: Optional[Iterable[Any]] = None, session: Any = None, **kwargs):
        self.variables = list(variables) if variables is not None \
            else tf.compat.v1.global_variables()
        self.session = session
        if not tf.executing_eagerly() and session is None:
            self.session = default_session()
        self._broadcast_op: Any = None
        self._inputs: Any = None
        self._saved = self._values()
        bcast = broadcast_object_fn(session=self.session) if self.session else broadcast_object
        super().__init__(bcast_object=bcast, get_rank=rank, **kwargs)

    def _values(self) -> list:
        if self.session is None:
            return [native(v).numpy() for v in self.variables]
        return self.session.run(self.variables)

    def save(self) -> None:
        self._saved = self._values()
        super().save()

    def restore(self) -> None:
        for variable, value in zip(self.variables, self._saved):
            if self.session is None:
                variable.assign(value)
            else:
                variable.load(value, self.session)
        super().restore()

    def sync(self) -> None:
        """Give every rank the values of rank 0."""
        if self.session is None:
            broadcast_variables(self.variables, root_rank=0)
        else:
            if self._broadcast_op is None:
                with self.session.graph.as_default():
                    self._broadcast_op = broadcast_variables(self.variables, root_rank=0)
            self.session.run(self._broadcast_op)
        super().sync()
        self._saved = self._values()
