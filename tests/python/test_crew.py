# SPDX-License-Identifier: Apache-2.0
"""Which processes are the ranks of an elastic job in a cluster (reigen._elastic), on real sockets,
with the launcher's own membership; the processes are threads here, and nothing computes."""
import ctypes
import re
import subprocess
import sys
import threading
import types

import pytest
from wait import until

import jobs

sys.path.insert(0, str(jobs.ROOT / 'bindings/python'))


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.setenv('REIGEN_LIBRARY', jobs.library())
    from reigen import _elastic, _elastic_member, _frames, _member, _membership
    monkeypatch.setattr(_member._core, 'shutdown', lambda: None)
    # Who has come to the meeting is a rank: what would follow needs a process each.
    monkeypatch.setattr(_elastic_member._Way, 'meet', lambda *_: None)
    return types.SimpleNamespace(elastic=_elastic, member=_elastic_member, frames=_frames,
                                 call=_member.Call, m=_membership)


class Job:
    """What happens is taken by a thread, as run_elastic() does."""

    def __init__(self, modules, np, min_np, max_np, timeout=60, reset_limit=None):
        self.modules, self.said, self.ways, self.calls = modules, [], [], []
        self.hub = modules.elastic.ElasticHub(max_np, '127.0.0.1')
        self.crew = modules.elastic.Crew(self.hub, modules.elastic.Asked(
            np, min_np, max_np, timeout, reset_limit), self.said.append)
        self._closed = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._closed:
            event = self.hub.events.get(min(0.02, self.crew.wait_s()))
            if event is not None and event.kind != 'over':
                self.crew.take(event)
            self.crew.tick()
            while self.calls:
                self.calls.pop(0)()

    def come(self, index, machine='a', gpus=()):
        call = self.modules.call(self.hub.address, self.hub.key, b'', {})
        self.ways.append(self.modules.member._Way(call, index, {
            'machine': machine, 'host': machine, 'gpus': gpus}))
        return self.ways[-1]

    def begin(self, *machines):
        """Ways that have been started, in the order of the machines given."""
        ways = [self.come(index, machine) for index, machine in enumerate(machines)]
        for way in ways:
            start(way)
        return ways

    def close(self):
        self._closed = True
        self._thread.join()
        self.hub.close()
        for way in self.ways:
            way.close()
        self.crew.close()


@pytest.fixture
def job(modules):
    made = []

    def make(*words, **options):
        made.append(Job(modules, *words, **options))
        return made[-1]
    yield make
    for one in made:
        one.close()


def start(way):
    place = way.started.get(timeout=60)
    assert place is not None
    way.begin(place)
    return place


def join(*ways):
    """All into the next epoch: [(rank, number of the epoch, sync)]"""
    failed = []

    def call(way):
        try:
            way.join(None)
        except Exception as error:
            failed.append(error)
    threads = [threading.Thread(target=call, args=(way,)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert failed == []
    return [(way.rank, way.epoch().number, way.epoch().sync) for way in ways]


def fail(way, data=b'Traceback\nKeyError: 1', follows=False):
    way.line.send('end', data, well=False, follows=follows)


def test_python_and_c_mean_the_same_structs(modules, tmp_path):
    m = modules.m
    kinds = {'rules': m.Rules, 'machine': m.Machine, 'event': m.Event, 'action': m.Action,
             'epoch': m._Epoch, 'seat': m._Seat}
    lines = [f'printf("%zu\\n", sizeof(struct rg_membership_{name}));' +
             ''.join(f'printf("%zu\\n", offsetof(struct rg_membership_{name}, {field}));'
                     for field, _ in kind._fields_) for name, kind in kinds.items()]
    (tmp_path / 'a.c').write_text('#include <stdio.h>\n#include '
                                  '"launch/membership/membership.h"\nint main(void) {' +
                                  ''.join(lines) + '}')
    subprocess.run(['cc', '-I', jobs.ROOT / 'src', '-o', tmp_path / 'a', tmp_path / 'a.c'],
                   check=True, timeout=60)
    said = subprocess.run([tmp_path / 'a'], capture_output=True, text=True, check=True, timeout=60)
    here = [number for kind in kinds.values() for number in (
        ctypes.sizeof(kind), *(getattr(kind, name).offset for name, _ in kind._fields_))]
    assert [int(word) for word in said.stdout.split()] == here
    header = (jobs.ROOT / 'src/launch/membership/membership.h').read_text()
    for kind in ('way', 'event_type', 'action_type', 'cause'):
        names = re.findall(r'^    RG_MEMBERSHIP_(\w+),', re.search(
            rf'enum rg_membership_{kind} \{{(.*?)^\}};', header, re.M | re.S)[1], re.M)
        assert names and [getattr(m, name) for name in names] == list(range(len(names))), names


def test_the_first_epoch_has_all_that_come_in_time(job):
    one = job(1, 1, 2)
    one.crew.coming = 2
    first = one.come(0)
    until(lambda: one.crew.here == 1, 'the first')
    assert first.started.empty()
    second = one.come(1, 'b')
    assert [start(way)['size'] for way in (first, second)] == [2, 2]
    assert join(first, second) == [(0, 1, 1), (1, 1, 1)]


def test_who_does_not_come_in_time_is_not_waited_for(job, modules, monkeypatch):
    monkeypatch.setattr(modules.elastic, '_COMING_S', 0)
    one = job(1, 1, 2)
    one.crew.coming = 2
    assert start(one.come(0))['size'] == 1


def test_ranks_that_are_lost_are_made_up_for_and_others_keep_their_place(job):
    one = job(3, 1, 3)
    first, far, second = one.begin('a', 'b', 'a')
    assert join(first, second, far) == [(0, 1, 1), (1, 1, 1), (2, 1, 1)]
    for way in (first, second, far):
        way.go_on(False, False)
    far.close()
    first.go_on(True, False)
    second.go_on(True, False)
    assert join(first, second) == [(0, 2, 1), (1, 2, 1)]
    assert one.said == ['b is set aside for the rest of the job: rank 2: it was lost: its process '
                        'has ended, or its computer has', 'epoch 2: 2 ranks']
    # On that machine none begins, on another one does.
    one.come(7, 'b')
    new = one.come(1, 'c')
    assert start(new)['rank'] == 2
    joining = threading.Thread(target=join, args=(new,))
    joining.start()
    until(lambda: first.epoch().update and second.epoch().update, 'the word that a host has come')
    assert first.epoch().update == 2 and first.epoch().stamp > 0
    assert join(first, second) == [(0, 3, 1), (1, 3, 1)]
    joining.join(60)
    assert (new.rank, new.epoch().number) == (2, 3) and one.said[-1] == 'epoch 3: 3 ranks'


def test_who_dies_as_all_meet_holds_nobody(job):
    one = job(3, 2, 3)
    ways = one.begin('a', 'a', 'a')
    threads = [threading.Thread(target=join, args=(way,)) for way in ways[:2]]
    for thread in threads:
        thread.start()
    until(lambda: len(one.hub._said) == 2, 'two of three')
    for way in ways:
        way.line.send('elastic')
    ways[2].close()
    for thread in threads:
        thread.join(60)
    assert [(way.rank, way.epoch().number) for way in ways[:2]] == [(0, 2), (1, 2)]


def hears_late(way):
    """When it meets for the second epoch, that one has left the first."""
    send = way.line.send

    def late(kind, *words, **fields):
        if kind == 'meets':
            way._hear({'kind': 'broken', 'epoch': 1}, b'')
        send(kind, *words, **fields)
    way.line.send = late


def test_the_news_of_an_epoch_that_is_over_breaks_none_that_follows(job):
    one = job(2, 2, 2)
    ways = one.begin('a', 'a')
    join(*ways)
    for way in ways:
        way.go_on(True, False)
        hears_late(way)
    assert [number for _, number, _ in join(*ways)] == [2, 2]


def test_a_program_that_cannot_go_on_begins_anew_on_all(job):
    one = job(2, 2, 2)
    ways = one.begin('a', 'a')
    assert [rank for rank, _, _ in join(*ways)] == [0, 1]
    fail(ways[0], follows=True)  # whose end it is comes a little later
    fail(ways[1])
    assert [start(way)['attempt'] for way in ways] == [2, 2]
    assert [number for _, number, _ in join(*ways)] == [2, 2]
    for way in ways:
        way.line.send('end', well=True, follows=False)
    until(lambda: one.crew.end, 'the end')
    assert one.crew.end['cause'] == one.modules.m.ALL_DONE


def test_three_failures_are_the_end_where_there_is_no_other_machine(job):
    one = job(1, 1, 1)
    way, = one.begin('a')
    for attempt in range(3):
        fail(way, b'Traceback\nKeyError: %d' % attempt)
        if attempt < 2:
            start(way)
    until(lambda: one.crew.end, 'the end')
    assert one.crew.end['cause'] == one.modules.m.ALL_FAILED
    assert one.crew.blamed().last == 'KeyError: 2'


@pytest.mark.parametrize('options, cause', [({'timeout': 0.2}, 'TOO_FEW'),
                                            ({'reset_limit': 0}, 'RESET_LIMIT')])
def test_limits_end_it(job, options, cause):
    one = job(2, 2, 2, **options)
    ways = one.begin('a', 'b')
    join(*ways)
    for way in ways:
        way.go_on(False, False)
    ways[1].close()
    ways[0].go_on(True, False)
    ways[0].line.send('meets', epoch=1, failed=True, lacks=False)
    until(lambda: one.crew.end, 'the end')
    assert one.crew.end['cause'] == getattr(one.modules.m, cause)
    assert until(one.crew.blamed, 'who has failed').rank == 1
    one.crew.stop()
    assert ways[0].started.get(timeout=60) is None


def test_of_two_attempts_at_a_task_the_later_one_waits(job):
    one = job(1, 1, 2)
    way, = one.begin('a')
    assert join(way) == [(0, 1, 1)]
    twin = one.come(0)
    until(lambda: one.crew.here == 2, 'the twin')
    assert twin.started.empty()
    way.line.send('elastic')
    way.close()
    start(twin)
    assert join(twin)[0][1] == 2


@pytest.mark.parametrize('early', [False, True])
def test_the_cluster_says_why_a_rank_was_lost(job, early):
    one = job(2, 2, 2, reset_limit=0)
    ways = one.begin('a', 'b')
    assert join(*ways) == [(0, 1, 1), (1, 1, 1)]
    said = []

    def explain():
        one.calls.append(lambda: said.append(one.crew.explain(1, 'no memory')))
        until(lambda: said, 'the crew')
    if early:
        explain()
    ways[1].close()
    until(lambda: one.crew.failed, 'the loss')
    if not early:
        assert one.crew.blamed().last.startswith('it was lost: ')
        explain()
    assert one.crew.blamed() == (1, 'b', 'no memory', False, 1)


def test_a_rank_that_never_calls_init_is_ended_and_the_others_go_on(job, modules, monkeypatch):
    killed = []
    monkeypatch.setattr(modules.elastic, '_LOAD_S', 0.1)
    monkeypatch.setattr(modules.member.os, 'kill', lambda *words: killed.append(words))
    one = job(2, 1, 2, timeout=1)
    ways = one.begin('a', 'b')
    for way in ways:
        way.line.send('elastic')
    assert join(ways[0]) == [(0, 2, 1)]
    until(lambda: killed, 'the end of the one that is late')
    assert one.crew.blamed().rank == 1 and one.crew.blamed().last == (
        'it did not call init() within 1 s of the first rank that did, and was ended')


def give_up(one, index):
    """Whether the crew will let it go in its time."""
    said = []
    one.calls.append(lambda: said.append(one.crew.give_up(index)))
    until(lambda: said, 'the crew')
    return said[0]


def leave(way):
    """Its slot has gone: what it does when it meets the others."""
    with pytest.raises(RuntimeError, match='the job has ended, or begins anew'):
        way.join(None)
    fail(way, follows=True)
    assert way.started.get(timeout=60) is None


def test_ranks_hear_of_a_slot_that_goes_and_lose_nothing(job):
    """Nobody is to blame, and who comes in its place has its local rank and its GPU."""
    one = job(2, 1, 2)
    ways = [one.come(index, gpus=[str(index)]) for index in range(2)]
    assert [(place['local_rank'], place['gpus']) for place in map(start, ways)] == \
        [(0, ['0', '1']), (1, ['0', '1'])]
    assert join(*ways) == [(0, 1, 1), (1, 1, 1)]
    for way in ways:
        way.go_on(False, False)
    assert give_up(one, 1) and not give_up(one, 5)
    until(lambda: [way.epoch().update for way in ways] == [1, 1], 'the news')
    leaving = threading.Thread(target=leave, args=(ways[1],))
    leaving.start()
    assert join(ways[0]) == [(0, 2, 0)]  # with what it has: nothing is sent again
    leaving.join(60)
    assert one.said == ['epoch 2: 1 rank'] and one.crew.failed == []
    place = start(one.come(7, gpus=['1']))
    assert (place['local_rank'], place['local_size'], place['gpus']) == (1, 2, ['0', '1'])


def test_a_slot_that_goes_stays_as_long_as_too_few_would_be_left(job):
    one = job(2, 2, 2)
    ways = one.begin('a', 'b')
    join(*ways)
    for way in ways:
        way.go_on(False, False)
    assert give_up(one, 1)
    new = one.come(2, 'c')
    start(new)
    joining = threading.Thread(target=join, args=(new,))
    joining.start()
    until(lambda: [way.epoch().update for way in ways] == [3, 3], 'the news')
    leaving = threading.Thread(target=leave, args=(ways[1],))
    leaving.start()
    assert join(ways[0]) == [(0, 2, 1)]
    for thread in (leaving, joining):
        thread.join(60)
        assert not thread.is_alive()
    assert (new.rank, one.crew.failed) == (1, [])


def test_a_twin_ends_only_when_the_result_has_had_time_to_arrive(job, modules, monkeypatch):
    monkeypatch.setattr(modules.elastic, '_TWIN_S', 3600)
    one = job(1, 1, 2)
    way, = one.begin('a')
    join(way)
    twin = one.come(0)
    until(lambda: one.crew.here == 2, 'the twin')
    way.line.send('end', well=True, follows=False)
    until(lambda: one.crew.end, 'the end')
    told, tell = [], one.hub.tell
    monkeypatch.setattr(one.hub, 'tell', lambda index, kind, **fields: (
        told.append((index, kind)), tell(index, kind, **fields)))
    one.crew.stop()
    (_, process), = one.crew._twins
    assert (process.number, 'release') not in told
    one.crew._twins[0] = (0, process)
    assert twin.started.get(timeout=60) is None
    one.crew.check_results([0])
    with pytest.raises(RuntimeError, match='the result of rank 0 was lost: .* well on a, and'):
        one.crew.check_results([])


def test_whose_slot_goes_and_has_nothing_to_do_is_ended_but_not_before_its_result_is_here(job):
    one = job(3, 1, 3)
    ways = one.begin('a', 'b', 'c')
    join(*ways)
    for way in ways:
        way.go_on(False, False)
    fail(ways[1])
    until(lambda: one.said, 'b to be set aside')
    for way in ways[::2]:
        way.go_on(True, False)
    assert join(*ways[::2]) == [(0, 2, 1), (1, 2, 1)]
    assert not give_up(one, 1) and one.crew.here == 2
    ways[2].line.send('end', well=True, follows=False)
    until(lambda: one.crew.ended_well, 'the end of a function')
    assert give_up(one, 2)
