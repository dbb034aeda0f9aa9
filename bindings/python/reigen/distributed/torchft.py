# SPDX-License-Identifier: Apache-2.0
"""Reigen for torchft, whose Manager makes process groups of the replica groups that live:

    from reigen.distributed.torchft import ProcessGroupReigen
    manager = torchft.Manager(pg=ProcessGroupReigen(timeout=timedelta(seconds=30)), ...)

It needs the package torchft. docs/distributed.md tells with which versions this was tried.
"""
from datetime import timedelta
from typing import Any, Optional

from torchft.process_group import ProcessGroupWrapper

from reigen._observe import diagnose
from reigen.distributed import _groups


class ProcessGroupReigen(ProcessGroupWrapper):
    """A process group that torchft makes again of other processes. A process has one at a time, and
    no other group of the backend "reigen" beside it: the groups within a replica group need another
    backend. Threads: as torchft's own groups; a thread of torchft's calls configure().

    timeout: of the making of a group, and of each of its operations."""

    def __init__(self, timeout: timedelta = timedelta(seconds=60)):
        super().__init__(timeout)

    def _create_pg(self, store: Any, rank: int, world_size: int) -> Any:
        return _groups.alone(store, rank, world_size, self._timeout)

    def errored(self) -> Optional[Exception]:
        """Why this group cannot go on, if it cannot. It does not block."""
        if self._pg is None:
            return None
        try:
            cause = diagnose(0)['failure']
        except (ValueError, OSError):
            return None
        return None if cause is None else RuntimeError(cause)

    def shutdown(self) -> None:
        """The end of the last group."""
        self.abort(errored=False)

    def getBackendName(self) -> str:
        return 'torchft-reigen'
