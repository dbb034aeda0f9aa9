# SPDX-License-Identifier: Apache-2.0
"""Which processes of an elastic job are its ranks: the launcher's own membership
(src/launch/membership/membership.h), for programs that ask a scheduler of another kind for them.

Names, hosts, places, events and actions are those of that header, which has the rules.
"""
import ctypes
import os
import time
from ctypes import POINTER, byref, c_bool, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from reigen import _lib

NEVER_NS = 2 ** 64 - 1
#: enum rg_membership_way
BY_RANKS, IN_PLACE, RESTART = range(3)
#: enum rg_membership_event_type
(WANTED, HOST_READY, HOST_LOST, HOST_GOES, RANK_ENDED, RANK_ELASTIC, RANK_MEETS, DRAIN, TICK,
 STOP) = range(10)
#: enum rg_membership_action_type
(ADD_HOST, START_RANKS, END_RANK, RELEASE, PUBLISH, UPDATE, RESTARTS, ASIDE, BACK, END) = range(10)
#: enum rg_membership_cause
(ALL_DONE, ONE_FAILED, ALL_FAILED, ALL_ASIDE, TOO_FEW, RESET_LIMIT, NO_ROOM) = range(7)


class Rules(ctypes.Structure):
    """struct rg_membership_rules"""
    _fields_ = [('elastic', c_bool), ('wanted_once', c_bool), ('way', c_int), ('np', c_int),
                ('min_np', c_int), ('max_np', c_int), ('spares', c_int), ('room_hosts', c_int),
                ('room_places', c_int), ('timeout_ns', c_uint64), ('gather_ns', c_uint64),
                ('settle_ns', c_uint64), ('grace_ns', c_uint64), ('leave_ns', c_uint64),
                ('join_ns', c_uint64), ('reset_limit', c_int), ('tries', c_int),
                ('cooldown_min_ns', c_uint64), ('cooldown_max_ns', c_uint64)]


class Machine(ctypes.Structure):
    """struct rg_membership_machine"""
    _fields_ = [('name', c_int), ('slots', c_int)]


class Event(ctypes.Structure):
    """struct rg_membership_event"""
    _fields_ = [('type', c_int), ('now_ns', c_uint64), ('until_ns', c_uint64), ('host', c_int),
                ('place', c_int), ('name', c_int), ('ok', c_bool), ('asked', c_bool),
                ('cut_by', c_int), ('faulty', c_bool), ('epoch', c_uint32), ('failed', c_bool),
                ('lacks', c_bool), ('wanted', POINTER(Machine)), ('nwanted', c_size_t)]


class Action(ctypes.Structure):
    """struct rg_membership_action"""
    _fields_ = [('type', c_int), ('host', c_int), ('place', c_int), ('name', c_int),
                ('slots', c_int), ('hard', c_bool), ('result', c_uint32), ('why', c_int),
                ('cause', c_int), ('has', c_int), ('needs', c_int), ('waited', c_bool),
                ('until_ns', c_uint64)]


class _Epoch(ctypes.Structure):
    """struct rg_membership_epoch"""
    _fields_ = [('number', c_uint32), ('size', c_int), ('sync', c_bool), ('places', POINTER(c_int))]


class _Seat(ctypes.Structure):
    """struct rg_membership_seat"""
    _fields_ = [('epoch', c_uint32), ('rank', c_int), ('size', c_int), ('local_rank', c_int),
                ('local_size', c_int)]


class Epoch(NamedTuple):
    """The membership that was published last; number 0: none yet."""
    number: int
    sync: bool
    places: Tuple[int, ...]  # by rank


def _library() -> Any:
    """It lies beside libreigen.so, or in the build tree."""
    folder = os.path.dirname(os.path.abspath(_lib.path))
    tried = [os.path.join(folder, part, 'libreigen_membership.so')
             for part in ('', '../launch', 'launch')]
    path = next((one for one in tried if os.path.exists(one)), None)
    if path is None:
        raise ImportError('libreigen_membership.so was not found; looked for ' + ', '.join(tried))
    library = ctypes.PyDLL(path)
    for name, (result, arguments) in {
            'create': (c_int, [POINTER(Rules), c_uint64, POINTER(c_void_p)]),
            'destroy': (None, [c_void_p]),
            'step': (c_size_t, [c_void_p, POINTER(Event), POINTER(POINTER(Action))]),
            'deadline_ns': (c_uint64, [c_void_p]),
            'epoch': (_Epoch, [c_void_p]),
            'starts': (c_bool, [c_void_p, c_int]),
            'seat': (_Seat, [c_void_p, c_int]),
            'host': (c_int, [c_void_p, c_int])}.items():
        function = getattr(library, f'rg_membership_{name}')
        function.restype, function.argtypes = result, arguments
    return library


class Membership:
    """One job's; one thread. Times are of time.monotonic_ns()."""

    def __init__(self, rules: Mapping[str, Any]):
        """ValueError: rules that no job can have."""
        self._library, self._it = _library(), c_void_p()
        rc = self._library.rg_membership_create(byref(Rules(**rules)), time.monotonic_ns(),
                                                byref(self._it))
        if rc < 0:
            raise ValueError(f'no membership by these rules: {os.strerror(-rc)}')

    def step(self, kind: int, wanted: Sequence[Tuple[int, int]] = (),
             **fields: Any) -> List[Mapping[str, Any]]:
        """What is to be done now, in this order. wanted: (name, slots) of each machine."""
        machines = (Machine * len(wanted))(*wanted)
        event = Event(type=kind, now_ns=time.monotonic_ns(), wanted=machines, nwanted=len(wanted),
                      **{'cut_by': -1, **fields})
        actions = POINTER(Action)()
        count = self._library.rg_membership_step(self._it, byref(event), byref(actions))
        return [{name: getattr(actions[i], name) for name, _ in Action._fields_}
                for i in range(count)]

    def wait_s(self) -> Optional[float]:
        """Until a TICK is due; None: it never is."""
        at = self._library.rg_membership_deadline_ns(self._it)
        return None if at == NEVER_NS else max(at - time.monotonic_ns(), 0) / 1e9

    def epoch(self) -> Epoch:
        now = self._library.rg_membership_epoch(self._it)
        return Epoch(now.number, now.sync, tuple(now.places[i] for i in range(now.size)))

    def starts(self, place: int) -> bool:
        """A START_RANKS of the last step means this place."""
        return self._library.rg_membership_starts(self._it, place)

    def seat(self, place: int) -> Tuple[int, int]:
        """(rank, size), as it will be, or is likely to be."""
        seat = self._library.rg_membership_seat(self._it, place)
        return seat.rank, seat.size

    def close(self) -> None:
        self._library.rg_membership_destroy(self._it)
        self._it = c_void_p()
