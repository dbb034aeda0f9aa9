# SPDX-License-Identifier: Apache-2.0
"""DistributedGradientTape: a tf.GradientTape whose gradient() combines what all ranks found."""
import functools
from typing import Any, Optional, Sequence

import tensorflow as tf

from horovod._keras.groups import local_weights
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.tensorflow.compression import Compression
from horovod.tensorflow.gradients import GradientReducer, LocalVariables, check_groups
from horovod.tensorflow.mpi_ops import Average


@functools.lru_cache(maxsize=None)
def _distributed(base: type) -> type:
    """A subclass of a tape's class, under its name."""

    class Distributed(base):

        def register_local_source(self, source: Any) -> None:
            """This variable is of this rank only: its gradient is not reduced."""
            self._horovod_local.add(source)

        def gradient(self, target, sources, output_gradients=None, use_generic_names=False,
                     **kwargs):
            """As tf.GradientTape.gradient(), then reduced over the ranks. use_generic_names: know
            the gradients by their places, for ranks whose graphs have different names."""
            if isinstance(use_generic_names, tf.UnconnectedGradients):  # tf.GradientTape's fourth
                kwargs['unconnected_gradients'], use_generic_names = use_generic_names, False
            grads = super().gradient(target, sources, output_gradients, **kwargs)
            # A gradient may be None or tf.IndexedSlices, both of which nest takes apart: the
            # structure is that of the sources.
            flat = tf.nest.flatten(sources)
            reduce = functools.partial(self._horovod_reduce, generic_names=use_generic_names)
            found = self._horovod_local.apart(_leaves(sources, grads), flat, reduce)
            return tf.nest.pack_sequence_as(sources, found)

        def get_local_and_global_gradients(self, target, sources, output_gradients=None,
                                           use_generic_names=False):
            """What gradient() gives, as two lists of (source, gradient): of the sources that are
            of this rank only, and of all others."""
            grads = self.gradient(target, sources, output_gradients, use_generic_names)
            local, shared = [], []
            for source, grad in zip(tf.nest.flatten(sources), _leaves(sources, grads)):
                (local if source in self._horovod_local else shared).append((source, grad))
            return local, shared

    Distributed.__name__ = base.__name__
    Distributed.__qualname__ = base.__qualname__
    return Distributed


def _leaves(structure: Any, values: Any) -> list:
    """The values that lie where the structure has its leaves, in the order of tf.nest.flatten."""
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure)
                for leaf in _leaves(structure[key], values[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for part, value in zip(structure, values) for leaf in _leaves(part, value)]
    return [values]


def DistributedGradientTape(gradtape: tf.GradientTape, device_dense: str = '',
                            device_sparse: str = '', compression=Compression.none,
                            sparse_as_dense: bool = False, op: int = Average,
                            gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                            groups=None, process_set: ProcessSet = global_process_set,
                            scale_local_gradients: bool = True) -> tf.GradientTape:
    """A tape that shares the recording of `gradtape` and reduces what gradient() gives.

    groups: how many groups of gradients to reduce together, or lists of variables. The gradients of
    variables given to register_local_source() stay as they are, divided by the number of ranks
    unless scale_local_gradients is False.
    """
    groups = check_groups(num_groups, groups)
    reducer = GradientReducer('DistributedGradientTape', device_dense, device_sparse, compression,
                              sparse_as_dense, op, gradient_predivide_factor, groups, process_set)
    tape = object.__new__(_distributed(type(gradtape)))
    tape.__dict__.update(gradtape.__dict__)
    tape._horovod_reduce = reducer
    tape._horovod_local = LocalVariables(scale_local_gradients, process_set)
    tape.process_set, tape.scale_local_gradients = process_set, scale_local_gradients
    return tape


def PartialDistributedGradientTape(gradtape: tf.GradientTape, device_dense: str = '',
                                   device_sparse: str = '', compression=Compression.none,
                                   sparse_as_dense: bool = False, op: int = Average,
                                   gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                                   groups=None, process_set: ProcessSet = global_process_set,
                                   local_layers: Optional[Sequence[Any]] = None,
                                   scale_local_gradients: bool = True) -> tf.GradientTape:
    """As DistributedGradientTape; the trainable weights of local_layers are of each rank only."""
    tape = DistributedGradientTape(gradtape, device_dense, device_sparse, compression,
                                   sparse_as_dense, op, gradient_predivide_factor, num_groups,
                                   groups, process_set, scale_local_gradients)
    for variable in local_weights(local_layers):
        tape.register_local_source(variable)
    return tape
