# SPDX-License-Identifier: Apache-2.0
"""TorchState: models, optimizers, samplers and plain objects that survive a change of ranks."""
import copy
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch.optim import lr_scheduler

from horovod.common.elastic import ObjectState
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.functions import (broadcast_object, broadcast_optimizer_state,
                                     broadcast_parameters)
from horovod.torch.mpi_ops import rank


class TorchState(ObjectState):
    """The state of a training process: attributes given by keyword.

    Values of the types in get_handler_registry() (modules, optimizers, schedulers of learning
    rates, ElasticSampler) are saved and sent as such, several of each if need be; all others as
    plain Python objects. Assigning another value to the attribute of such a one replaces it, and
    saves it.
    """

    def __init__(self, model: Optional[torch.nn.Module] = None,
                 optimizer: Optional[torch.optim.Optimizer] = None, **kwargs: Any):
        handlers, plain = _split({**kwargs, 'model': model, 'optimizer': optimizer})
        object.__setattr__(self, '_handlers', handlers)
        for name, handler in handlers.items():
            object.__setattr__(self, name, handler.value)
        super().__init__(broadcast_object, rank, **plain)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Give every rank rank 0's state; where that fails half way restore() goes back to what was
        saved before."""
        saved = [dict(vars(handler)) for handler in self._handlers.values()]
        try:
            for handler in self._handlers.values():
                handler.sync()
            super().sync()
        except BaseException:
            for handler, before in zip(self._handlers.values(), saved):
                vars(handler).update(before)
            raise

    def reset(self) -> None:
        """Samplers share out their data anew among the ranks that there are now."""
        for handler in self._handlers.values():
            if isinstance(handler, SamplerStateHandler):
                handler.value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._handlers:
            self._handlers[name].set_value(value)
        object.__setattr__(self, name, value)


class StateHandler:
    """How a value is saved, restored and sent. Made with the value; subclasses do the work."""

    def __init__(self, value: Any):
        self.value = value

    def save(self) -> None:
        """Keep a copy of the value's state."""
        raise NotImplementedError(f'{type(self).__name__} does not define save()')

    def restore(self) -> None:
        """Put the kept state back."""
        raise NotImplementedError(f'{type(self).__name__} does not define restore()')

    def sync(self) -> None:
        """Give every rank rank 0's state."""
        raise NotImplementedError(f'{type(self).__name__} does not define sync()')

    def set_value(self, value: Any) -> None:
        """Another value takes its place, and is saved."""
        self.value = value
        self.save()


class _StateDictHandler(StateHandler):
    """A value with state_dict() and load_state_dict()."""

    def __init__(self, value: Any):
        super().__init__(value)
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        # A copy: what an optimizer loads it goes on to change.
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        self._send()
        self.save()

    def _send(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), root_rank=0))


class ModelStateHandler(_StateDictHandler):
    """A torch.nn.Module."""

    def __init__(self, model: torch.nn.Module):
        super().__init__(model)

    def _send(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)


class OptimizerStateHandler(_StateDictHandler):
    """A torch.optim.Optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer):
        super().__init__(optimizer)

    def _send(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)


class SchedulerStateHandler(_StateDictHandler):
    """A scheduler of torch.optim.lr_scheduler, which stays with its own optimizer."""


class SamplerStateHandler(_StateDictHandler):
    """An ElasticSampler."""

    def __init__(self, sampler: ElasticSampler):
        super().__init__(sampler)


#: PyTorch before 2.0 has no LRScheduler, and before 2.2 ReduceLROnPlateau is none.
_SCHEDULERS = (getattr(lr_scheduler, 'LRScheduler', lr_scheduler._LRScheduler),
               lr_scheduler.ReduceLROnPlateau)

_handler_registry: List[Tuple[type, type]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    *[(kind, SchedulerStateHandler) for kind in _SCHEDULERS],
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> List[Tuple[type, type]]:
    """Pairs (type of value, its StateHandler); the first that fits is taken."""
    return _handler_registry


def set_handler_registry(registry: List[Tuple[type, type]]) -> None:
    """Replace the registry, for states that are made from now on."""
    global _handler_registry
    _handler_registry = registry


def _split(values: Dict[str, Any]) -> Tuple[Dict[str, StateHandler], Dict[str, Any]]:
    handlers, plain = {}, {}
    for name, value in values.items():
        made = next((handler for kind, handler in _handler_registry if isinstance(value, kind)),
                    None)
        if made is None:
            plain[name] = value
        else:
            handlers[name] = made(value)
    return handlers, plain
