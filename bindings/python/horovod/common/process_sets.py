# SPDX-License-Identifier: Apache-2.0
"""Process sets. This version has the global one."""
from typing import Iterable, List, Optional

import reigen

_ONLY_GLOBAL = ('Process sets other than the global one are not offered by this version of Reigen.')


class ProcessSet:
    """Some of the ranks. Only global_process_set can be used; others can be described."""

    process_set_id: Optional[int] = None

    def __init__(self, ranks: Iterable[int]):
        self.ranks: Optional[List[int]] = sorted(ranks)

    def size(self) -> Optional[int]:
        """How many ranks it has; None while it is not registered."""
        return reigen.size() if self.process_set_id == 0 else None

    def rank(self) -> Optional[int]:
        """This process's number in it; None while it is not registered."""
        return reigen.rank() if self.process_set_id == 0 else None

    def included(self) -> Optional[bool]:
        """True when this process belongs to it; None while it is not registered."""
        return True if self.process_set_id == 0 else None

    def __repr__(self) -> str:
        return f'ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})'


class _GlobalProcessSet(ProcessSet):
    process_set_id = 0

    def __init__(self):
        super().__init__([])

    @property
    def ranks(self) -> Optional[List[int]]:
        return list(range(reigen.size())) if reigen.is_initialized() else None

    @ranks.setter
    def ranks(self, value) -> None:
        pass


global_process_set = _GlobalProcessSet()


def check(process_set: ProcessSet) -> None:
    """Raise ValueError unless operations can run on this set."""
    if process_set is not global_process_set and getattr(process_set, 'process_set_id', None) != 0:
        raise ValueError(_ONLY_GLOBAL)


def add_process_set(process_set) -> ProcessSet:
    """Refused with a ValueError by this version."""
    raise ValueError(_ONLY_GLOBAL)


def remove_process_set(process_set: ProcessSet) -> bool:
    """False: there is none that could be removed."""
    return False
