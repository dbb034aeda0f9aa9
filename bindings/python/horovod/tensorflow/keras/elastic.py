# SPDX-License-Identifier: Apache-2.0
"""Elastic training of tf.keras models."""
from typing import Any

from tensorflow import keras

from horovod._keras import offered
from horovod.tensorflow.elastic import TensorFlowKerasState, run

__all__ = ['CommitStateCallback', 'KerasState', 'UpdateBatchStateCallback',
           'UpdateEpochStateCallback', 'run']


class KerasState(TensorFlowKerasState):
    """A Keras model, its optimizer, and any objects given by keyword."""

    def __init__(self, model: Any, optimizer: Any = None, **kwargs):
        super().__init__(model, optimizer=optimizer, backend=keras.backend, **kwargs)


_bind = offered.binder(keras, __name__)
CommitStateCallback = _bind(offered.CommitStateCallback)
UpdateBatchStateCallback = _bind(offered.UpdateBatchStateCallback)
UpdateEpochStateCallback = _bind(offered.UpdateEpochStateCallback)
