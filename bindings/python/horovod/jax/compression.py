# SPDX-License-Identifier: Apache-2.0
"""Smaller arrays on the way: Compression.none, .fp16 and .bf16."""
from typing import Any, Tuple

import jax.numpy as jnp


class Compressor:
    """compress(array) -> (array, ctx); decompress(array, ctx) -> array. Both work under jit."""

    @staticmethod
    def compress(array: Any) -> Tuple[Any, Any]:
        raise TypeError('a Compressor defines compress()')

    @staticmethod
    def decompress(array: Any, ctx: Any) -> Any:
        raise TypeError('a Compressor defines decompress()')


class NoneCompressor(Compressor):
    """Leaves arrays as they are."""

    @staticmethod
    def compress(array: Any) -> Tuple[Any, Any]:
        return array, None

    @staticmethod
    def decompress(array: Any, ctx: Any) -> Any:
        return array


class _CastCompressor(Compressor):
    dtype: Any = None

    @classmethod
    def compress(cls, array: Any) -> Tuple[Any, Any]:
        array = jnp.asarray(array)
        if jnp.issubdtype(array.dtype, jnp.floating) and array.dtype != cls.dtype:
            return array.astype(cls.dtype), array.dtype
        return array, None

    @staticmethod
    def decompress(array: Any, ctx: Any) -> Any:
        return array if ctx is None else array.astype(ctx)


class FP16Compressor(_CastCompressor):
    """Sends floating arrays as float16; they come back in their own type."""

    dtype = jnp.float16


class BF16Compressor(_CastCompressor):
    """Sends floating arrays as bfloat16, which keeps float32's range."""

    dtype = jnp.bfloat16


class Compression:
    """What allreduce() and DistributedOptimizer() take as `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
