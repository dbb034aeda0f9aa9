# SPDX-License-Identifier: Apache-2.0
"""Callbacks for Keras's fit()."""
import keras

import horovod._keras.callbacks as _impl


class BroadcastGlobalVariablesCallback(_impl.BroadcastGlobalVariablesCallbackImpl,
                                       keras.callbacks.Callback):
    """All ranks get root_rank's variables, with Keras 3 before the first batch and after it, with
    Keras 2 after it: model and optimizer start from the same point, whether initialised or loaded.

    local_variables: variables that stay each rank's own.
    """

    def __init__(self, root_rank: int, device: str = '', local_variables=None):
        super().__init__(keras.backend, root_rank, device)
        for variable in local_variables or ():
            self.register_local_var(variable)


class MetricAverageCallback(_impl.MetricAverageCallbackImpl, keras.callbacks.Callback):
    """At the end of an epoch the metrics become their means over the ranks. Put it before callbacks
    that use them, such as ReduceLROnPlateau or TensorBoard."""

    def __init__(self, device: str = ''):
        super().__init__(keras.backend, device)


class LearningRateScheduleCallback(_impl.LearningRateScheduleCallbackImpl,
                                   keras.callbacks.Callback):
    """The learning rate is initial_lr * multiplier(epoch) from start_epoch up to end_epoch.

    multiplier: a number, or a function of the epoch, which is fractional without `staircase`;
    steps_per_epoch is then needed where Keras cannot know it. momentum_correction: the velocity of
    optimizers with momentum is scaled together with the learning rate.
    """

    def __init__(self, initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True,
                 momentum_correction=True, steps_per_epoch=None):
        super().__init__(keras.backend, initial_lr, multiplier, start_epoch, end_epoch, staircase,
                         momentum_correction, steps_per_epoch)


class LearningRateWarmupCallback(_impl.LearningRateWarmupCallbackImpl, keras.callbacks.Callback):
    """The learning rate rises from initial_lr / size to initial_lr within warmup_epochs, batch by
    batch (Goyal et al., "Accurate, Large Minibatch SGD", 2017)."""

    def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None,
                 verbose=0):
        super().__init__(keras.backend, initial_lr, warmup_epochs, momentum_correction,
                         steps_per_epoch, verbose)


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """Keeps the best model only. Set `filepath` before training."""

    def __init__(self, monitor='val_loss', verbose=0, mode='auto', save_freq='epoch'):
        super().__init__('best.keras', monitor=monitor, verbose=verbose,
                         save_best_only=True, save_weights_only=False, mode=mode,
                         save_freq=save_freq)
        self.filepath = None
