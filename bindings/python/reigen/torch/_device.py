# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors: where they are, and what the runtime is told of PyTorch's streams.

This is the one file of the binding that asks torch.cuda for something. C keeps, for each thread,
the device and stream that it works with (reigen_use_device). It is told them for the length of a
call only, by enter() and leave(), so that outside of these a thread's tensors are the host's, and
what is done with CPU tensors costs nothing more. Streams are PyTorch's current ones, of the thread
that calls:

    submission    the operation begins after what the current stream has now
    synchronize   the current stream of then waits for it; the host does not, where NCCL serves it
    poll          asks the device whether it is done
    release       what C has allocated is free when the current stream has come so far

Memory: PyTorch's allocator gives memory that nobody refers to to whoever asks next on the stream it
was allocated on, and knows nothing of the runtime's stream. So the tensors of an operation are kept
until synchronize() has made the current stream wait for it. From then on whatever is put on that
stream comes after the operation. Where that is another stream than the one of the submission, the
tensors are recorded for it (record_stream), as the allocator would look at the first one only.

For those who submit by themselves: of() and common() tell where tensors are, submit() takes a
_handles.Pending, enter() and leave() surround calls of C.
"""
from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple

import torch

from reigen import _core, _handles, _lib
from reigen.errors import HorovodInternalError, InvalidOperationError

#: The device of tensors in the host's memory.
HOST = -1

_CAPTURED = ('The current stream is being captured into a CUDA graph, and operations among ranks '
             'cannot be part of one. Capture the computation alone, and call Horovod after the '
             'capture and after each replay(): with DistributedOptimizer capture forward and '
             'backward of the model without its hooks, or do not use torch.cuda.graph() here.')

_use = _lib.quick.reigen_use_device
#: PyTorch's own quick way, where this PyTorch has been built for CUDA.
_raw_stream = getattr(torch._C, '_cuda_getCurrentRawStream', None)


def of(tensor: torch.Tensor) -> int:
    """The number of the CUDA device that the tensor is on, or HOST."""
    if tensor.is_cpu:
        return HOST
    if tensor.is_cuda:
        return tensor.device.index
    raise ValueError(f'A tensor on {tensor.device} was given, and Reigen takes those on the CPU '
                     'and on CUDA devices: move it with tensor.cpu() first.')


def common(tensors: Iterable[torch.Tensor]) -> int:
    """As of(), for all tensors of one call; ValueError where they are in different places."""
    first: Any = None
    place = HOST
    for tensor in tensors:
        here = of(tensor)
        if first is None:
            first, place = tensor, here
        elif here != place:
            raise ValueError(f'The tensors of one call are in different places, on {first.device} '
                             f'and on {tensor.device}: move them to one device.')
    return place


def stream_of(index: int) -> int:
    """The current stream of this thread on a device, as an address."""
    if _raw_stream is not None:
        return _raw_stream(index)
    return torch.cuda.current_stream(index).cuda_stream


def enter(index: int, stream: Optional[int] = None) -> None:
    """This thread's calls of C go with this device and stream (its current one), until leave().

    Raises InvalidOperationError (a ValueError) where there is no such device, no driver or one that
    is too old, or this process has been forked from one that uses a GPU; HorovodInternalError where
    the device has failed.
    """
    rc = _use(index, stream_of(index) if stream is None else stream)
    if rc < 0:
        error = HorovodInternalError if rc == _core.BROKEN else InvalidOperationError
        raise error(_core.last_error(), -rc)


def leave() -> None:
    """This thread's calls of C go with the host's memory again."""
    _use(HOST, None)


def within(index: int, call: Callable[..., Any], *arguments: Any) -> Any:
    """What the call gives, with this device and its current stream. As it is to tell what has
    happened to a device that has failed, this is not told before it."""
    _use(index, stream_of(index))
    try:
        return call(*arguments)
    finally:
        leave()


def there(index: int, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call, between enter() and leave()."""
    def inside():
        enter(index)
        try:
            return call()
        finally:
            leave()
    return inside


def empty(shape: Sequence[int], dtype: torch.dtype, index: int) -> torch.Tensor:
    """A new tensor on the device."""
    return torch.empty(tuple(shape), dtype=dtype, device=torch.device('cuda', index))


def copy_output(handle: int, to: torch.Tensor) -> None:
    """C's result of an operation into the tensor. On a GPU it goes on the current stream, between
    enter() and leave()."""
    rc = _lib.lib.reigen_output_copy(handle, to.data_ptr(), to.numel() * to.element_size())
    if rc < 0:
        raise _core.operation_error(rc, _core.last_error())


def suggest(index: int) -> None:
    """This rank uses the device, where it has used none yet. Without GPUs nothing happens."""
    if torch.cuda.is_available():
        enter(index)
        leave()


def own() -> torch.device:
    """The device that this rank puts new CUDA tensors on."""
    return torch.device('cuda', torch.cuda.current_device())


class Streams:
    """The streams on which the tensors of one call have been computed, where there may be several:
    backward() computes each gradient on the stream of its forward."""

    def __init__(self):
        self._streams: Dict[Tuple[int, int], Any] = {}  # by device and address

    def note(self, index: int) -> None:
        """A tensor is there in the order of this thread's current stream."""
        key = index, stream_of(index)
        if key not in self._streams:
            self._streams[key] = torch.cuda.current_stream(index)

    def gather(self) -> None:
        """The current stream waits for the others, and they are forgotten."""
        for (index, address), stream in self._streams.items():
            if address != stream_of(index):
                torch.cuda.current_stream(index).wait_stream(stream)
        self._streams.clear()


class OnDevice(_handles.Pending):
    """An operation on CUDA tensors: another Pending, whose calls of C go with the right stream.

    keep: the tensors that C has the addresses of.
    """

    # Whoever asks for the outcome later has another current stream than this thread, perhaps.
    stays = True

    def __init__(self, pending: _handles.Pending, index: int, keep: Sequence[torch.Tensor]):
        self._pending, self._index, self._keep = pending, index, keep
        self._stream = stream_of(index)
        self.turn = pending.turn

    def start(self) -> int:
        enter(self._index, self._stream)
        try:
            return self._pending.start()
        finally:
            leave()

    def test(self) -> int:
        return self._pending.test()

    def wait(self, timeout_ms: int) -> int:
        return within(self._index, self._pending.wait, timeout_ms)

    def error(self) -> str:
        return self._pending.error()

    def result(self, rc: int) -> Any:
        if stream_of(self._index) != self._stream:
            stream = torch.cuda.current_stream(self._index)
            for tensor in self._keep:
                tensor.record_stream(stream)
        if not self._pending.allocates:
            return self._pending.result(rc)
        return within(self._index, self._pending.result, rc)

    def release(self) -> None:
        if self._pending.allocates:
            within(self._index, self._pending.release)
        else:
            self._pending.release()
        self._keep = ()


def submit(pending: _handles.Pending, index: int, keep: Sequence[torch.Tensor]) -> int:
    """As _handles.submit, of an operation whose tensors are all on this device or, with HOST, in
    the host's memory. keep: those tensors."""
    if index == HOST:
        return _handles.submit(pending)
    try:
        return _handles.submit(OnDevice(pending, index, keep))
    except InvalidOperationError as error:
        if torch.cuda.is_current_stream_capturing():
            raise InvalidOperationError(_CAPTURED, error.errno) from None
        raise


def submitter(*tensors: torch.Tensor) -> Callable[[_handles.Pending], int]:
    """What submits an operation on these tensors."""
    index = common(tensors)
    return lambda pending: submit(pending, index, tensors)


def _forked() -> None:
    # The fork may have been between enter() and leave().
    leave()


_core.after_fork.append(_forked)
