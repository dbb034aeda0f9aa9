# SPDX-License-Identifier: Apache-2.0
"""Process sets: some of the ranks, which communicate apart from the others.

A set is a number here; horovod.common.process_sets has objects. All ranks add and remove the same
sets in the same order, whether they are members or not.
"""
import ctypes
from typing import List

from reigen import _core
from reigen._lib import lib, quick


def _known(value: int) -> int:
    if value < 0:
        raise _core.submission_error(value)
    return value


def remove_process_set(process_set: int) -> None:
    """Forget a set; blocks until all ranks have called it. What is in flight in it fails.

    Raises InvalidOperationError when there is no such set, or other ranks remove another one.
    """
    rc, text = _core.interruptible(lambda: lib.reigen_process_set_remove(process_set),
                                   'reigen-process-set')
    if rc < 0:
        raise _core.submission_error(rc, text)


def process_set_ids() -> List[int]:
    """The numbers of all sets, ascending; 0 is that of all ranks."""
    room = 16
    while True:
        numbers = (ctypes.c_int * room)()
        count = _core._known(quick.reigen_process_set_ids(numbers, room))
        if count <= room:
            return list(numbers[:count])
        room = count


def process_set_ranks(process_set: int) -> List[int]:
    """The ranks of a set, ascending. InvalidOperationError when there is none, as below."""
    ranks = (ctypes.c_int * process_set_size(process_set))()
    _known(quick.reigen_process_set_ranks(process_set, ranks, len(ranks)))
    return list(ranks)


def process_set_size(process_set: int) -> int:
    """How many ranks a set has."""
    return _known(quick.reigen_process_set_size(process_set))


def process_set_rank(process_set: int) -> int:
    """This rank's place in a set; InvalidOperationError when it is no member, too."""
    return _known(quick.reigen_process_set_rank(process_set))


def process_set_included(process_set: int) -> bool:
    """True when this rank is a member of the set."""
    return _known(quick.reigen_process_set_included(process_set)) == 1
