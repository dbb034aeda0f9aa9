# SPDX-License-Identifier: Apache-2.0
"""Process sets: operations among some of the ranks.

    even = hvd.ProcessSet([0, 2])
    hvd.init(process_sets=[even])
    if even.included():
        hvd.allreduce(tensor, process_set=even)

All ranks register the same sets in the same order, members or not. Sets can be added and removed
after init when it was told so: init(process_sets='dynamic') or HOROVOD_DYNAMIC_PROCESS_SETS=1.
"""
import contextlib
import os
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import reigen
from reigen import _core, _sets

UNKNOWN = 'Process set provided does not exist, or has not been registered.'
_DUPLICATE = 'Attempted to add a duplicate process set'
_STATIC = ('Process sets can be added and removed after init() only with '
           'HOROVOD_DYNAMIC_PROCESS_SETS=1 or init(process_sets="dynamic").')
_DYNAMIC = 'HOROVOD_DYNAMIC_PROCESS_SETS'


def ranks_of_comm(comm: Any) -> List[int]:
    """The ranks of an mpi4py communicator, as MPI.COMM_WORLD numbers them."""
    world = sys.modules['mpi4py.MPI'].COMM_WORLD
    group = comm.Get_group()
    return list(group.Translate_ranks(list(range(group.Get_size())), world.Get_group()))


def is_comm(value: Any) -> bool:
    """True for an mpi4py communicator."""
    return hasattr(value, 'Get_group')


class ProcessSet:
    """Some of the ranks, by number, or those of an mpi4py communicator.

    It can be used once it is registered, and until shutdown() or remove_process_set():
    process_set_id is None before and after. Sets of equal ranks are equal.
    """

    process_set_id: Optional[int] = None
    #: The communicator that it was made from, if it was.
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Union[Iterable[int], Any]):
        if is_comm(ranks_or_comm):
            self.mpi_comm = ranks_or_comm
        ranks = ranks_of_comm(ranks_or_comm) if is_comm(ranks_or_comm) else ranks_or_comm
        self.ranks: Optional[List[int]] = sorted(int(rank) for rank in ranks)

    def size(self) -> Optional[int]:
        """How many ranks it has; None while it is not registered."""
        return None if self.process_set_id is None else _sets.process_set_size(self.process_set_id)

    def rank(self) -> Optional[int]:
        """This process's place in it; None while it is not registered.

        Raises ValueError when this process does not belong to it.
        """
        return None if self.process_set_id is None else _sets.process_set_rank(self.process_set_id)

    def included(self) -> Optional[bool]:
        """True when this process belongs to it; None while it is not registered."""
        if self.process_set_id is None:
            return None
        return _sets.process_set_included(self.process_set_id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProcessSet):
            return NotImplemented
        return self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash(tuple(self.ranks or ()))

    def __deepcopy__(self, memo: Dict[int, Any]) -> 'ProcessSet':
        # A copied model or configuration belongs to the same set, which is registered once.
        return self

    def __repr__(self) -> str:
        return (f'ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, '
                f'mpi_comm={self.mpi_comm})')


class _GlobalProcessSet(ProcessSet):
    process_set_id = 0

    def __init__(self):
        super().__init__([])

    @property
    def ranks(self) -> Optional[List[int]]:
        return list(range(reigen.size())) if reigen.is_initialized() else None

    @ranks.setter
    def ranks(self, value) -> None:
        pass

    def size(self) -> int:
        return reigen.size()

    def rank(self) -> int:
        return reigen.rank()

    def included(self) -> bool:
        reigen.rank()  # ValueError before init
        return True

    def __hash__(self) -> int:
        return 0

    def __reduce__(self) -> str:
        return 'global_process_set'  # pickled by name: there is one


global_process_set = _GlobalProcessSet()

#: The sets that are registered, by id; without the global one.
_registered: Dict[int, ProcessSet] = {}
_dynamic = False

#: Of an elastic job, over its epochs: the sets in the order in which they were registered, and
#: whether this process belongs to each. None until the first epoch has begun here.
_lasting: Optional[List[Tuple[ProcessSet, bool]]] = None
#: Whether this process has callbacks for a change of the ranks.
_callbacks = False
#: The set of this process alone, in an epoch in which it may need one; or 0.
_own = 0
#: A process that has come later has these sets of the others, in that order, until its script has
#: registered as many.
_to_adopt: List[ProcessSet] = []


def check(process_set: ProcessSet) -> int:
    """The number of the set for the operations of the runtime.

    Raises ValueError when it is not registered.
    """
    if process_set is global_process_set:
        return 0
    number = getattr(process_set, 'process_set_id', None)
    if number is None:
        raise ValueError(UNKNOWN)
    return number


def _register(process_set: ProcessSet) -> None:
    if process_set.process_set_id is not None or process_set == global_process_set \
            or process_set in _registered.values():
        raise ValueError(_DUPLICATE)
    process_set.process_set_id = _core.add_process_set(process_set.ranks)
    _registered[process_set.process_set_id] = process_set
    if _lasting is not None:
        _lasting.append((process_set, reigen.rank() in process_set.ranks))


def renew(wanted: List[ProcessSet]) -> None:
    """By init() on all ranks of each epoch of an elastic job: a set consists of those processes of
    it that are left. wanted: what this rank's script registers, which in a process that has come
    later are the sets that the others have, in their order."""
    global _lasting
    mine = None if _lasting is None else [member for _, member in _lasting]
    told = reigen.allgather_object((mine, len(wanted), _callbacks), 'process_sets.epoch')
    lists = [members for members, _, _ in told if members is not None]
    if not lists:
        _check_counts([count for _, count, _ in told])
        _lasting = []
        for process_set in wanted:
            _register(process_set)
        return
    # One that died while a set was registered may have left some with it, and some without.
    count = min(len(members) for members in lists)
    if _lasting is None:
        if len(wanted) > count:
            raise ValueError(f'init() was given {len(wanted)} process sets on a rank that has come '
                             f'later, and the ranks that were there have {count}')
        _to_adopt[:] = [ProcessSet([]) for _ in range(count - len(wanted))]
        _lasting = [(process_set, False) for process_set in wanted + _to_adopt]
    del _lasting[count:]
    for i, (process_set, _) in enumerate(_lasting):
        process_set.ranks = [rank for rank, (members, _, _) in enumerate(told) if members
                             and members[i]]
        _place(process_set)
    newcomers = [rank for rank, (members, _, _) in enumerate(told) if members is None]
    _set_apart(newcomers, any(callbacks for _, _, callbacks in told))


def expect_callbacks() -> None:
    """This process has callbacks for a change of the ranks, which may use operations, as that of
    Horovod's example with Keras does."""
    global _callbacks
    _callbacks = True


def _set_apart(newcomers: List[int], callbacks: bool) -> None:
    """The others are at work already, and a newcomer's script is only at its beginning: what that
    does before the function that all run together it does alone. So do those that were there, in
    their callbacks for the change, as nobody else is at these: they need a set of their own."""
    global _own
    _own = 0
    if not newcomers:
        return
    for rank in range(reigen.size()) if callbacks else newcomers:
        same = [each for each in _registered.values() if each.ranks == [rank]]
        number = same[0].process_set_id if same else _core.add_process_set([rank])
        if rank == reigen.rank():
            _own = number
    if reigen.rank() in newcomers:
        _core.stand_apart(_own)


@contextlib.contextmanager
def own() -> Iterator[None]:
    """What this process does among all ranks it does alone meanwhile, if there are newcomers."""
    if _own:
        _core.stand_apart(_own)
    try:
        yield
    finally:
        _core.join_in()


def _place(process_set: ProcessSet) -> None:
    """Register a set of an earlier epoch. None of its processes may be left, or its ranks may have
    become those of another one, or all: it shares that one's number then."""
    if not process_set.ranks:
        return
    same = [other for other in (global_process_set, *_registered.values()) if other == process_set]
    number = same[0].process_set_id if same else _core.add_process_set(process_set.ranks)
    process_set.process_set_id = number
    if not same:
        _registered[number] = process_set


def end_adoption() -> None:
    """The script has come to the function that all ranks run together."""
    _to_adopt.clear()


def _adopt(process_set: ProcessSet) -> None:
    known = _to_adopt.pop(0)
    _lasting[:] = [(process_set if each is known else each, member) for each, member in _lasting]
    process_set.ranks, process_set.process_set_id = known.ranks, known.process_set_id
    if _registered.get(known.process_set_id) is known:
        _registered[known.process_set_id] = process_set


def prepare(process_sets: Union[None, str, Sequence[ProcessSet]]) -> List[ProcessSet]:
    """What init() is to register, checked; and whether sets may come later."""
    global _dynamic
    if process_sets == 'dynamic':
        os.environ[_DYNAMIC] = '1'
        process_sets = None
    _dynamic = os.environ.get(_DYNAMIC, '').strip().lower() not in ('', '0', 'false')
    if isinstance(process_sets, str):
        raise ValueError(f'init(process_sets={process_sets!r}): give a list of process sets or '
                         '"dynamic".')
    wanted = [s if isinstance(s, ProcessSet) else ProcessSet(s) for s in process_sets or ()]
    wanted = [s for s in wanted if s is not global_process_set]
    if len(set(wanted)) != len(wanted):
        raise ValueError(_DUPLICATE)
    return wanted


def register_all(process_sets: List[ProcessSet]) -> None:
    """By init() on all ranks: ValueError when they do not give equally many."""
    _check_counts(reigen.allgather_object(len(process_sets), 'process_sets.count'))
    for process_set in process_sets:
        _register(process_set)


def _check_counts(counts: List[int]) -> None:
    if len(set(counts)) > 1:
        raise ValueError('Different ranks tried to set up mismatching numbers of process sets '
                         f'(by rank: {counts})')


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Register a set on all ranks; blocks until all have called it with the same ranks.

    Raises ValueError for a set that exists, wrong ranks, or ranks that differ between processes;
    and when init() has not allowed it.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    reigen.rank()  # ValueError before init
    if not _dynamic:
        raise ValueError(_STATIC)
    if _to_adopt:
        _adopt(process_set)
    else:
        _register(process_set)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Forget a set on all ranks; blocks until all have called it. False: it is not registered, or
    it is the global one."""
    number = process_set.process_set_id
    if number is None or number == 0:
        return False
    if not _dynamic:
        raise ValueError(_STATIC)
    shared = [each for each, _ in _lasting or () if each.process_set_id == number
              and each is not process_set]
    if shared:
        _registered[number] = shared[0]
    else:
        _sets.remove_process_set(number)
        _registered.pop(number, None)
    process_set.process_set_id = None
    if _lasting is not None:
        _lasting[:] = [(each, member) for each, member in _lasting if each is not process_set]
    return True


def remove_by_id(process_set_id: int) -> bool:
    """As remove_process_set, of the set with this number; False where none has it."""
    process_set = _registered.get(process_set_id)
    return process_set is not None and remove_process_set(process_set)


def get_process_set_ids_and_ranks() -> Dict[int, List[int]]:
    """The ranks of all sets that are registered, by id; 0 is the global one."""
    return {number: _sets.process_set_ranks(number) for number in _sets.process_set_ids()}


def comm_process_set_id(comm: Any) -> int:
    """The number of the set that has the ranks of an mpi4py communicator; ValueError where none
    is registered."""
    ranks = sorted(ranks_of_comm(comm))
    for number, members in get_process_set_ids_and_ranks().items():
        if sorted(members) == ranks:
            return number
    raise ValueError(UNKNOWN)


def is_process_set_included(process_set_id: int = 0) -> bool:
    """True when this process belongs to the set."""
    return _sets.process_set_included(process_set_id)


def _invalidate() -> None:
    for process_set in [*_registered.values(), *(each for each, _ in _lasting or ())]:
        process_set.process_set_id = None
    _registered.clear()
    _to_adopt.clear()


def _forget() -> None:
    global _lasting
    _invalidate()
    _lasting = None


_core.after_shutdown.append(_invalidate)
_core.after_fork.append(_forget)
