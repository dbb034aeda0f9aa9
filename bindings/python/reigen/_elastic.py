# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs in processes that a cluster places: they come and go, and the launcher's membership
(reigen/_membership.py) says which of them are the ranks. The cluster starts others by itself."""
import collections
import itertools
import time
from typing import (Any, Callable, Deque, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set,
                    Tuple)

from reigen import _membership as m
from reigen._frames import Line
from reigen._hub import Event, Hub
from reigen._run import JobFailed

_S = 10 ** 9  # ns
#: As in jobs of reigen run, in seconds: others on their way are awaited; a program says that it is
#: elastic; a function ends after it was told to.
_GATHER_S, _SETTLE_S, _GRACE_S = 5, 30, 5
#: Seconds for which the first epoch waits for all that are to come, when there are enough.
_COMING_S = 10
#: Failures for which a machine is set aside, and where there is no other.
_TRIES, _TRIES_ALONE = 1, 3
#: Seconds for which the failure of a rank whose neighbour has gone waits for the news of that one.
_BLAME_S = 3.0
#: Seconds for the cluster to hear what a process has returned, before another attempt at the same
#: task may end without a result.
_TWIN_S = 5.0
#: The least time in which a process must come to meet the others: it loads what it needs.
_LOAD_S = 600
#: Processes that a job can have in its life.
_ROOM = 65536
_LOST = 'it was lost: its process has ended, or its computer has'


class ElasticHub(Hub):
    """Its events are of processes, by numbers that are never used again."""

    def __init__(self, most: int, host: str, bind: str = ''):
        """most: processes at once."""
        self._numbers = itertools.count()
        self._epoch, self._broken = 0, -1
        self._gone: Set[int] = set()
        super().__init__(most, host, bind)

    def _welcome(self, index: int, fields: Dict[str, Any], line: Line) -> Optional[int]:
        with self._lock:
            if self._closed:
                return None
            number = next(self._numbers)
            self._facts[number], self._lines[number] = fields, line
        self._put('here', number, fields)
        return number

    def _lose(self, index: int) -> None:
        with self._lock:
            self._gone.add(index)
            self._facts.pop(index), self._lines.pop(index)
        self._break(index)
        super()._lose(index)

    def _take(self, index: int, fields: Dict[str, Any], data: bytes) -> None:
        if fields['kind'] == 'end' or \
                (fields['kind'] == 'meets' and fields['epoch'] == self._epoch):
            self._break(index)
        super()._take(index, fields, data)

    def _tell(self, index: int, kind: str, data: bytes = b'', **fields: Any) -> None:
        try:
            super()._tell(index, kind, data, **fields)
        except KeyError:  # it has gone
            pass

    def _meeting(self, epoch: int) -> Mapping[int, int]:
        return self._ranks if epoch == self._epoch != self._broken else {}

    def _break(self, index: int) -> None:
        """It is no longer in its epoch: those that wait for all of it are told."""
        with self._lock:
            epoch = self._epoch
            if index not in self._ranks or self._broken == epoch:
                return
            self._broken = epoch
            self._said.clear()
            others = [other for other in self._ranks if other != index]
        for other in others:
            self._tell(other, 'broken', epoch=epoch)

    def publish(self, epoch: int, order: List[int]) -> None:
        """The members of an epoch, by rank."""
        with self._lock:
            self._epoch, self._ranks = epoch, {one: rank for rank, one in enumerate(order)}
            self._said.clear()
            if self._gone & set(order):
                self._broken = epoch

    @property
    def members(self) -> Mapping[int, int]:
        """The ranks of those of the present epoch, in their order."""
        return self._ranks

    def kill(self, index: int) -> None:
        """It is lost to us, also where it stands so still that it cannot hear of it."""
        self._tell(index, 'kill')
        line = self._lines.get(index)
        if line:
            line.close()

    def tell(self, index: int, kind: str, **fields: Any) -> None:
        """Any of what reigen/_elastic_member.py hears."""
        self._tell(index, kind, **fields)
        if kind == 'epoch' and self._broken == fields['epoch']:
            self._tell(index, 'broken', epoch=fields['epoch'])


class _Process:
    """One that has come, by its number at the hub."""

    def __init__(self, number: int, facts: Mapping[str, Any]):
        self.number, self.index = number, facts['index']
        self.machine, self.on = facts['machine'], facts['host']
        self.gpus: List[str] = facts.get('gpus', [])
        self.host = self.place = -1   # of the membership
        self.rank = -1                # the last one that it was, or is likely to be
        self.attempts = 0
        self.works = self.asked = self.waits = self.met = self.is_over = False
        self.well = False             # its function has ended so
        self.text = ''                # how its function failed
        self.follows = False


def _gpus(mates: Sequence[_Process]) -> List[str]:
    return [gpu for one in mates for gpu in one.gpus]


class Failure(NamedTuple):
    """Of a process's function, or of the process itself."""
    rank: int
    on: str        # the computer's name
    text: str      # a traceback, or what is known
    follows: bool  # it failed because another rank had
    index: int = -1

    @property
    def last(self) -> str:
        return self.text.rstrip().rsplit('\n', 1)[-1]


class Asked(NamedTuple):
    """Of an elastic job, by who calls for it. Times in seconds."""
    np: int
    min_np: int
    max_np: int
    timeout: float
    reset_limit: Optional[int]


class Crew:
    """The ranks of an elastic job. One thread, which hands over what the hub says."""

    def __init__(self, hub: ElasticHub, asked: Asked, remark: Callable[[str], None]):
        """remark: is told what happens, a line each."""
        self._hub, self._asked, self._remark = hub, asked, remark
        self._membership: Optional[m.Membership] = None
        self._all: Dict[int, _Process] = {}         # by number
        self._waiting: List[_Process] = []          # not for the membership yet
        self._names: Dict[str, int] = {}            # of machines
        self._slots: Dict[int, int] = {}            # by name
        self._surplus: Dict[int, int] = collections.Counter()  # by name: processes to be let go
        self._aside: Set[int] = set()
        self._empty: Dict[int, int] = {}            # hosts that wait for a process: their names
        self._at_host: Dict[int, _Process] = {}
        self._at_place: Dict[int, _Process] = {}    # the last one there
        self._place_of: Dict[int, int] = {}         # of a host
        self._steps: Deque[Dict[str, Any]] = collections.deque()
        self._followers: List[Tuple[float, _Process]] = []
        self._twins: List[Tuple[float, _Process]] = []  # are let go then
        self._load_s = max(asked.timeout, _LOAD_S)
        #: How many processes the cluster has started, as far as its side knows. The first epoch
        #: waits for them a little.
        self.coming = 0
        self._held = False                          # no host gets its process yet
        self._gathered = 0.0                        # until when, once there are enough
        self._late = float('inf')                   # until when all of the epoch must have met
        self._number = 0                            # of the epoch
        #: What ended the job, as the membership says it; None: it has not ended.
        self.end: Optional[Mapping[str, Any]] = None
        #: Ranks whose functions have ended well, and on which computers.
        self.done: List[Tuple[int, str]] = []
        #: In the order in which they came.
        self.failed: List[Failure] = []
        self._failure_at: Dict[int, Failure] = {}   # the last one, by place

    @property
    def begun(self) -> bool:
        return self._membership is not None

    @property
    def here(self) -> int:
        """Processes that there are."""
        return sum(not one.is_over for one in self._all.values())

    @property
    def indices(self) -> Set[int]:
        """Those that the cluster has given to them."""
        return {one.index for one in self._all.values() if not one.is_over}

    @property
    def at_work(self) -> bool:
        return any(one.works for one in self._all.values())

    @property
    def ended_well(self) -> List[int]:
        """The indices of processes whose functions have."""
        return [one.index for one in self._all.values() if one.well]

    def rank_of(self, number: int) -> int:
        return self._all[number].rank

    def give_up(self, index: int) -> bool:
        """The cluster takes the slot of that process back. False: nothing of the job is there, and
        it may be ended at once. Else it ends in its time. Where it works, the ranks hear of it at
        their next commit, go on without one of that machine, and its process is let go; unless too
        few would be left."""
        mine = [one for one in self._all.values() if one.index == index]
        if self.end or any(one.well for one in mine):  # a result may be on its way
            return True
        one = next((one for one in mine if not one.is_over and one not in self._waiting), None)
        if one is None:
            return False
        name = self._names[one.machine]
        if one.host < 0 and not one.works:  # its machine has been set aside, say
            one.is_over = True
        else:
            self._surplus[name] += 1
        self._want(name, -1)
        return not one.is_over

    def explain(self, index: int, text: str) -> None:
        """Why the process of that index was lost, or will be: the cluster says it."""
        def known(one: Failure) -> Failure:
            return one._replace(text=text) if (one.index, one.text) == (index, _LOST) else one

        self.failed = [known(one) for one in self.failed]
        self._failure_at = {place: known(one) for place, one in self._failure_at.items()}
        for process in self._all.values():
            if process.index == index and not process.is_over:
                process.text = process.text or text

    def blamed(self) -> Optional[Failure]:
        """By which the job has ended, if by any; else the first that came by itself."""
        place = self.end['place'] if self.end else -1
        by_itself = [one for one in self.failed if not one.follows]
        return self._failure_at.get(place) or next(iter([*by_itself, *self.failed]), None)

    # --- what happens -------------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """What a process does."""
        if event.kind == 'here':
            self._come(_Process(event.index, event.fields))
        elif event.index in self._all:
            one = self._all[event.index]
            {'meets': self._meets, 'elastic': self._is_elastic, 'failed': self._fails,
             'end': self._ends, 'lost': self._loses}.get(event.kind, lambda *_: None)(one, event)
        self._admit()

    def tick(self) -> None:
        """Often enough: after wait_s()."""
        now = time.monotonic()
        for until, one in [*self._followers]:
            if now >= until:
                self._followers.remove((until, one))
                self._ended(one, -1)
        while self._twins and now >= self._twins[0][0]:
            self._hub.tell(self._twins.pop(0)[1].number, 'release')
        if now >= self._late:
            self._end_late()
        if self.begun and not self.end:
            self._do(m.TICK)
        self._admit()

    def wait_s(self) -> float:
        waits = [until - time.monotonic() for until in
                 [self._late, *(until for until, _ in self._followers + self._twins[:1])]]
        if self._membership and not self.end:
            wait = self._membership.wait_s()
            waits += [] if wait is None else [wait]
        return max(min(waits, default=3600.0), 0)

    def check_results(self, ranks: List[int]) -> None:
        """Of those that have arrived. JobFailed: functions have ended well whose results did not.
        A number may occur twice: those that go on when others have ended are numbered anew."""
        left = collections.Counter(ranks)
        for rank, on in self.done if len(ranks) < len(self.done) else ():
            left[rank] -= 1
            if left[rank] < 0:
                raise JobFailed(1, f'the result of rank {rank} was lost: its function had ended '
                                f'well on {on}, and its process, or its computer, has gone before '
                                'the result was here', rank)

    def close(self) -> None:
        if self._membership:
            self._membership.close()

    def stop(self) -> None:
        """The job is over: functions end, and whoever waits."""
        for one in self._all.values():
            if one.works:
                self._hub.tell(one.number, 'stop', attempt=one.attempts)
            self._let_go(one)

    def _let_go(self, one: _Process) -> None:
        """It ends without a result: not before the result of its twin has arrived, which would
        be dropped for it."""
        if any(twin.well and twin.index == one.index and twin is not one
               for twin in self._all.values()):
            self._twins.append((time.monotonic() + _TWIN_S, one))
        else:
            self._hub.tell(one.number, 'release')

    def _come(self, one: _Process) -> None:
        self._all[one.number] = one
        if self.end:
            self._let_go(one)
        else:
            self._waiting.append(one)

    def _admit(self) -> None:
        """Those that have come and have not been counted, if their time is there."""
        if self.end:
            return
        if not self.begun:
            # Two of one index are one for the cluster, which has not seen the first one's end.
            here = len({one.index for one in self._waiting})
            if here < self._asked.np:
                return
            self._gathered = self._gathered or time.monotonic() + _COMING_S
            if here < self.coming and time.monotonic() < self._gathered:
                return
            self._begin()
        self._held = True  # the first epoch is to have all that are there
        for one in [*self._waiting]:
            taken = {other.index for other in self._all.values()
                     if not other.is_over and other not in self._waiting}
            used = sum(count for name, count in self._slots.items() if name not in self._aside)
            if one.index in taken or used >= self._asked.max_np:
                continue
            self._waiting.remove(one)
            name = self._names.setdefault(one.machine, len(self._names))
            self._want(name, 1)
        self._held = False
        self._fill()

    def _begin(self) -> None:
        self._waiting.sort(key=lambda one: (one.index, one.number))
        machines = list(dict.fromkeys(one.machine for one in self._waiting))
        self._waiting.sort(key=lambda one: machines.index(one.machine))
        self._membership = m.Membership({
            'elastic': True, 'way': m.BY_RANKS, 'np': self._asked.np,
            'min_np': self._asked.min_np, 'max_np': self._asked.max_np,
            'room_hosts': _ROOM, 'room_places': _ROOM, 'timeout_ns': int(self._asked.timeout * _S),
            'gather_ns': _GATHER_S * _S, 'settle_ns': _SETTLE_S * _S, 'grace_ns': _GRACE_S * _S,
            'leave_ns': int(self._asked.timeout * _S),
            'join_ns': int(self._load_s * _S),
            'reset_limit': -1 if self._asked.reset_limit is None else self._asked.reset_limit,
            'tries': _TRIES if len(machines) > 1 else _TRIES_ALONE})

    def _want(self, name: int, more: int) -> None:
        self._slots[name] = self._slots.get(name, 0) + more
        self._do(m.WANTED, wanted=[(name, slots) for name, slots in self._slots.items() if slots])

    def _meets(self, one: _Process, event: Event) -> None:
        one.waits = one.met = True
        epoch = event.fields['epoch']
        if one.number in self._hub.members and epoch != self._number:
            self._tell_epoch(one)
            late = self._not_met()
            self._late = min(self._late, time.monotonic() + self._load_s) if late else float('inf')
        else:
            self._do(m.RANK_MEETS, place=one.place, epoch=epoch, failed=event.fields['failed'],
                     lacks=event.fields['lacks'])

    def _not_met(self) -> List[_Process]:
        """Ranks that have begun in this epoch, and did not call init() yet. The membership awaits
        them without a limit."""
        return [one for one in map(self._all.get, self._hub.members)
                if one and one.works and not one.met and not one.asked]

    def _end_late(self) -> None:
        """The others have waited for them long enough."""
        self._late = float('inf')
        for one in self._not_met():
            one.text = (f'it did not call init() within {self._load_s:g} s of the first rank that '
                        'did, and was ended')
            self._hub.kill(one.number)

    def _is_elastic(self, one: _Process, event: Event) -> None:
        self._do(m.RANK_ELASTIC, place=one.place)

    def _fails(self, one: _Process, event: Event) -> None:
        """It is about to end."""
        one.text, one.follows = event.data.decode(), event.fields['follows']

    def _ends(self, one: _Process, event: Event) -> None:
        one.works = one.waits = False
        if event.fields['well']:
            one.is_over = one.well = True
            self.done.append((one.rank, one.on))
            self._do(m.RANK_ENDED, place=one.place, ok=True)
            return
        self._fails(one, event)
        self._bad(one)

    def _loses(self, one: _Process, event: Event) -> None:
        """Its process, or its computer."""
        if one in self._waiting:
            self._waiting.remove(one)
            del self._all[one.number]
            return
        done, one.is_over = one.is_over, True
        if one.works:
            one.works = one.waits = one.follows = False
            one.text = one.text or _LOST
            self._bad(one)
        self._leave(one)
        if not done and not self._lets_go(one):
            self._want(self._names[one.machine], -1)

    def _leave(self, one: _Process) -> None:
        """The membership has no host of it any more."""
        if one.host >= 0:
            self._at_host.pop(one.host)
            host, one.host = one.host, -1
            self._do(m.HOST_LOST, host=host)

    def _bad(self, one: _Process) -> None:
        if not one.asked:  # also after the end, of which it may have been the cause
            self.failed.append(Failure(one.rank, one.on, one.text, one.follows, one.index))
            self._failure_at[one.place] = self.failed[-1]
        if one.follows and not one.asked and not one.is_over:
            self._followers.append((time.monotonic() + _BLAME_S, one))
            return
        followers, self._followers = self._followers, []
        place = one.place
        self._ended(one, -1)
        for _, follower in followers:
            self._ended(follower, place)

    def _ended(self, one: _Process, cut_by: int) -> None:
        self._do(m.RANK_ENDED, place=one.place, asked=one.asked, cut_by=cut_by)

    # --- what the membership wants ------------------------------------------------------------

    def _do(self, kind: int, **fields: Any) -> None:
        """What is done may be the next event at once."""
        self._steps.append({'kind': kind, **fields})
        if len(self._steps) > 1:
            return
        while self._steps:
            for action in self._membership.step(**self._steps[0]) if not self.end else ():
                self._carry_out(action)
            self._steps.popleft()

    def _carry_out(self, action: Mapping[str, Any]) -> None:
        kind = action['type']
        if kind == m.ADD_HOST:
            self._empty[action['host']] = action['name']
            self._place_of[action['host']] = action['place']
            self._fill()
        elif kind == m.RELEASE:
            self._release(action['host'])
        elif kind == m.START_RANKS:
            self._start(self._at_host[action['host']])
        elif kind == m.END_RANK:
            self._stop(self._at_place[action['place']], action['hard'])
        elif kind == m.PUBLISH:
            self._publish()
        elif kind == m.UPDATE:
            for number in self._hub.members:
                self._hub.tell(number, 'update', epoch=self._number, update=action['result'],
                               stamp=int(time.time() * 1000))
        elif kind == m.ASIDE:
            self._set_aside(action)
        elif kind == m.END:
            self.end = action

    def _fill(self) -> None:
        """Hosts get processes of their machine that have none."""
        if self._held:
            return
        for host, name in [*self._empty.items()]:
            one = min((one for one in self._all.values()
                       if one.host < 0 and not one.is_over and one not in self._waiting and
                       self._names[one.machine] == name), key=lambda one: one.index, default=None)
            if one:
                del self._empty[host]
                one.host, one.place = host, self._place_of[host]
                self._at_host[host] = self._at_place[one.place] = one
                self._do(m.HOST_READY, host=host)

    def _release(self, host: int) -> None:
        if self._empty.pop(host, None) is not None:
            self._do(m.HOST_LOST, host=host)
        elif host in self._at_host:
            one = self._at_host[host]
            self._leave(one)
            if self._lets_go(one):
                one.is_over = True
                self._let_go(one)
            self._fill()

    def _lets_go(self, one: _Process) -> bool:
        """Whether its slot is one of those that have been given up."""
        name = self._names[one.machine]
        if not self._surplus[name]:
            return False
        self._surplus[name] -= 1
        return True

    def _start(self, one: _Process) -> None:
        rank, size = self._membership.seat(one.place)
        one.rank, one.attempts = rank, one.attempts + 1
        one.works, one.asked, one.met, one.text = True, False, False, ''
        self._hub.tell(one.number, 'start', place={
            'rank': rank, 'size': size, 'cross_rank': rank, 'cross_size': size,
            'attempt': one.attempts, **self._locals(one)})

    def _locals(self, one: _Process) -> Mapping[str, Any]:
        """Its numbers within its machine, and the GPUs of all ranks there in their order. Who joins
        others comes behind them."""
        there = [self._all[number] for number in self._hub.members]
        mates = [other for other in there if other.machine == one.machine]
        if one not in mates:
            joiners = [other for other in self._all.values()
                       if other.machine == one.machine and other not in [*there, one]]
            mates = [other for other in mates + joiners if other.works] + [one]
            return {'local_rank': len(mates) - 1, 'local_size': len(mates),
                    'gpus': _gpus(mates)}
        local = mates.index(one)
        counts = collections.Counter(other.machine for other in there)
        machines = [machine for machine in dict.fromkeys(other.machine for other in there)
                    if counts[machine] > local]
        return {'local_rank': local, 'local_size': len(mates),
                'cross_rank': machines.index(one.machine), 'cross_size': len(machines),
                'gpus': _gpus(mates)}

    def _stop(self, one: _Process, hard: bool) -> None:
        one.asked = True
        if hard:
            self._hub.kill(one.number)
        else:
            self._hub.tell(one.number, 'stop', attempt=one.attempts)

    def _publish(self) -> None:
        epoch = self._membership.epoch()
        order = [self._at_place[place].number for place in epoch.places]
        self._number, self._sync, self._late = epoch.number, epoch.sync, float('inf')
        self._hub.publish(epoch.number, order)
        if epoch.number > 1:
            self._remark(f'epoch {epoch.number}: {len(order)} rank{"s" if len(order) > 1 else ""}')
        for rank, number in enumerate(order):
            self._all[number].rank = rank
            if self._all[number].waits:
                self._tell_epoch(self._all[number])

    def _tell_epoch(self, one: _Process) -> None:
        one.waits = False
        self._hub.tell(one.number, 'epoch', epoch=self._number, sync=int(self._sync),
                       rank=one.rank, size=len(self._hub.members))

    def _set_aside(self, action: Mapping[str, Any]) -> None:
        self._aside.add(action['name'])
        one = self._failure_at.get(action['place'])
        if one:
            self._remark(f'{one.on} is set aside for the rest of the job: rank {one.rank}: '
                         f'{one.last}')
