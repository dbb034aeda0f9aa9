# SPDX-License-Identifier: Apache-2.0
"""What the ranks know of their parameters, made equal.

A rank sees only its own gradients: whether a parameter takes part in this step, and whether its
gradient is dense or sparse, may be otherwise on the others. Before the gradients are sent the ranks
therefore tell each other, in a `Talk`, and then act alike on what they have heard together. They
talk in the first step, and again when something has changed on a rank; whoever uses this finds a
way to notice that which costs nothing while all stays as it is.

    header -- all as usual ---------------------------> agreed
       |----- something unusual ----> facts ----------> agreed
       '----- other parameters -----> names and facts -> agreed, or an error that names them

All of it is small, and made of allreduces as long as the ranks have parameters of the same names,
so that ranks that have joined (hvd.join) need not take part.
"""
import ctypes
import hashlib
import json
import threading
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional

from reigen import _core, _handles, _operations
from reigen._lib import Options
from reigen.errors import HorovodInternalError

_UINT8, _INT64 = 0, 5
#: Digests are below, so that the greatest and the least of all can be told by Max alone.
_DIGESTS = 1 << 56
#: At most so many names of parameters are put into an error.
_NAMES_TOLD = 5


class Fact(NamedTuple):
    """One parameter on one rank, or on all of them together: the greatest of each field."""

    #: It takes part: a rank trains it.
    wants: bool = True
    #: There is a dense gradient.
    dense: bool = True
    #: In so many dimensions a sparse gradient is sparse; 0: there is none.
    sparse_dim: int = 0


USUAL = Fact()


def _digest(names: Iterable[str]) -> int:
    return int.from_bytes(hashlib.blake2b('\0'.join(names).encode(), digest_size=7).digest(),
                          'little')


class Talk:
    """One exchange of facts. advance() never blocks and may be called while this rank waits for
    something else; wait() blocks. Both raise HorovodInternalError when the job has failed."""

    def __init__(self, name: str, process_set: int, facts: Dict[str, Fact]):
        """facts: of this rank's parameters, by names that are the ranks' common ones, in the order
        in which those that take part are to be reduced."""
        self.done = False
        #: Whether all ranks have the parameters that take part in the same order.
        self.ordered = True
        #: What all ranks together know, of those that take part anywhere.
        self.agreed: Dict[str, Fact] = {}
        self._lacks: Dict[int, List[str]] = {}
        self._name, self._process_set, self._facts = name, process_set, facts
        self._failure: Optional[HorovodInternalError] = None
        #: Held by who goes on with it.
        self._lock = threading.Lock()
        wanted = {name: fact for name, fact in facts.items() if fact.wants}
        digests = _digest(wanted), _digest(sorted(facts))
        self._next: Callable[[Any], None] = self._hear_header
        self._handle = self._greatest('', [
            int(any(fact != USUAL for fact in wanted.values())), digests[0],
            _DIGESTS - digests[0], digests[1], _DIGESTS - digests[1]])

    @property
    def handle(self) -> int:
        """Of what is on its way."""
        return self._handle

    def advance(self) -> bool:
        """Go on as far as possible without waiting. True: done."""
        if self._lock.acquire(blocking=False):
            try:
                while not self.done and _handles.done(self._handle):
                    self._hear()
            finally:
                self._lock.release()
        return self.done

    def wait(self) -> None:
        """Until it is done. ValueError where a rank lacks a parameter that another one trains."""
        with self._lock:
            while not self.done:
                self._hear()
        if self._lacks:
            self._refuse()

    def _hear(self) -> None:
        """Wait for what is on its way. Its failure is told to all who ask."""
        if self._failure is not None:
            raise self._failure
        try:
            heard = _handles.synchronize(self._handle)
        except HorovodInternalError as error:
            self._failure = error
            raise
        self._next(heard)

    def _greatest(self, part: str, values: List[int]) -> int:
        numbers = (ctypes.c_int64 * len(values))(*values)
        address = ctypes.addressof(numbers)
        return _operations.allreduce(
            (address, _INT64, (len(values),)), address, self._name + part,
            Options(_core.Max, process_set=self._process_set),
            lambda handle, rc: list(numbers), numbers)

    def _hear_header(self, header: List[int]) -> None:
        unusual, *digests = header
        self.ordered, same = (digests[i] == _DIGESTS - digests[i + 1] for i in (0, 2))
        if not same:
            self._next = self._hear_all
            self._handle = self._tell_all()
        elif unusual or not self.ordered:
            self._next = self._hear_facts
            self._handle = self._greatest('.facts', [
                int(field) for name in sorted(self._facts) for field in self._facts[name]])
        else:
            self._end({name: fact for name, fact in self._facts.items() if fact.wants})

    def _hear_facts(self, numbers: List[int]) -> None:
        told = {name: Fact(bool(w), bool(d), s) for name, w, d, s in
                zip(sorted(self._facts), *(numbers[i::3] for i in range(3)))}
        self._end({name: told[name] for name in (self._facts if self.ordered else told)
                   if told[name].wants})

    def _end(self, agreed: Dict[str, Fact]) -> None:
        self.agreed = agreed
        self.done = True

    # ------------------------------------------------------------------ other parameters

    def _tell_all(self) -> int:
        text = json.dumps([_core.rank(), self._facts]).encode() + b'\n'
        buffer = ctypes.create_string_buffer(text, len(text))

        def heard(handle: int, rc: int) -> bytes:
            address, nbytes, _ = _operations.output(handle)
            return ctypes.string_at(address, nbytes)

        return _operations.allgather((ctypes.addressof(buffer), _UINT8, (len(text),)),
                                     self._name + '.names',
                                     Options(process_set=self._process_set), heard, buffer)

    def _hear_all(self, text: bytes) -> None:
        ranks = dict(json.loads(line) for line in text.splitlines())
        together: Dict[str, Fact] = {}
        for facts in ranks.values():
            for name, fact in facts.items():
                together[name] = Fact(*map(max, zip(fact, together.get(name, (0, 0, 0)))))
        wanted = {name: together[name] for name in sorted(together) if together[name].wants}
        lacks = {rank: [name for name in wanted if name not in facts]
                 for rank, facts in ranks.items()}
        self._lacks = {rank: names for rank, names in lacks.items() if names}
        self._end(wanted)

    @property
    def failed(self) -> bool:
        """A rank lacks what another one trains: wait() raises."""
        return bool(self._lacks)

    def _refuse(self) -> None:
        told = []
        for rank, names in sorted(self._lacks.items()):
            more = f' and {len(names) - _NAMES_TOLD} more' if len(names) > _NAMES_TOLD else ''
            told.append(f'rank {rank} has no {", ".join(names[:_NAMES_TOLD])}{more}')
        raise ValueError('The ranks\' optimizers have different parameters: ' + '; '.join(told)
                         + '. Give each parameter to the optimizers of all ranks, under the same '
                         'name (named_parameters) or in the same place.')
