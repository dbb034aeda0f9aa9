# SPDX-License-Identifier: Apache-2.0
"""Operations on CUDA tensors: their Work, in terms of PyTorch's streams.

An operation begins after what the stream of its submission has then. wait() makes the current
stream wait for it, and not the host, where the runtime has put it on its own stream already. A
future completes when that has been done: torch's futures of a device remember the stream that they
are completed on, and make the stream of those who wait for them wait for that one.
"""
import threading
from typing import Any, Callable, Dict, Optional, Sequence

import torch

from reigen._core import SLICE_MS
from reigen._lib import lib
from reigen.distributed._work import Pending, tensors_in
from reigen.torch import _device

#: By device: the stream that futures are completed on.
_streams: Dict[int, Any] = {}


class OnStream(Pending):
    """As Pending; index: the device that all tensors are on."""

    def __init__(self, handles: Sequence[int], keep: Any, outputs: Any, engine: Any,
                 finish: Optional[Callable[[Sequence[int]], None]], index: int):
        super().__init__(handles, keep, outputs, engine, finish)
        self._index = index
        self._submitted_on = _device.stream_of(index)
        self._ended_on: Any = None
        self._ending = threading.Lock()

    def _record(self) -> None:
        """The current stream uses the tensors: who allocates must know, if it is another one."""
        if _device.stream_of(self._index) != self._submitted_on:
            stream = torch.cuda.current_stream(self._index)
            for tensor in tensors_in((self._keep, self._outputs)):
                if tensor.is_cuda:
                    tensor.record_stream(stream)

    def _end(self, told: bool = False) -> None:
        if not self._over and (self._promise is None or told):
            _device.within(self._index, self._end_in_order, told)

    def _end_in_order(self, told: bool) -> None:
        with self._ending:
            if self._over:
                return
            for handle in self._handles:  # they are done: the current stream comes after them
                lib.reigen_wait(handle, SLICE_MS)
            self._record()
            self._ended_on = torch.cuda.current_stream(self._index)
            super()._end(told)

    def _await(self, timeout: Any) -> None:
        _device.within(self._index, super()._await, timeout)

    def _drive(self) -> None:
        """The device is at work while the host goes on."""

    def _follow(self) -> None:
        """What ended on another stream is before what this one gets next."""
        if self._ended_on is not None:
            stream = torch.cuda.current_stream(self._index)
            if stream.cuda_stream != self._ended_on.cuda_stream:
                stream.wait_stream(self._ended_on)
                self._record()

    def wait(self, timeout: Any = None) -> bool:
        super().wait(timeout)
        self._follow()
        return True

    # ------------------------------------------------------------------ futures

    def _told_of_end(self) -> None:
        """complete() does it: here is a thread of C's."""

    def complete(self) -> None:
        try:
            self._complete_in_order()
        except RuntimeError as error:
            # The device has failed, perhaps: PyTorch says so, and who waits is to be told.
            self._error = self._error or error
            if not self._promise.future.done():
                self._promise.fail(self._error)

    def _complete_in_order(self) -> None:
        if self._index not in _streams:
            _streams[self._index] = torch.cuda.Stream(self._index)
        with torch.cuda.stream(_streams[self._index]):
            if self._open == 0:
                self._end(told=True)
                self._follow()
            super().complete()
