# SPDX-License-Identifier: Apache-2.0
"""The parameters of an optimizer as they are now: which it has, their names, and who is trained.

A program may freeze parameters and train them again, add groups, and put other parameters into the
place of old ones, at any time, without telling anybody. So a `Roster` is looked at anew in each
step; where nothing has changed that costs two comparisons of lists.
"""
import operator
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch

from horovod.common.agreement import Fact
from reigen import _core


class Slot:
    """A parameter, and where the reduction of its gradient stands."""

    __slots__ = ('param', 'name', 'left', 'live', 'pending', 'sent', 'grad', 'made', 'group',
                 'agreed', 'sparse_dim', 'hook', 'keep')

    def __init__(self, param: torch.Tensor, name: str, passes: int):
        self.param = param
        self.name = name
        self.left = passes       # backward passes until the gradient is ready
        self.live = True         # the optimizer has it still
        self.pending: Any = None  # its own handle; a function for a sparse gradient
        self.sent: Any = None    # (tensor that was sent, what decompresses it)
        self.grad: Any = None    # what is sent in place of its gradient, which must not change yet
        self.made: Any = None    # (reference, version) of zeros in the place of a gradient
        self.group: Any = None
        self.agreed = False      # the ranks reduce its gradient ...
        #: ... which is sparse in so many dimensions; 0: dense; None: none has been seen yet.
        self.sparse_dim: Optional[int] = None
        self.hook: Any = None
        self.keep: Any = None

    def wanted(self, passes: int) -> bool:
        """It is trained here, or has been until a moment ago: a gradient waits for its step."""
        return self.live and (self.param.requires_grad or self.left != passes)

    def has_gradient(self, passes: int) -> bool:
        """Other than the zeros that were made for want of one."""
        grad = self.param.grad
        if grad is None or self.left != passes or self.made is None:
            return grad is not None
        made, version = self.made
        return made() is not grad or grad._version != version

    def fact(self, passes: int) -> Fact:
        """What this rank has to tell of it."""
        if self.sparse_dim is not None:
            return Fact(self.wanted(passes), self.sparse_dim == 0, self.sparse_dim)
        if not self.has_gradient(passes):
            return Fact(self.wanted(passes), False, 0)
        grad = self.param.grad
        dims = grad.sparse_dim() if grad.is_sparse else 0
        return Fact(self.wanted(passes), not dims, dims)


class Roster:
    """The slots of all parameters that an optimizer has, in its order, trained or not."""

    def __init__(self, given: Dict[int, str], params: List[torch.Tensor]):
        """given: names by the ids of parameters, among them those of `params` at least."""
        #: Kept as one list: what unregisters the hooks holds it.
        self.slots: List[Slot] = []
        # An id is another parameter's when its own is gone.
        self._given = {id(p): (weakref.ref(p), given[id(p)]) for p in params if id(p) in given}
        self._listed: List[torch.Tensor] = []
        self._places: Dict[Tuple[int, int], str] = {}
        self._trained: List[bool] = []

    def look(self, groups: List[Dict[str, Any]], passes: int,
             new: Callable[[Slot], None], gone: Callable[[Slot], None]) -> bool:
        """Take the parameters from param_groups. True: others than at the last look, or others of
        them are trained. new(slot), gone(slot): called for those that come and go."""
        listed = [p for group in groups for p in group['params']]
        same = len(listed) == len(self._listed) and all(map(operator.is_, listed, self._listed))
        if not same:
            self._take(groups, passes, new, gone)
            self._listed = listed
        trained = [p.requires_grad for p in listed]
        if same and trained == self._trained:
            return False
        self._trained = trained
        return True

    def _take(self, groups, passes, new, gone) -> None:
        known = {id(slot.param): slot for slot in self.slots}
        places = {(i, j): p for i, group in enumerate(groups)
                  for j, p in enumerate(group['params'])}
        taken = {known[id(p)].name for p in places.values() if id(p) in known}
        slots: Dict[int, Slot] = {}
        for place, param in places.items():
            if id(param) in slots:
                continue
            slot = known.pop(id(param), None)
            if slot is None:
                slot = Slot(param, self._name(param, place, groups, taken), passes)
                taken.add(slot.name)
                new(slot)
            slots[id(param)] = slot
            self._places[place] = slot.name
        for slot in known.values():
            slot.live = False
            gone(slot)
        self.slots[:] = slots.values()

    def _name(self, param: torch.Tensor, place: Tuple[int, int], groups: List[Dict[str, Any]],
              taken: Set[str]) -> str:
        """The first of those that it may have which is free: its own one, that of the parameter
        whose place it has taken, and that of the place."""
        i, j = place
        ref, own = self._given.get(id(param), (lambda: None, None))
        found = [own] if ref() is param else []
        # PyTorch 2.6 and later keep the names that an optimizer is given.
        found += groups[i].get('param_names', [])[j:j + 1]
        found += [self._places[place]] if place in self._places else []
        found.append(f'allreduce.noname.{i}.{j}')
        free = next((name for name in found if name not in taken), None)
        while free is None:
            found[-1] += '.'
            free = None if found[-1] in taken else found[-1]
        return free


def register(slot: Slot, hook: Callable) -> None:
    """Call hook whenever the parameter's gradient has been accumulated. A frozen one may be trained
    later, and cannot tell then."""
    param = slot.param
    frozen = not param.requires_grad
    if frozen:
        try:
            param.requires_grad_(True)
        except RuntimeError:
            return  # of integers, say
    try:
        if hasattr(param, 'register_post_accumulate_grad_hook'):  # torch 2.1 and later
            slot.hook = param.register_post_accumulate_grad_hook(hook)
        else:
            # The node that accumulates lives only as long as something holds it.
            with torch.enable_grad():
                slot.keep = param.expand_as(param).grad_fn.next_functions[0][0]
            slot.hook = slot.keep.register_hook(hook)
    finally:
        if frozen:
            param.requires_grad_(False)


def unregister(slot: Slot) -> None:
    if slot.hook is not None:
        slot.hook.remove()
        slot.hook = slot.keep = None


def names_of(param_groups, named_parameters) -> Tuple[Dict[int, str], List[torch.Tensor]]:
    """Names by parameter id, and the parameters that have them; after the checks that Horovod
    makes."""
    if named_parameters is None:
        return {}, []
    named = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in named):
        raise ValueError('named_parameters should be a sequence of tuples (name, parameter), '
                         'usually produced by model.named_parameters().')
    names = [name for name, _ in named]
    duplicates = sorted({name for name in names if names.count(name) > 1}) \
        if len(set(names)) < len(names) else []
    if duplicates:
        raise ValueError('Parameter names in named_parameters must be unique. Found duplicates: '
                         + ', '.join(duplicates))
    result = {id(p): name for name, p in named}
    unnamed = [p for group in param_groups for p in group['params'] if id(p) not in result]
    if unnamed:
        raise ValueError('named_parameters was specified, but one or more model parameters were '
                         'not named. Python object ids: '
                         + ', '.join(str(id(p)) for p in unnamed))
    return result, [p for _, p in named]


class Stepped:
    """The optimizer that was wrapped, for a learning rate scheduler that was made for it: it looks
    there for the parameter groups, and for whether a step has been made."""

    def __init__(self, wrapped: torch.optim.Optimizer):
        self._wrapped = weakref.ref(wrapped)

    def share(self, optimizer: torch.optim.Optimizer) -> None:
        """Both have the same groups and state: what one of them is told of these counts."""
        wrapped = self._wrapped()
        if wrapped is not None:
            wrapped.param_groups, wrapped.state = optimizer.param_groups, optimizer.state

    def tell(self) -> None:
        """A step is made."""
        wrapped = self._wrapped()
        if wrapped is not None:
            wrapped._opt_called = True                   # torch 2.4 and later
            wrapped._step_count = getattr(wrapped, '_step_count', 0) + 1


#: Counts the jobs that this process has been in: what ranks have agreed on holds in one of them.
_jobs = [0]


def job() -> int:
    """The number of the job that this process is in."""
    return _jobs[0]


def _after_shutdown() -> None:
    _jobs[0] += 1


_core.after_shutdown.append(_after_shutdown)
_core.after_apart.append(_after_shutdown)
