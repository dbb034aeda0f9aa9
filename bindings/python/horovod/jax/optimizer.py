# SPDX-License-Identifier: Apache-2.0
"""Gradients averaged over the ranks: around an optimizer, and around jax.value_and_grad.

An optimizer is a pair of functions, as in optax: init(params) -> state and
update(grads, state[, params]) -> (updates, state). Nothing here needs optax itself.
"""
from typing import Any, Callable, NamedTuple, Optional, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.jax.compression import Compression
from horovod.jax.mpi_ops import Average, Sum, allreduce, size


class GradientTransformation(NamedTuple):
    """The pair, where the optimizer that was given brings no type of its own."""

    init: Callable[..., Any]
    update: Callable[..., Any]


class AccumulationState(NamedTuple):
    """State of a DistributedOptimizer with backward_passes_per_step > 1: gradients summed so far,
    how many, and the state of the optimizer."""

    sums: Any
    passes: Any
    inner: Any


class _Reduction:
    """How gradients are reduced: one group for all of one element type."""

    def __init__(self, name: str, op: int, compression: Any, gradient_predivide_factor: float,
                 process_set: ProcessSet):
        if gradient_predivide_factor != 1.0 and op != Average:
            raise ValueError('gradient_predivide_factor not supported with op != Average')
        self._name, self._op, self._compression = name, op, compression
        self._factor, self._process_set = gradient_predivide_factor, process_set

    def __call__(self, grads: Any) -> Any:
        if self._factor == 1.0:
            return allreduce(grads, self._name, self._op, compression=self._compression,
                             process_set=self._process_set)
        ranks = self._process_set.size() or size()
        return allreduce(grads, self._name, Sum, 1.0 / self._factor, self._factor / ranks,
                         self._compression, self._process_set)


def DistributedGradientTransformation(name: str = 'gradients', op: int = Average,
                                      compression: Any = Compression.none,
                                      gradient_predivide_factor: float = 1.0,
                                      process_set: ProcessSet = global_process_set) -> Any:
    """A transformation whose update() is the allreduce: the first link of an optax.chain."""
    reduction = _Reduction(name, op, compression, gradient_predivide_factor, process_set)

    def update(grads: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        return reduction(grads), state

    return GradientTransformation(lambda params: (), update)


def _functions_of(optimizer: Any) -> Tuple[Callable[..., Any], Callable[..., Any]]:
    """Its init and update, by name or, of a plain pair, by place."""
    init, update = getattr(optimizer, 'init', None), getattr(optimizer, 'update', None)
    if init is None and update is None and isinstance(optimizer, (tuple, list)) \
            and len(optimizer) == 2:
        init, update = optimizer
    if not callable(init) or not callable(update):
        raise ValueError('An optimizer with functions init and update is required, as those of '
                         f'optax, or the pair (init, update); not {type(optimizer).__name__}.')
    return init, update


def DistributedOptimizer(optimizer: Any, name: str = 'gradients', op: int = Average,
                         compression: Any = Compression.none, backward_passes_per_step: int = 1,
                         gradient_predivide_factor: float = 1.0,
                         process_set: ProcessSet = global_process_set) -> Any:
    """The optimizer, with gradients reduced over the ranks before each update.

    optimizer: optax.GradientTransformation, anything else with functions init(params) and
    update(grads, state[, params]), or the plain pair of them. The result is of its type where that
    is a named tuple, else a named pair. It works inside and outside of jit.
    backward_passes_per_step: update() sums that many gradients (divided by their number) before one
    is sent; the calls between give updates of zero.
    Two optimizers in one program need two names. Raises ValueError for arguments that cannot work.
    """
    if backward_passes_per_step < 1:
        raise ValueError('backward_passes_per_step must be at least 1')
    init, inner = _functions_of(optimizer)
    reduction = _Reduction(name, op, compression, gradient_predivide_factor, process_set)

    def update(grads: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        given = () if params is None else (params,)  # update may be a function of two
        return inner(reduction(grads), state, *given, **extra)

    if backward_passes_per_step > 1:
        init, update = _accumulating(init, update, backward_passes_per_step)
    if hasattr(optimizer, '_replace') and hasattr(optimizer, 'init'):
        return optimizer._replace(init=init, update=update)
    return GradientTransformation(init, update)


def _accumulating(init: Callable[..., Any], update: Callable[..., Any], passes: int) -> Any:
    tree_map = jax.tree_util.tree_map

    def accumulating_init(params: Any) -> AccumulationState:
        return AccumulationState(tree_map(jnp.zeros_like, params), jnp.zeros((), jnp.int32),
                                 init(params))

    def accumulating_update(grads: Any, state: AccumulationState, params: Any = None,
                            **extra: Any) -> Any:
        sums = tree_map(lambda total, grad: total + grad / passes, state.sums, grads)

        def step(sums: Any) -> Any:
            updates, inner = update(sums, state.inner, params, **extra)
            return updates, AccumulationState(tree_map(jnp.zeros_like, sums),
                                              jnp.zeros((), jnp.int32), inner)

        def wait(sums: Any) -> Any:
            return (tree_map(jnp.zeros_like, sums),
                    AccumulationState(sums, state.passes + 1, state.inner))

        return jax.lax.cond(state.passes + 1 >= passes, step, wait, sums)

    return accumulating_init, accumulating_update


def distributed_value_and_grad(fun: Callable[..., Any], argnums: Union[int, Sequence[int]] = 0,
                               has_aux: bool = False, name: Optional[str] = None,
                               op: int = Average, compression: Any = Compression.none,
                               gradient_predivide_factor: float = 1.0,
                               process_set: ProcessSet = global_process_set) -> Callable[..., Any]:
    """jax.value_and_grad(fun, argnums, has_aux), with the gradients reduced over the ranks. The
    value is this rank's own."""
    reduction = _Reduction(name or 'gradients', op, compression, gradient_predivide_factor,
                           process_set)
    local = jax.value_and_grad(fun, argnums, has_aux)

    def value_and_grad(*args: Any, **kwargs: Any) -> Any:
        value, grads = local(*args, **kwargs)
        return value, reduction(grads)

    return value_and_grad


def distributed_grad(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """As distributed_value_and_grad, but gives the gradients alone (with has_aux: and what fun
    gives beside its value)."""
    both = distributed_value_and_grad(fun, *args, **kwargs)
    has_aux = kwargs.get('has_aux', len(args) > 1 and args[1])

    def grad(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return grad
