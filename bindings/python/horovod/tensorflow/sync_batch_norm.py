# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all ranks, for Keras 2 and 3."""
import tensorflow as tf

from horovod.tensorflow.collectives import allreduce
from horovod.tensorflow.mpi_ops import Sum, size
from horovod.tensorflow.util import alone


_KERAS_2 = hasattr(tf.keras.layers.BatchNormalization, '_calculate_mean_and_var')


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """As BatchNormalization, with mean and variance of the whole batch of all ranks.

    Each rank contributes per channel its count, sum and sum of squares to one allreduce, so that
    batches may differ in size.
    """

    def __init__(self, fused: bool = False, **kwargs):
        if fused in (True, None):
            raise ValueError('SyncBatchNormalization does not support fused=True.')
        if _KERAS_2:
            kwargs['fused'] = False
        super().__init__(**kwargs)

    if _KERAS_2:
        def _calculate_mean_and_var(self, inputs, reduction_axes, keep_dims, mask=None):
            if alone(size()):
                return super()._calculate_mean_and_var(inputs, reduction_axes, keep_dims, mask)
            return _moments_of_all(inputs, reduction_axes, keep_dims, mask)
    else:
        def _moments(self, inputs, mask):
            if alone(size()):
                return super()._moments(inputs, mask)
            return _moments_of_all(inputs, self._reduction_axes, False, mask)


def _moments_of_all(inputs, axes, keep_dims, mask=None):
    """(mean, variance) per channel over the batches of all ranks."""
    axes = list(axes)
    wide = tf.cast(inputs, tf.float32) if inputs.dtype.size < 4 else inputs
    if mask is None:
        counted = tf.ones_like(wide)
    else:
        counted = tf.cast(tf.broadcast_to(tf.expand_dims(mask, -1), tf.shape(wide)), wide.dtype)
    total = tf.stack([tf.reduce_sum(counted, axes), tf.reduce_sum(wide * counted, axes),
                      tf.reduce_sum(wide * wide * counted, axes)])
    count, first, second = tf.unstack(allreduce(total, op=Sum))
    count = tf.maximum(count, 1)
    mean = first / count
    variance = tf.maximum(second / count - mean * mean, 0)
    if keep_dims:
        shape = [1 if i in axes else -1 for i in range(inputs.shape.rank)]
        mean, variance = tf.reshape(mean, shape), tf.reshape(variance, shape)
    return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)
