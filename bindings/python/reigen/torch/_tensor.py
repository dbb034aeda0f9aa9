# SPDX-License-Identifier: Apache-2.0
"""How the runtime sees a tensor."""
import ctypes
from typing import Any, Dict, Tuple

import torch

from reigen import _core, _lib, _types
from reigen.torch import _device

#: torch's element types that are reduced, with the numbers of enum reigen_dtype.
CODES = {torch.uint8: 0, torch.int8: 1, torch.int16: 3, torch.int32: 4, torch.int64: 5,
         torch.float16: 6, torch.float32: 7, torch.float64: 8, torch.bool: 9, torch.bfloat16: 10}
if hasattr(torch, 'uint16'):
    CODES[torch.uint16] = 2


#: The numbers of the others, once they have been used.
_others: Dict[torch.dtype, int] = {}
#: Elements of these mean something together with what their tensor alone knows.
_QUANTIZED = tuple(getattr(torch, name) for name in ('qint8', 'quint8', 'qint32', 'quint4x2',
                                                     'quint2x4') if hasattr(torch, name))


def code_of(dtype: torch.dtype) -> int:
    """The number by which the runtime knows the type."""
    code = CODES.get(dtype)
    if code is None:
        code = _others.get(dtype)
    return _add(dtype) if code is None else code


def _add(dtype: torch.dtype) -> int:
    if dtype in _QUANTIZED:
        raise ValueError(f'Tensor type {dtype} is not supported, as its numbers mean nothing '
                         'without the scale of their tensor. Send tensor.int_repr() and the '
                         'scale, or tensor.dequantize().')
    nbytes = torch.empty(0, dtype=dtype).element_size()
    code = _others[dtype] = _types.add(name_of(dtype), nbytes)
    return code


def name_of(dtype: torch.dtype) -> str:
    """"float32" of torch.float32."""
    return str(dtype).rpartition('.')[2]


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the elements lie in a row, and are what they are: PyTorch conjugates and negates
    views by a mark."""
    return tensor.is_contiguous() and not tensor.is_neg() and not tensor.is_conj()


def describe(tensor: torch.Tensor) -> Tuple[int, int, int]:
    """(address, enum reigen_dtype, device: as _device.of) of a dense, row-major tensor.

    Raises ValueError for what the runtime cannot take, saying why.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        raise refusal(tensor)
    code = code_of(tensor.dtype)
    device = _device.HOST if tensor.is_cpu else _device.of(tensor)
    if not tensor.is_contiguous():
        raise ValueError('Tensor is required to be contiguous.')
    return tensor.data_ptr(), code, device


def row_major(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself where it is plain, else a copy that is."""
    if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
        if is_plain(tensor):
            return tensor
        return tensor.detach().resolve_conj().resolve_neg().contiguous()
    raise refusal(tensor)


def refusal(tensor: Any) -> ValueError:
    """Why something is no tensor that lies in strides."""
    if not isinstance(tensor, torch.Tensor):
        return ValueError(f'A tensor is required, not {_named(tensor)}.')
    return ValueError(f'Tensor type {tensor.type()} is not supported.')


def _named(thing: Any) -> str:
    """What it is, and how it becomes a tensor."""
    kind = type(thing).__name__
    if isinstance(thing, (bool, int, float, complex)):
        return f'{kind} ({thing!r}): give torch.tensor({thing!r})'
    if type(thing).__module__ == 'numpy':
        return (f'numpy.{kind} of the type {getattr(thing, "dtype", kind)}: give torch.as_tensor() '
                'of it, or call reigen\'s operation of this name, which takes arrays')
    if isinstance(thing, (list, tuple)):
        return (f'{kind} of {len(thing)}: give torch.tensor() of it, or each tensor by itself or '
                'to the grouped form of the operation')
    return f'{kind}; allgather_object() and broadcast_object() send other objects'


def check(*tensors: Any) -> None:
    """ValueError for the first of them that is no tensor at all."""
    for tensor in tensors:
        if not isinstance(tensor, torch.Tensor):
            raise refusal(tensor)


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
