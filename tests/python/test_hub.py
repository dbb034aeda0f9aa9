# SPDX-License-Identifier: Apache-2.0
"""How processes that a cluster has placed become ranks (reigen._hub, reigen._member), on real
sockets, and the verdicts of horovod.spark.run() on what they tell; without a cluster."""
import functools
import itertools
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import types

import pytest
from wait import until

import jobs

sys.path.insert(0, str(jobs.ROOT / 'bindings/python'))
HERE = '127.0.0.1'


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.setenv('REIGEN_LIBRARY', jobs.library())
    from reigen import _frames, _hub, _member, _travel
    return types.SimpleNamespace(frames=_frames, hub=_hub, member=_member, travel=_travel)


@pytest.fixture
def hub(modules):
    """hub(size): it is closed in the end."""
    made = []

    def make(size):
        made.append(modules.hub.Hub(size, HERE))
        return made[-1]
    yield make
    for one in made:
        one.close()


def facts(machine='m'):
    return {'machine': machine, 'host': machine}


def line(modules, hub, key=None):
    return modules.frames.Line(socket.create_connection(hub.address), key or hub.key, called=False)


def events(hub, count):
    found = [hub.events.get(60) for _ in range(count)]
    return sorted((one.kind, one.index) for one in found)


def ways(modules, hub, size):
    """Members, all of which have been told their places."""
    call = modules.member.Call(hub.address, hub.key, b'', {})
    made = [modules.member._Way(call, index, facts()) for index in range(size)]
    assert [way.started.get(timeout=60)['rank'] for way in made] == list(range(size))
    return made


def at_once(*calls):
    """What they return, or raise."""
    found = [None] * len(calls)

    def work(i):
        try:
            found[i] = calls[i]()
        except Exception as error:
            found[i] = error
    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


# ------------------------------------------------------------------------------ strangers

def pair():
    with socket.create_server((HERE, 0)) as server:
        there = socket.create_connection(server.getsockname())
        return server.accept()[0], there


@pytest.mark.parametrize('words', [b'GET / HTTP/1.1\r\nHost: x\r\n' + b'x' * 64, b'\xff' * 64,
                                   b'\0' * 64])
def test_a_stranger_is_put_out_and_the_job_goes_on(modules, hub, words):
    one = hub(1)
    with socket.create_connection(one.address) as stranger:
        stranger.sendall(words)
        nonce = stranger.recv(32)
        assert len(nonce) == 32
        try:
            assert stranger.recv(1) == b''
        except ConnectionResetError:
            pass
    friend = line(modules, one)
    friend.send('here', index=0, **facts())
    assert friend.receive()[0]['kind'] == 'start'
    assert events(one, 1) == [('here', 0)]
    friend.drop()


def test_neither_side_takes_one_without_the_key(modules, hub):
    with pytest.raises((EOFError, OSError)):
        line(modules, hub(1), b'another key of another job......')
    ours, theirs = pair()
    with theirs:
        theirs.sendall(bytes(32) + bytes(32))  # answers as a hub does, and has no key
        with pytest.raises(modules.frames.Stranger, match='does not know the key'):
            modules.frames.Line(ours, b'key', called=False)
    assert ours.fileno() == -1


def test_a_stranger_cannot_stretch_its_time(modules):
    ours, theirs = pair()
    ended = threading.Event()

    def drips():
        while not ended.wait(0.05):  # each read has its byte soon, and all of them take long
            theirs.sendall(b'x')
    thread = threading.Thread(target=drips)
    thread.start()
    try:
        with pytest.raises(OSError, match='timed out'):
            modules.frames.Line(ours, b'key', called=True, greet_s=0.3)
    finally:
        ended.set()
        thread.join()
        theirs.close()


def test_a_frame_of_any_length_is_not_believed(modules, monkeypatch):
    monkeypatch.setattr(modules.frames, 'HEAD_NBYTES_MAX', 1000)
    ours, theirs = pair()
    friends = at_once(lambda: modules.frames.Line(ours, b'key', called=True),
                      lambda: modules.frames.Line(theirs, b'key', called=False))
    friends[1]._sock.sendall(b'\xff' * 8)
    with pytest.raises(ConnectionError, match='a frame of 4294967295 and'):
        friends[0].receive()
    with pytest.raises(ValueError, match='is longer than'):
        friends[0].send('x', long='x' * 1000)
    for friend in friends:
        friend.drop()
    with pytest.raises(OSError):
        friends[0].send('out')


def test_what_is_sealed_is_read_by_the_key_alone(modules):
    seal, unseal = modules.frames.seal, modules.frames.unseal
    for data in (b'', b'the key of the job' * 40):
        sealed = seal(b'key', data)
        assert unseal(b'key', sealed) == data and sealed != seal(b'key', data)
        with pytest.raises(modules.frames.Stranger):
            unseal(b'other', sealed)
        with pytest.raises(modules.frames.Stranger):
            unseal(b'key', bytes([sealed[0] ^ 1]) + sealed[1:])


def test_the_secret_of_the_job_is_not_in_the_clear_on_the_way(modules, hub, monkeypatch):
    one, seen = hub(2), []
    take = one._take
    monkeypatch.setattr(one, '_take', lambda *words: (seen.append(words[2]), take(*words)))
    made = ways(modules, one, 2)
    blobs = [b'a secret of rank 0', b'a secret of rank 1']
    assert at_once(*(functools.partial(way.gather, blob, 60)
                     for way, blob in zip(made, blobs))) == [blobs, blobs]
    assert len(seen) == 2 and not any(b'secret' in data for data in seen)
    for way in made:
        way.close()


def test_a_call_shows_no_key_and_no_variables(modules):
    text = repr(modules.member.Call((HERE, 1), b'abcdef', b'xyz', {'TOKEN': 'hidden'}))
    assert 'abcdef' not in text and 'hidden' not in text and HERE in text


# ------------------------------------------------------------------------------ ranks

def test_ranks_of_a_machine_follow_each_other(modules, hub):
    one = hub(5)
    one._facts = {i: facts(name) for i, name in enumerate('abacb')}
    one._lines = {i: types.SimpleNamespace(send=lambda *_, **__: None) for i in range(5)}
    one._number()
    assert [[p[name] for name in ('index', 'local_rank', 'local_size', 'cross_rank', 'cross_size')]
            for p in one.places] == [[0, 0, 2, 0, 3], [2, 1, 2, 0, 2], [1, 0, 2, 1, 3],
                                     [4, 1, 2, 1, 2], [3, 0, 1, 2, 3]]
    assert [one.rank_of(i) for i in range(5)] == [0, 2, 1, 4, 3]


def test_many_machines_are_numbered_at_once(modules, hub):
    one = hub(3000)
    one._facts = {i: facts(f'm{i}') for i in range(3000)}
    told = []
    one._lines = {i: types.SimpleNamespace(send=lambda kind, data, place: told.append(place))
                  for i in range(3000)}
    one._number()
    assert told[-1]['cross_rank'] == 2999 and told[0]['cross_size'] == 3000


def test_a_process_that_comes_twice_waits_and_is_let_go(modules, hub):
    one = hub(1)
    first, second = line(modules, one), None
    first.send('here', index=0, **facts())
    assert events(one, 1) == [('here', 0)]
    second = line(modules, one)
    second.send('here', index=0, **facts())
    assert events(one, 1) == [('again', 0)]
    one.close()
    for each in (first, second):
        with pytest.raises((EOFError, OSError)):
            while True:  # the first has been told to start
                each.receive()
        each.drop()


def test_who_prints_faster_than_it_is_shown_waits_and_is_let_go(modules, hub, monkeypatch):
    monkeypatch.setattr(modules.hub, '_EVENTS', 4)
    one = hub(1)
    put = [one._put] * 9
    threads = [threading.Thread(target=call, args=('out', 0, {})) for call in put]
    for thread in threads:
        thread.start()
    until(lambda: len(one.events._events) == 4, 'events')
    assert [one.events.get(60).kind for _ in range(3)] == ['out'] * 3
    until(lambda: sum(thread.is_alive() for thread in threads) == 2, 'those that have room now')
    one.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert one.events.get(0) is None


def test_jobs_leave_no_descriptor_and_no_thread_here(modules, hub, monkeypatch):
    monkeypatch.setattr(modules.member._core, 'shutdown', lambda: None)

    def state():
        return len(os.listdir('/proc/self/fd')), threading.active_count()
    before = state()
    for _ in range(10):
        one = hub(3)
        made = ways(modules, one, 3)
        stranger = socket.create_connection(one.address)
        stranger.close()
        for way in made:
            way.close()
        one.close()
    until(lambda: state() == before, f'{before}', seen=state)


def test_a_hub_that_can_take_no_more_says_so(modules, hub, monkeypatch):
    one = hub(1)

    def accept():
        raise OSError(24, 'Too many open files')
    monkeypatch.setattr(one, '_server', types.SimpleNamespace(accept=accept, close=lambda: None,
                                                              shutdown=one._server.shutdown))
    with socket.create_connection(one.address):
        pass  # the accept() that waits returns, and the next one fails
    event = one.events.get(60)
    assert event.kind == 'deaf' and event.fields['why'] == 'Too many open files'


# ------------------------------------------------------------------------------ members

def test_stop_ends_whoever_waits_for_others(modules, hub, monkeypatch):
    left = threading.Event()
    monkeypatch.setattr(modules.member._core, 'shutdown', left.set)
    one = hub(2)
    first, second = ways(modules, one, 2)
    thread = threading.Thread(target=lambda: until(lambda: one._said, 'a gather') and one.stop())
    thread.start()
    with pytest.raises(modules.member.Gone):
        first.gather(b'x', 3600)
    with pytest.raises(modules.member.Gone):
        first.gather(b'x', 3600)  # and so it stays
    thread.join()
    assert left.wait(60) and first.stopped
    for way in (first, second):
        way.close()


def test_stop_ends_whoever_has_not_started(modules, hub):
    one = hub(2)
    call = modules.member.Call(one.address, one.key, b'', {})
    told = []
    thread = threading.Thread(target=lambda: told.append(modules.member.take_part(
        0, call, {}, lambda: None)))
    thread.start()
    assert events(one, 1) == [('here', 0)]
    one.stop()
    event = one.events.get(60)
    assert event.kind == 'end' and not event.fields['well'] and event.fields['follows']
    thread.join(60)
    assert told == [None]


def test_a_late_word_to_leave_is_waited_for(modules, hub):
    way, = ways(modules, hub(1), 1)
    joined = []

    class Late:
        """The reader hears it as the job ends."""
        def join(self):
            way._leaving.append(types.SimpleNamespace(join=lambda: joined.append('leave')))
    reader, way.reader = way.reader, Late()
    way.close()
    reader.join(60)
    assert joined == ['leave']


def test_an_exchange_that_was_given_up_is_not_taken_for_the_next(modules, hub):
    first, second = ways(modules, hub(2), 2)
    with pytest.raises(TimeoutError, match='rank 1 on m did not call init'):
        first.gather(b'old', 0.01)
    assert at_once(lambda: second.gather(b'late', 60))[0] == [b'old', b'late']
    both = at_once(lambda: first.gather(b'a', 60), lambda: second.gather(b'b', 60))
    assert both == [[b'a', b'b']] * 2
    for way in (first, second):
        way.close()


def test_of_many_that_are_late_some_are_named(modules, hub):
    first, *others = ways(modules, hub(11), 11)
    with pytest.raises(TimeoutError) as told:
        first.gather(b'', 0.01)
    text = str(told.value)
    assert text.startswith('rank 1 on m, rank 2 on m, ') and ', rank 8 on m and 2 more did ' in text
    for way in (first, *others):
        way.close()


@pytest.mark.parametrize('far', [False, True])
def test_who_calls_init_again_meets_the_others(modules, hub, monkeypatch, far):
    """far: another one is in the second exchange of the meeting that was given up."""
    one, numbers, found = hub(2), itertools.count(), []

    def meet(rank, size, exchange, *_):
        number = next(numbers)  # of the call
        found.append((rank, [exchange(b'%d %d' % (number, turn)) for turn in range(3)]))
    monkeypatch.setattr(modules.member.boot, 'meet', meet)
    first, second = ways(modules, one, 2)
    with pytest.raises(TimeoutError, match='rank 1 on m did not call init'):
        first.meet(0, 2, 0.01)
    other = threading.Thread(target=second.meet, args=(1, 2, 60))
    if far:
        other.start()
        until(lambda: one._said.get(1, [{}])[0].get('turn'), 'the second exchange')
    again = threading.Thread(target=first.meet, args=(0, 2, 60))
    again.start()
    if not far:
        until(lambda: 0 in one._said and one._said[0][0]['round'] == 2, 'the second call')
        other.start()
    for thread in (other, again):
        thread.join(60)
    assert len(found) == 2 and found[0][1] == found[1][1]
    for way in (first, second):
        way.close()


def test_who_was_interrupted_in_init_may_call_it_again(modules, hub, monkeypatch):
    interrupted, found = [], []

    def meet(rank, size, exchange, timeout, stop):
        if not interrupted:
            interrupted.append(1)
            stop()
            raise KeyboardInterrupt
        found.append(exchange(b'%d' % rank))
    monkeypatch.setattr(modules.member.boot, 'meet', meet)
    first, second = ways(modules, hub(2), 2)
    with pytest.raises(KeyboardInterrupt):
        first.meet(0, 2, 60)
    other = threading.Thread(target=second.meet, args=(1, 2, 60))
    other.start()
    first.meet(0, 2, 60)
    other.join(60)
    assert found == [[b'0', b'1']] * 2
    for way in (first, second):
        way.close()


def test_what_an_exchange_sends_a_member_grows_by_what_is_new_in_it(modules, hub, monkeypatch):
    """Each gets what all have handed over, once; of many that say nearly the same, little."""
    one, size, sent = hub(64), 64, []
    tell = one._tell
    monkeypatch.setattr(one, '_tell', lambda index, kind, data=b'', **fields: (
        sent.append(len(data)), tell(index, kind, data, **fields)))
    made = ways(modules, one, size)
    blobs = [b'{"address": "10.0.0.%d", "port": 40000, "kernel": "6.1", "version": "0.1.0"}' % i
             for i in range(size)]
    del sent[:]
    found = at_once(*(functools.partial(way.gather, blob, 60) for way, blob in zip(made, blobs)))
    assert all(one == blobs for one in found)
    assert len(sent) == size and max(sent) < sum(map(len, blobs)) / 5
    for way in made:
        way.close()


class Workers:
    """Processes that take part in one job after the other."""

    def __init__(self, modules, size):
        self.modules, self.size = modules, size
        env = {**os.environ, 'PYTHONPATH': str(jobs.ROOT / 'bindings/python'),
               'REIGEN_LIBRARY': jobs.library(), 'PYTHONDONTWRITEBYTECODE': '1'}
        self.children = [subprocess.Popen(
            [sys.executable, jobs.HERE / 'ranks/member.py', str(index)], env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for index in range(size)]

    def begin(self, hub, function, key=None):
        _, parcel = self.modules.travel.pack(function)
        for child in self.children:
            pickle.dump((hub.address, key or hub.key, parcel, {'GREETING': 'hello'}), child.stdin)
            child.stdin.flush()

    def told(self):
        return [json.loads(child.stdout.readline()) for child in self.children]

    def close(self):
        for child in self.children:
            child.stdin.close()
            child.wait(60)
            child.stdout.close()


@pytest.fixture
def workers(modules):
    made = []

    def make(size):
        made.append(Workers(modules, size))
        return made[-1]
    yield make
    for one in made:
        one.close()


def of(text):
    """A function that travels without cloudpickle and without this file."""
    return functools.partial(eval, compile_here(text))


def compile_here(text):
    return f'[__import__("sys").modules.setdefault("made", None), {text}][1]'


SUM = ('(lambda r, n: (r.init(), float(r.allreduce(n.ones(1), op=r.Sum)[0]), '
       '__import__("os").environ["GREETING"], print("x" * 200000))[1:3])'
       '(__import__("reigen"), __import__("numpy"))')
FAILS = '(lambda r: (r.init(), 1 / 0 if r.rank() == 1 else r.barrier()))(__import__("reigen"))'
#: A process stays, that holds the pipe and prints without end.
LEAVES = ('print("last") or __import__("subprocess").Popen(["sh", "-c", "while echo y; do :; done"'
          '], start_new_session=True).pid')


def job(hub, size):
    """Its events until all have ended: the output by rank, the ends."""
    out, ends, failed = {}, {}, []
    while len(ends) < size:
        event = hub.events.get(60)
        assert event is not None, ends
        if event.kind == 'out':
            assert event.index not in ends, 'a line after the end'
            out[event.index] = out.get(event.index, b'') + event.data
        elif event.kind == 'failed':
            failed.append(event.index)
        elif event.kind in ('end', 'lost'):
            if event.kind == 'end' and event.fields['well'] is False:
                assert failed[0] == size - 1, 'whose failure was first is told first'
            ends.setdefault(event.index, event)  # its line is cut after its end
    return out, ends


def test_workers_are_ranks_again_and_again_and_keep_nothing(hub, workers):
    some = workers(2)
    for number in range(4):
        one = hub(2)
        some.begin(one, of(FAILS if number == 2 else SUM))
        out, ends = job(one, 2)
        if number == 2:
            assert [ends[i].fields['well'] for i in range(2)] == [False, False]
            assert [ends[i].fields['follows'] for i in range(2)] == [True, False]
            assert b'ZeroDivisionError' in ends[1].data
            assert [told['result'] for told in some.told()] == [None, None]
            continue
        assert out == {i: b'x' * 200000 + b'\n' for i in range(2)}
        told = some.told()
        assert [one['result'] for one in told] == [[i, [2.0, 'hello']] for i in range(2)]
        # The first has loaded the library and begun what stays.
        assert number == 0 or all(one['clean'] for one in told), told
        one.close()


def test_a_process_that_is_left_behind_neither_holds_nor_follows_the_job(hub, workers):
    some, one = workers(1), hub(1)
    some.begin(one, of(LEAVES))
    out, ends = job(one, 1)
    (_, pid), = [told['result'] for told in some.told()]
    try:
        assert ends[0].fields['well'] and b'last\n' in out[0].splitlines(keepends=True)
        again = hub(1)
        some.begin(again, of(SUM))
        out, _ = job(again, 1)
        assert out == {0: b'x' * 200000 + b'\n'}
    finally:
        os.kill(pid, 9)
    some.told()


def test_who_finds_no_hub_says_where_it_looked(modules, hub, workers):
    some, one = workers(1), hub(1)
    some.begin(one, of('1'), key=b'of another job')
    text = some.told()[0]['gone']
    assert f'does not answer at {HERE} port {one.address[1]}: ' in text, text
    one.close()
    some.begin(one, of('1'))
    assert 'Connection refused. Has the job ended' in some.told()[0]['gone']


# ------------------------------------------------------------------------------ verdicts

@pytest.fixture
def runner(modules, monkeypatch):
    monkeypatch.setitem(sys.modules, 'pyspark', types.ModuleType('pyspark'))
    monkeypatch.delitem(sys.modules, 'horovod.spark.runner', raising=False)
    from horovod.spark import runner as module
    yield module
    sys.modules.pop('horovod.spark.runner', None)


class Played:
    """A stage of which Spark says this, look by look: tasks that have failed, that run, and whose
    result it has. Then it is through."""
    is_over, error = False, None

    def __init__(self, counts, results):
        self._counts, self.results = iter(counts), results

    def _stages(self):
        found = next(self._counts, None)
        if found is None:
            self.is_over = True
            return []
        return [types.SimpleNamespace(numFailedTasks=found[0], numActiveTasks=found[1],
                                      numCompletedTasks=found[2])]

    def _jobs(self):
        return [types.SimpleNamespace(status='SUCCEEDED')]


def played(runner, counts, results=(), **fields):
    made = type('Stage', (Played, runner._Stage), {})(counts, results)
    vars(made).update({'barrier': False, 'speculates': True, **fields})
    return made


def run(runner, hub, words, error=None, results=(), speculates=False, stage=None):
    """What run() shows and returns, or raises, if these events have come as Spark has ended."""
    import io
    import reigen
    about = {**facts('h'), 'version': reigen.version(),
             'python': '.'.join(map(str, sys.version_info[:2]))}
    hub._facts = {i: about for i in range(hub.size)}
    hub._lines = {i: types.SimpleNamespace(send=lambda *_, **__: None) for i in range(hub.size)}
    hub._number()
    for kind, index, fields, data in words:
        hub._put(kind, index, {**about, **fields}, data)
    hub.over()
    out = io.StringIO()
    stage = stage or played(runner, [(1, 0, 0)], list(results), error=error, is_over=True,
                            speculates=speculates)
    show = runner._Show(out, out, False)
    try:
        return runner._Run(hub, stage, show, 60, 0).wait(), out
    except runner.JobFailed as failure:
        return failure, out


WELL, ILL, AFTER = ({'well': True, 'follows': False}, {'well': False, 'follows': False},
                    {'well': False, 'follows': True})


def test_lines_that_come_after_spark_is_through_are_shown(runner, hub):
    words = [('out', 0, {'stream': 'stdout'}, b'line %d\n' % i) for i in range(500)]
    words.append(('end', 0, WELL, b''))
    found, out = run(runner, hub(1), words, results=[(0, pickle.dumps('it'))])
    assert found == ['it']
    assert out.getvalue() == ''.join(f'[0]<stdout>:line {i}\n' for i in range(500))


@pytest.mark.parametrize('words, text', [
    ([('end', 0, AFTER, b'E: after'), ('end', 1, ILL, b'E: first')],
     'rank 1 on h failed: E: first'),
    ([('end', 0, AFTER, b'E: after'), ('lost', 1, {}, b'')], 'rank 1 on h was lost'),
    ([('end', 0, ILL, b'E: one'), ('end', 1, ILL, b'E: two')], 'rank 0 on h failed: E: one'),
    ([('failed', 0, AFTER, b'E: after'), ('end', 0, AFTER, b''), ('failed', 1, ILL, b'E: it'),
      ('lost', 1, {}, b'')], 'rank 1 on h failed: E: it'),
    ([('end', 1, WELL, b''), ('again', 1, {}, b''), ('end', 0, WELL, b'')], 'rank 1 on h was lost'),
])
def test_who_failed_first_is_told_though_spark_has_given_up(runner, hub, words, text):
    failure, _ = run(runner, hub(2), words, error=RuntimeError('a Java trace'))
    assert failure.cause.startswith(text), failure.cause


def test_a_task_that_is_started_again_for_speed_alone_is_not_lost(runner, hub):
    words = [('end', 1, WELL, b''), ('again', 1, {}, b''), ('end', 0, WELL, b'')]
    results = [(rank, pickle.dumps(rank)) for rank in range(2)]
    found, _ = run(runner, hub(2), words, results=results, speculates=True)
    assert found == [0, 1]


@pytest.mark.parametrize('waiting, counts, lost', [
    ([0, 1], [(0, 3, 1)] * 20, None),
    ([0, 1], [(1, 2, 1)] * 20, 'rank 0 on h was lost: '),   # its result, behind the function
    ([1], [(1, 1, 1)] * 20, 'rank 1 on h was lost: '),      # it runs, and Spark has given it up
    ([0], [(1, 2, 1)] * 20, None),                          # the second process of rank 1
    ([0, 1], [(1, 2, 1)] * 3 + [(1, 2, 2)] * 20, None),     # news were on their way
    ([0, 1], [(0, 0, 0)] * 20, None),                       # there are no news at all
    ([], [(1, 1, 0)] * 20, None),                           # Spark will start it again
], ids=range(7))
def test_who_waits_for_what_spark_has_lost(runner, hub, monkeypatch, waiting, counts, lost):
    """Rank 0 has ended, and 1 has not. waiting: the indices of second processes."""
    one, clock = hub(2), itertools.count()
    monkeypatch.setattr(runner, '_LOOK_S', 0)
    one._waiting = {object(): index for index in waiting}
    stage = played(runner, counts, [(rank, pickle.dumps(rank)) for rank in range(2)])
    wait, ticks_left, last = runner._Run._wait, iter(range(40)), iter([('end', 1, WELL)])

    def ticks(run, seconds):
        stage.is_over = stage.is_over or next(ticks_left, None) is None
        for words in last if stage.is_over else ():
            one._put(*words)
        return wait(run, seconds)
    monkeypatch.setattr(runner._Run, '_wait', ticks)
    monkeypatch.setattr(runner.time, 'monotonic', lambda: next(clock))
    found, _ = run(runner, one, [('again', index, {}, b'') for index in waiting] +
                   [('end', 0, WELL, b'')], stage=stage)
    assert found.cause.startswith(lost) if lost else found == [0, 1]


def test_a_second_process_that_goes_waits_no_longer(modules, hub):
    one = hub(1)
    first, second = (line(modules, one) for _ in range(2))
    first.send('here', index=0, **facts())
    assert events(one, 1) == [('here', 0)]
    second.send('here', index=0, **facts())
    assert events(one, 1) == [('again', 0)] and one.waiting == [0]
    second.drop()
    until(lambda: not one.waiting, 'the end of the second process')
    first.drop()


@pytest.mark.parametrize('counts, cause', [
    ([(0, 2, 0)] * 3, 'Spark has given the stage up: Job 0 cancelled'),
    ([(0, 2, 0), (1, 1, 0)], 'rank 0 on h was lost: ')])
def test_a_cancelled_job_is_not_told_as_a_lost_rank(runner, hub, monkeypatch, counts, cause):
    monkeypatch.setattr(runner, '_NEWS_S', 0)
    stage = played(runner, counts, is_over=True, error=RuntimeError('Job 0 cancelled'))
    jobs = iter(['RUNNING'])
    monkeypatch.setattr(stage, '_jobs', lambda: [types.SimpleNamespace(
        status=next(jobs, 'FAILED'))], raising=False)
    failure, _ = run(runner, hub(2), [('lost', 0, {}, b''), ('lost', 1, {}, b'')], stage=stage)
    assert failure.cause.startswith(cause), failure.cause


def test_those_that_have_not_connected_are_named_by_their_hosts(runner):
    stage = types.SimpleNamespace(running=lambda: {i: f'h{i // 2}' for i in range(20)},
                                  context=types.SimpleNamespace(defaultParallelism=4))
    text = runner.started(stage, [0, 2, 3], 20, 10)
    assert text.startswith('3 of 20 tasks have started after 10 s. Spark runs others that have not '
                           'connected yet: 2 on h2, '), text
    assert text.endswith(' and 1 more hosts.'), text
    stage.running = dict
    assert runner.too_few(stage, [0], 3, 5).startswith(
        'Timed out waiting for Spark tasks to start: 1 of 3 have within 5 s, and the cluster has '
        'some 4 slots. Please check'), text


@pytest.mark.parametrize('fields, text', [
    ({'version': '0.1'}, r'Reigen is 0\.1 on h and .* install the same'),
    ({'python': '3.1'}, r'Python is 3\.1 on h and .* spark\.pyspark\.python'),
])
def test_executors_that_do_not_fit_are_named(runner, hub, fields, text):
    with pytest.raises(RuntimeError, match=text):
        run(runner, hub(1), [('here', 0, fields, b''), ('end', 0, WELL, b'')])


def test_a_line_without_an_end_is_shown_in_parts(runner):
    import io
    out = io.StringIO()
    show = runner._Show(out, out, False)
    for _ in range(40):
        show.take(0, 'stdout', b'x' * 65536)
    shown = out.getvalue()
    show.end()
    assert 0 < len(shown) < len(out.getvalue())
    assert out.getvalue().count('x') == 40 * 65536


def test_a_bar_is_a_line_now_and_then_and_its_end_is_told(runner, monkeypatch):
    import io
    out = io.StringIO()
    show = runner._Show(out, out, False)
    clock = [1.0]
    monkeypatch.setattr(runner.time, 'monotonic', lambda: clock[0])
    for data in (b'10%', b'\r20%', b'\r30%', b'\x1b[', b'2K', b'\r40% \xc3', b'\xa4', b'\n',
                 b'x\r\n'):
        show.take(0, 'stderr', data)
    for data in (b'1%', b'\r2%'):
        show.take(1, 'stdout', data)
    clock[0] += 1.5
    show.take(1, 'stdout', b'\r3%')
    show.end()
    assert out.getvalue().splitlines() == [
        '[0]<stderr>:20%', '[0]<stderr>:40% \u00e4', '[0]<stderr>:x', '[1]<stdout>:2%',
        '[1]<stdout>:3%']


def test_a_limit_that_is_no_number_is_named(runner, monkeypatch):
    monkeypatch.setenv('HOROVOD_SPARK_START_TIMEOUT', 'soon')
    with pytest.raises(ValueError, match="HOROVOD_SPARK_START_TIMEOUT is 'soon'"):
        runner.timeout_of(None)
    for wrong in ('soon', -1, float('nan')):
        with pytest.raises(ValueError, match=f'start_timeout is {wrong!r}: .* above 0'):
            runner.timeout_of(wrong)
    assert runner.timeout_of(0.5) == 0.5


def test_spark_is_told_to_end_tasks_until_it_has(runner, modules, monkeypatch):
    """It may not know the job yet, of a stage that has just begun."""
    monkeypatch.setattr(runner, '_LOOK_S', 0.01)
    monkeypatch.setattr(runner.pyspark, 'InheritableThread', threading.Thread, raising=False)
    ended, cancelled = threading.Event(), []

    class Context:
        _conf = {}

        def setJobGroup(self, *_, **__):
            ended.wait(60)
            raise RuntimeError('cancelled')

        def cancelJobGroup(self, group):
            cancelled.append(group)
            if len(cancelled) == 2:
                ended.set()
    call = modules.member.Call((HERE, 1), b'', b'', {})
    stage = runner._Stage(Context(), call, 1, lambda: None, 60)
    stage.end()  # it has not begun
    stage.start()
    stage.end()
    assert len(cancelled) >= 2 and stage.is_over


@pytest.mark.parametrize('variables, seconds', [
    ({}, 300), ({'HOROVOD_GLOO_TIMEOUT_SECONDS': '7'}, 7), ({'HOROVOD_START_TIMEOUT': '2m'}, 120),
    ({'HOROVOD_START_TIMEOUT': '5', 'REIGEN_START_TIMEOUT': '500ms'}, 0.5)])
def test_ranks_wait_for_each_other_as_the_runtime_says(modules, monkeypatch, variables, seconds):
    for name in ('REIGEN_START_TIMEOUT', 'HOROVOD_START_TIMEOUT', 'HOROVOD_GLOO_TIMEOUT_SECONDS'):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert modules.member._meet_s() == seconds


def test_the_end_of_a_whole_computer_is_seen_within_a_minute(modules, hub):
    one = hub(1)
    way, = ways(modules, one, 1)

    def silence(line):
        idle, interval, count = (line._sock.getsockopt(socket.IPPROTO_TCP, name) for name in (
            socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT))
        return (line._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0,
                idle + interval * count,
                line._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
    assert silence(one._lines[0]) == (True, 45, 45000)
    assert silence(way.line) == (True, 45, 0)
    way.close()
