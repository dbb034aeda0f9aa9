# SPDX-License-Identifier: Apache-2.0
"""Horovod's operations on JAX's arrays and trees of them, inside and outside of jax.jit.

`name` matches an operation between ranks; without one, the n-th unnamed operation that each rank
calls (inside jit: traces) belongs together. What works under which of JAX's transformations is said
in reigen.jax, which this stands on.
"""
from typing import Any, Optional, Sequence, Tuple

import jax
import reigen
from horovod.common.basics import (HorovodBasics, ccl_built, cross_rank, cross_size, cuda_built,
                                   ddl_built, diagnose, gloo_built, gloo_enabled, is_homogeneous,
                                   is_initialized, local_rank, local_size, mpi_built, mpi_enabled,
                                   mpi_threads_supported, nccl_built, rank, rocm_built, shutdown,
                                   size, start_timeline, stop_timeline)
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.jax.compression import Compression
from reigen import jax as _jax

_basics = HorovodBasics()

Average, Sum, Adasum = reigen.Average, reigen.Sum, reigen.Adasum
Min, Max, Product = reigen.Min, reigen.Max, reigen.Product


def init(*args: Any, **kwargs: Any) -> None:
    """Join the job; the arguments are those of horovod.torch.init.

    Call it before the first function is compiled. After a shutdown it may be called again; programs
    compiled before are then compiled anew, as they hold the number of ranks.
    """
    was_in = reigen.is_initialized()
    _basics.init(*args, **kwargs)
    if not was_in:
        _jax.ready()


def _compressed(tree: Any, compression: Any) -> Tuple[Any, Any]:
    leaves, structure = jax.tree_util.tree_flatten(tree)
    pairs = [compression.compress(leaf) for leaf in leaves]
    return (jax.tree_util.tree_unflatten(structure, [pair[0] for pair in pairs]),
            [pair[1] for pair in pairs])


def _decompressed(tree: Any, contexts: Any, compression: Any) -> Any:
    leaves, structure = jax.tree_util.tree_flatten(tree)
    return jax.tree_util.tree_unflatten(
        structure, [compression.decompress(leaf, ctx) for leaf, ctx in zip(leaves, contexts)])


def allreduce(tensor: Any, name: Optional[str] = None, op: int = Average,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              compression: Any = Compression.none,
              process_set: ProcessSet = global_process_set) -> Any:
    """Reduce element by element over all ranks; every rank gets the same bits.

    tensor: an array, or a tree of arrays (which travel together), of equal shape on all ranks. op:
    Average, Sum, Min, Max, Product or Adasum. Average and Sum have derivatives.
    """
    small, contexts = _compressed(tensor, compression)
    result = _jax.allreduce(small, name, op, prescale_factor, postscale_factor, process_set)
    return _decompressed(result, contexts, compression)


def grouped_allreduce(tensors: Sequence[Any], name: Optional[str] = None, op: int = Average,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      compression: Any = Compression.none,
                      process_set: ProcessSet = global_process_set) -> Any:
    """Allreduces that are carried out together or not at all: a list (or tree) of results.

    Arrays of several element types are as many groups.
    """
    return allreduce(tensors, name, op, prescale_factor, postscale_factor, compression, process_set)


def allgather(tensor: Any, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> Any:
    """Concatenate along the first dimension, in the order of ranks. The first dimension may differ
    between ranks outside of jit; inside all shapes are equal."""
    return _jax.allgather(tensor, name, process_set)


def broadcast(tensor: Any, root_rank: int, name: Optional[str] = None,
              process_set: ProcessSet = global_process_set) -> Any:
    """root_rank's array or tree of arrays on every rank."""
    return _jax.broadcast(tensor, root_rank, name, process_set)


def alltoall(tensor: Any, splits: Any = None, name: Optional[str] = None,
             process_set: ProcessSet = global_process_set) -> Any:
    """Send splits[r] rows to rank r, in order, and receive theirs; equal parts without splits.

    Returns the rows received; with splits (outside of jit only) also the int32 array of how many
    came from each rank.
    """
    rows, received = _jax.alltoall(tensor, splits, name, process_set)
    return rows if splits is None else (rows, received)


def reducescatter(tensor: Any, name: Optional[str] = None, op: int = Average,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                  process_set: ProcessSet = global_process_set) -> Any:
    """Reduce (Average or Sum), then keep this rank's part of the first dimension. Inside jit the
    parts must be equal."""
    return _jax.reducescatter(tensor, name, op, prescale_factor, postscale_factor, process_set)


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait until all ranks have come here. Inside jit it happens while tracing, not in the
    program."""
    reigen.barrier(process_set)


def join() -> int:
    """This rank has no more data: it supplies zeros to the others' allreduces until all ranks have
    joined. Returns the rank that joined last. Outside of jit only."""
    return reigen.join()
