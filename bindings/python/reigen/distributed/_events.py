# SPDX-License-Identifier: Apache-2.0
"""What torch.profiler sees of a group's operations: for each one "reigen:all_reduce" or the like,
as gloo and NCCL tell of theirs, with the shapes of what it was given. It lasts from the call to the
end of the operation. PyTorch's own event of the call, "c10d::allreduce_", is made here as well
where Python calls a group without a detour through PyTorch's dispatcher, which has it.

PyTorch calls an event asynchronous if it ends in another thread than it began in. So one thread
ends them all; it is there once something has been profiled. An event's end is noted only where
PyTorch's state of the thread that profiles is in force: completing one of its own futures carries
it there. But after the profile's end this would write to memory that is gone: so those that are
open then are ended before. Where nobody profiles, a call costs one look at a variable.
"""
import contextlib
import functools
import itertools
import queue
import threading
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set

import torch
from torch._C._profiler import _RecordFunctionFast as Record
from torch.autograd import profiler

from reigen import _core
from reigen._lib import Done as DoneFunction, lib

#: How long who has seen the end of an operation waits for the end of its event, in seconds.
_END_S = 1.0

_numbers = itertools.count(1)
#: By the number that C hands back.
_open: Dict[int, 'Event'] = {}
_queue: 'queue.SimpleQueue[Event]' = queue.SimpleQueue()
#: Held while an event begins or ends.
_lock = threading.Lock()
_ongoing: 'Set[Event]' = set()
_there = _hooked = False
_here = threading.local()


def _run(waiting: 'queue.SimpleQueue[Event]') -> None:
    while True:
        event = waiting.get()
        event.finish()
        del event


def _forked() -> None:
    global _queue, _lock, _there
    _queue, _lock, _there = queue.SimpleQueue(), threading.Lock(), False
    _open.clear()
    _ongoing.clear()


def _end_before(disable: Callable) -> Callable:
    """PyTorch's function that ends a profile, after all events."""
    @functools.wraps(disable)
    def ending() -> Any:
        with _lock:
            events = list(_ongoing)
        for event in events:
            event.finish()
        return disable()
    return ending


def _prepare() -> None:
    """Once something is profiled; with the lock."""
    global _there, _hooked
    if not _there:
        threading.Thread(target=_run, args=(_queue,), daemon=True, name='reigen-events').start()
    if not _hooked:
        profiler._disable_profiler = _end_before(profiler._disable_profiler)
    _there = _hooked = True


_core.after_fork.append(_forked)


class Event:
    """It has begun. Each of its parts calls end(), in any thread; it ends with the last one."""

    def __init__(self, name: str, inputs: Iterator[torch.Tensor]):
        self._lock, self._parts, self._ended = threading.Lock(), 1, threading.Event()
        self._future: torch.futures.Future = torch.futures.Future()
        with _lock:
            _prepare()
            torch.ops.profiler._call_end_callbacks_on_jit_fut(
                torch.autograd._record_function_with_args_enter(name, *inputs), self._future)
            _ongoing.add(self)

    def split(self, parts: int) -> None:
        """One of its parts is so many."""
        with self._lock:
            self._parts += parts
        self.end()

    def end(self) -> None:
        with self._lock:
            self._parts -= 1
            last = self._parts == 0
        if last:
            _queue.put(self)

    def end_with(self, handles: Sequence[int]) -> None:
        """The parts are operations of the runtime."""
        self.split(len(handles))
        for handle in handles:
            number = next(_numbers)
            _open[number] = self
            if lib.reigen_on_done(handle, _on_done, number) < 0 and _open.pop(number, None):
                self.end()  # its end has been seen

    def finish(self) -> None:
        with _lock:
            if self in _ongoing:
                _ongoing.discard(self)
                self._future.set_result(None)
        self._ended.set()

    def wait(self) -> None:
        """A profile that ends now has the whole of it."""
        self._ended.wait(_END_S)


@DoneFunction
def _on_done(number: int, handle: int, status: int) -> None:
    event = _open.pop(number, None)
    if event is not None:
        event.end()


def _as_real(several: Any) -> Iterator[torch.Tensor]:
    for tensor in several:
        if isinstance(tensor, torch.Tensor):
            yield torch.view_as_real(tensor) if tensor.is_complex() else tensor
        elif isinstance(tensor, (list, tuple)):
            yield from _as_real(tensor)


def call(group: Any, method: Callable, args: Any, kwargs: Any, name: str, operator: str,
         inputs: Any) -> Any:
    """method(group, *args, **kwargs), with its events; those that it calls have none."""
    _here.busy = True
    try:
        direct = group.CALLED_DIRECTLY
        with Record(f'c10d::{operator}', []) if direct else contextlib.nullcontext():
            event = Event(f'reigen:{name}', _as_real(inputs))
            try:
                work = method(group, *args, **kwargs)
            except BaseException:
                event.end()
                event.wait()
                raise
    finally:
        _here.busy = False
    tell_end = getattr(work, 'tell_end', None)
    if tell_end is None:
        event.end()
        event.wait()
    else:
        tell_end(event)
    return work


def wanted() -> bool:
    """Somebody profiles, and this thread is in no operation that has an event."""
    return profiler._is_profiler_enabled and not getattr(_here, 'busy', False)


def told(name: str, operator: str, inputs: Callable[[List[Any]], Any]) -> Any:
    """A decorator of a group's methods. inputs: of their arguments, the tensors that are told."""
    def decorate(method: Callable) -> Callable:
        @functools.wraps(method)
        def telling(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not profiler._is_profiler_enabled or not wanted():
                return method(self, *args, **kwargs)
            given = inputs(list(args) + list(kwargs.values()))
            return call(self, method, args, kwargs, name, operator, given)
        return telling
    return decorate
