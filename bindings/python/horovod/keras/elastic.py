# SPDX-License-Identifier: Apache-2.0
"""Elastic training of Keras models, on the framework that Keras computes with."""
import importlib

import keras

from horovod._keras import framework, offered

_elastic = importlib.import_module(framework(keras.backend).ELASTIC)
run = _elastic.run
KerasState = _elastic.KerasState

__all__ = ['CommitStateCallback', 'KerasState', 'UpdateBatchStateCallback',
           'UpdateEpochStateCallback', 'run']

_bind = offered.binder(keras, __name__)
CommitStateCallback = _bind(offered.CommitStateCallback)
UpdateBatchStateCallback = _bind(offered.UpdateBatchStateCallback)
UpdateEpochStateCallback = _bind(offered.UpdateEpochStateCallback)
