# SPDX-License-Identifier: Apache-2.0
"""Listening sockets where strangers may call: one thread accepts, and hears who has come until he
has proven that he belongs to the job, or is sent away.

Whoever can reach a port may call, as often as he likes, and say nothing or very little. So a caller
gets no thread before he has proven himself; at most PENDING_MAX try at a time, of whom the oldest
goes when more come; and all of it has one deadline. At a unix socket other users than our own are
sent away before they hear a word. It is what the runtime's listener does (coll/net/listener.h).
"""
import errno
import os
import select
import socket
import struct
import threading
import time
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

#: Callers that prove themselves at a time; who comes then waits in the kernel's queue.
PENDING_MAX = 128
#: How long a caller may take for all of it, and how long he is safe from those who come later.
HANDSHAKE_S, YOUNG_S = 10.0, 1.0
#: When to look again where the process has no free descriptor or thread.
_PAUSE_S = 0.1
#: accept() fails, and the caller is still there.
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: The listening socket is no more.
_CLOSED = (errno.EINVAL, errno.EBADF, errno.ENOTSOCK)


class Refused(Exception):
    """The caller does not belong here. words: what he is told."""

    def __init__(self, words: bytes = b''):
        super().__init__('refused')
        self.words = words


#: Of what a caller has said so far: None while more is to come, else (answer, result).
Check = Callable[[bytes], Optional[Tuple[bytes, Any]]]
#: For each caller: the first words to him, and the check of his.
Greet = Callable[[], Tuple[bytes, Check]]


def peer_is_us(conn: socket.socket) -> bool:
    """The other end of a unix socket is of our own user; other sockets do not tell."""
    if conn.family != socket.AF_UNIX:
        return True
    told = conn.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize('iII'))
    return struct.unpack('iII', told)[1] == os.geteuid()


def shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class _Caller:
    def __init__(self, conn: socket.socket, words: bytes, check: Check):
        self.conn, self.out, self.check = conn, words, check
        self.came = time.monotonic()
        self.said = b''
        #: (result,) once he has proven himself.
        self.proven: Optional[Tuple[Any]] = None

    def step(self, most: int) -> bool:
        """Do what can be done now; False when he has to go."""
        try:
            while True:
                if self.out:
                    self.out = self.out[self.conn.send(self.out, socket.MSG_NOSIGNAL):]
                elif self.proven:
                    return True
                else:
                    some = self.conn.recv(most - len(self.said))
                    if not some:
                        return False
                    self.said += some
                    self._judge(most)
        except BlockingIOError:
            return True
        except Refused as error:
            try:
                self.conn.send(error.words, socket.MSG_NOSIGNAL)
            except OSError:
                pass
            return False
        except Exception:  # whatever it was, it came of what he has said
            return False

    def _judge(self, most: int) -> None:
        verdict = self.check(self.said)
        if verdict is not None:
            self.out, self.proven = verdict[0], (verdict[1],)
        elif len(self.said) >= most:
            raise Refused()

    def is_through(self) -> bool:
        return self.proven is not None and not self.out


class Door:
    """servers: listening sockets, taken; greet: see above; most: bytes that a caller may say;
    admit(conn, result): what becomes of those who have proven themselves, in a thread of its own
    for each, with a socket that blocks.

    close() and leave() may be called in any thread, and forked() in the child of a fork.
    """

    def __init__(self, servers: Sequence[socket.socket], greet: Greet, most: int,
                 admit: Callable[[socket.socket, Any], None], name: str):
        self._servers: List[socket.socket] = list(servers)
        self._greet, self._most, self._admit, self._name = greet, most, admit, name
        self._callers: List[_Caller] = []
        self._leaving: Set[socket.socket] = set()
        self._pause_until = 0.0
        for server in self._servers:
            server.setblocking(False)
        threading.Thread(target=self._run, daemon=True, name=name).start()

    def leave(self, family: int) -> None:
        """Nobody else comes to the sockets of a family; their port is free at the return."""
        self._stop([server for server in self._servers if server.family == family])

    def close(self) -> None:
        """Nobody else comes."""
        self._stop(list(self._servers))

    def _stop(self, servers: List[socket.socket]) -> None:
        """The thread wakes up, and closes them."""
        self._leaving.update(servers)
        for server in servers:
            shut(server)

    def forked(self) -> None:
        """The sockets are the parent's too, who goes on with them."""
        for server in self._servers:
            server.close()
        for caller in self._callers:
            caller.conn.close()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        while self._servers:
            try:
                self._turn()
            except Exception:  # too little memory, say: it passes, and nobody else listens
                time.sleep(_PAUSE_S)
        for caller in self._callers:
            caller.conn.close()

    def _pending(self) -> List[_Caller]:
        return [caller for caller in self._callers if not caller.is_through()]

    def _turn(self) -> None:
        self._wait()
        for server in list(self._servers):
            self._accept(server)
        now = time.monotonic()
        for caller in list(self._callers):
            if not caller.step(self._most):
                self._send_away(caller)
            elif caller.is_through():
                self._let_in(caller)
            elif now > caller.came + HANDSHAKE_S:
                self._send_away(caller)

    def _wait(self) -> None:
        """Until there is something to do."""
        poll, pending, now = select.poll(), self._pending(), time.monotonic()
        looks = [caller.came + HANDSHAKE_S for caller in pending]
        if len(pending) < PENDING_MAX and now >= self._pause_until:
            for server in self._servers:
                poll.register(server, select.POLLIN)
        elif now < self._pause_until:
            looks.append(self._pause_until)
        else:
            looks.append(min(caller.came for caller in pending) + YOUNG_S)
        if len(pending) < len(self._callers):
            looks.append(now + _PAUSE_S)
        for caller in pending:
            poll.register(caller.conn, select.POLLOUT if caller.out else select.POLLIN)
        poll.poll(max(0, int((min(looks) - now) * 1000) + 1) if looks else None)

    def _has_room(self) -> bool:
        pending = self._pending()
        if len(pending) < PENDING_MAX:
            return True
        oldest = min(pending, key=lambda caller: caller.came)
        if time.monotonic() < oldest.came + YOUNG_S:
            return False
        self._send_away(oldest)
        return True

    def _accept(self, server: socket.socket) -> None:
        if server in self._leaving:
            self._drop(server)
            return
        for _ in range(PENDING_MAX):  # those who have come before have their turn, too
            if time.monotonic() < self._pause_until or not self._has_room():
                return
            try:
                conn, _ = server.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _CLOSED:
                    self._drop(server)
                    return
                if error.errno in _FULL:
                    self._pause_until = time.monotonic() + _PAUSE_S
                    return
                continue  # it is about this caller only
            try:
                if not peer_is_us(conn):
                    conn.close()
                    continue
                conn.setblocking(False)
                self._callers.append(_Caller(conn, *self._greet()))
            except BaseException:
                conn.close()
                raise

    def _drop(self, server: socket.socket) -> None:
        self._servers.remove(server)
        server.close()

    def _send_away(self, caller: _Caller) -> None:
        self._callers.remove(caller)
        caller.conn.close()

    def _let_in(self, caller: _Caller) -> None:
        """Where no thread can be had now, he stays until there is one."""
        caller.conn.setblocking(True)
        try:
            threading.Thread(target=self._admit, args=(caller.conn, *caller.proven), daemon=True,
                             name=self._name).start()
        except RuntimeError:
            return
        self._callers.remove(caller)
