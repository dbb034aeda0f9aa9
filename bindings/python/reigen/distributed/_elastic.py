# SPDX-License-Identifier: Apache-2.0
"""How the first group of an elastic job's epoch meets.

init_process_group("reigen") goes by RANK, WORLD_SIZE and MASTER_ADDR elsewhere. A process that has
lost others knows its new number only when the launcher has the next epoch together, and rank 0 may
be gone, with the store. So here the runtime is joined first. It tells the numbers, and where the
store is that its rank 0 has made.
"""
import json
import os
import socket
from datetime import timedelta
from typing import Any, Iterator, Optional, Tuple

from torch.distributed import TCPStore

from reigen import _core, _objects
from reigen.distributed import _p2p, _world
from reigen.distributed._work import failure
from reigen.errors import HorovodInternalError

_CALL_S = 10.0
#: The program has said that it goes on in its process.
_in_place = False


def in_place() -> None:
    """Say that this program makes a new group in the same process when ranks are lost: it catches
    the error, calls destroy_process_group(), or aborts the group, and init_process_group("reigen")
    again. Without this the launcher of an elastic job ends all processes then, and starts new
    ones. All ranks say it, before or after init_process_group; it does nothing in other jobs."""
    global _in_place
    _in_place = True
    if _core.is_initialized():
        _core.go_on(failed=False)


def hosts_changed() -> bool:
    """Whether hosts have come or are to go, so that it is time for a new group. All ranks call it
    together, and all get the same answer. Raises RuntimeError when a rank has been lost."""
    mine = b'1' if _core.epoch().update & _core.HOSTS_CHANGED else b'0'
    try:
        return _objects.broadcast_bytes(mine, 0, 'reigen.distributed.hosts') == b'1'
    except HorovodInternalError as error:
        raise failure(str(error)) from error


def _reachable(words: Any) -> str:
    """The address at which this process reaches rank 0's store. OSError: there is none."""
    if words['here'] == _p2p._here():
        return '127.0.0.1'
    tried = []
    for host in words['hosts']:
        try:
            socket.create_connection((host, words['port']), timeout=_CALL_S).close()
            return host
        except OSError as error:
            tried.append(f'{host}: {error}')
    raise OSError('; '.join(tried) or 'no address of its host is known')


def _make_store(timeout: timedelta) -> TCPStore:
    """A store for the runtime's ranks, which all of them have reached when this returns. Raises
    HorovodInternalError when one has died meanwhile, and RuntimeError on all ranks when one that
    lives has not reached it."""
    store, words = None, b''
    if _core.rank() == 0:
        store = TCPStore('127.0.0.1', 0, _core.size(), True, timeout, wait_for_workers=False,
                         multi_tenant=True)
        address = _p2p.listen()
        words = json.dumps({'here': address['here'], 'hosts': address['hosts'],
                            'port': store.port}).encode()
    where = json.loads(_objects.broadcast_bytes(words, 0, 'reigen.distributed.store'))
    problem = ''
    try:
        host, port = _reachable(where), where['port']
        store = store or TCPStore(host, port, _core.size(), False, timedelta(seconds=_CALL_S))
        os.environ.update(MASTER_ADDR=host, MASTER_PORT=str(port))
    except (OSError, RuntimeError) as error:
        problem = str(error)
    # If rank 0 has died, this tells so, and the next epoch has another store.
    problems = _objects.allgather_bytes(problem.encode(), 'reigen.distributed.reached')
    for rank, text in enumerate(problems):
        if text:
            raise failure(f'rank {rank} cannot reach the store of rank 0 at port {where["port"]}: '
                          + text.decode())
    store.set_timeout(timeout)
    return store


def _meet(timeout: timedelta, ours: bool) -> Optional[TCPStore]:
    """The store of an epoch; or None when a rank has been lost before all had it."""
    try:
        store = _make_store(timeout)
        _world.introduce()
        return store
    except HorovodInternalError as error:
        if not ours or not _core.lost(error):
            raise failure(str(error)) from error
        return None


def rendezvous(timeout: timedelta) -> Iterator[Tuple[TCPStore, int, int]]:
    """What env:// yields: a store, this rank and how many there are. Ranks that are lost meanwhile
    are made up for by the epoch after that. Each epoch has a store of its own, and its ranks know
    each other when this yields: a loss after that is for the first operation to tell.

    timeout: the store's. How long it takes until an epoch is together is the launcher's affair.
    Raises RuntimeError when a rank cannot reach the store of rank 0, on all ranks; and when a rank
    is lost in a job that hvd.init() has joined."""
    while True:
        ours = _world.join(timeout.total_seconds())
        if _in_place:
            _core.go_on(failed=False)
        store = _meet(timeout, ours)
        if store is not None:
            break
        _core.shutdown()
    yield store, _core.rank(), _core.size()
