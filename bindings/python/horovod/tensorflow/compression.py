# SPDX-License-Identifier: Apache-2.0
"""Smaller tensors on the way: Compression.none, Compression.fp16 and Compression.bf16."""
import tensorflow as tf

from horovod.common.compression import Compressor, NoneCompressor


class _CastCompressor(Compressor):
    """Sends floating tensors in another type; they come back in their own."""

    dtype = tf.float16

    @classmethod
    def compress(cls, tensor):
        if tensor.dtype.is_floating and tensor.dtype != cls.dtype:
            return tf.cast(tensor, cls.dtype), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor if ctx is None else tf.cast(tensor, ctx)


class FP16Compressor(_CastCompressor):
    """Sends floating tensors as float16."""


class BF16Compressor(_CastCompressor):
    """Sends floating tensors as bfloat16: the range of float32 at half its size."""

    dtype = tf.bfloat16


class Compression:
    """What allreduce(), the tape and the optimizers take as `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
