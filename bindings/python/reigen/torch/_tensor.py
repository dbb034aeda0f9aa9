# SPDX-License-Identifier: Apache-2.0
"""How the runtime sees a tensor."""
import ctypes
from typing import Any, Tuple

import torch

from reigen import _core, _lib
from reigen.torch import _device

#: torch's element types, with the numbers of enum reigen_dtype.
CODES = {torch.uint8: 0, torch.int8: 1, torch.int16: 3, torch.int32: 4, torch.int64: 5,
         torch.float16: 6, torch.float32: 7, torch.float64: 8, torch.bool: 9, torch.bfloat16: 10}
if hasattr(torch, 'uint16'):
    CODES[torch.uint16] = 2


def code_of(dtype: torch.dtype) -> int:
    """enum reigen_dtype; ValueError for a type that the runtime does not know."""
    code = CODES.get(dtype)
    if code is None:
        raise ValueError(f'Tensor type {dtype} is not supported.')
    return code


def describe(tensor: torch.Tensor) -> Tuple[int, int, int]:
    """(address, enum reigen_dtype, device: as _device.of) of a dense, row-major tensor.

    Raises ValueError for what the runtime cannot take, saying why.
    """
    code = CODES.get(tensor.dtype) if isinstance(tensor, torch.Tensor) else None
    if code is None or tensor.layout is not torch.strided:
        raise refusal(tensor)
    device = _device.HOST if tensor.is_cpu else _device.of(tensor)
    if not tensor.is_contiguous():
        raise ValueError('Tensor is required to be contiguous.')
    return tensor.data_ptr(), code, device


def row_major(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself where its elements lie in a row, else a copy in which they do."""
    if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
        return tensor if tensor.is_contiguous() else tensor.detach().contiguous()
    raise refusal(tensor)


def refusal(tensor: Any) -> ValueError:
    """Why something is no tensor that lies in strides."""
    if not isinstance(tensor, torch.Tensor):
        return ValueError(f'A tensor is required, not {type(tensor).__name__}.')
    return ValueError(f'Tensor type {tensor.type()} is not supported.')


def like(tensor: torch.Tensor) -> torch.Tensor:
    """A new row-major tensor of this one's type and shape."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        raise refusal(tensor)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def shape_of(tensor: torch.Tensor):
    """The shape as a C array, which must be kept until the call that reads it returns."""
    shape = tensor.shape
    return (ctypes.c_int64 * len(shape))(*shape)


def output_of(handle: int, dtype: torch.dtype, device: int = _device.HOST) -> torch.Tensor:
    """A new tensor on this device with the result that the runtime allocated for a finished
    operation."""
    address, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
    dims, ndim = (ctypes.c_int64 * _lib.NDIM_MAX)(), ctypes.c_int()
    rc = _lib.quick.reigen_output(handle, ctypes.byref(address), ctypes.byref(nbytes), dims,
                                  ctypes.byref(ndim))
    if rc < 0:
        raise _core.operation_error(rc, '')
    shape = dims[:ndim.value]
    result = (torch.empty(shape, dtype=dtype) if device == _device.HOST
              else _device.empty(shape, dtype, device))
    _device.copy_output(handle, result)
    return result


def splits_of(handle: int, count: int) -> torch.Tensor:
    """The rows that a finished alltoall received from each rank."""
    splits = torch.empty(count, dtype=torch.int32)
    pointer = ctypes.cast(splits.data_ptr(), ctypes.POINTER(ctypes.c_int32))
    rc = _lib.quick.reigen_received_splits(handle, pointer, count)
    if rc < 0:
        raise _core.operation_error(rc, '')
    return splits
