# SPDX-License-Identifier: Apache-2.0
"""Frames between the program that asks a cluster for processes and those processes: a line of JSON
and bytes behind it. Who has the key of the call gets in (the HMAC of multiprocessing.connection);
nothing that comes is unpickled."""
import json
import os
import socket
import struct
import threading
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, Dict, Tuple

#: Who connects has so long to show that it knows the key, in seconds.
GREET_S = 10
KEY_NBYTES = 32


class Line:
    """One end of a connection. send() may be called by any thread, receive() by one."""

    def __init__(self, sock: socket.socket, key: bytes, called: bool):
        """Raises OSError, EOFError or multiprocessing.AuthenticationError: it is no friend."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.settimeout(None)
        self._limit(sock, GREET_S)
        self._sending = threading.Lock()
        self._connection = Connection(os.dup(sock.fileno()))
        try:
            for step in (deliver_challenge, answer_challenge)[::1 if called else -1]:
                step(self._connection, key)
            self._limit(sock, 0)
        except BaseException:
            self._connection.close()
            raise
        finally:
            sock.close()

    @staticmethod
    def _limit(sock: socket.socket, seconds: int) -> None:
        """As of the kernel's: it holds for all who use the descriptor."""
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('ll', seconds, 0))

    def send(self, kind: str, data: bytes = b'', **fields: Any) -> None:
        head = json.dumps({'kind': kind, **fields}).encode()
        with self._sending:
            self._connection.send_bytes(head + b'\n' + data)

    def receive(self) -> Tuple[Dict[str, Any], bytes]:
        """(its fields with kind, data); EOFError or OSError when the other end has gone."""
        head, _, data = self._connection.recv_bytes().partition(b'\n')
        return json.loads(head), data

    def close(self) -> None:
        """Whoever waits in receive(), here or there, gets an EOFError."""
        try:
            with socket.socket(fileno=os.dup(self._connection.fileno())) as sock:
                sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # it has been closed already, there or here
            pass

    def drop(self) -> None:
        """Give its descriptor back; nobody may use it any more."""
        self._connection.close()
