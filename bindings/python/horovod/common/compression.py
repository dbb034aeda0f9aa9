# SPDX-License-Identifier: Apache-2.0
"""What the compressions of horovod.torch and horovod.tensorflow begin with."""


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
