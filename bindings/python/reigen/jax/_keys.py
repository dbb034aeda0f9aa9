# SPDX-License-Identifier: Apache-2.0
"""JAX's random keys with a type of their own (jax.random.key): they travel as the numbers that they
consist of."""
from typing import Any, Tuple

import jax


def is_key(value: Any) -> bool:
    """Whether this is an array of such keys, as those of jax.random.key()."""
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype,
                                                                  jax.dtypes.prng_key)


def numbers_of(value: Any) -> Tuple[Any, Any]:
    """(the numbers of keys, whose last dimension is one key's; what made them), or, of anything
    else, (it, None)."""
    if not is_key(value):
        return value, None
    return jax.random.key_data(value), jax.random.key_impl(value)


def keys_of(numbers: Any, made_by: Any) -> Any:
    """What numbers_of() was given, of these numbers."""
    return numbers if made_by is None else jax.random.wrap_key_data(numbers, impl=made_by)
