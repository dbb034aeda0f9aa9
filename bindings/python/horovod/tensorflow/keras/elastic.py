# SPDX-License-Identifier: Apache-2.0
"""Elastic training of tf.keras models."""
from typing import Any

from tensorflow import keras

import horovod._keras.elastic as _impl
from horovod.tensorflow.elastic import TensorFlowKerasState, run

__all__ = ['CommitStateCallback', 'KerasState', 'UpdateBatchStateCallback',
           'UpdateEpochStateCallback', 'run']


class KerasState(TensorFlowKerasState):
    """A Keras model, its optimizer, and any objects given by keyword."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs):
        super().__init__(model, optimizer=optimizer, backend=keras.backend, **kwargs)


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
