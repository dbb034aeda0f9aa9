# SPDX-License-Identifier: Apache-2.0
"""Every operation but the plain allreduce, on tensors; reigen._operations asks C for them."""
import ctypes
import itertools
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from reigen import _core, _handles, _lib, _operations
from reigen._handles import ALLGATHER, ALLREDUCE, REDUCESCATTER
from reigen._operations import Group, Parts, Source, set_size
from reigen.torch import _device, _switch, _tensor

#: Names that groups without a name take turns at.
GROUP_RING = 16
#: Layouts of groups that are kept.
GROUPS_MAX = 256
#: Names of tensors that are none of the user's begin so, in C, too: nobody is told of them.
OWN = 'reigen.'

_STRIDED, _HOST = torch.strided, _device.HOST
_plain = _tensor.is_plain
#: By kind and process set: how many groups without a name there have been.
_unnamed_groups: Dict[Tuple[int, int], Iterator[int]] = {}


def _memory(tensor: torch.Tensor) -> Source:
    address, code, _ = _tensor.describe(tensor)
    return address, code, tensor.shape


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None, process_set: int = 0) -> int:
    """Concatenate along the first dimension, in the order of ranks; the first may differ."""
    source = _tensor.row_major(tensor)
    address, code, device = _tensor.describe(source)
    return _operations.allgather(
        (address, code, source.shape), name, _lib.Options(process_set=process_set),
        lambda handle, rc: _tensor.output_of(handle, source.dtype, device), source,
        _handles.submit if device == _HOST else _device.submitter(source))


def broadcast_async(tensor: torch.Tensor, out: torch.Tensor, root: int,
                    name: Optional[str] = None, process_set: int = 0) -> int:
    """root's tensor to every rank's out (which may be the tensor itself)."""
    source = _tensor.row_major(tensor)
    if out is tensor:
        target = source
    else:
        target = out if _tensor.is_plain(out) else _tensor.like(out)

    def finish(handle, rc):
        if target is not out:
            with torch.no_grad():
                out.copy_(target)
        return out

    memory, address = _memory(source), _tensor.describe(target)[0]
    submit = (_handles.submit if source.is_cpu and target.is_cpu
              else _device.submitter(source, target))
    return _operations.broadcast(memory, address, name,
                                 _lib.Options(root=root, process_set=process_set), finish,
                                 (source, target), submit)


def _splits(splits: Any) -> Optional[List[int]]:
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        splits = torch.tensor(splits, dtype=torch.int32)
    if splits.dim() != 1:
        raise _core.submission_error(-22, 'alltoall expects a 1D splits tensor')
    if splits.dtype is not torch.int32:
        raise _core.submission_error(
            -22, 'alltoall expects splits to contain 32-bit integer elements.')
    return splits.tolist()


def alltoall_async(tensor: torch.Tensor, splits: Any = None, name: Optional[str] = None,
                   process_set: int = 0) -> int:
    """Send splits[r] rows to rank r. The result is (tensor, rows received from each rank)."""
    source = _tensor.row_major(tensor)
    address, code, device = _tensor.describe(source)
    rows = _splits(splits)

    def finish(handle, rc):
        received = _tensor.splits_of(handle, set_size(process_set))
        if isinstance(splits, torch.Tensor) and not splits.is_cpu:
            received = received.to(splits.device)
        return _tensor.output_of(handle, source.dtype, device), received

    return _operations.alltoall(
        (address, code, source.shape), rows, name, _lib.Options(process_set=process_set), finish,
        source, _handles.submit if device == _HOST else _device.submitter(source))


def reducescatter_async(tensor: torch.Tensor, name: Optional[str], op: int, prescale: float,
                        postscale: float, process_set: int = 0) -> int:
    """Reduce, and keep this rank's part of the first dimension."""
    if _switch.asks() is not _switch.told:
        _switch.tell()
    source = _tensor.row_major(tensor)
    address, code, device = _tensor.describe(source)
    return _operations.reducescatter(
        (address, code, source.shape), name,
        _lib.Options(op, 0, prescale, postscale, process_set),
        lambda handle, rc: _tensor.output_of(handle, source.dtype, device), source,
        _handles.submit if device == _HOST else _device.submitter(source))


def barrier_async(process_set: int = 0) -> int:
    """Done when all ranks have submitted theirs."""
    return _operations.barrier(_lib.Options(process_set=process_set))


# ---------------------------------------------------------------------------- groups

class Layout:
    """What the members of a group look like, as C reads it."""

    def __init__(self, names: Sequence[str], shapes: Sequence[torch.Size]):
        count = len(shapes)
        self.shapes = list(shapes)
        self._arrays = [(ctypes.c_int64 * len(shape))(*shape) for shape in shapes]
        self.names = (ctypes.c_char_p * count)(*[name.encode() for name in names])
        self.pointers = (ctypes.c_void_p * count)(*map(ctypes.addressof, self._arrays))
        self.ndims = (ctypes.c_int * count)(*map(len, shapes))


_layouts: Dict[Any, Layout] = {}


def _layout(kind: int, name: str, dtype: torch.dtype, shapes: List[torch.Size],
            own: int) -> Layout:
    count = len(shapes)
    key = (kind, name, dtype, count, own)
    layout = _layouts.get(key)
    if layout is None or layout.shapes != shapes:
        if len(_layouts) >= GROUPS_MAX:
            _layouts.clear()
        layout = _layouts[key] = Layout(
            [f'{OWN * (i >= count - own)}{name}_{i + 1}of{count - own}' for i in range(count)],
            shapes)
    return layout


class _Group(Group):
    """A group of tensors. One without a name takes turns at a ring of names. device: where all of
    them are, as _device.of."""

    def __init__(self, kind: int, name: str, turn: bool, tensors: Sequence[torch.Tensor],
                 outs: Optional[Sequence[torch.Tensor]], options: _lib.Options, dense: bool,
                 device: int, own: int):
        self._kind, self._count, self._options = kind, len(tensors), options
        self._device = device
        self.allocates = outs is None
        self.turn = turn
        # Lists of our own: the caller may change his.
        self._ins = list(tensors) if dense else [_tensor.row_major(t) for t in tensors]
        self._outs = self._ins if dense and outs is tensors else outs and list(outs)
        self._buffers = self._outs
        if outs is not None and not dense:
            self._buffers = [a if o is t else o if _tensor.is_plain(o) else _tensor.like(o)
                             for a, o, t in zip(self._ins, outs, tensors)]
        first = tensors[0]
        self._dtype = first.dtype
        _, self._code, _ = _tensor.describe(self._ins[0])
        self._layout = _layout(kind, name, first.dtype, [t.shape for t in tensors], own)
        self._handles = (ctypes.c_int64 * self._count)()

    def start(self) -> int:
        pointers = ctypes.c_void_p * self._count
        ins = outs = pointers(*[t.data_ptr() for t in self._ins])
        if self._buffers is not self._ins:
            outs = self._buffers and pointers(*[t.data_ptr() for t in self._buffers])
        layout = self._layout
        return _lib.lib.reigen_grouped_async(
            self._kind, self._count, layout.names, ins, outs, self._code, layout.pointers,
            layout.ndims, ctypes.byref(self._options), self._handles)

    def result(self, rc: int) -> List[torch.Tensor]:
        if self._outs is None:
            return [_tensor.output_of(handle, self._dtype, self._device)
                    for handle in self._handles]
        if self._buffers is not self._outs:
            with torch.no_grad():
                for out, buffer in zip(self._outs, self._buffers):
                    if out is not buffer:
                        out.copy_(buffer)
        return list(self._outs)

    def submit(self) -> int:
        """Start it, where its tensors are, and give its handle."""
        return _device.submit(self, self._device, [*self._ins, *(self._buffers or ())])


def _all_dense(tensors: Sequence[torch.Tensor]) -> bool:
    """True when all lie row by row in the CPU's memory; ValueError for what can never be sent."""
    try:
        if all([t.is_cpu and t.layout is _STRIDED and _plain(t) for t in tensors]):
            return True
    except (AttributeError, RuntimeError):
        pass  # not a tensor, or a sparse one
    for tensor in tensors:
        _tensor.describe(_tensor.row_major(tensor))
    return False


def grouped_async(kind: int, tensors: Sequence[torch.Tensor],
                  outs: Optional[Sequence[torch.Tensor]], name: Optional[str], op: int = 1,
                  prescale: float = 1.0, postscale: float = 1.0, process_set: int = 0,
                  own: int = 0) -> int:
    """Submit all or nothing. outs: where allreduces go; None for kinds whose result C allocates.
    own: how many at the end are none of the user's."""
    if not tensors:
        raise ValueError('A group needs at least one tensor.')
    if _switch.asks() is not _switch.told:
        _switch.tell()
    dense = _all_dense(tensors) and (
        outs is None or outs is tensors
        or all([out.is_cpu and _plain(out) for out in outs]))
    device = _HOST if dense else _device.common([*tensors, *(outs or ())])
    options = _lib.Options(op, 0, prescale, postscale, process_set)
    turn = name is None
    if name is None:
        turns = _unnamed_groups.setdefault((kind, process_set), itertools.count())
        name = f'noname.{next(turns) % GROUP_RING}'
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) == 1:
        group = _Group(kind, name, turn, tensors, outs, options, dense, device, own)
        return _handles.submit(group) if device == _HOST else group.submit()
    parts = []
    for dtype in sorted(dtypes, key=_tensor.name_of):
        places = [i for i, tensor in enumerate(tensors) if tensor.dtype is dtype]
        label = _tensor.name_of(dtype)
        part = _Group(kind, f'{name}.{label}', turn, [tensors[i] for i in places],
                      None if outs is None else [outs[i] for i in places], options, dense,
                      device, sum(i >= len(tensors) - own for i in places))
        parts.append((places, part.submit()))
    return _handles.submit(Parts(parts, len(tensors)))


def _forget() -> None:
    _unnamed_groups.clear()
    _layouts.clear()


def _count_anew() -> None:
    for key in [key for key in _unnamed_groups if key[1] == 0]:
        del _unnamed_groups[key]


_core.after_join.append(_count_anew)
_core.after_shutdown.append(_forget)
_core.after_apart.append(_forget)
_core.after_fork.append(_forget)
