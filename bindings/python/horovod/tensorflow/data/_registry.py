# SPDX-License-Identifier: Apache-2.0
"""Where the parts of a data service find one another: a table of addresses with a server around it.

A connection carries one request and one answer, in lines: a number that the server makes up; the
request in JSON, behind its digest; the answer likewise. Digests are made with the common key over
that number and the text, so nothing is obeyed or believed that was not made for this connection by
one who has the key. Nothing is secret but the key. Strangers get as far as reigen/_door.py lets
them, before their request has a thread.
"""
import json
import os
import socket
import threading
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from horovod.runner.common.util.secret import check_digest, compute_digest
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.util.network import get_driver_ip
from reigen._door import Door

#: Seconds that a connection may take, and that an answer may be late.
PATIENCE_S = 10
#: A longer line than any request.
LINE_MAX = 65536
#: Seconds for which one request waits for the end.
TURN_S = 20

_ERRORS = {'IndexError': IndexError, 'ValueError': ValueError,
           'TimeoutException': TimeoutException}


def _sign(key: bytes, label: bytes, nonce: bytes, message: Any) -> bytes:
    text = json.dumps(message).encode()
    return compute_digest(key, label + nonce + text).hex().encode() + b' ' + text + b'\n'


def _check(key: bytes, label: bytes, nonce: bytes, line: bytes) -> Any:
    """The message. ConnectionError when it was not made with the key for this connection."""
    digest, _, text = line.rstrip(b'\n').partition(b' ')
    try:
        if check_digest(key, label + nonce + text, bytes.fromhex(digest.decode())):
            return json.loads(text)
    except ValueError:
        pass
    raise ConnectionError('a message without the key of this data service')


class ComputeService:
    """The table, and a thread that serves it, from now on until shutdown()."""

    def __init__(self, dispatchers: int, workers_per_dispatcher: int, key: bytes, nics: Any = None):
        if dispatchers <= 0 or workers_per_dispatcher <= 0:
            raise ValueError(f'There must be dispatchers, and workers for each: {dispatchers} and '
                             f'{workers_per_dispatcher}.')
        self._key = key
        self._workers_wanted = workers_per_dispatcher
        self._dispatchers: list = [None] * dispatchers
        self._workers = [set() for _ in range(dispatchers)]
        self._changed = threading.Condition()
        self._over = False
        self._busy = 0
        server = socket.create_server(('', 0), backlog=128)
        self._port = server.getsockname()[1]
        self._door = Door([server], self._greet, LINE_MAX, self._serve, 'reigen-data-service')

    def addresses(self) -> Dict[str, Sequence[Tuple[str, int]]]:
        """Where it can be reached: addresses and ports, by how they are called."""
        return {'host': [(get_driver_ip(), self._port)], 'lo': [('127.0.0.1', self._port)]}

    def shutdown(self) -> None:
        """Tell those who wait for the end, and stop when they know."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._busy == 0, PATIENCE_S)
        self._door.close()

    def _greet(self) -> Tuple[bytes, Callable[[bytes], Any]]:
        nonce = os.urandom(32).hex().encode()

        def check(said: bytes) -> Any:
            if not said.endswith(b'\n'):
                return None
            return b'', (nonce, _check(self._key, b'request', nonce, said))

        return nonce + b'\n', check

    def _serve(self, connection: socket.socket, asked: Tuple[bytes, Any]) -> None:
        with connection:
            connection.settimeout(PATIENCE_S)
            try:
                self._answer_one(connection, *asked)
            except OSError:
                pass  # who asked has gone

    def _answer_one(self, connection: socket.socket, nonce: bytes, request: Any) -> None:
        with self._changed:
            self._busy += 1
            try:
                answer = {'value': self._answer(request)}
            except tuple(_ERRORS.values()) as error:
                answer = {'error': type(error).__name__, 'text': str(error)}
        try:
            connection.sendall(_sign(self._key, b'answer', nonce, answer))
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _answer(self, request: Dict[str, Any]) -> Any:
        """Do what is asked for. The condition is held, and let go while it waits."""
        what, number = request['what'], request.get('dispatcher', 0)
        if not 0 <= number < len(self._dispatchers):
            raise IndexError(f'There is no dispatcher {number}; they are 0 to '
                             f'{len(self._dispatchers) - 1}.')
        if what == 'dispatcher is at':
            if self._dispatchers[number] not in (None, request['address']):
                raise ValueError(f'Dispatcher {number} has been registered already, at '
                                 f'{self._dispatchers[number]}.')
            self._dispatchers[number] = request['address']
        elif what == 'worker is there':
            self._workers[number].add(request['worker'])
        elif what == 'end':
            self._over = True
        elif what == 'where is dispatcher':
            self._wait(lambda: self._dispatchers[number] is not None, request,
                       f'dispatcher {number}')
            return self._dispatchers[number]
        elif what == 'are workers there':
            self._wait(lambda: len(self._workers[number]) >= self._workers_wanted, request,
                       f'the workers of dispatcher {number}')
        else:
            return self._changed.wait_for(lambda: self._over, TURN_S)
        self._changed.notify_all()
        return None

    def _wait(self, there: Callable[[], bool], request: Dict[str, Any], who: str) -> None:
        if not self._changed.wait_for(there, request['timeout']):
            raise TimeoutException(f'{who} did not come within {request["timeout"]} s. See why, or '
                                   'allow more time.')


class ComputeClient:
    """Asks a ComputeService. ConnectionError when it does not answer, or has another key."""

    def __init__(self, compute_addresses: Mapping[str, Sequence[Tuple[str, int]]], key: bytes,
                 verbose: int = 1):
        self._addresses = [tuple(a) for found in compute_addresses.values() for a in found]
        self._key = key

    def register_dispatcher(self, dispatcher_id: int, dispatcher_address: str) -> None:
        self._ask(what='dispatcher is at', dispatcher=dispatcher_id, address=dispatcher_address)

    def wait_for_dispatcher_registration(self, dispatcher_id: int, timeout: float) -> str:
        """The dispatcher's address, when there is one."""
        return self._ask(what='where is dispatcher', dispatcher=dispatcher_id, timeout=timeout)

    def register_worker_for_dispatcher(self, dispatcher_id: int, worker_id: int) -> None:
        self._ask(what='worker is there', dispatcher=dispatcher_id, worker=worker_id)

    def wait_for_dispatcher_worker_registration(self, dispatcher_id: int, timeout: float) -> None:
        """Return when the dispatcher has all its workers."""
        self._ask(what='are workers there', dispatcher=dispatcher_id, timeout=timeout)

    def shutdown(self) -> None:
        """Tell everyone that the service is no longer needed."""
        self._ask(what='end')

    def wait_for_shutdown(self) -> None:
        """Return when shutdown() has been called."""
        while not self._ask(what='wait for the end', timeout=TURN_S):
            pass

    def _ask(self, **request: Any) -> Any:
        problems = []
        for address in self._addresses:
            try:
                with socket.create_connection(address, PATIENCE_S) as connection:
                    return self._talk(connection, request)
            except OSError as error:
                problems.append(f'{address[0]}:{address[1]}: {error}')
        raise ConnectionError(f'The data service does not answer: {"; ".join(problems)}')

    def _talk(self, connection: socket.socket, request: Dict[str, Any]) -> Any:
        with connection.makefile('rwb') as stream:
            nonce = stream.readline(LINE_MAX).rstrip(b'\n')
            stream.write(_sign(self._key, b'request', nonce, request))
            stream.flush()
            connection.settimeout(request.get('timeout', 0) + PATIENCE_S)
            answer = _check(self._key, b'answer', nonce, stream.readline(LINE_MAX))
        error: Optional[str] = answer.get('error')
        if error is not None:
            raise _ERRORS[error](answer['text'])
        return answer['value']
