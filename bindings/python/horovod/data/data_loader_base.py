# SPDX-License-Identifier: Apache-2.0
"""Data loaders: an interface, and a mix-in that loads in a thread ahead of the training."""
import queue
import threading
from typing import Any, Iterator


class BaseDataLoader:
    """Subclasses define __len__, the number of batches, and _iterate, which yields them."""

    def __len__(self) -> int:
        raise NotImplementedError(f'{type(self).__name__} does not define __len__()')

    def _iterate(self) -> Iterator[Any]:
        raise NotImplementedError(f'{type(self).__name__} does not define _iterate()')

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)

    def _process_batch(self, batch: Any) -> Any:
        """What is made of each batch before it is given out; a trainer may replace it."""
        return batch


class _End:
    """What the thread puts into the queue behind the last batch of a pass: why it ended."""

    def __init__(self, error=None):
        self.error = error


class AsyncDataLoaderMixin:
    """Put before a BaseDataLoader: a thread runs _iterate, pass after pass, and fills a queue.

        class Loader(AsyncDataLoaderMixin, MyDataLoader): ...

    async_loader_queue_size: batches that are loaded ahead; 0 loads in the caller's thread.
    debug_data_loader: print what the thread and the iteration do.
    Call close_async_loader() when done; the thread is a daemon and does not hold up the exit. An
    exception in _iterate is raised by the iteration.
    """

    def __init__(self, async_loader_queue_size: int = 64, debug_data_loader: bool = False,
                 *args: Any, **kwargs: Any):
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        super().__init__(*args, **kwargs)
        self.started = False
        if async_loader_queue_size > 0:
            self.finished_event = threading.Event()
            self.queue: 'queue.Queue[Any]' = queue.Queue(async_loader_queue_size)
            self._make_thread()

    def _make_thread(self) -> None:
        self.thread = threading.Thread(target=self._async_worker, daemon=True)

    def _debug(self, text: str) -> None:
        if self.debug_data_loader:
            print(f'data loader [{self.async_loader_queue_size}]: {text}', flush=True)

    def close_async_loader(self) -> None:
        """End the thread, and drop what it has loaded ahead."""
        if self.async_loader_queue_size <= 0 or not self.started:
            return
        self.finished_event.set()
        dropped = 0
        while self.thread.is_alive():
            try:
                self.queue.get(timeout=0.05)
                dropped += 1
            except queue.Empty:
                pass
        self._debug(f'closed, {dropped} batches dropped')

    def _put(self, item: Any) -> bool:
        """False when the loader is being closed."""
        while not self.finished_event.is_set():
            try:
                self.queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                pass
        return False

    def _async_worker(self) -> None:
        while not self.finished_event.is_set():
            end, count = _End(), 0
            try:
                for batch in self._iterate():
                    if not self._put(batch):
                        return
                    count += 1
            except Exception as error:  # whatever it is, it belongs to the one who iterates
                end = _End(error)
            self._debug(f'{count} batches loaded')
            if not self._put(end) or end.error is not None:
                return

    def __iter__(self) -> Iterator[Any]:
        if self.async_loader_queue_size <= 0:
            for batch in self._iterate():
                yield self._process_batch(batch)
            return
        if self.started and not self.thread.is_alive() and not self.finished_event.is_set():
            # An exception has ended it; this is another try.
            self.started = False
            self._make_thread()
        if not self.started:
            self.started = True
            self.thread.start()
        while True:
            item = self._next()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield self._process_batch(item)

    def _next(self) -> Any:
        while True:
            try:
                return self.queue.get(timeout=0.1)
            except queue.Empty:
                if not self.thread.is_alive() and self.queue.empty():
                    return _End(RuntimeError('The data loader has been closed.'))
