# SPDX-License-Identifier: Apache-2.0
"""What init_process_group and new_group get: a ProcessGroup, or for two devices a Backend.

A ProcessGroup in Python is called without a detour by torch.distributed's functions, and so is the
faster one; but PyTorch gives it all of a group's devices. Where another backend serves some of
them, as in "cpu:reigen,cuda:nccl", a Backend is made, of which PyTorch's own ProcessGroup is in
charge. DDP and the functional collectives call either from C++.
"""
import datetime
import sys
import types
import weakref
from typing import Any, List

import torch
from torch._C import _distributed_c10d as c10d

from reigen.distributed import _world
from reigen.distributed._collectives import Collectives
from reigen.distributed._engine import Engine
from reigen.distributed._work import Many
from reigen.torch import _untraced

_DEVICES = torch.device('cpu'), torch.device('cuda')
#: PyTorch 2.14 is the first that lets Python implement one.
_BACKENDS_IN_PYTHON = tuple(map(int, torch.__version__.split('.')[:2])) >= (2, 14)


class _Life:
    """How both kinds of group begin and end."""

    def _begin(self, options: Any) -> None:
        rank, size = options.group_rank, options.group_size
        self._store = options.store
        ranks = tuple(options.global_ranks_in_group) or tuple(range(size))
        timeout = options.timeout.total_seconds()
        self._place = _world.enter(options.store, rank, ranks, timeout,
                                   agent=getattr(options, 'agent', True))
        self._me = rank
        name = str(options.group_id) or f'own.{self._place.number}'
        if self._place.turn > 1:
            name += f'.{self._place.turn}'
        try:
            self._engine = Engine(f'c10d.{name}', self._place.process_set, size,
                                  self._place.roots, timeout)
        except BaseException:
            _world.leave(self._place.share)
            raise

    def set_timeout(self, timeout: Any) -> None:
        self._engine.timeout = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        if not self._aborted:
            self._aborted = True
            _world.leave(self._place.share)

    def abort(self) -> None:
        """What is in flight ends with an error. The groups of all ranks share the runtime with the
        others, which end too."""
        if not self._aborted:
            self._aborted = True
            if self._place.process_set == 0:
                _world.abort(self._place.share)
            else:
                _world.leave(self._place.share)

    def getBackendName(self) -> str:
        return 'reigen'

    def name(self) -> str:
        return 'reigen'

    supports_coalescing = False


class _Named:
    """A group's name where there is no backend in C++ to keep it."""

    _group_name = _group_text = ''

    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupName(self) -> str:
        return self._group_name

    def setGroupDesc(self, text: str) -> None:
        self._group_text = text

    def getGroupDesc(self) -> str:
        return self._group_text


_NAMES = () if _BACKENDS_IN_PYTHON else (_Named,)


class ReigenProcessGroup(_Life, Collectives, *_NAMES, c10d.ProcessGroup):
    """All of a group's devices are Reigen's."""

    CALLED_DIRECTLY = True

    def __init__(self, options: Any):
        c10d.ProcessGroup.__init__(self, options.group_rank, options.group_size)
        self._begin(options)
        custom = c10d.ProcessGroup.BackendType.CUSTOM
        self._set_default_backend(custom)
        # What PyTorch asks in C++ of a group's devices.
        self._companion = _companion_class()(self) if _BACKENDS_IN_PYTHON else None
        for device in _DEVICES:
            self._register_backend(device, custom, self._companion)

    def _get_backend(self, device: Any) -> Any:
        return self

    def _get_backend_name(self) -> str:
        return 'reigen'

    def _start_coalescing(self, device: Any = None) -> None:
        self._coalesced = []

    def _end_coalescing(self, device: Any = None) -> Any:
        works, self._coalesced = self._coalesced or [], None
        return Many(works, [])

    def _wait_for_pending_works(self) -> None:
        pass

    supports_splitting = True

    def get_group_store(self) -> Any:
        return self._store

    def split_group(self, new_ranks: List[int], timeout: Any = None, opts: Any = None,
                    group_name: Any = None, group_desc: Any = None,
                    device_types: Any = None) -> Any:
        """A group of some of this one's places, made by them alone. It gets what new_group's groups
        get."""
        if self._me not in new_ranks:
            return None
        group = ReigenProcessGroup(types.SimpleNamespace(
            group_rank=new_ranks.index(self._me), group_size=len(new_ranks),
            global_ranks_in_group=[self._place.ranks[place] for place in new_ranks],
            timeout=timeout or datetime.timedelta(seconds=self._engine.timeout),
            store=c10d.PrefixStore(f'{group_name}/', self._store), group_id=group_name))
        group._set_group_name(group_name)
        group._set_group_desc(group_desc or '')
        return group


def alone(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> ReigenProcessGroup:
    """A group that torch.distributed does not know of, for those who make groups themselves. The
    store is this group's own. All of its processes call it, and it blocks until all have, at most
    `timeout`, which is each operation's limit as well. abort() or shutdown() ends it."""
    return ReigenProcessGroup(types.SimpleNamespace(
        group_rank=rank, group_size=size, global_ranks_in_group=[], timeout=timeout, store=store,
        group_id='', agent=False))


def _companion_class() -> Any:
    class Companion(Collectives, c10d.Backend):
        """A group as one of its own devices' backends."""

        def __init__(self, group: Any):
            c10d.Backend.__init__(self, group._me, group._engine.size)
            self._engine, self._place, self._me = group._engine, group._place, group._me
            self._group = weakref.ref(group)

        @property
        def _aborted(self) -> bool:
            group = self._group()
            return group is None or group._aborted

        def getBackendName(self) -> str:
            return 'reigen'

        def abort(self) -> None:
            group = self._group()
            if group is not None:
                group.abort()

        def shutdown(self) -> None:
            """The group does it."""

    return Companion


def _backend_class() -> Any:
    class ReigenBackend(_Life, Collectives, c10d.Backend):
        """The CPU's half of a group whose other devices have other backends."""

        def __init__(self, options: Any):
            c10d.Backend.__init__(self, options.group_rank, options.group_size)
            self._begin(options)

    return ReigenBackend


def _devices() -> List[str]:
    """The backends that PyTorch is making a group of, by device; it does not hand them over."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == '_new_process_group_helper':
            config = frame.f_locals.get('backend_config')
            found = getattr(config, 'get_device_backend_map', None)
            return sorted(set(found().values())) if found else []
        frame = frame.f_back
    return []


def create(options: Any, backend_options: Any = None) -> Any:
    """What torch.distributed calls for the backend's name."""
    if all(backend == 'reigen' for backend in _devices()):
        return ReigenProcessGroup(options)
    if not _BACKENDS_IN_PYTHON:
        raise RuntimeError('"cpu:reigen" beside another backend needs PyTorch 2.14 or newer; this '
                           f'is PyTorch {torch.__version__}. Give init_process_group "reigen".')
    return _backend_class()(options)


_untraced.hide('reigen.distributed')
