# SPDX-License-Identifier: Apache-2.0
"""A function on the workers of a Dask cluster, as the ranks of one job:

    from dask.distributed import Client
    from reigen import dask

    losses = dask.run(Client(...), train, np=4)

Dask places the processes and carries the function, its arguments and what it returns; Reigen
carries the tensors. Within the function `import horovod.torch as hvd`, hvd.init() and the rest of
Reigen work as in any rank. docs/boot.md says more.
"""
import asyncio
import contextlib
import itertools
import threading
import time
import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

try:
    import distributed
except ImportError as error:
    raise ImportError('reigen.dask needs Dask, here and on the workers: pip install '
                      'distributed') from error

import reigen
from reigen import boot
from reigen.errors import HorovodInternalError

#: Seconds between two looks at whether Dask still has the workers, and those that are left to the
#: others when a rank has failed.
_LOOK_S, _END_S = 1.0, 10.0


class _Table:
    """Where ranks meet: an actor of Dask's, on one of the workers."""

    def __init__(self, size: int):
        self._size = size
        self._blobs: Dict[int, Dict[int, bytes]] = {}
        self._full: Dict[int, asyncio.Event] = {}

    async def gather(self, turn: int, index: int, blob: bytes, timeout: float) -> List[bytes]:
        blobs = self._blobs.setdefault(turn, {})
        full = self._full.setdefault(turn, asyncio.Event())
        blobs[index] = blob
        if len(blobs) == self._size:
            full.set()
        try:
            await asyncio.wait_for(full.wait(), timeout)
        except asyncio.TimeoutError:
            missing = sorted(set(range(self._size)) - set(blobs))
            raise TimeoutError(f'worker(s) {", ".join(map(str, missing))} of {self._size} did not '
                               f'come within {timeout:g} s') from None
        return [blobs[i] for i in range(self._size)]


def _rank(table: Any, index: int, size: int, timeout: float, function: Callable, args: Sequence,
          kwargs: Mapping) -> Any:
    """On a worker: (rank, what the function returns)."""
    turns = itertools.count()
    gather = table.gather  # Dask finds its worker by this thread; join() calls from another one

    def allgather(blob: bytes, limit: float) -> List[bytes]:
        return gather(next(turns), index, blob, limit).result()

    with boot.lent(allgather, index, size, timeout=timeout) as rank:
        return rank, function(*args, **kwargs)


def _leave() -> None:
    """On a worker, in its event loop: operations in flight end, so that the function does."""
    threading.Thread(target=reigen.shutdown, name='reigen-leave', daemon=True).start()


def _choose(client: distributed.Client, np: Optional[int], workers: Optional[Sequence[str]],
            timeout: float) -> List[str]:
    """Addresses of the workers that become ranks."""
    if np is not None and np < 1:
        raise ValueError(f'np is {np}: it is a number of ranks, 1 or more')
    if workers is None:
        client.wait_for_workers(np or 1, timeout)
    known = client.nthreads()
    asked = sorted(known) if workers is None else list(workers)
    gone = [worker for worker in asked if worker not in known]
    if gone:
        raise ValueError(f'{gone[0]} is no worker of this cluster, which has '
                         f'{", ".join(sorted(known)) or "none"}')
    if len(set(asked)) < len(asked):
        raise ValueError('workers names one of them twice: a worker is one rank')
    if np is not None and np > len(asked):
        raise ValueError(f'np is {np}, and workers names {len(asked)}')
    return asked[:np]


def _lost(client: distributed.Client, ranks: Mapping[Any, str]) -> List[Any]:
    """Futures whose worker Dask has no more: they would wait for it for ever."""
    known = client.nthreads()
    return [future for future, worker in ranks.items() if worker not in known]


def _failure(client: distributed.Client, ranks: Mapping[Any, str],
             seconds: float) -> Optional[BaseException]:
    """Wait for all, or for the first failure and then for the others that long. What came first;
    that a rank was lost, which its neighbours are told too, only if there is nothing else."""
    waiting, errors, end = set(ranks), [], float('inf')
    while waiting and time.monotonic() < end:
        with contextlib.suppress(distributed.TimeoutError, TimeoutError):
            distributed.wait(waiting, timeout=_LOOK_S, return_when='FIRST_COMPLETED')
        for future in [one for one in waiting if one.done()]:
            waiting.remove(future)
            if future.status != 'finished':
                errors.append(future.exception())
        for future in _lost(client, {one: ranks[one] for one in waiting}):
            waiting.remove(future)
            errors.append(RuntimeError(f'the worker {ranks[future]} was lost'))
        if errors and end == float('inf'):
            end = time.monotonic() + seconds
            if waiting:  # Dask might take no workers for all
                client.run(_leave, workers=[ranks[one] for one in waiting], on_error='ignore')
    return min(errors, key=lambda error: isinstance(error, HorovodInternalError), default=None)


def run(client: distributed.Client, function: Callable, args: Sequence = (),
        kwargs: Optional[Mapping] = None, *, np: Optional[int] = None,
        workers: Optional[Sequence[str]] = None, timeout: float = 60.0) -> List[Any]:
    """Call function(*args, **kwargs) on np workers of the cluster, each of which is one rank of a
    job meanwhile, and return what the ranks returned, in their order.

    np: all workers, unless told; waits for them to come. workers: addresses, in place of any.
    timeout: seconds for them to come, and again to join. Other tasks may run on these workers
    beside it, but no second job. Raises ValueError for workers that are not there, and what the
    function raised on the rank that failed first: the operations of the others end then, and up to
    10 s are left to them. RuntimeError when a worker is lost.
    """
    if client.asynchronous:
        raise TypeError('this client is asynchronous, and run() waits: give it another one, '
                        'Client(client.scheduler.address)')
    chosen = _choose(client, np, workers, timeout)
    token = uuid.uuid4().hex
    table = client.submit(_Table, len(chosen), actor=True, workers=chosen[:1],
                          key=f'reigen-table-{token}').result(timeout)
    ranks = {client.submit(_rank, table, index, len(chosen), timeout, function, args, kwargs or {},
                           workers=[worker], retries=0, pure=False,
                           key=f'reigen-rank-{token}-{index}'): worker
             for index, worker in enumerate(chosen)}
    try:
        error = _failure(client, ranks, _END_S)
        if error is not None:
            raise error
        pairs = client.gather(list(ranks))
        return [result for _, result in sorted(pairs, key=lambda pair: pair[0])]
    except KeyboardInterrupt:
        client.run(_leave, workers=chosen, on_error='ignore')
        with contextlib.suppress(distributed.TimeoutError, TimeoutError):
            distributed.wait(list(ranks), timeout=_END_S)  # the next job may want the workers
        raise
    finally:
        client.cancel(list(ranks))
