# SPDX-License-Identifier: Apache-2.0
"""The callbacks of horovod.keras and horovod.tensorflow.keras, without Keras's base class."""
import zlib
from typing import Any, Callable, Union

import numpy as np

from horovod._keras import framework

_NO_STEPS = ('Could not autodetect the number of steps per epoch. Please specify the '
             'steps_per_epoch parameter to the {}() or upgrade to the latest version of Keras.')


def optimizer_variables(optimizer: Any) -> list:
    """The variables of an optimizer: a method in old versions of Keras, else a property."""
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def _is_keras_3(optimizer: Any) -> bool:
    return hasattr(optimizer, 'stateless_apply')


def _number(value: Any) -> float:
    return value.numpy() if hasattr(value, 'numpy') else value


class BroadcastGlobalVariablesCallbackImpl:
    """After the first batch, when all variables exist, all ranks get those of root_rank.

    With Keras 3 they get them before it too: there the variables exist when training begins, and
    gradients of ranks with weights of their own would spoil the first step of all.
    """

    def __init__(self, backend: Any, root_rank: int, device: str = '', *args):
        super().__init__(*args)
        self.backend = backend
        self.root_rank = root_rank
        self.device = device
        self.broadcast_done = False
        self._local = []

    def register_local_var(self, var: Any) -> None:
        """This variable is of this rank only."""
        self._local.append(var)

    def _shared(self, variables) -> list:
        return [v for v in variables if not any(v is local for local in self._local)]

    def _variables(self) -> list:
        variables = self._shared(self.model.weights)
        if getattr(self.model, 'optimizer', None) is not None:
            variables += optimizer_variables(self.model.optimizer)
        return variables

    def _alike(self, variables: list) -> bool:
        """Whether all ranks have variables of the same shapes and types. One that has loaded a
        model, which the others have yet to build, may have more."""
        shapes = repr([(tuple(v.shape), str(v.dtype)) for v in variables])
        found = framework(self.backend).allgather(
            np.array([zlib.crc32(shapes.encode())], np.int64), name='keras.variables.shapes')
        return len(set(np.asarray(found).tolist())) == 1

    def on_train_begin(self, logs=None):
        if self.broadcast_done or not _is_keras_3(getattr(self.model, 'optimizer', None)):
            return
        variables = self._variables()
        if self._alike(variables):
            framework(self.backend).broadcast_now(self.backend, variables, self.root_rank)

    def on_batch_end(self, batch, logs=None):
        if self.broadcast_done:
            return
        framework(self.backend).broadcast_now(self.backend, self._variables(), self.root_rank)
        self.broadcast_done = True


class MetricAverageCallbackImpl:
    """At the end of an epoch the metrics become their means over the ranks. Put it before callbacks
    that use them."""

    def __init__(self, backend: Any, device: str = '', *args):
        super().__init__(*args)
        self.backend = backend
        self.device = device

    def on_epoch_end(self, epoch, logs=None):
        numbers = {}
        for name, value in (logs or {}).items():
            try:
                numbers[name] = float(value)
            except (TypeError, ValueError):
                continue
        if numbers:
            logs.update(framework(self.backend).average_metrics(
                numbers, f'metrics.{len(numbers)}'))


class LearningRateScheduleCallbackImpl:
    """The learning rate is initial_lr * multiplier(epoch) from start_epoch up to end_epoch.

    multiplier: a number, or a function of the epoch, which is fractional without `staircase`. With
    momentum_correction the velocity of an optimizer with momentum is scaled by the same factor as
    the learning rate: in Keras it is a sum of steps, which contain the rate of their time (Goyal et
    al., "Accurate, Large Minibatch SGD", 2017).
    """

    def __init__(self, backend: Any, initial_lr: float,
                 multiplier: Union[float, Callable[[float], float]], start_epoch: int = 0,
                 end_epoch: int = None, staircase: bool = True, momentum_correction: bool = True,
                 steps_per_epoch: int = None, *args):
        super().__init__(*args)
        if initial_lr is None:
            raise ValueError('Parameter `initial_lr` is required')
        self.backend = backend
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = None
        if callable(multiplier):
            self.multiplier = multiplier
        else:
            self.staircase = True
            self.multiplier = lambda epoch: multiplier

    def _optimizer(self):
        optimizer = self.model.optimizer
        return getattr(optimizer, 'inner_optimizer', optimizer)

    def _get_lr(self) -> float:
        optimizer = self._optimizer()
        if _is_keras_3(optimizer):
            return float(_number(optimizer.learning_rate))
        return float(self.backend.get_value(optimizer.learning_rate))

    def _set_lr(self, value: float) -> None:
        optimizer = self._optimizer()
        if _is_keras_3(optimizer):
            optimizer.learning_rate = value
        else:
            self.backend.set_value(optimizer.learning_rate, value)

    def _velocities(self) -> list:
        """The variables in which the optimizer sums up steps; none without momentum."""
        optimizer = self._optimizer()
        momentum = getattr(optimizer, 'momentum', None)
        if momentum is None:
            return []
        if hasattr(optimizer, 'get_slot_names'):
            if 'momentum' not in optimizer.get_slot_names():
                return []
            return [optimizer.get_slot(v, 'momentum') for v in self.model.trainable_variables]
        found = getattr(optimizer, 'momentums', None) or getattr(optimizer, '_momentums', None)
        return [v for v in found or () if v is not None]

    def _adjust(self, epoch: float) -> None:
        old = self._get_lr()
        new = self.initial_lr * self.multiplier(epoch)
        if new == old:
            return
        self._set_lr(new)
        if not self.momentum_correction or old <= 0:
            return
        for velocity in self._velocities():
            if _is_keras_3(self._optimizer()):
                velocity.assign(velocity * (new / old))
            else:
                self.backend.set_value(velocity, self.backend.get_value(velocity) * (new / old))

    def on_train_begin(self, logs=None):
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get('steps') or self._steps_of_samples()

    def _steps_of_samples(self) -> int:
        if self.params.get('samples') and self.params.get('batch_size'):
            return self.params['samples'] // self.params['batch_size']
        raise ValueError(_NO_STEPS.format(type(self).__name__))

    def on_epoch_begin(self, epoch, logs=None):
        self.current_epoch = epoch

    def on_batch_begin(self, batch, logs=None):
        epoch = self.current_epoch
        if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
            return
        if not self.staircase:
            self._adjust(epoch + float(batch) / self.steps_per_epoch)
        elif batch == 0:
            self._adjust(epoch)

    def on_batch_end(self, batch, logs=None):
        """Nothing: the correction of momentum needs no undoing."""

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs['lr'] = self._get_lr()


class LearningRateWarmupCallbackImpl(LearningRateScheduleCallbackImpl):
    """The learning rate rises from initial_lr / size to initial_lr within warmup_epochs."""

    def __init__(self, backend: Any, initial_lr: float, warmup_epochs: int = 5,
                 momentum_correction: bool = True, steps_per_epoch: int = None, verbose: int = 0,
                 *args):
        def multiplier(epoch):
            # Full at the end of the last step of the warm-up.
            epoch += 1.0 / self.steps_per_epoch
            size = framework(backend).size()
            return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

        super().__init__(backend, initial_lr, multiplier, 0, warmup_epochs, False,
                         momentum_correction, steps_per_epoch, *args)
        self.verbose = verbose

    def on_epoch_end(self, epoch, logs=None):
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose > 0:
            print(f'\nEpoch {epoch + 1}: finished gradual learning rate warmup to '
                  f'{self._get_lr():g}.')
