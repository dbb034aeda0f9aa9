# SPDX-License-Identifier: Apache-2.0
"""Broadcasts and gathers of more than one array: parameters, optimizer state, objects, metrics."""
from typing import Any, List, Optional

import jax
import jax.numpy as jnp
import numpy as np
import reigen
from horovod.common.process_sets import ProcessSet, global_process_set
from reigen import arrays
from reigen.jax import _keys


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic)) and (
        _keys.is_key(leaf) or not np.dtype(leaf.dtype).hasobject)


def broadcast_parameters(params: Any, root_rank: int = 0,
                         process_set: ProcessSet = global_process_set) -> Any:
    """root_rank's tree on every rank, as a new tree: `params = hvd.broadcast_parameters(params)`.

    params: any tree (parameters, an optimizer's state) of the same structure and shapes on all
    ranks. Random keys are sent, too. Leaves that are no arrays are sent as objects. Outside of jit.
    """
    leaves, structure = jax.tree_util.tree_flatten(params)
    places = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]
    rest = [None if _is_array(leaf) else leaf for leaf in leaves]
    pairs = {i: _keys.numbers_of(leaves[i]) for i in places}
    handles = [arrays.broadcast_async(np.asarray(pairs[i][0]), root_rank, f'parameter.{i}',
                                      process_set=process_set) for i in places]
    if len(places) < len(leaves):
        rest = reigen.broadcast_object(rest, root_rank, 'parameter.objects', process_set)
    received = list(rest)
    failure = None
    for i, handle in zip(places, handles):
        try:
            received[i] = arrays.synchronize(handle)
        except reigen.HorovodInternalError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    for i in places:
        if not isinstance(leaves[i], (np.ndarray, np.generic)):
            received[i] = _keys.keys_of(jnp.asarray(received[i]), pairs[i][1])
    return jax.tree_util.tree_unflatten(structure, received)


def broadcast_optimizer_state(state: Any, root_rank: int = 0,
                              process_set: ProcessSet = global_process_set) -> Any:
    """broadcast_parameters under another name: in JAX an optimizer's state is a tree as well."""
    return broadcast_parameters(state, root_rank, process_set)


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """root_rank's object on every rank; the others' argument does not matter. It must pickle."""
    return reigen.broadcast_object(obj, root_rank, name, process_set)


def allgather_object(obj: Any, name: Optional[str] = None,
                     process_set: ProcessSet = global_process_set) -> List[Any]:
    """Every rank's object, in the order of ranks. It must pickle."""
    return reigen.allgather_object(obj, name, process_set)


def average_metrics(metrics: Any, name: str = 'metrics',
                    process_set: ProcessSet = global_process_set) -> Any:
    """The mean over all ranks of each number of a tree (a dict of losses and accuracies, say), as
    Python's floats. Outside of jit."""
    leaves, structure = jax.tree_util.tree_flatten(metrics)
    mine = np.array([float(leaf) for leaf in leaves], np.float64)
    means = reigen.allreduce(mine, name, reigen.Average, process_set=process_set)
    return jax.tree_util.tree_unflatten(structure, [float(mean) for mean in means])
