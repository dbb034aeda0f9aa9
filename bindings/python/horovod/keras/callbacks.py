# SPDX-License-Identifier: Apache-2.0
"""Callbacks for Keras's fit()."""
import keras

from horovod._keras import offered

_bind = offered.binder(keras, __name__)
BroadcastGlobalVariablesCallback = _bind(offered.BroadcastGlobalVariablesCallback)
MetricAverageCallback = _bind(offered.MetricAverageCallback)
LearningRateScheduleCallback = _bind(offered.LearningRateScheduleCallback)
LearningRateWarmupCallback = _bind(offered.LearningRateWarmupCallback)


class BestModelCheckpoint(offered.BestModelCheckpoint, keras.callbacks.ModelCheckpoint):
    __doc__ = offered.BestModelCheckpoint.__doc__

    def __init__(self, monitor='val_loss', verbose=0, mode='auto', save_freq='epoch'):
        super().__init__(monitor, verbose, False, mode, save_freq)
