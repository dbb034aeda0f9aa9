# SPDX-License-Identifier: Apache-2.0
"""Callbacks for Keras's fit()."""
from tensorflow import keras

from horovod._keras import offered

_bind = offered.binder(keras, __name__)
BroadcastGlobalVariablesCallback = _bind(offered.BroadcastGlobalVariablesCallback)
MetricAverageCallback = _bind(offered.MetricAverageCallback)
LearningRateScheduleCallback = _bind(offered.LearningRateScheduleCallback)
LearningRateWarmupCallback = _bind(offered.LearningRateWarmupCallback)
BestModelCheckpoint = _bind(offered.BestModelCheckpoint, keras.callbacks.ModelCheckpoint)
