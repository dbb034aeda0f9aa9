# SPDX-License-Identifier: Apache-2.0
"""The side of the program that asks a cluster for processes (horovod.spark): it numbers those that
come, lets them find each other, and hears what they print and how they end. One job each."""
import collections
import errno
import os
import socket
import threading
from typing import Any, Deque, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from reigen._frames import KEY_NBYTES, Line, seal_all, unseal

#: Events that wait for the thread that takes them. Who sends more, waits: a rank that prints faster
#: than this program shows it fills no memory here.
_EVENTS = 1024
#: Beside the processes: connections of strangers that may be in their greeting.
_GREETING = 64


class Event(NamedTuple):
    """What came, of the process of that index: 'here'; 'again', another process of that index;
    'out'; 'failed', before its neighbours can hear of it; 'end'; 'lost', its line was cut. Of none
    (index -1): 'over', the cluster has no more to do; 'deaf', no more can connect, and why."""
    kind: str
    index: int
    fields: Dict[str, Any]
    data: bytes


#: In an exchange: which one it is by the member's own count, and what it hands over.
_Said = Tuple[Dict[str, Any], bytes]


def _of_exchange(fields: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: fields[name] for name in ('epoch', 'round', 'turn')}


class _Events:
    """A queue of bounded length, that nobody waits at any more once it is closed."""

    def __init__(self) -> None:
        self._events: Deque[Event] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, event: Event) -> None:
        """Waits for room; any thread."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._events) < _EVENTS)
            if not self._closed:
                self._events.append(event)
                self._changed.notify_all()

    def get(self, timeout: float) -> Optional[Event]:
        """None: there has been none so long."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._events, timeout):
                return None
            self._changed.notify_all()
            return self._events.popleft()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._events.clear()
            self._changed.notify_all()


class Hub:
    """`size` processes, by the indices that the cluster has given them. events: what they do, for
    the thread that waits for the job; all else runs in threads of its own."""

    def __init__(self, size: int, host: str, bind: str = ''):
        """host: the name or address of this computer for the processes; bind: the one to listen at,
        by default the same. OSError when there is no listening at it."""
        self.size, self.key = size, os.urandom(KEY_NBYTES)
        self.events = _Events()
        self.places: List[Dict[str, Any]] = []  # by rank, as soon as all are here
        self._ranks: Dict[int, int] = {}        # by index, in their order
        self._lock = threading.Lock()           # of all below
        self._lines: Dict[int, Line] = {}
        self._all: Set[Line] = set()            # those too that came for an index that is here
        self._facts: Dict[int, Dict[str, Any]] = {}
        self._said: Dict[int, _Said] = {}       # by those that wait in one and the same exchange
        self._waiting: Dict[Line, int] = {}     # those of an index that is here
        self._closed = False
        self._greeting = threading.Semaphore(size + _GREETING)
        host, bind = host.strip('[]'), bind.strip('[]')  # as Spark writes addresses of IPv6
        family, _, _, _, address = socket.getaddrinfo(bind or host, 0, type=socket.SOCK_STREAM)[0]
        self._server = socket.create_server(address[:2], family=family, backlog=max(size, 16))
        self.address = (host, self._server.getsockname()[1])
        self._begin(self._accept)

    @staticmethod
    def _begin(call: Any, *args: Any) -> None:
        threading.Thread(target=call, args=args, daemon=True, name='reigen-hub').start()

    @property
    def here(self) -> List[int]:
        """The indices of those that have come."""
        with self._lock:
            return sorted(self._facts)

    @property
    def waiting(self) -> List[int]:
        """The indices of those processes that came for an index that is here, and have not gone."""
        with self._lock:
            return [*self._waiting.values()]

    def _put(self, kind: str, index: int, fields: Dict[str, Any], data: bytes = b'') -> None:
        self.events.put(Event(kind, index, fields, data))

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError as error:
                if self._closed:
                    return
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._put('deaf', -1, {'why': error.strerror})
                    return
                continue  # it went before it was taken
            self._greeting.acquire()
            try:
                self._begin(self._serve, sock)
            except RuntimeError as error:  # no more threads
                sock.close()
                self._put('deaf', -1, {'why': str(error)})
                return

    def _serve(self, sock: socket.socket) -> None:
        try:
            line = Line(sock, self.key, called=True)
        except (OSError, EOFError):
            return  # a stranger
        finally:
            self._greeting.release()
        with self._lock:
            self._all.add(line)
            if self._closed:
                line.close()
        index = None
        try:
            fields, _ = line.receive()
            index = self._welcome(fields['index'], fields, line)
            while True:  # one that the cluster has started twice waits here for the end
                fields, data = line.receive()
                if index is not None:
                    self._take(index, fields, data)
        except (OSError, EOFError, ValueError, KeyError):
            if index is not None:
                self._lose(index)
        finally:
            with self._lock:
                self._all.discard(line)
                self._waiting.pop(line, None)
            line.drop()

    def _lose(self, index: int) -> None:
        self._put('lost', index, {})

    def _welcome(self, index: int, fields: Dict[str, Any], line: Line) -> Optional[int]:
        """By which number its events go; None: it has none, and waits."""
        if index not in range(self.size):
            raise ValueError(f'index {index} is not one of {self.size}')
        with self._lock:
            again = index in self._facts or self._closed
            if again:
                self._waiting[line] = index
            else:
                self._facts[index], self._lines[index] = fields, line
            full = len(self._facts) == self.size
        self._put('again' if again else 'here', index, fields)
        if full and not again:
            self._number()
        return None if again else index

    def _number(self) -> None:
        """All are here. A machine's processes follow each other; that of index 0 is first."""
        machines: Dict[str, List[int]] = {}
        for index in range(self.size):
            machines.setdefault(self._facts[index]['machine'], []).append(index)
        counts = [len(indices) for indices in machines.values()]
        cross_sizes = [sum(count > local for count in counts) for local in range(max(counts))]
        cross_ranks = [0] * max(counts)  # by local rank: machines so far that have one
        places = []
        for indices in machines.values():
            for local, index in enumerate(indices):
                places.append({
                    'index': index, 'rank': len(places), 'size': self.size, 'local_rank': local,
                    'local_size': len(indices), 'cross_rank': cross_ranks[local],
                    'cross_size': cross_sizes[local], 'host': self._facts[index]['host']})
                cross_ranks[local] += 1
        self._ranks = {place['index']: place['rank'] for place in places}
        self.places = places
        for place in places:
            self._tell(place['index'], 'start', place=place)

    def _tell(self, index: int, kind: str, data: bytes = b'', **fields: Any) -> None:
        try:
            self._lines[index].send(kind, data, **fields)
        except OSError:
            pass  # its reader hears of it, too

    def _take(self, index: int, fields: Dict[str, Any], data: bytes) -> None:
        if fields['kind'] == 'misses':
            ranks = self._missing(index, fields['epoch'])
            self._tell(index, 'missing', ranks=ranks[:fields['most']], count=len(ranks))
            return
        if fields['kind'] != 'gather':
            self._put(fields['kind'], index, fields, data)
            if fields['kind'] == 'failed':
                self._tell(index, 'heard')
            return
        with self._lock:
            ranks = self._meeting(fields['epoch'])
            if index not in ranks:
                return
            words = (fields, unseal(self.key, data))
            apart, together = self._join_turn(index, words, len(ranks))
            blobs = [together[i][1] for i in ranks] if together else []
        for i, (where, _) in apart.items():
            self._tell(i, 'apart', **_of_exchange(where))
        if together:
            whole = seal_all(self.key, blobs)
            for i, (where, _) in together.items():
                self._tell(i, 'gathered', whole, **_of_exchange(where))

    def _missing(self, asks: int, epoch: int) -> List[Tuple[int, str]]:
        """Ranks that do not wait in the exchange in which that one does, and their computers."""
        with self._lock:
            if asks not in self._said:
                return []
            return [(rank, self._facts[index]['host'])
                    for index, rank in self._meeting(epoch).items()
                    if index not in self._said and index in self._facts]

    def _join_turn(self, index: int, words: _Said, size: int
                   ) -> Tuple[Dict[int, _Said], Dict[int, _Said]]:
        """Those that wait in vain now, as one of them has begun the meeting again; and all, if they
        are complete. Under the lock."""
        self._said.pop(index, None)  # it has given that up
        waits = next(iter(self._said.values()), words)[0]['turn']
        if words[0]['turn'] > waits:
            return {index: words}, {}
        apart = {}
        if words[0]['turn'] < waits:
            apart, self._said = self._said, {}
        self._said[index] = words
        if len(self._said) < size:
            return apart, {}
        together, self._said = self._said, {}
        return apart, together

    def _meeting(self, epoch: int) -> Mapping[int, int]:
        """The ranks of those that exchange bytes then, in their order; under the lock."""
        return self._ranks

    def rank_of(self, index: int) -> Optional[int]:
        """None: not all have come, and there are no ranks."""
        return self._ranks.get(index)

    def host_of(self, index: int) -> str:
        """The name of its computer."""
        with self._lock:
            return self._facts[index]['host']

    def over(self) -> None:
        """The cluster has no more to do."""
        self._put('over', -1, {})

    def stop(self) -> None:
        """Have operations in flight end, so that functions do; who waits for the others leaves."""
        for index in self.here:
            self._tell(index, 'stop')

    def close(self) -> None:
        """Nobody takes events any more. Threads that serve end soon."""
        with self._lock:
            self._closed = True
            lines = list(self._all)
        for call in (lambda: self._server.shutdown(socket.SHUT_RDWR), self._server.close):
            try:
                call()
            except OSError:
                pass
        for line in lines:
            line.close()
        self.events.close()
