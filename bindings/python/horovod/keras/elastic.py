# SPDX-License-Identifier: Apache-2.0
"""Elastic training of Keras models, on the framework that Keras computes with."""
import importlib
from typing import Any

import keras

import horovod._keras.elastic as _impl
from horovod._keras import framework

_elastic = importlib.import_module(framework(keras.backend).ELASTIC)
run = _elastic.run
KerasState = _elastic.KerasState

__all__ = ['CommitStateCallback', 'KerasState', 'UpdateBatchStateCallback',
           'UpdateEpochStateCallback', 'run']


class CommitStateCallback(_impl.CommitStateCallbackImpl, keras.callbacks.Callback):
    """Commits the state every batches_per_commit batches, and after each epoch. Put it after those
    that change the state."""

    def __init__(self, state: Any, batches_per_commit: int = 1):
        super().__init__(keras.backend, state, batches_per_commit)


class UpdateBatchStateCallback(_impl.UpdateBatchStateCallbackImpl, keras.callbacks.Callback):
    """Keeps state.batch; an epoch that was interrupted goes on with the batches that it lacks."""

    def __init__(self, state: Any):
        super().__init__(keras.backend, state)


class UpdateEpochStateCallback(_impl.UpdateEpochStateCallbackImpl, keras.callbacks.Callback):
    """Keeps state.epoch: the number of epochs done, over all calls of fit()."""

    def __init__(self, state: Any):
        super().__init__(keras.backend, state)
