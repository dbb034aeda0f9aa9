# SPDX-License-Identifier: Apache-2.0
"""Smaller tensors on the way: Compression.none and Compression.fp16."""
import torch


class Compressor:
    """compress(tensor) -> (tensor, ctx); decompress(tensor, ctx) -> tensor."""

    @staticmethod
    def compress(tensor):
        raise TypeError('a Compressor defines compress()')

    @staticmethod
    def decompress(tensor, ctx):
        raise TypeError('a Compressor defines decompress()')


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


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
