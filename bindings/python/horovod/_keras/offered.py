# SPDX-License-Identifier: Apache-2.0
"""What horovod.keras and horovod.tensorflow.keras offer.

Each of the two has its own functions and classes, since `keras` and `tensorflow.keras` may be two
different ones in one process. They bear the module's name, by which pickle finds them.
"""
from types import SimpleNamespace
from typing import Any, Optional, Sequence

import horovod._keras as _impl
from horovod._keras.callbacks import (BroadcastGlobalVariablesCallbackImpl,
                                      LearningRateScheduleCallbackImpl,
                                      LearningRateWarmupCallbackImpl, MetricAverageCallbackImpl)
from horovod._keras.elastic import (CommitStateCallbackImpl, UpdateBatchStateCallbackImpl,
                                    UpdateEpochStateCallbackImpl)
from horovod._keras.groups import check_groups, local_weights
from horovod.common.process_sets import ProcessSet, global_process_set


def binder(keras: Any, module: str) -> Any:
    """bind(cls, base): a class of `module` that derives from one of those here, which finds Keras
    as self._keras, and from a base class of Keras, Callback by default."""
    def bind(cls: type, base: Any = keras.callbacks.Callback) -> Any:
        return type(cls.__name__, (cls, base),
                    {'__module__': module, '__doc__': cls.__doc__, '_keras': keras})

    return bind


class BroadcastGlobalVariablesCallback(BroadcastGlobalVariablesCallbackImpl):
    """All ranks get root_rank's variables, with Keras 3 before the first batch and after it, with
    Keras 2 after it: model and optimizer start from the same point, whether initialised or loaded.

    local_variables: variables that stay each rank's own.
    """

    def __init__(self, root_rank: int, device: str = '', local_variables=None):
        super().__init__(self._keras.backend, root_rank, device)
        for variable in local_variables or ():
            self.register_local_var(variable)


class MetricAverageCallback(MetricAverageCallbackImpl):
    """At the end of an epoch the metrics become their means over the ranks. Put it before callbacks
    that use them, such as ReduceLROnPlateau or TensorBoard."""

    def __init__(self, device: str = ''):
        super().__init__(self._keras.backend, device)


class LearningRateScheduleCallback(LearningRateScheduleCallbackImpl):
    """The learning rate is initial_lr * multiplier(epoch) from start_epoch up to end_epoch.

    multiplier: a number, or a function of the epoch, which is fractional without `staircase`;
    steps_per_epoch is then needed where Keras cannot know it. momentum_correction: the velocity of
    optimizers with momentum is scaled together with the learning rate.
    """

    def __init__(self, initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True,
                 momentum_correction=True, steps_per_epoch=None):
        super().__init__(self._keras.backend, initial_lr, multiplier, start_epoch, end_epoch,
                         staircase, momentum_correction, steps_per_epoch)


class LearningRateWarmupCallback(LearningRateWarmupCallbackImpl):
    """The learning rate rises from initial_lr / size to initial_lr within warmup_epochs, batch by
    batch (Goyal et al., "Accurate, Large Minibatch SGD", 2017)."""

    def __init__(self, initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None,
                 verbose=0):
        super().__init__(self._keras.backend, initial_lr, warmup_epochs, momentum_correction,
                         steps_per_epoch, verbose)


class CommitStateCallback(CommitStateCallbackImpl):
    """Commits the state every batches_per_commit batches, and after each epoch. Put it after those
    that change the state."""

    def __init__(self, state: Any, batches_per_commit: int = 1):
        super().__init__(self._keras.backend, state, batches_per_commit)


class UpdateBatchStateCallback(UpdateBatchStateCallbackImpl):
    """Keeps state.batch; an epoch that was interrupted goes on with the batches that it lacks."""

    def __init__(self, state: Any):
        super().__init__(self._keras.backend, state)


class UpdateEpochStateCallback(UpdateEpochStateCallbackImpl):
    """Keeps state.epoch: the number of epochs done, over all calls of fit()."""

    def __init__(self, state: Any):
        super().__init__(self._keras.backend, state)


class BestModelCheckpoint:
    """Keeps the best model only. Set `filepath` before training."""

    def __init__(self, monitor='val_loss', verbose=0, save_weights_only=False, mode='auto',
                 save_freq='epoch'):
        path = 'best.weights.h5' if save_weights_only else 'best.keras'
        super().__init__(path, monitor=monitor, verbose=verbose,
                         save_best_only=True, save_weights_only=save_weights_only, mode=mode,
                         save_freq=save_freq)
        self.filepath = None


def functions(keras: Any, module: str) -> SimpleNamespace:
    """The functions of `module`, which is for that Keras."""
    found = [*_optimizers(keras), *_collectives(keras), _load_model(keras)]
    for function in found:
        function.__module__, function.__qualname__ = module, function.__name__
    return SimpleNamespace(**{f.__name__: f for f in found})


def _optimizers(keras: Any) -> tuple:
    hvd = _impl.framework(keras.backend).hvd

    def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, device_dense: str = '',
                             device_sparse: str = '', compression=hvd.Compression.none,
                             sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                             op: int = hvd.Average, backward_passes_per_step: int = 1,
                             average_aggregated_gradients: bool = False, num_groups: int = 0,
                             groups=None, process_set: ProcessSet = global_process_set,
                             scale_local_gradients: bool = True) -> Any:
        """A new Keras optimizer like `optimizer` that applies the gradients of all ranks.

        backward_passes_per_step: reduce and apply every n-th batch only, with the sum of n
        gradients, or their average with average_aggregated_gradients; `iterations` counts batches.
        gradient_predivide_factor: divide by it before the sum over the ranks, by size / factor
        after it. groups: how many groups of gradients to reduce together, or lists of variables.
        """
        if gradient_predivide_factor != 1.0 and op != hvd.Average:
            raise ValueError('gradient_predivide_factor not supported with op != Average')
        if op != hvd.Average and op != hvd.Sum:
            raise ValueError('op currently only supports Average and Sum')
        return _impl.create_distributed_optimizer(
            keras, optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
            gradient_predivide_factor, op, backward_passes_per_step, average_aggregated_gradients,
            check_groups(num_groups, groups), process_set, scale_local_gradients)

    def PartialDistributedOptimizer(optimizer: Any, name: Optional[str] = None,
                                    device_dense: str = '', device_sparse: str = '',
                                    compression=hvd.Compression.none, sparse_as_dense: bool = False,
                                    gradient_predivide_factor: float = 1.0, op: int = hvd.Average,
                                    backward_passes_per_step: int = 1,
                                    average_aggregated_gradients: bool = False, groups=None,
                                    process_set: ProcessSet = global_process_set, local_layers=None,
                                    scale_local_gradients: bool = True) -> Any:
        """As DistributedOptimizer; the trainable weights of local_layers are of each rank only."""
        found = DistributedOptimizer(
            optimizer, name, device_dense, device_sparse, compression, sparse_as_dense,
            gradient_predivide_factor, op, groups=groups, process_set=process_set,
            backward_passes_per_step=backward_passes_per_step,
            average_aggregated_gradients=average_aggregated_gradients,
            scale_local_gradients=scale_local_gradients)
        for variable in local_weights(local_layers):
            found.register_local_var(variable)
        return found

    return DistributedOptimizer, PartialDistributedOptimizer


def _collectives(keras: Any) -> tuple:
    hvd = _impl.framework(keras.backend).hvd

    def broadcast_global_variables(root_rank: int):
        """Give all ranks the global variables of root_rank: a graph of TensorFlow 1, in its
        session."""
        return _impl.broadcast_global_variables(keras.backend, root_rank)

    def allreduce(value: Any, name: Optional[str] = None, average: Optional[bool] = None,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                  op: Optional[int] = None, compression=hvd.Compression.none):
        """Reduce a number, array or tensor over the ranks: a tensor, or in a graph of TensorFlow 1
        its value."""
        return _impl.allreduce(keras.backend, value, name, average, prescale_factor,
                               postscale_factor, op, compression)

    def allgather(value: Any, name: Optional[str] = None):
        """Concatenate along the first dimension, in the order of ranks; as allreduce()."""
        return _impl.allgather(keras.backend, value, name)

    def broadcast(value: Any, root_rank: int, name: Optional[str] = None):
        """root_rank's value on every rank; as allreduce()."""
        return _impl.broadcast(keras.backend, value, root_rank, name)

    def reducescatter(value: Any, name: Optional[str] = None, op: int = hvd.Average):
        """Reduce over the ranks, and keep this rank's rows; as allreduce()."""
        return _impl.reducescatter(keras.backend, value, name, op)

    return broadcast_global_variables, allreduce, allgather, broadcast, reducescatter


def _load_model(keras: Any) -> Any:
    used = _impl.framework(keras.backend)

    def load_model(filepath: Any, custom_optimizers: Optional[Sequence[type]] = None,
                   custom_objects: Optional[dict] = None, compression=used.Compression.none,
                   legacy_opts: bool = False) -> Any:
        """A saved model, with its optimizer as DistributedOptimizer would have made it, in the
        state of training in which it was saved. custom_optimizers: classes that Keras does not
        know; legacy_opts: take the optimizers of that name from keras.optimizers.legacy (Keras 2).
        """
        def combiner(optimizer):
            return used.Combiner(
                f'Distributed{type(optimizer).__name__}', '', '', compression, False, used.Average,
                1.0, None, global_process_set, 1, False, True)

        return _impl.load_model(keras, combiner, filepath, custom_optimizers, custom_objects,
                                legacy_opts)

    return load_model
