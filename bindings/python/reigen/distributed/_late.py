# SPDX-License-Identifier: Apache-2.0
"""Allreduces of a backward pass that begin at its end.

DDP asks for an allreduce as soon as a bucket of gradients is there, and waits for all of them at
the end of the backward pass. Where the ranks fill the cores, nothing is won by an early start: the
runtime's thread takes the core from the backward pass, or the ranks wait for each other at each
bucket. There, such an operation begins at the end of the pass, in the thread that would wait for it
then, by a persistent request.

Only what is asked for straight by C++ in a backward pass comes here: that is DDP's reducer, which
gives its futures to nobody. PyTorch calls the functions of queue_callback in their order, and ours
is there before that in which DDP waits. What else this process does with a group begins the waiting
ones first, so that no rank waits for another in a circle; and a thread does so after a while, as a
rank may wait for something that is not Reigen's, or its backward pass may have failed.
"""
import sys
import time
from typing import Any

import torch

from reigen.distributed import _work
from reigen.distributed._work import Pending, begin_all, failure, waiting

#: So many are enough; of one group they must be fewer than names.
_WAITING_MAX = 32
#: One that waits for so long begins.
_LATE_S = 0.5

_task_id = torch._C._current_graph_task_id
_queue_callback = torch.autograd.Variable._execution_engine.queue_callback
_BACKWARD = getattr(getattr(torch.autograd.graph, '_engine_run_backward', None), '__code__', None)
#: The backward pass whose end calls run_all().
_task = -1


def wanted() -> bool:
    """The caller's caller is C++ in a backward pass of this thread."""
    try:
        return sys._getframe(2).f_code is _BACKWARD and _task_id() != -1
    except ValueError:  # there is none
        return False


class Late(Pending):
    """An allreduce in place, of memory at address, that has not begun. key: Engine.reserve's."""

    def __init__(self, engine: Any, key: Any, address: int, tensors: Any):
        global _task
        super().__init__((), tensors, tensors, engine)
        self._key, self._address = key, address
        self._begun = False
        self._future = torch.futures.Future()
        if len(waiting) >= _WAITING_MAX:
            run_all()
        waiting.append(self)
        task = _task_id()
        if task != _task:
            _task = task
            _queue_callback(_at_end)
        _work.watch.need()

    def begin(self) -> None:
        """Now, in the background. Who calls it has taken it from those that wait."""
        try:
            self._handles = (self._engine.start_reserved(self._key, self._address, self._address),)
        except Exception as error:
            self._is_over(error)
            return
        self._begun = True
        self._tell()

    def run(self) -> None:
        """Now, to the end; otherwise as begin()."""
        error: Any = failure('The operation was interrupted.')
        try:
            self._engine.run_reserved(self._key, self._address, self._keep, begin_all)
            error = None
        except Exception as found:
            error = found
        finally:
            self._is_over(error)

    def _is_over(self, error: Any) -> None:
        with self._lock:
            self._error = error
            self._over = True
            self._keep = None
        self.complete()

    def drop(self) -> None:
        self._is_over(failure('This process group has been aborted or destroyed.'))

    def is_late(self) -> bool:
        return time.monotonic() > self._deadline - self._timeout + _LATE_S

    def get_future(self) -> torch.futures.Future:
        return self._future

    def wait(self, timeout: Any = None) -> bool:
        if not self._begun and not self._over:
            run_all()
        if self._begun:
            return super().wait(timeout)
        if not self._over:
            self._future.wait()  # another thread is at it
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        if not self._begun and not self._over:
            begin_all()
        return super().is_completed() if self._begun else self._over


def run_all() -> None:
    """All that wait begin and end, in this thread."""
    try:
        while waiting:
            waiting.popleft().run()
    except IndexError:
        return  # as above
    finally:
        begin_all()


def _at_end() -> None:
    global _task
    _task = -1
    run_all()


def drop(engine: Any) -> None:
    """A group is no more."""
    for work in [work for work in waiting if work._engine is engine]:
        try:
            waiting.remove(work)
        except ValueError:
            continue  # another thread has been quicker
        work.drop()
