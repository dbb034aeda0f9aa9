# SPDX-License-Identifier: Apache-2.0
"""Functions in threads."""
import queue
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence


def execute_function_multithreaded(fn: Callable, args_list: Sequence[Sequence],
                                   block_until_all_done: bool = True,
                                   max_concurrent_executions: int = 1000
                                   ) -> Optional[Dict[int, Any]]:
    """Call fn(*args) for each of args_list, in threads; results by index.

    None without block_until_all_done. The first exception is raised again.
    """
    work: queue.Queue = queue.Queue()
    for item in enumerate(args_list):
        work.put(item)
    results: Dict[int, Any] = {}
    errors: List[BaseException] = []

    def worker() -> None:
        while True:
            try:
                index, args = work.get_nowait()
            except queue.Empty:
                return
            try:
                results[index] = fn(*args)
            except BaseException as error:
                errors.append(error)
                return

    count = min(max_concurrent_executions, len(args_list))
    threads = [in_thread(worker, silent=True) for _ in range(count)]
    if not block_until_all_done:
        return None
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def in_thread(target: Callable, args: Iterable = (), name: Optional[str] = None,
              daemon: bool = True, silent: bool = False) -> threading.Thread:
    """Start target(*args) in a thread. silent: what it raises is not printed."""
    if not isinstance(args, tuple):
        raise ValueError(f'args must be a tuple, not {type(args)}, for a single argument use '
                         '(arg,)')

    def quiet(*arguments: Any) -> None:
        try:
            target(*arguments)
        except Exception:
            pass

    thread = threading.Thread(target=quiet if silent else target, args=args, name=name,
                              daemon=daemon)
    thread.start()
    return thread


def on_event(event: threading.Event, func: Callable, args: Iterable = (),
             stop: Optional[threading.Event] = None, check_stop_interval_s: float = 1.0,
             daemon: bool = True, silent: bool = False) -> threading.Thread:
    """A thread that calls func(*args) once event is set; it ends without when stop is set first."""
    if event is None:
        raise ValueError('Event must not be None')
    if not isinstance(args, tuple):
        raise ValueError(f'args must be a tuple, not {type(args)}, for a single argument use '
                         '(arg,)')
    if stop is None and not daemon:
        raise ValueError('Stop event must be given for non-daemon event thread')

    def wait() -> None:
        while not event.wait(check_stop_interval_s if stop is not None else None):
            if stop is not None and stop.is_set():
                return
        func(*args)

    return in_thread(wait, daemon=daemon, silent=silent)
