# SPDX-License-Identifier: Apache-2.0
"""Python objects between ranks, without any framework: pickled, as bytes; what pickle does not
take, such as a lambda or a class of a notebook, by cloudpickle where that is installed.

They travel inside the job's own collectives only, so every byte that is unpickled came from
another rank of this job.
"""
import ctypes
import pickle
from typing import Any, List, Optional

from reigen import _core, _handles, _operations
from reigen._lib import Options

_UINT8, _INT64 = 0, 5


def _memory(buffer: Any, dtype: int, count: int) -> _operations.Memory:
    return _operations.Memory(ctypes.addressof(buffer), dtype, (count,))


def _broadcast(buffer: Any, dtype: int, count: int, root: int, name: str, process_set: int) -> None:
    """In place."""
    memory = _memory(buffer, dtype, count)
    _handles.synchronize(_operations.broadcast(
        memory, memory.address, name, Options(root=root, process_set=process_set),
        lambda handle, rc: None, buffer))


def _copied(handle: int, rc: int) -> bytes:
    address, nbytes, _ = _operations.output(handle)
    return ctypes.string_at(address, nbytes) if nbytes else b''


def broadcast_bytes(data: Optional[bytes], root_rank: int, name: str,
                    process_set: Any = 0) -> bytes:
    """root_rank's bytes on every rank; the others' argument does not matter. Two broadcasts."""
    number = _operations.set_id(process_set)
    mine = _core.is_root(root_rank)
    length = ctypes.c_int64(len(data) if mine and data is not None else 0)
    _broadcast(length, _INT64, 1, root_rank, f'{name}.size', number)
    buffer = (ctypes.c_char * length.value)()
    if mine and data:
        ctypes.memmove(buffer, data, len(data))
    _broadcast(buffer, _UINT8, length.value, root_rank, f'{name}.data', number)
    return bytes(buffer.raw)


def allgather_bytes(data: bytes, name: str, process_set: Any = 0) -> List[bytes]:
    """Every rank's bytes, in the order of ranks (of the process set). Two allgathers."""
    options = Options(process_set=_operations.set_id(process_set))
    length = ctypes.c_int64(len(data))
    buffer = ctypes.create_string_buffer(data, max(len(data), 1))
    sizes = _operations.allgather(_memory(length, _INT64, 1), f'{name}.sizes', options, _copied,
                                  length)
    everything = _operations.allgather(_memory(buffer, _UINT8, len(data)), f'{name}.all', options,
                                       _copied, buffer)
    raw = _handles.synchronize(sizes)
    lengths = (ctypes.c_int64 * (len(raw) // 8)).from_buffer_copy(raw)
    joined, parts, start = _handles.synchronize(everything), [], 0
    for nbytes in lengths:
        parts.append(joined[start:start + nbytes])
        start += nbytes
    return parts


def dumps(obj: Any) -> bytes:
    """The object as bytes, for pickle.loads() of another rank. Raises what pickle or cloudpickle
    raises, which is any kind of exception."""
    try:
        return pickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        try:
            import cloudpickle
        except ImportError:
            cloudpickle = None
        if cloudpickle is None:
            raise
    return cloudpickle.dumps(obj, protocol=pickle.HIGHEST_PROTOCOL)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: Any = 0) -> Any:
    """root_rank's object on every rank; the others' argument does not matter. It must pickle.

    root_rank is a rank of the whole job; process_set a number or an object with `process_set_id`.
    Returns the very object on root_rank and a copy elsewhere. Raises HorovodInternalError.
    """
    mine = _core.is_root(root_rank)
    data = dumps(obj) if mine else None
    received = broadcast_bytes(data, root_rank, name or 'object', process_set)
    return obj if mine else pickle.loads(received)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: Any = 0) -> List[Any]:
    """Every rank's object, in the order of ranks (of the process set). It must pickle."""
    data = dumps(obj)
    return [pickle.loads(part) for part in allgather_bytes(data, name or 'object', process_set)]
