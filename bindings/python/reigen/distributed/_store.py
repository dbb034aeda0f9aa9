# SPDX-License-Identifier: Apache-2.0
"""How the members of a group agree before there is anything between them but c10d's store.

An exchange is an allgather of bytes: rank 0 collects what the others have set, and sets all of it
at once, so that each of the others waits for one key, however many ranks there are.
"""
import struct
import time
from typing import Any, List, Optional

from torch.distributed import DistStoreError

from reigen import _core
from reigen._observe import diagnose
from reigen.distributed._work import failure

#: How long who waits sleeps before it asks the store again, in seconds: at first, and at most. The
#: store's own wait holds the thread: no exception that another one sets would come through, and no
#: end of the group. A short one of these writes a warning each time.
_ASK_S, _ASK_MAX_S = 0.0005, 0.05


class Late(TimeoutError, DistStoreError):
    """Some did not come in time."""


def _cause() -> Optional[str]:
    """Why the runtime does not go on, if it is joined and does not: it hears of ranks that die."""
    if not _core.is_initialized():
        return None
    try:
        return diagnose(0)['failure']
    except (ValueError, OSError):
        return None  # it has just been left, or is built without observers


class Exchanges:
    """Exchanges between `size` ranks over a store that is the group's own."""

    def __init__(self, store: Any, rank: int, size: int, timeout: float):
        self.rank, self.size = rank, size
        self._store = store
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._count = 0
        self._stopped = False
        self._turn = 0

    @property
    def turn(self) -> int:
        """A store may outlive a group, and the next one of this name uses it again: the how manyth
        it is. 1 where nothing is exchanged."""
        return self._turn or 1

    def stop(self) -> None:
        """Have who waits give up. Any thread; it does not block."""
        self._stopped = True

    def check(self) -> None:
        """Raise RuntimeError if stop() has been called."""
        if self._stopped:
            raise failure('The process group was aborted while it was being made.')

    def _look(self) -> None:
        """Raise if there is no use in waiting."""
        self.check()
        if time.monotonic() >= self._deadline:
            raise Late(self._missing())
        cause = _cause()
        if cause is not None:
            raise failure(cause)

    def _wait(self, keys: List[str]) -> None:
        pause = _ASK_S
        while not self._store.check(keys):
            self._look()
            time.sleep(pause)
            pause = min(2 * pause, _ASK_MAX_S)

    def _missing(self) -> str:
        """Who has not come to the exchange that did not end in time."""
        here = f'reigen/{self._turn}/{self._count - 1}'
        missing = [str(rank) for rank in range(self.size)
                   if rank != self.rank and not self._store.check([f'{here}/{rank}'])]
        who = f'rank(s) {", ".join(missing)}' if missing else 'some ranks'
        return (f'Timed out: {who} of the group did not come to make a process group of '
                f'{self.size} ranks within {self._timeout:g} s.')

    def exchange(self, blob: bytes) -> List[bytes]:
        """What each rank has handed over."""
        if self.size == 1:
            return [blob]
        try:
            return self._exchange(blob)
        except RuntimeError as error:
            # A store that has gone, perhaps with its rank: who died first is the better answer.
            cause = _cause()
            if cause is None or isinstance(error, Late):
                raise
            raise failure(cause) from error

    def _exchange(self, blob: bytes) -> List[bytes]:
        self._look()  # also where nobody is left to wait for: all ranks are to hear the same
        if not self._turn:
            self._turn = self._store.add(f'reigen/{self.rank}', 1)
        key = f'reigen/{self._turn}/{self._count}'
        self._count += 1
        if self.rank:
            self._store.set(f'{key}/{self.rank}', blob)
            self._wait([f'{key}/all'])
            return _unpack(self._store.get(f'{key}/all'), self.size)
        self._store.set(f'{key}/0', b'')  # for those that ask who is missing
        others = [f'{key}/{rank}' for rank in range(1, self.size)]
        self._wait(others)
        blobs = [blob, *(bytes(self._store.get(other)) for other in others)]
        self._store.set(f'{key}/all', b''.join(struct.pack('<Q', len(b)) + b for b in blobs))
        return blobs


def _unpack(packed: bytes, size: int) -> List[bytes]:
    blobs, at = [], 0
    for _ in range(size):
        length, = struct.unpack_from('<Q', packed, at)
        blobs.append(bytes(packed[at + 8:at + 8 + length]))
        at += 8 + length
    return blobs
