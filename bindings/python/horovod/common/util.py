# SPDX-License-Identifier: Apache-2.0
"""Small helpers that scripts and the framework modules share."""
import warnings
from typing import Optional

import reigen


def get_average_backwards_compatibility_fun(reduce_ops=reigen):
    """A function (op, average) -> op that understands the old `average` argument."""

    def choose(op: Optional[int], average: Optional[bool]) -> int:
        if op is not None:
            if average is not None:
                raise ValueError('The op parameter supersedes average. Please provide only one of '
                                 'them.')
            return op
        if average is not None:
            warnings.warn('Parameter `average` has been replaced with `op` and will be removed',
                          DeprecationWarning, stacklevel=3)
            return reduce_ops.Average if average else reduce_ops.Sum
        return reduce_ops.Average

    return choose


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank != 0 and num_rank & (num_rank - 1) == 0


def split_list(items, num_parts: int):
    """The list in num_parts runs whose lengths differ by at most one; never an empty run."""
    num_parts = min(num_parts, len(items))
    if num_parts == 0:
        return []
    size, extra = divmod(len(items), num_parts)
    cuts = [i * size + min(i, extra) for i in range(num_parts + 1)]
    return [items[a:b] for a, b in zip(cuts, cuts[1:])]


def check_extension(*_args, **_kwargs) -> None:
    """Nothing is compiled against a framework, so there is nothing to check."""
