# SPDX-License-Identifier: Apache-2.0
"""Smaller tensors on the way: Compression.none and Compression.fp16."""
import torch

from horovod.common.compression import Compressor, NoneCompressor


class FP16Compressor(Compressor):
    """Sends floating tensors as float16; they come back in their own type."""

    @staticmethod
    def compress(tensor):
        if tensor.dtype.is_floating_point:
            return tensor.type(torch.float16), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor if ctx is None else tensor.type(ctx)


class Compression:
    """What allreduce() and DistributedOptimizer() take as `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
