# SPDX-License-Identifier: Apache-2.0
"""Broadcasts and gathers of more than one tensor: parameters, optimizer state, Python objects.

Objects travel as pickled bytes, inside the job's own collectives only: every byte that is unpickled
came from another rank of this job.
"""
import io
import pickle
from typing import Any, Iterable, List, Optional

import torch

from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.torch.mpi_ops import allgather_async, broadcast_, broadcast_async_, synchronize
from reigen import _core
from reigen.torch._device import own


def broadcast_parameters(params, root_rank: int,
                         process_set: ProcessSet = global_process_set) -> None:
    """Give every rank root_rank's values, in place.

    params: a state_dict, or a list of parameters or of (name, parameter). Entries that are not
    tensors stay as they are. Raises ValueError for anything else.
    """
    if isinstance(params, dict):
        pairs = sorted(params.items(), key=lambda pair: str(pair[0]))
    elif isinstance(params, Iterable) and not isinstance(params, (str, torch.Tensor)):
        pairs = [p if isinstance(p, tuple) else (None, p) for p in params]
    else:
        raise ValueError(f'invalid params of type: {type(params)}')
    handles = [broadcast_async_(tensor, root_rank, None if name is None else str(name),
                                process_set)
               for name, tensor in pairs if isinstance(tensor, torch.Tensor)]
    for handle in handles:
        synchronize(handle)


class _TensorAt:
    """Stands for the n-th tensor of a state while the rest of it travels as an object."""

    def __init__(self, number: int, tensor: torch.Tensor):
        self.number, self.shape, self.dtype = number, tuple(tensor.shape), tensor.dtype
        self.on_gpu = tensor.is_cuda


def _take_tensors(value: Any, tensors: List[torch.Tensor]) -> Any:
    """The value with its tensors replaced; they are appended to the list."""
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return _TensorAt(len(tensors) - 1, value)
    if isinstance(value, dict):
        return {key: _take_tensors(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_take_tensors(item, tensors) for item in value)
    return value


def _put_tensors(value: Any, tensors: dict, gpu: Optional[torch.device]) -> Any:
    """The value with new tensors in place of what stands for them; they are noted by number. gpu:
    this rank's, for those that are on the other one's."""
    if isinstance(value, _TensorAt):
        made = torch.empty(value.shape, dtype=value.dtype,
                           device=(gpu or own()) if value.on_gpu else None)
        return tensors.setdefault(value.number, made)
    if isinstance(value, dict):
        return {key: _put_tensors(item, tensors, gpu) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_put_tensors(item, tensors, gpu) for item in value)
    return value


def _gpu_of(optimizer: torch.optim.Optimizer) -> Optional[torch.device]:
    """The one that has parameters."""
    return next((param.device for group in optimizer.param_groups for param in group['params']
                 if param.is_cuda), None)


def _make_gradients(optimizer: torch.optim.Optimizer, model: Optional[torch.nn.Module]) -> None:
    """Zeros for the parameters that have no gradient."""
    sparse = {id(module.weight) for module in (model.modules() if model is not None else ())
              if isinstance(module, torch.nn.Embedding) and module.sparse}
    takes_sparse = isinstance(optimizer, torch.optim.SparseAdam)
    for group in optimizer.param_groups:
        for param in group['params']:
            if param.requires_grad and param.grad is None:
                zeros = torch.zeros_like(param, requires_grad=False)
                param.grad = (zeros.to_sparse(1) if takes_sparse or id(param) in sparse
                              else zeros)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int,
                              model: Optional[torch.nn.Module] = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """Give every rank root_rank's optimizer state: learning rates and the like, and all tensors.

    The optimizers may be in different states before: new ranks have none, others have trained.
    Before the first step of all of them parameters without a gradient get one of zeros, as in
    Horovod; a sparse one where the optimizer or the model's embeddings want that. Raises ValueError
    for LBFGS.
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError('cannot broadcast torch.optim.LBFGS state')
    tensors: List[torch.Tensor] = []
    skeleton = None
    fresh = not optimizer.state
    if _core.is_root(root_rank):
        skeleton = _take_tensors(optimizer.state_dict(), tensors)
    skeleton = broadcast_object(skeleton, root_rank, 'reigen.optimizer_state', process_set)
    if fresh and not skeleton['state']:
        _make_gradients(optimizer, model)
    if _core.is_root(root_rank):
        state = None
    else:
        places: dict = {}
        state = _put_tensors(skeleton, places, _gpu_of(optimizer))
        tensors = [places[number] for number in sorted(places)]
    handles = [broadcast_async_(tensor.detach(), root_rank, f'reigen.optimizer_state.{number}',
                                process_set)
               for number, tensor in enumerate(tensors)]
    for handle in handles:
        synchronize(handle)
    if state is not None:
        optimizer.load_state_dict(state)


def _to_bytes(obj: Any) -> torch.Tensor:
    stream = io.BytesIO()
    pickle.dump(obj, stream, protocol=pickle.HIGHEST_PROTOCOL)
    return torch.frombuffer(stream.getbuffer(), dtype=torch.uint8)


def _from_bytes(data: torch.Tensor) -> Any:
    return pickle.loads(data.numpy().tobytes())


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """root_rank's object on every rank; the others' argument does not matter. It must pickle."""
    base = 'object' if name is None else name
    mine = _core.is_root(root_rank)
    if mine:
        data = _to_bytes(obj)
        length = torch.tensor([data.numel()])
    else:
        length = torch.zeros(1, dtype=torch.int64)
    broadcast_(length, root_rank, f'{base}.size', process_set)
    if mine:
        broadcast_(data, root_rank, f'{base}.data', process_set)
        return obj
    data = torch.empty(int(length), dtype=torch.uint8)
    broadcast_(data, root_rank, f'{base}.data', process_set)
    return _from_bytes(data)


def allgather_object(obj: Any, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> List[Any]:
    """Every rank's object, in the order of ranks (of the process set). It must pickle."""
    base = 'object' if name is None else name
    data = _to_bytes(obj)
    lengths = allgather_async(torch.tensor([data.numel()]), f'{base}.sizes', process_set)
    everything = allgather_async(data, f'{base}.all', process_set)
    lengths = synchronize(lengths).tolist()
    parts = torch.split(synchronize(everything), lengths)
    return [_from_bytes(part) for part in parts]
