# SPDX-License-Identifier: Apache-2.0
"""Elastic training with JAX: hvd.elastic.run and JaxState.

    state = hvd.elastic.JaxState(params=params, opt_state=opt_state, key=key, step=0)

    @hvd.elastic.run
    def train(state):
        while state.step < 1000:
            state.params, state.opt_state = step(state.params, state.opt_state, batch(state.step))
            state.step += 1
            state.commit()

    train(state)
"""
import functools
from typing import Any, Callable, Dict, List

import jax
import jax.numpy as jnp
import numpy as np
from horovod.common.elastic import ObjectState, _kept, run_fn
from horovod.jax.functions import broadcast_object
from horovod.jax.mpi_ops import init, rank, shutdown
from reigen import arrays
from reigen.errors import HorovodInternalError
from reigen.jax import _keys, errors

__all__ = ['JaxState', 'run']


def run(func: Callable) -> Callable:
    """Decorator: func(state, ...) is called again, from a state that all ranks share, when ranks
    are lost or come. Its first argument is a horovod.common.elastic.State.

    Compiled programs hold the number of ranks, so they are compiled anew then. What a compiled
    program ends with when a rank is lost is a HorovodInternalError here, under jax.jit as well.
    """
    @functools.wraps(func)
    def wrapper(state, *args, **kwargs):
        with errors():
            return func(state, *args, **kwargs)

    return run_fn(wrapper, _reset)


def _reset() -> None:
    shutdown()
    init()


class _Slot:
    """What stands in a tree for an array that is kept, and sent, beside it."""

    def __init__(self, leaf: Any, numbers: 'np.ndarray[Any, Any]', made_by: Any):
        self.shape, self.dtype, self.made_by = numbers.shape, numbers.dtype, made_by
        self.of_jax = isinstance(leaf, jax.Array)

    def filled(self, numbers: 'np.ndarray[Any, Any]') -> Any:
        """The leaf again, in memory of its own: programs may donate it."""
        return _keys.keys_of(jnp.array(numbers), self.made_by) if self.of_jax else numbers.copy()


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray)) and (
        _keys.is_key(leaf) or not np.dtype(leaf.dtype).hasobject)


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    """Of each leaf; what JAX takes for no tree, as a dict without an order, is a leaf."""
    try:
        leaves, structure = jax.tree_util.tree_flatten(value)
    except (TypeError, ValueError):
        return function(value)
    return jax.tree_util.tree_unflatten(structure, [function(leaf) for leaf in leaves])


def _slots_of(trees: Dict[str, Any]) -> List[_Slot]:
    found: List[_Slot] = []
    for tree in trees.values():
        _map(lambda leaf: found.append(leaf) if isinstance(leaf, _Slot) else None, tree)
    return found


class JaxState(ObjectState):
    """Trees of arrays, such as parameters, an optimizer's state and random keys, and plain Python
    objects, given by keyword, as attributes of the state. Assign new ones to them.

    A commit copies the arrays to the host's memory. All ranks give the same names; a rank that
    comes later may have other shapes and structures, and gets those of rank 0.
    """

    def __init__(self, **kwargs: Any):
        #: By the order of their slots in _saved_state.
        self._arrays: List['np.ndarray[Any, Any]'] = []
        super().__init__(broadcast_object, rank, **kwargs)
        self.save()

    def save(self) -> None:
        kept: List['np.ndarray[Any, Any]'] = []

        def keep(leaf: Any) -> Any:
            if not _is_array(leaf):
                return _kept(leaf)
            numbers, made_by = _keys.numbers_of(leaf)
            kept.append(np.array(numbers))
            return _Slot(leaf, kept[-1], made_by)

        saved = {name: _map(keep, getattr(self, name)) for name in self._saved_state}
        self._saved_state, self._arrays = saved, kept

    def sync(self) -> None:
        """Give every rank rank 0's present state."""
        self.save()
        trees = self._sent()
        mine = self._arrays if rank() == 0 else [np.empty(slot.shape, slot.dtype)
                                                 for slot in _slots_of(trees)]
        handles = [arrays.broadcast_async(numbers, 0, f'state.{i}')
                   for i, numbers in enumerate(mine)]
        received, failure = [], None
        for handle in handles:
            try:
                received.append(arrays.synchronize(handle))
            except HorovodInternalError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        self._saved_state, self._arrays = trees, received
        self._set_attrs()

    def _set_attrs(self) -> None:
        numbers = iter(self._arrays)

        def give(leaf: Any) -> Any:
            return leaf.filled(next(numbers)) if isinstance(leaf, _Slot) else _kept(leaf)

        for name, tree in self._saved_state.items():
            setattr(self, name, _map(give, tree))
