# SPDX-License-Identifier: Apache-2.0
"""What reigen_init_meeting asks of those who have a way of their own to agree (reigen.h)."""
import ctypes
import errno
from typing import Any, Callable, List, Optional

from reigen._lib import Fence, Meeting


class Gathering:
    """A struct reigen_meeting over exchange(), an allgather of bytes in the order of the ranks.
    failed: why it ended badly, if a fence has."""

    def __init__(self, rank: int, size: int, exchange: Callable[[bytes], List[bytes]]):
        self.failed: Optional[BaseException] = None
        self._size, self._exchange = size, exchange
        self._blobs: List[Any] = []
        self.meeting = Meeting(rank, size, Fence(self._fence), None)

    def _fence(self, arg, blob, nbytes, timeout_ms, ret_blobs, ret_nbytes):
        try:
            blobs = self._exchange(ctypes.string_at(blob, nbytes))
            # C reads them until the next fence.
            self._blobs = [ctypes.create_string_buffer(b, max(len(b), 1)) for b in blobs]
            addresses = (ctypes.c_void_p * self._size).from_address(ret_blobs)
            sizes = (ctypes.c_size_t * self._size).from_address(ret_nbytes)
            for i, (buffer, b) in enumerate(zip(self._blobs, blobs)):
                addresses[i] = ctypes.addressof(buffer)
                sizes[i] = len(b)
            return 0
        except TimeoutError as error:
            self.failed = error
            return -errno.ETIMEDOUT
        except BaseException as error:
            self.failed = error
            return -errno.EIO
