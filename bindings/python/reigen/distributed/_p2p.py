# SPDX-License-Identifier: Apache-2.0
"""send and recv: sockets between processes, one for each direction of a pair, made when needed.

The runtime has collectives alone, in which all of a set take part; a message concerns two ranks,
and may come before anybody asks for it. So a message is a header (group, sender's place in it, tag,
length) and its bytes, which go straight to the tensor that waits for it, or wait in memory.

Who may come: ranks of one user on one host that share a network name space meet at an abstract unix
socket, where the kernel tells whose the other end is; others over TCP. Both prove by HMAC-SHA256
over the other's nonce that they know the listener's key, the caller first. It follows from
REIGEN_KEY_FILE and what the listener has handed over in the group's store; without the file from
the latter alone. Strangers get as far as reigen/_door.py lets them. Nothing that comes is ever
executed.
"""
import collections
import hashlib
import hmac
import os
import queue
import secrets
import socket
import struct
import threading
import time
from typing import Any, Deque, Dict, List, Optional, Set, Tuple

from torch._C import _distributed_c10d as c10d
import torch

from reigen._door import Door, Refused, peer_is_us, shut
from reigen._observe import diagnose
from reigen.distributed._work import Promise, failure, write

_HEADER = struct.Struct('<IIqQ')  # length of the group's name, sender's place, tag, bytes
_NONCE = 32
#: What one receive asks the kernel for.
_SLICE = 1 << 22
#: How long a caller tries to reach a listener, which may be busy, or stopped for a while.
_CALL_S = 60.0
#: How often who waits asks whether the job goes on, in seconds.
_LOOK_S = 1.0

Channel = Tuple[str, int, int]  # group, sender's place in it, tag


class _Posted:
    """A receive that waits for its message. view: where to, the memory of keep."""

    def __init__(self, view: memoryview, keep: Any):
        self.view = view
        self.keep = keep
        self.done = threading.Event()
        self.error: Optional[str] = None
        self.source = -1


class _Box:
    """Messages that have come and receives that wait, by channel; one lock for all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.came: Dict[Channel, Deque[bytearray]] = collections.defaultdict(collections.deque)
        self.posted: Dict[Channel, Deque[_Posted]] = collections.defaultdict(collections.deque)
        #: (group, tag): receives from any of these places
        self.anybody: Dict[Tuple[str, int], Deque[_Posted]] = collections.defaultdict(
            collections.deque)
        self.lost: Dict[Tuple[str, int], str] = {}

    def expected(self, channel: Channel) -> Optional[_Posted]:
        """The receive that takes the next message of a channel; under the lock."""
        if self.posted[channel]:
            return self.posted[channel].popleft()
        waiting = self.anybody[channel[0], channel[2]]
        return waiting.popleft() if waiting else None


_box = _Box()
_door: Optional[Door] = None
_address: Optional[Dict[str, Any]] = None
#: By address: the sender's end.
_outgoing: Dict[str, '_Sender'] = {}
_incoming: Set[socket.socket] = set()
_guard = threading.Lock()


# ---------------------------------------------------------------------------- meeting

def _here() -> str:
    """What processes have in common that see each other's abstract sockets, and each other's uid
    as their own."""
    with open('/proc/sys/kernel/random/boot_id', encoding='ascii') as file:
        boot = file.read().strip()
    spaces = ' '.join(os.readlink(f'/proc/self/ns/{kind}') for kind in ('net', 'user'))
    return f'{boot} {spaces} {os.geteuid()}'


def _host_addresses() -> List[str]:
    """This host's own addresses, best first: the one by which MASTER_ADDR is reached. Nothing is
    sent for it. Addresses of no use to other hosts are left out."""
    found = []
    # The last two are of networks that exist in books only: they follow the default route.
    for target in (os.environ.get('MASTER_ADDR'), '192.0.2.1', '2001:db8::1'):
        if not target:
            continue
        try:
            for family, kind, _, _, address in socket.getaddrinfo(target, 9, 0, socket.SOCK_DGRAM):
                with socket.socket(family, kind) as probe:
                    probe.connect(address)
                    found.append(probe.getsockname()[0])
        except OSError:
            pass
    try:
        found += [a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, 0,
                                                      socket.SOCK_STREAM)]
    except OSError:
        pass
    return list(dict.fromkeys(a for a in found if not a.startswith(('fe80', '127.', '::1'))))


def _secret(handed: bytes) -> bytes:
    """The key of a listener that has handed this over."""
    path = os.environ.get('REIGEN_KEY_FILE')
    if not path:
        return handed
    with open(path, 'rb') as file:
        return hmac.new(file.read().strip(), handed, hashlib.sha256).digest()


def listen() -> Dict[str, Any]:
    """Where this process can be reached, made at the first call."""
    global _address, _door
    with _guard:
        if _address is None:
            name = f'reigen-p2p-{secrets.token_hex(8)}'
            unix = socket.socket(socket.AF_UNIX)
            unix.bind('\0' + name)
            dual = socket.has_dualstack_ipv6()
            tcp = socket.create_server(('', 0), backlog=1024, dualstack_ipv6=dual,
                                       family=socket.AF_INET6 if dual else socket.AF_INET)
            unix.listen(1024)
            handed = secrets.token_bytes(32)
            key, box, port = _secret(handed), _box, tcp.getsockname()[1]
            _door = Door((unix, tcp), lambda: _welcome(key), _NONCE + 32,
                         lambda conn, _: _serve(conn, box), 'reigen-p2p')
            _address = {'here': _here(), 'unix': name, 'hosts': _host_addresses(), 'port': port,
                        'key': handed.hex()}
        return _address


def leave_network() -> None:
    """All ranks can meet at the unix sockets: let nobody call from elsewhere."""
    with _guard:
        if _door is not None:
            _door.leave(socket.AF_INET6)
            _door.leave(socket.AF_INET)


def _prove(key: bytes, role: bytes, nonces: bytes) -> bytes:
    return hmac.new(key, role + nonces, hashlib.sha256).digest()


def _welcome(key: bytes) -> Tuple[bytes, Any]:
    """The listener's half of the handshake."""
    mine = secrets.token_bytes(_NONCE)

    def check(said: bytes) -> Optional[Tuple[bytes, None]]:
        if len(said) < _NONCE + 32:
            return None
        both = mine + said[:_NONCE]
        if not hmac.compare_digest(said[_NONCE:], _prove(key, b'sender', both)):
            raise Refused(bytes(32))
        return _prove(key, b'listener', both), None

    return mine, check


def _greet(conn: socket.socket, key: bytes, deadline: float) -> None:
    """The caller's half."""
    if not peer_is_us(conn):
        raise ConnectionError('another user has the socket')
    mine = secrets.token_bytes(_NONCE)
    theirs = _read(conn, _NONCE, deadline)
    conn.sendall(mine + _prove(key, b'sender', theirs + mine))
    proof = _read(conn, 32, deadline)
    if not hmac.compare_digest(proof, _prove(key, b'listener', theirs + mine)):
        raise _WrongKey('the listener and this rank have different keys' if proof == bytes(32) else
                        'whoever answers does not know the key')
    conn.settimeout(None)


class _WrongKey(ConnectionError):
    """It is of no use to call again."""


def _exactly(conn: socket.socket, view: memoryview, deadline: Optional[float] = None) -> None:
    at = 0
    while at < len(view):
        if deadline is not None:
            conn.settimeout(max(deadline - time.monotonic(), 0.001))
        n = conn.recv_into(view[at:at + _SLICE])
        if n == 0:
            raise ConnectionResetError('the sender has gone')
        at += n


def _read(conn: socket.socket, nbytes: int, deadline: Optional[float] = None) -> bytes:
    data = bytearray(nbytes)
    _exactly(conn, memoryview(data), deadline)
    return bytes(data)


# ---------------------------------------------------------------------------- receiving

def _serve(conn: socket.socket, box: _Box) -> None:
    """One sender's messages, for as long as it lives, to the box of the time when it came: a later
    one may have groups of the same names."""
    senders: Set[Tuple[str, int]] = set()
    try:
        if conn.family != socket.AF_UNIX:
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with _guard:
            if box is not _box:
                return
            _incoming.add(conn)
        while True:
            head = _read(conn, _HEADER.size)
            length, place, tag, nbytes = _HEADER.unpack(head)
            if length > 4096:
                raise ConnectionError('not a message')
            channel = (_read(conn, length).decode(), place, tag)
            senders.add(channel[:2])
            _take(conn, box, channel, nbytes)
    except Exception as error:
        _lose(box, senders, str(error))
    finally:
        with _guard:
            _incoming.discard(conn)
        conn.close()


def _take(conn: socket.socket, box: _Box, channel: Channel, nbytes: int) -> None:
    with box.lock:
        posted = box.expected(channel)
    if posted is None or len(posted.view) != nbytes:
        data = bytearray(nbytes)
        _exactly(conn, memoryview(data))
        if posted is None:
            with box.lock:
                posted = box.expected(channel)  # it may have come meanwhile
                if posted is None:
                    box.came[channel].append(data)
                    return
        _fill(posted, channel, data)
        return
    try:
        _exactly(conn, posted.view)
    except Exception as error:
        posted.error = f'rank {channel[1]} of the group died while it was sending ({error})'
        posted.done.set()
        raise
    posted.source = channel[1]
    posted.done.set()


def _fill(posted: _Posted, channel: Channel, data: bytearray) -> None:
    """A message that lies in memory, to its receive."""
    if len(posted.view) != len(data):
        posted.error = (f'recv expects {len(posted.view)} bytes, and rank {channel[1]} of the '
                        f'group has sent {len(data)}')
    else:
        posted.view[:] = data
        posted.source = channel[1]
    posted.done.set()


def _lose(box: _Box, senders: Any, why: str) -> None:
    """A sender has gone: who waits for it waits in vain."""
    with box.lock:
        for group, place in senders:
            text = f'rank {place} of the group has gone ({why})'
            box.lost[group, place] = text
            for channel, waiting in box.posted.items():
                while channel[:2] == (group, place) and waiting:
                    posted = waiting.popleft()
                    posted.error = text
                    posted.done.set()


def post(group: str, place: Optional[int], tag: int, view: memoryview, keep: Any) -> _Posted:
    """A receive of the next message from a place (None: any)."""
    posted = _Posted(view, keep)
    with _box.lock:
        channels = [(group, place, tag)] if place is not None else [
            c for c, came in _box.came.items() if came and (c[0], c[2]) == (group, tag)]
        for channel in channels:
            if _box.came[channel]:
                _fill(posted, channel, _box.came[channel].popleft())
                return posted
        if place is None:
            _box.anybody[group, tag].append(posted)
        elif (group, place) in _box.lost:
            posted.error = _box.lost[group, place]
            posted.done.set()
        else:
            _box.posted[group, place, tag].append(posted)
    return posted


def withdraw(posted: _Posted) -> None:
    """Nobody waits for this receive any more."""
    with _box.lock:
        for waiting in (*_box.posted.values(), *_box.anybody.values()):
            if posted in waiting:
                waiting.remove(posted)


# ---------------------------------------------------------------------------- sending

class _Sender:
    """This process's end towards one listener, with a thread that sends in order."""

    def __init__(self, address: Dict[str, Any]):
        self._address = address
        self._conn: Optional[socket.socket] = None
        self._error: Optional[str] = None
        self._queue: 'queue.SimpleQueue[Any]' = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True, name='reigen-p2p').start()

    def _connect(self) -> socket.socket:
        """Who is sent away calls again: among many strangers it may be a rank's turn to go."""
        address, key = self._address, _secret(bytes.fromhex(self._address['key']))
        deadline = time.monotonic() + _CALL_S
        while True:
            tried = []
            here = address['here'] == _here()
            for place in ['\0' + address['unix']] if here else address['hosts']:
                try:
                    return self._call(place, key, deadline)
                except _WrongKey:
                    raise
                except OSError as error:
                    tried.append((place, error))
            again = any(isinstance(error, (ConnectionResetError, BrokenPipeError))
                        for _, error in tried)
            if not again or time.monotonic() >= deadline:
                raise ConnectionError('; '.join(str(error) if here else f'{place}: {error}'
                                                for place, error in tried)
                                      or 'no address is known')
            time.sleep(0.05)

    def _call(self, place: str, key: bytes, deadline: float) -> socket.socket:
        if place.startswith('\0'):
            conn = socket.socket(socket.AF_UNIX)
            conn.setblocking(True)  # without it, a full queue is an error
        else:
            conn = socket.create_connection((place, self._address['port']), timeout=10)
        try:
            if conn.family == socket.AF_UNIX:
                left = max(int(deadline - time.monotonic()), 1)
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', left, 0))
                conn.connect(place)
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack('ll', 0, 0))
            else:
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _greet(conn, key, deadline)
            return conn
        except BaseException:
            conn.close()
            raise

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                break
            head, view, work = item
            try:
                if self._error is not None:
                    raise ConnectionError(self._error)
                if self._conn is None:
                    self._conn = self._connect()
                self._conn.sendall(head)
                self._conn.sendall(view)
                work._sent(None)
            except (OSError, ValueError) as error:
                self._error = str(error)
                work._sent(f'sending has failed: {error}')
            item = view = work = None
        if self._conn is not None:
            self._conn.close()

    def put(self, head: bytes, view: memoryview, work: 'Sending') -> None:
        self._queue.put((head, view, work))

    def close(self) -> None:
        self._queue.put(None)

    def drop(self) -> None:
        """In the child of a fork, which has no thread for it."""
        if self._conn is not None:
            self._conn.close()


def send(address: Dict[str, Any], group: str, place: int, tag: int, view: memoryview,
         work: 'Sending') -> None:
    with _guard:
        sender = _outgoing.get(address['unix'])
        if sender is None:
            sender = _outgoing[address['unix']] = _Sender(address)
    name = group.encode()
    sender.put(_HEADER.pack(len(name), place, tag, len(view)) + name, view, work)


def close() -> None:
    """Forget all messages and connections."""
    global _address, _box, _door
    with _guard:
        for sender in _outgoing.values():
            sender.close()
        if _door is not None:
            _door.close()
        for conn in _incoming:
            shut(conn)  # its thread closes it
        _outgoing.clear()
        _address = _door = None
        _box = _Box()


def forked() -> None:
    """In the child of a fork: the sockets are the parent's too, who goes on with them, and what its
    other threads held is held for ever."""
    global _address, _box, _door, _guard
    _guard = threading.Lock()
    if _door is not None:
        _door.forked()
    for end in _incoming:
        end.close()
    for sender in _outgoing.values():
        sender.drop()
    _outgoing.clear()
    _incoming.clear()
    _address = _door = None
    _box = _Box()


# ---------------------------------------------------------------------------- works

class _Message(c10d.Work):
    """A message on its way. tensor: the user's; keep: where its bytes are."""

    def __init__(self, tensor: torch.Tensor, keep: torch.Tensor, timeout: float):
        super().__init__()
        self._tensor = tensor
        self._keep = keep
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._error: Optional[str] = None
        self._promise: Optional[Promise] = None
        #: A profiler's, which ends with it.
        self._profiled: Any = None
        self._profiling = threading.Lock()

    def tell_end(self, event: Any) -> None:
        self._profiled = event
        if self._event().is_set():
            self._end_event()

    def _end_event(self) -> None:
        with self._profiling:
            event, self._profiled = self._profiled, None
        if event is not None:
            event.end()
            event.wait()

    def _event(self) -> threading.Event:
        raise NotImplementedError

    def _late(self) -> str:
        raise NotImplementedError

    def _settle(self) -> None:
        """It is done."""

    def _give_up(self) -> None:
        """Nobody waits any more."""

    def wait(self, timeout: Any = None) -> bool:
        limit, deadline = self._timeout, self._deadline
        if timeout is not None and timeout.total_seconds() > 0:
            limit = min(limit, timeout.total_seconds())
            deadline = min(deadline, time.monotonic() + limit)
        while not self._event().wait(min(max(deadline - time.monotonic(), 0), _LOOK_S)):
            cause = _cause()
            if cause is not None or time.monotonic() >= deadline:
                self._give_up()
                raise failure(cause or f'Timed out: {self._late()} after {limit:g} s.')
        self._settle()
        self._end_event()
        if self._error is not None:
            raise failure(self._error)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        done = self._event().is_set()
        if done:
            self._settle()
            self._end_event()
        return done

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        self.is_completed()
        return failure(self._error) if self._error else None

    def result(self) -> List[torch.Tensor]:
        return [self._tensor]

    def get_future(self) -> torch.futures.Future:
        if self._promise is None:
            self._promise = Promise([self._tensor])
            threading.Thread(target=self._tell, daemon=True, name='reigen-p2p').start()
        return self._promise.future

    def _tell(self) -> None:
        try:
            self.wait()
        except RuntimeError as error:
            self._promise.fail(error)
        else:
            self._promise.keep([self._tensor])


def _cause() -> Optional[str]:
    """Why the job does not go on, if it does not: the runtime hears of ranks that die."""
    try:
        return diagnose(0)['failure']
    except ValueError:
        return 'The message was on its way when this rank left the job.'
    except OSError:
        return None  # a runtime that is built without observers does not tell


class Sending(_Message):
    def __init__(self, tensor: torch.Tensor, keep: torch.Tensor, timeout: float, peer: int):
        super().__init__(tensor, keep, timeout)
        self._done = threading.Event()
        self._peer = peer

    def _event(self) -> threading.Event:
        return self._done

    def _late(self) -> str:
        return f'the message was not sent, as rank {self._peer} of the group does not read it,'

    def _sent(self, error: Optional[str]) -> None:
        self._error = error
        self._done.set()


class Receiving(_Message):
    """keep: the tensor itself, or a row-major copy of it that the message goes to first."""

    def __init__(self, tensor: torch.Tensor, keep: torch.Tensor, timeout: float, posted: _Posted,
                 peer: Optional[int]):
        super().__init__(tensor, keep, timeout)
        self._posted = posted
        self._peer = peer
        self._settled = False
        self._lock = threading.Lock()

    def _event(self) -> threading.Event:
        return self._posted.done

    def _late(self) -> str:
        who = 'any rank' if self._peer is None else f'rank {self._peer}'
        return f'the message that recv waits for has not come from {who} of the group'

    def _give_up(self) -> None:
        withdraw(self._posted)

    def _settle(self) -> None:
        with self._lock:
            if self._settled:
                return
            self._error = self._posted.error
            if self._error is None and self._keep.data_ptr() != self._tensor.data_ptr():
                write(self._tensor, self._keep)
            self._settled = True

    def source_rank(self) -> int:
        return self._posted.source

    _source_rank = source_rank
