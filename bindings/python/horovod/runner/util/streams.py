# SPDX-License-Identifier: Apache-2.0
"""A pipe between threads."""
import threading
from typing import Any, Optional


class Pipe:
    """What is written comes out of read(), a buffer at a time; the writer waits for the reader."""

    def __init__(self):
        self._buffer: Optional[Any] = None
        self._closed = False
        self._changed = threading.Condition()

    def write(self, buf: Any) -> None:
        """Wait until the last buffer was read, then leave this one. RuntimeError once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._buffer is None or self._closed)
            if self._closed:
                raise RuntimeError('Pipe is closed')
            if len(buf):
                self._buffer = buf
                self._changed.notify_all()

    def read(self, length: int = -1) -> Optional[Any]:
        """Wait for a buffer; at most length items of it. None when closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._buffer is not None or self._closed)
            if self._buffer is None:
                return None
            whole = self._buffer
            taken = whole if length <= 0 else whole[:length]
            self._buffer = whole[len(taken):] or None
            self._changed.notify_all()
            return taken

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
