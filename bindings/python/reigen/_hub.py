# SPDX-License-Identifier: Apache-2.0
"""The side of the program that asks a cluster for processes (horovod.spark): it numbers those that
come, lets them find each other, and hears what they print and how they end. One job each."""
import multiprocessing
import os
import queue
import socket
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from reigen._frames import KEY_NBYTES, Line


class Event(NamedTuple):
    """What came, of the process of that index: 'here'; 'again', another process of that index;
    'out'; 'end'; 'lost', its line was cut. 'over': the cluster has no more to do; index -1."""
    kind: str
    index: int
    fields: Dict[str, Any]
    data: bytes


class Hub:
    """`size` processes, by the indices that the cluster has given them. events: what they do, for
    the thread that waits for the job; all else runs in threads of its own."""

    def __init__(self, size: int, host: str, bind: str = ''):
        """host: the name or address of this computer for the processes; bind: the one to listen at,
        by default the same. OSError when there is no listening at it."""
        self.size, self.key = size, os.urandom(KEY_NBYTES)
        self.events: 'queue.Queue[Event]' = queue.Queue()
        self.places: List[Dict[str, Any]] = []  # by rank, once all are here
        self._lock = threading.Lock()
        self._lines: Dict[int, Line] = {}
        self._facts: Dict[int, Dict[str, Any]] = {}
        self._turns: Dict[int, Dict[int, bytes]] = {}
        family, _, _, _, address = socket.getaddrinfo(bind or host, 0, type=socket.SOCK_STREAM)[0]
        self._server = socket.create_server(address[:2], family=family, backlog=max(size, 16))
        self.address = (host, self._server.getsockname()[1])
        self._closed = False
        self._begin(self._accept)

    @staticmethod
    def _begin(call: Any, *args: Any) -> None:
        threading.Thread(target=call, args=args, daemon=True, name='reigen-hub').start()

    @property
    def here(self) -> List[int]:
        """The indices of those that have come."""
        with self._lock:
            return sorted(self._facts)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:  # close()
                return
            self._begin(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        try:
            line = Line(sock, self.key, called=True)
        except (OSError, EOFError, multiprocessing.AuthenticationError):
            return  # a stranger
        index = None
        try:
            fields, _ = line.receive()
            index = fields['index']
            if not self._welcome(index, fields, line):
                index = None  # the cluster has started it twice; it waits for the end
            while True:
                fields, data = line.receive()
                if index is not None:
                    self._take(index, fields, data)
        except (OSError, EOFError):
            if index is not None:
                self.events.put(Event('lost', index, {}, b''))
        finally:
            line.drop()

    def _welcome(self, index: int, fields: Dict[str, Any], line: Line) -> bool:
        with self._lock:
            again = index in self._facts or self._closed
            if not again:
                self._facts[index], self._lines[index] = fields, line
            full = len(self._facts) == self.size
        self.events.put(Event('again' if again else 'here', index, fields, b''))
        if full and not again:
            self._number()
        return not again

    def _number(self) -> None:
        """All are here. A machine's processes follow each other; the machine of index 0 is first."""
        first: Dict[str, int] = {}
        for index in range(self.size):
            first.setdefault(self._facts[index]['machine'], index)
        order = sorted(range(self.size), key=lambda i: (first[self._facts[i]['machine']], i))
        machines = [self._facts[i]['machine'] for i in order]
        names = list(dict.fromkeys(machines))
        for rank, index in enumerate(order):
            local = machines[:rank].count(machines[rank])
            self.places.append({
                'index': index, 'rank': rank, 'size': self.size, 'local_rank': local,
                'local_size': machines.count(machines[rank]),
                'cross_rank': sum(machines[:rank].count(name) > local
                                  for name in names[:names.index(machines[rank])]),
                'cross_size': sum(machines.count(name) > local for name in names),
                'host': self._facts[index]['host']})
        for place in self.places:
            self._tell(place['index'], 'start', place=place)

    def _tell(self, index: int, kind: str, data: bytes = b'', **fields: Any) -> None:
        try:
            self._lines[index].send(kind, data, **fields)
        except OSError:
            pass  # its reader hears of it, too

    def _take(self, index: int, fields: Dict[str, Any], data: bytes) -> None:
        if fields['kind'] != 'gather':
            self.events.put(Event(fields['kind'], index, fields, data))
            return
        turn = fields['turn']
        with self._lock:
            blobs = self._turns.setdefault(turn, {})
            blobs[index] = data
            if len(blobs) < self.size:
                return
            del self._turns[turn]
        order = [place['index'] for place in self.places]
        sizes = [len(blobs[i]) for i in order]
        whole = b''.join(blobs[i] for i in order)
        for i in order:
            self._tell(i, 'gathered', whole, turn=turn, sizes=sizes)

    def rank_of(self, index: int) -> Optional[int]:
        return next((p['rank'] for p in self.places if p['index'] == index), None)

    def over(self) -> None:
        """The cluster has no more to do."""
        self.events.put(Event('over', -1, {}, b''))

    def stop(self) -> None:
        """Have operations in flight end, so that functions do."""
        for index in self.here:
            self._tell(index, 'stop')

    def close(self) -> None:
        """No more events come."""
        with self._lock:
            self._closed = True
            lines = list(self._lines.values())
        try:
            self._server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._server.close()
        for line in lines:
            try:
                line.close()
            except (OSError, ValueError):
                pass
