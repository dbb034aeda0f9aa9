# SPDX-License-Identifier: Apache-2.0
"""A launcher and an agent of an elastic job, played: for what cannot happen on demand.

Job starts real ranks, speaks src/wire/rankmsg.h to them over an abstract unix socket, and lets the
test decide who is killed when, who comes, and who is told. Each place is a process that the test
can name; all of them are on this computer.
"""
import itertools
import os
import selectors
import socket
import struct
import tempfile
import threading

import jobs
import preloaded
from jobs import HERE, ROOT, library
from wait import until

(HELLO, WELCOME, FENCE, FENCE_DONE, FENCE_FAILED, PEER_DIED, NOTE, GOODBYE) = range(1, 9)
MEET, EPOCH, UPDATE, ELASTIC = range(15, 19)
GONE, COME, STOPS, AT_RISK = 1, 2, 4, 8
TOKEN = bytes(range(16))
_numbers = itertools.count()


def _span(data):
    return struct.pack('<I', len(data)) + data


class _Place:
    def __init__(self, process, file):
        self.process, self.file = process, file
        self.connection = None
        self.received = b''
        self.epoch = 0         # of which it has been told
        self.meets = None      # (epoch, failed) while it waits
        self.knows = False     # hvd.elastic.run
        self.dead = self.left = self.leaving = False


class Job:
    """A job whose ranks are processes of one program, under ranks/ or anywhere. To be closed.

    held: no epoch is published until it is set to False again. on_meet(place): called in the
    agent's thread when a rank has come to meet, before anything is answered.
    """

    def __init__(self, program, *arguments, env=None, python=jobs.python()):
        self.python = str(python)
        self.argv = [str(HERE / 'ranks' / program), *map(str, arguments)]
        self.env, self.places, self.number, self.members = env or {}, [], 0, []
        self.stamp, self.held, self.fences, self.updates = 1, False, {}, 0
        self.on_fence = None
        self.lock = threading.RLock()
        self.name = f'reigen-epochs-{os.getpid()}-{next(_numbers)}'
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind('\0' + self.name)
        self.listener.listen(64)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self._accept)
        self.over = False
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    # ------------------------------------------------------------------ what tests do

    def start(self, count, env=None):
        """So many more ranks; the others are told when all of these have come to meet."""
        with self.lock:
            size = len(self.members) + count
            new = range(len(self.places), len(self.places) + count)
            for number in new:
                self.places.append(self._spawn(number, len(self.members) + number - new[0], size,
                                               env or {}))

    def kill(self, number, signal=9):
        self.places[number].process.send_signal(signal)

    def release(self):
        """No longer held."""
        with self.lock:
            self.held = False
            self._publish()

    def drop(self, number):
        """As if its host had left the list: the ranks meet without it at their next commit."""
        with self.lock:
            self.places[number].leaving = True
            self._update(GONE)

    def tell(self, result):
        """Something that changes no epoch."""
        with self.lock:
            self._update(result)

    def text(self, number):
        return preloaded.text(self.places[number].file)

    def output(self):
        return '\n'.join(f'--- place {number}\n{self.text(number)[-4000:]}'
                         for number in range(len(self.places)))

    def wait_for(self, number, text, limit=30):
        def is_there():
            there = self.places[number].process.poll() is None
            assert text in self.text(number) or there, f'place {number} has ended\n{self.output()}'
            return text in self.text(number)
        until(is_there, f'{text!r} of place {number}', limit, self.output)

    def wait(self, limit=60):
        """The exit statuses, by place."""
        until(lambda: all(place.process.poll() is not None for place in self.places),
              'the end of all ranks', limit, self.output)
        return [place.process.returncode for place in self.places]

    def close(self):
        self.over = True
        for place in self.places:
            if place.process.poll() is None:
                place.process.kill()
            place.process.wait()
        self.thread.join()
        for place in self.places:
            place.file.close()
            if place.connection:
                place.connection.close()
        self.listener.close()
        self.selector.close()

    # ------------------------------------------------------------------ the launcher

    def _spawn(self, number, rank, size, env):
        variables = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONUNBUFFERED': '1',
                     'PYTHONDONTWRITEBYTECODE': '1',
                     'PYTHONPATH': str(ROOT / 'bindings/python'),
                     'REIGEN_ELASTIC': '1', 'REIGEN_PLACE': str(number),
                     'REIGEN_EPOCH': str(self.number + 1), 'REIGEN_AGENT_SOCKET': '@' + self.name,
                     'REIGEN_RANK_TOKEN': TOKEN.hex(), 'REIGEN_RANK': str(rank),
                     'REIGEN_SIZE': str(size), 'RANK': str(rank), 'WORLD_SIZE': str(size),
                     **self.env, **env}
        found = library()
        if found:
            variables['REIGEN_LIBRARY'] = found
        file = tempfile.TemporaryFile()
        return _Place(jobs.begin(self.python, self.argv, variables, file), file)

    def _living(self):
        return [number for number, place in enumerate(self.places)
                if not place.dead and not place.leaving]

    def _publish(self):
        """The next epoch, once all members that live have come, and newcomers with them."""
        living = self._living()
        waiting = [number for number in living if self.places[number].meets is not None]
        old = [number for number in self.members if number in living]
        new = [number for number in living if number not in self.members]
        if self.held or not waiting or any(number not in waiting for number in old):
            return
        if not set(new) <= set(waiting):
            if not old:
                return
            new = []
        self.sync = int(bool(new) or any(self.places[number].meets[1] for number in old))
        self.number += 1
        self.members = old + new
        for number in self.members:
            self._tell(number)
        for number, place in enumerate(self.places):
            if place.leaving and not place.dead:
                place.process.terminate()

    def _tell(self, number):
        """Who it is now."""
        place, size = self.places[number], len(self.members)
        rank = self.members.index(number)
        place.meets, place.epoch = None, self.number
        self._send(place, EPOCH, struct.pack('<7IB', self.number, rank, size, rank, size, 0, 1,
                                             self.sync) + _span(bytes([self.number % 256]) * 32))

    def _update(self, result):
        self.stamp += 1
        self.updates += 1
        for number in self.members:
            self._send(self.places[number], UPDATE, struct.pack('<QI', self.stamp, result))

    def _finish(self):
        """A member's work is done: nobody else comes."""
        for number, place in enumerate(self.places):
            if number not in self.members and not place.dead and not place.leaving:
                place.leaving = True
                place.process.terminate()

    def _reap(self):
        for number, place in enumerate(self.places):
            if place.dead or place.process.poll() is None:
                continue
            place.dead = True
            if number not in self.members:
                continue
            if place.left and place.process.returncode == 0:
                self._finish()
                continue
            status = place.process.returncode
            death = (struct.pack('<I', self.members.index(number)) + _span(b'here') +
                     struct.pack('<BiB', int(status < 0), abs(status), 0) + _span(b''))
            for other in self.members:
                if self.places[other].epoch == self.number:
                    self._send(self.places[other], PEER_DIED, death)
                    self._fail(self.places[other])
            self._publish()

    # ------------------------------------------------------------------ the agent

    def _serve(self):
        while not self.over:
            for key, _ in self.selector.select(0.01):
                with self.lock:
                    key.data(key.fileobj)
            with self.lock:
                self._reap()

    def _accept(self, listener):
        connection = listener.accept()[0]
        self.selector.register(connection, selectors.EVENT_READ, self._first)

    def _drop(self, connection):
        self.selector.unregister(connection)
        connection.close()

    def _first(self, connection):
        """HELLO says whose it is."""
        try:
            data = connection.recv(1 << 16)
        except OSError:
            data = b''
        if len(data) < 14:
            return self._drop(connection)
        place = self.places[struct.unpack_from('<I', data, 10)[0]]
        if place.connection:  # of the same process: what it said last is still there
            place.connection.settimeout(0)
            while place.connection:
                self._read(place, place.connection)
        place.connection, place.received, place.left, place.epoch = connection, data, False, 0
        self.selector.modify(connection, selectors.EVENT_READ, lambda c: self._read(place, c))
        self._frames(place)

    def _read(self, place, connection):
        if connection is not place.connection:
            return None
        try:
            data = connection.recv(1 << 20)
        except OSError:
            data = b''
        if not data:
            place.connection, place.epoch = None, 0
            return self._drop(connection)
        place.received += data
        return self._frames(place)

    def _frames(self, place):
        while len(place.received) >= 6:
            nbytes, kind = struct.unpack_from('<IH', place.received)
            if len(place.received) < 6 + nbytes:
                return
            payload, place.received = place.received[6:6 + nbytes], place.received[6 + nbytes:]
            self._on_frame(place, kind, payload)

    def _on_frame(self, place, kind, payload):
        number = self.places.index(place)
        if kind == HELLO:
            self._send(place, WELCOME, struct.pack('<II', 0, 0) + _span(b'') + b'\1')
        elif kind == ELASTIC:
            place.knows = True
        elif kind == GOODBYE:
            place.left = True
        elif kind == MEET:
            place.meets = struct.unpack('<IB', payload)
            again = place.meets == (self.number, 0) and not place.knows
            if number in self.members and (place.meets[0] < self.number or again):
                self._tell(number)
            elif not place.leaving and self.members and number not in self.members and all(
                    self.places[other].meets for other in self._living()
                    if other not in self.members):
                self._update(COME)
            self._publish()
        elif kind == FENCE:
            self._fence(place, number, payload)

    def _fence(self, place, number, payload):
        generation, _, nbytes = struct.unpack_from('<III', payload)
        epoch, = struct.unpack_from('<I', payload, 12 + nbytes)
        if self.on_fence:
            self.on_fence(number, epoch, generation)
        if epoch != self.number:
            return
        place.generation = generation
        if any(self.places[other].dead for other in self.members):
            return self._fail(place)
        blobs = self.fences.setdefault((epoch, generation), {})
        blobs[number] = payload[12:12 + nbytes]
        if len(blobs) == len(self.members):
            everything = b''.join(_span(blobs[other]) for other in self.members)
            done = struct.pack('<II', generation, 0) + _span(everything)
            for other in self.members:
                self._send(self.places[other], FENCE_DONE, done + struct.pack('<I', epoch))

    def _fail(self, place):
        self._send(place, FENCE_FAILED, struct.pack('<II', getattr(place, 'generation', 0), 104)
                   + _span(b'a rank has ended') + struct.pack('<I', self.number))

    @staticmethod
    def _send(place, kind, payload):
        if place.connection:
            try:
                place.connection.sendall(struct.pack('<IH', len(payload), kind) + payload)
            except OSError:
                pass  # it has ended: that is seen by its process
