# SPDX-License-Identifier: Apache-2.0
"""What horovod.keras and horovod.tensorflow.keras have in common, for Keras 2 and 3.

Keras 3 runs on TensorFlow or on PyTorch; on_tensorflow.py and on_torch.py hold what differs, and
only the one in use is imported.
"""
import functools
import importlib
from typing import Any, Optional

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod._keras.optimizer import CallableList, distribute, distribute_in_place

__all__ = ['CallableList', 'allgather', 'allreduce', 'broadcast', 'broadcast_global_variables',
           'create_distributed_optimizer', 'framework', 'load_model', 'reducescatter']


@functools.lru_cache(maxsize=None)
def framework(backend: Any):
    """The module of the framework that Keras computes with. `backend` is keras.backend."""
    name = backend.backend() if hasattr(backend, 'backend') else 'tensorflow'
    if name not in ('tensorflow', 'torch'):
        raise ImportError(f'Keras computes with {name!r}; Horovod on Reigen trains Keras models '
                          'with TensorFlow and PyTorch: set KERAS_BACKEND to tensorflow or torch.')
    return importlib.import_module(f'horovod._keras.on_{name}')


def create_distributed_optimizer(keras, optimizer, name, device_dense, device_sparse, compression,
                                 sparse_as_dense, gradient_predivide_factor, op,
                                 backward_passes_per_step: int = 1,
                                 average_aggregated_gradients: bool = False, groups=None,
                                 process_set: ProcessSet = global_process_set,
                                 scale_local_gradients: bool = True):
    """A new optimizer like `optimizer`, of a subclass of its class under the same name, so that a
    saved model loads without Horovod."""
    if not hasattr(optimizer, 'apply_gradients') or not hasattr(optimizer, 'get_config'):
        raise ValueError(f'Provided optimizer does not inherit from a Keras optimizer: {optimizer}')
    combiner = framework(keras.backend).Combiner(
        name or f'Distributed{type(optimizer).__name__}', device_dense, device_sparse, compression,
        sparse_as_dense, op, gradient_predivide_factor, groups, process_set,
        backward_passes_per_step, average_aggregated_gradients, scale_local_gradients)
    return distribute(keras, optimizer, combiner)


def broadcast_global_variables(backend, root_rank: int):
    return framework(backend).broadcast_global_variables(backend, root_rank)


def allreduce(backend, value, name, average, prescale_factor, postscale_factor, op, compression):
    """Reduce a number, array or tensor; the result is one that numpy understands."""
    return framework(backend).allreduce(value, name=name, average=average, op=op,
                                        prescale_factor=prescale_factor,
                                        postscale_factor=postscale_factor, compression=compression)


def allgather(backend, value, name):
    return framework(backend).allgather(value, name)


def broadcast(backend, value, root_rank, name):
    return framework(backend).broadcast(value, root_rank, name)


def reducescatter(backend, value, name, op):
    return framework(backend).reducescatter(value, name, op)


def load_model(keras, wrap_optimizer, filepath, custom_optimizers: Optional[list],
               custom_objects: Optional[dict], legacy_opts: bool = False):
    """A saved model whose optimizer reduces gradients.

    wrap_optimizer(optimizer) -> what create_distributed_optimizer() would give for it.
    """
    objects = {}
    legacy = getattr(keras.optimizers, 'legacy', None) if legacy_opts else None
    for name in dir(legacy) if legacy is not None else ():
        cls = getattr(legacy, name)
        if isinstance(cls, type):
            objects.update({name: cls, name.lower(): cls})
    objects.update({cls.__name__: cls for cls in custom_optimizers or ()})
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    if getattr(model, 'optimizer', None) is not None:
        # In place: it holds its state of training, bound to the model's variables.
        distribute_in_place(keras, model, wrap_optimizer, filepath)
    return model
