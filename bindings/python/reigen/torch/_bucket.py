# SPDX-License-Identifier: Apache-2.0
"""A set of small tensors that is reduced again and again: names and shapes are told to C once."""
import ctypes
from typing import Any, List, Optional, Sequence

import torch

from reigen import _handles, _lib
from reigen._operations import Group
from reigen.torch import _device, _operations, _switch, _tensor

_grouped = _lib.lib.reigen_grouped_async


class Bucket:
    """Allreduces in place, together or not at all, of tensors of one type.

    The tensors may be others each time, of the same shapes.
    """

    def __init__(self, names: Sequence[str], shapes: Sequence[torch.Size], dtype: torch.dtype,
                 op: int, prescale: float, postscale: float, process_set_id: Optional[int] = 0):
        self.count = len(names)
        self._members = [(shape, dtype) for shape in shapes]
        self._code = _tensor.code_of(dtype)
        self._layout = _operations.Layout(names, shapes)
        self._options = _lib.Options(op, 0, prescale, postscale)
        self._options.process_set = process_set_id or 0
        self._pointers = (ctypes.c_void_p * self.count)

    def fits(self, tensors: Sequence[torch.Tensor]) -> bool:
        """Whether these have the shapes and the type; only such may be given to start()."""
        return [(tensor.shape, tensor.dtype) for tensor in tensors] == self._members

    def start(self, tensors: List[torch.Tensor]) -> int:
        """Submit, and give a handle for synchronize(). The tensors are kept until then."""
        if _switch.asks() is not _switch.told:
            _switch.tell()
        started = _Started(self, tensors)
        if started.device == _device.HOST:
            return _handles.submit(started)
        return _device.submit(started, started.device, started.dense)

    def submit(self, tensors: Sequence[torch.Tensor], handles: Any) -> int:
        pointers = self._pointers(*[tensor.data_ptr() for tensor in tensors])
        layout = self._layout
        return _grouped(_operations.ALLREDUCE, self.count, layout.names, pointers, pointers,
                        self._code, layout.pointers, layout.ndims, ctypes.byref(self._options),
                        handles)


class _Started(Group):
    #: Where the tensors are, as _device.of.
    device = _device.HOST
    allocates = False

    def __init__(self, bucket: Bucket, tensors: List[torch.Tensor]):
        self._bucket, self._tensors, self._count = bucket, tensors, bucket.count
        self._handles = (ctypes.c_int64 * bucket.count)()
        self.dense = [tensor if tensor.is_cpu and _tensor.is_plain(tensor)
                      else self._other(tensor) for tensor in tensors]
        if self.device != _device.HOST:
            _device.common(self.dense)

    def _other(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that is strided, or on a GPU."""
        dense = _tensor.row_major(tensor)
        self.device = max(self.device, _tensor.describe(dense)[2])
        return dense

    def start(self) -> int:
        return self._bucket.submit(self.dense, self._handles)

    def result(self, rc: int) -> Any:
        with torch.no_grad():
            for tensor, dense in zip(self._tensors, self.dense):
                if tensor is not dense:
                    tensor.copy_(dense)
        return self._tensors
