# SPDX-License-Identifier: Apache-2.0
"""Frames between the program that asks a cluster for processes and those processes: a line of JSON
and bytes behind it. Who has the key of the call gets in; nothing that comes is unpickled.

Both prove that they know the key, which never travels: the one who was called sends a nonce, the
other a nonce of its own with the HMAC of both, and gets an HMAC of both in return. What a stranger
sends until then is of a fixed length. Frames are in the clear; seal() is for what may not be.
"""
import hashlib
import hmac
import json
import os
import socket
import struct
import threading
import time
import zlib
from typing import Any, Dict, List, Sequence, Tuple

#: Who connects has so long in all to show that it knows the key, in seconds.
GREET_S = 10.0
KEY_NBYTES = 32
#: A computer that has gone says nothing: after so many seconds of silence it is asked, so often and
#: every so many seconds. Its connection is cut then.
QUIET_S, PROBE_S, PROBES = 15, 5, 6
#: Of one frame, which a friend sends: longer ones mean that the two do not understand each other.
HEAD_NBYTES_MAX, DATA_NBYTES_MAX = 16 << 20, 1 << 30
_NBYTES = 32  # of a nonce and of an HMAC
_LENGTHS = struct.Struct('!II')


class Stranger(ConnectionError):
    """Who is at the other end does not know the key."""


def _prove(key: bytes, words: bytes) -> bytes:
    return hmac.new(key, words, 'sha256').digest()


def _mask(key: bytes, nonce: bytes, data: bytes) -> bytes:
    stream = hashlib.shake_256(b'reigen seal' + key + nonce).digest(len(data))
    mixed = int.from_bytes(data, 'little') ^ int.from_bytes(stream, 'little')
    return mixed.to_bytes(len(data), 'little')


def seal(key: bytes, data: bytes) -> bytes:
    """What only who has the key can read: a nonce, the bytes masked by it, the HMAC of both."""
    nonce = os.urandom(_NBYTES)
    sealed = nonce + _mask(key, nonce, data)
    return sealed + _prove(key, b'seal' + sealed)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """Stranger: nobody who has the key has sealed it."""
    body, proof = sealed[:-_NBYTES], sealed[-_NBYTES:]
    if not hmac.compare_digest(proof, _prove(key, b'seal' + body)):
        raise Stranger('what came was sealed with another key')
    return _mask(key, body[:_NBYTES], body[_NBYTES:])


def seal_all(key: bytes, blobs: Sequence[bytes]) -> bytes:
    """All of them in one: what is alike in them takes little room."""
    sizes = struct.pack(f'!{len(blobs) + 1}I', len(blobs), *(len(blob) for blob in blobs))
    return seal(key, zlib.compress(sizes + b''.join(blobs), 1))


def unseal_all(key: bytes, sealed: bytes) -> List[bytes]:
    """What seal_all() was given; Stranger as from unseal()."""
    data = zlib.decompress(unseal(key, sealed))
    count, = struct.unpack_from('!I', data)
    at, blobs = 4 + 4 * count, []
    for size in struct.unpack_from(f'!{count}I', data, 4):
        blobs.append(data[at:at + size])
        at += size
    return blobs


class Line:
    """One end of a connection. send() and close() may be called by any thread, receive() by one."""

    def __init__(self, sock: socket.socket, key: bytes, called: bool, greet_s: float = GREET_S):
        """Takes the socket. OSError (Stranger, a timeout) or EOFError: it is no friend."""
        self._sock = sock
        self._sending, self._ending = threading.Lock(), threading.Lock()
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._watch(called)
            self._greet(key, called, time.monotonic() + greet_s)
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise

    def _watch(self, called: bool) -> None:
        """The one who was called does not wait longer for a member to take what it is sent, either:
        a member reads at once. That one may read late, as a terminal that stands still."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (('KEEPIDLE', QUIET_S), ('KEEPINTVL', PROBE_S), ('KEEPCNT', PROBES)):
            self._sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, f'TCP_{name}'), value)
        if called:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT,
                                  (QUIET_S + PROBE_S * PROBES) * 1000)

    def _greet(self, key: bytes, called: bool, end: float) -> None:
        ours = os.urandom(_NBYTES)
        if called:
            self._sock.settimeout(max(end - time.monotonic(), 0.001))
            self._sock.sendall(ours)
            nonces = ours + self._exactly(_NBYTES, end)
            proof = self._exactly(_NBYTES, end)
            if not hmac.compare_digest(proof, _prove(key, b'calls' + nonces)):
                raise Stranger('who has connected does not know the key')
            self._sock.sendall(_prove(key, b'called' + nonces))
        else:
            nonces = self._exactly(_NBYTES, end) + ours
            self._sock.sendall(ours + _prove(key, b'calls' + nonces))
            proof = self._exactly(_NBYTES, end)
            if not hmac.compare_digest(proof, _prove(key, b'called' + nonces)):
                raise Stranger('who has answered does not know the key')

    def _exactly(self, nbytes: int, end: float = float('inf')) -> bytes:
        data = bytearray()
        while len(data) < nbytes:
            if end < float('inf'):
                self._sock.settimeout(max(end - time.monotonic(), 0.001))
            piece = self._sock.recv(min(nbytes - len(data), 1 << 20))
            if not piece:
                raise EOFError('the other end has closed the connection')
            data += piece
        return bytes(data)

    def send(self, kind: str, data: bytes = b'', **fields: Any) -> None:
        """OSError when the other end has gone, or close() was called here; ValueError: too long."""
        head = json.dumps({'kind': kind, **fields}).encode()
        if len(head) > HEAD_NBYTES_MAX or len(data) > DATA_NBYTES_MAX:
            raise ValueError(f'a {kind} of {len(head)} and {len(data)} bytes is longer than '
                             f'{HEAD_NBYTES_MAX} and {DATA_NBYTES_MAX}')
        with self._sending:
            self._sock.sendall(_LENGTHS.pack(len(head), len(data)) + head + data)

    def receive(self) -> Tuple[Dict[str, Any], bytes]:
        """(its fields with kind, data); EOFError or OSError when the other end has gone."""
        head, data = _LENGTHS.unpack(self._exactly(_LENGTHS.size))
        if head > HEAD_NBYTES_MAX or data > DATA_NBYTES_MAX:
            raise ConnectionError(f'a frame of {head} and {data} bytes came, where at most '
                                  f'{HEAD_NBYTES_MAX} and {DATA_NBYTES_MAX} do')
        return json.loads(self._exactly(head)), self._exactly(data)

    def close(self) -> None:
        """Whoever waits in receive() or send(), here or there, is told. It may be called again."""
        with self._ending:
            try:
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has been closed already, there or here
                pass

    def drop(self) -> None:
        """Close it and give its descriptor back; send() raises OSError then."""
        self.close()
        with self._sending, self._ending:
            self._sock.close()
