# SPDX-License-Identifier: Apache-2.0
"""One JAX primitive for all collectives: its meaning to JAX's transformations.

The primitive takes any number of arrays (more than one: a group of one element type) and gives as
many. Its parameters are static:
    kind         enum reigen_kind
    name         matches the operation between ranks; in eager use None is allowed
    op, root, prescale, postscale, process_set   struct reigen_options
    size         ranks of the process set
Outside of jit it goes to reigen.arrays; compiled for a CPU or a CUDA device it is XLA's custom call
to libreigen_jax.so. As a function of the arrays of all ranks together each collective but Min, Max,
Product and Adasum is linear, which is all that its derivatives need.
"""
import dataclasses
import itertools
import re
from typing import Any, Dict, FrozenSet, Iterator, List, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir
from jaxlib.mlir.dialects import stablehlo as hlo

from reigen import _core, arrays
from reigen._core import Average, Sum
from reigen._operations import ALLGATHER, ALLREDUCE, BROADCAST, REDUCESCATTER
from reigen.jax import _target

try:
    from jax.extend.core import Primitive
except ImportError:
    from jax.core import Primitive

ALLTOALL = 5
KINDS = {ALLREDUCE: 'allreduce', ALLGATHER: 'allgather', BROADCAST: 'broadcast',
         ALLTOALL: 'alltoall', REDUCESCATTER: 'reducescatter'}
#: Kinds whose result has another shape, or none that is known before the call.
BY_ROWS = (ALLGATHER, ALLTOALL, REDUCESCATTER)

collective_p = Primitive('reigen_collective')
collective_p.multiple_results = True

#: For each process set, how many unnamed operations have been traced.
_numbers: Dict[int, Iterator[int]] = {}
#: What JAX knows of an operation beside its results: see _declare_shapes.
_effects: FrozenSet[Any] = frozenset()
#: What JAX calls the type of a token, which orders the calls of a program: see _lower_in_order.
_token_aval: Any = None
_ffi = _target.register()
_rule = _ffi.ffi_lowering(_target.TARGET, has_side_effect=True)


def next_name(process_set: int) -> str:
    """For a traced operation that was given none: the n-th that this rank traces for the set."""
    return f'jax.{next(_numbers.setdefault(process_set, itertools.count()))}'


def forget_names() -> None:
    """Count from the start again, as a rank does that joins now."""
    _numbers.clear()


def _what(params: Any) -> str:
    kind = KINDS[params['kind']]
    return kind if params['name'] is None else f"{kind}.{params['name']}"


# ---------------------------------------------------------------------------- shapes

def _result_shape(shape: Tuple[int, ...], params: Any) -> Tuple[int, ...]:
    kind, size = params['kind'], params['size']
    if kind not in BY_ROWS:
        return shape
    if not shape:
        raise ValueError(f'{_what(params)}: an array of at least one dimension is required.')
    if kind == ALLGATHER:
        return (shape[0] * size, *shape[1:])
    if shape[0] % size:
        raise ValueError(
            f'{_what(params)}: {shape[0]} rows cannot be divided equally among {size} ranks, as '
            'they must be inside jax.jit. Call it outside of jax.jit, or pad the array.')
    return shape if kind == ALLTOALL else (shape[0] // size, *shape[1:])


def _abstract(*avals: Any, **params: Any) -> List[Any]:
    return [jax.core.ShapedArray(_result_shape(aval.shape, params), aval.dtype) for aval in avals]


def _declare_shapes() -> None:
    """With an effect, so that JAX does not drop an operation whose result this rank has no use for:
    others wait for it. A JAX that has moved what it takes to say so is refused."""
    global _effects, _token_aval
    try:
        from jax._src import effects
        from jax._src.core import abstract_token as _token_aval

        class CollectiveEffect(effects.Effect):
            def __str__(self) -> str:
                return 'Collective'

        for allowed in (effects.lowerable_effects, effects.control_flow_allowed_effects,
                        effects.remat_allowed_effects,
                        effects.custom_derivatives_allowed_effects):
            allowed.add_type(CollectiveEffect)
    except (ImportError, AttributeError) as error:
        raise _target.unsuited('it has no effects that a primitive can declare') from error
    _effects = frozenset({CollectiveEffect()})
    collective_p.def_effectful_abstract_eval(
        lambda *avals, **params: (_abstract(*avals, **params), set(_effects)))


_declare_shapes()


# ---------------------------------------------------------------------------- what is relied on

_checked = False


def check_jax() -> None:
    """Once, before the first operation is traced: see that this JAX keeps an operation whose result
    is not used, and keeps the calls of one function apart. RuntimeError where it does not."""
    global _checked
    if _checked:
        return
    params = {'kind': ALLREDUCE, 'name': 'reigen.probe', 'op': Sum, 'root': 0, 'prescale': 1.0,
              'postscale': 1.0, 'process_set': 0, 'size': 1}
    inner = jax.jit(lambda x: collective_p.bind(x, **params)[0])

    def program(x: Any) -> Any:
        inner(inner(x))
        return x

    lowered = jax.jit(program).trace(jax.ShapeDtypeStruct((1,), np.float32)).lower(
        lowering_platforms=('cpu',)).as_text()
    names = re.findall(r'name = "(reigen\.probe[^"]*)"', lowered)
    if sorted(names) != ['reigen.probe', 'reigen.probe#1']:
        raise RuntimeError(str(_target.unsuited(
            f'two calls of one operation were compiled as {names}')))
    _checked = True


# ---------------------------------------------------------------------------- carrying out

def _eager(*values: Any, **params: Any) -> List[Any]:
    """Outside of jit: on the arrays' own memory, with whatever shapes the ranks have."""
    kind, name, where = params['kind'], params['name'], params['process_set']
    inputs = [np.asarray(value) for value in values]
    scaled = (params['op'], params['prescale'], params['postscale'])
    if kind == ALLREDUCE and len(inputs) == 1:
        handles = [arrays.allreduce_async(inputs[0], name, *scaled, process_set=where)]
    elif kind == ALLREDUCE:
        handles = [arrays.grouped_allreduce_async(inputs, name, *scaled, process_set=where)]
    elif kind == REDUCESCATTER and len(inputs) == 1:
        handles = [arrays.reducescatter_async(inputs[0], name, *scaled, process_set=where)]
    elif kind == REDUCESCATTER:
        handles = [arrays.grouped_reducescatter_async(inputs, name, *scaled, process_set=where)]
    elif kind == ALLGATHER and len(inputs) == 1:
        handles = [arrays.allgather_async(inputs[0], name, where)]
    elif kind == ALLGATHER:
        handles = [arrays.grouped_allgather_async(inputs, name, where)]
    else:
        names = _member_names(name, len(inputs))
        if kind == BROADCAST:
            handles = [arrays.broadcast_async(a, params['root'], n, process_set=where)
                       for a, n in zip(inputs, names)]
        else:
            handles = [arrays.alltoall_async(a, None, n, where) for a, n in zip(inputs, names)]
    results = [arrays.synchronize(handle) for handle in handles]
    if kind == ALLTOALL:
        results = [rows for rows, _ in results]
    elif len(inputs) > 1 and kind != BROADCAST:
        results = results[0]
    return [_to_device(result, value) for result, value in zip(results, values)]


def _to_device(result: Any, value: Any) -> Any:
    """The result as an array: on the GPU that the rank's own array is on, if it is on one."""
    devices = value.devices() if isinstance(value, jax.Array) else ()
    for device in devices:
        if device.platform != 'cpu':
            return jax.device_put(result, device)
    return jnp.asarray(result)


def _member_names(name: Any, count: int) -> Sequence[Any]:
    """As the library names the members of what is no group."""
    if name is None or count == 1:
        return [name] * count
    return [f'{name}_{i + 1}of{count}' for i in range(count)]


collective_p.def_impl(_eager)


class _Unshared(Dict[Any, Any]):
    """A cache of JAX's for pieces of a program, which keeps none that holds a collective."""

    def __init__(self, cache: Dict[Any, Any]):
        super().__init__(cache)
        self.uses: Dict[Tuple[int, str], int] = {}
        self.tokens: List[Tuple[Any, Any]] = []

    def __setitem__(self, key: Any, piece: Any) -> None:
        parts = key if isinstance(key, tuple) else (getattr(key, 'effects', ()),)
        for part in parts:
            effects = getattr(part, 'effects', part)
            if isinstance(effects, (tuple, set, frozenset)) and not _effects.isdisjoint(effects):
                return
        super().__setitem__(key, piece)


def _unshared(module: Any) -> _Unshared:
    """Have JAX share no piece of a program that holds a collective. What is known of the program's
    collectives so far."""
    found = None
    for attribute in ('cached_primitive_lowerings', 'lowering_cache'):
        cache = getattr(module, attribute, None)
        if type(cache) is dict:
            cache = _Unshared(cache)
            setattr(module, attribute, cache)
        if found is None and isinstance(cache, _Unshared):
            found = cache
    return _Unshared({}) if found is None else found


def _unique_name(module: Any, kind: int, name: str) -> str:
    """The name of one place of a compiled program.

    A jitted function that is called twice in another one is traced once, under one name, but XLA
    may run its two places at once. So JAX may not share the code of the two, and the second gets a
    number, in the order of the program.
    """
    uses = _unshared(module).uses
    use = uses[kind, name] = uses.get((kind, name), -1) + 1
    return f'{name}#{use}' if use else name


def _refuse_several_devices(ctx: Any, params: Any) -> None:
    """Each of a program's devices would carry the operation out, under one name."""
    where = getattr(ctx.module_context, 'axis_context', None)
    count = getattr(where, 'num_devices', None)
    if count is None:
        mesh = getattr(where, 'mesh', None)
        count = getattr(mesh, 'size', None) or getattr(getattr(where, 'axis_env', None), 'nreps', 1)
    if count != 1:
        raise ValueError(
            f'{_what(params)}: the program is compiled for {count} devices of this process; a rank '
            'has one. Start one process for each, or leave the collective out of pmap, shard_map '
            'and sharded programs.')


def _attributes(ctx: Any, params: Any) -> Dict[str, Any]:
    """What the custom call says of the operation."""
    return {'name': _unique_name(ctx.module_context, params['kind'], params['name']),
            'prescale': np.float64(params['prescale']),
            'postscale': np.float64(params['postscale']),
            **{key: np.int32(params[key]) for key in ('kind', 'op', 'root', 'process_set')}}


def _lower(ctx: Any, *operands: Any, **params: Any) -> Any:
    _refuse_several_devices(ctx, params)
    return _rule(ctx, *operands, **_attributes(ctx, params))


def _lower_in_order(ctx: Any, *operands: Any, **params: Any) -> Any:
    """For a CUDA device, where a call holds XLA's thread until all ranks have come to it: ranks
    whose programs differ a little would otherwise wait for each other, each in another operation.
    So each call takes a token that the one before it in its block of the program has given."""
    _refuse_several_devices(ctx, params)
    tokens = _unshared(ctx.module_context).tokens
    block = mlir.ir.InsertionPoint.current.block
    place = next((i for i, (other, _) in enumerate(tokens) if other == block), None)
    token = hlo.create_token() if place is None else tokens[place][1]
    ordered = dataclasses.replace(ctx, avals_in=[_token_aval, *ctx.avals_in],
                                  avals_out=[_token_aval, *ctx.avals_out])
    token, *results = _rule(ordered, token, *operands, **_attributes(ctx, params))
    if place is None:
        tokens.append((block, token))
    else:
        tokens[place] = (block, token)
    return results


def _lower_elsewhere(ctx: Any, *operands: Any, **params: Any) -> Any:
    raise ValueError(
        f'{_what(params)}: inside jax.jit Reigen carries arrays of CPUs and of CUDA devices only. '
        "Compile for one of them (JAX_PLATFORMS=cpu, or jax.default_device(jax.devices('cpu')[0]))"
        ', or call it outside of jax.jit.')


def _register_lowerings() -> None:
    """Not cacheable: JAX would lower each call in a function of its own, and no token leaves it."""
    mlir.register_lowering(collective_p, _lower_elsewhere)
    mlir.register_lowering(collective_p, _lower, platform='cpu')
    try:
        mlir.register_lowering(collective_p, _lower_in_order, platform='cuda', cacheable=False)
    except TypeError as error:
        raise _target.unsuited('it cannot be kept from sharing pieces of programs') from error


_register_lowerings()


# ---------------------------------------------------------------------------- derivatives

def _renamed(params: Any, suffix: str, **changes: Any) -> Any:
    """Parameters of an operation that belongs to this one."""
    name = params['name']
    return {**params, 'name': None if name is None else name + suffix, **changes}


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    reduces = params['kind'] in (ALLREDUCE, REDUCESCATTER)
    if reduces and params['op'] not in (Average, Sum):
        raise TypeError(f'{_what(params)}: only Average and Sum can be differentiated.')
    results = collective_p.bind(*primals, **params)
    if all(type(tangent) is ad.Zero for tangent in tangents):
        return results, [ad.Zero.from_primal_value(result) for result in results]
    return results, collective_p.bind(*map(ad.instantiate_zeros, tangents),
                                      **_renamed(params, '.tangent'))


def _transpose(cotangents: Any, *operands: Any, **params: Any) -> List[Any]:
    given = [ad.instantiate_zeros(cotangent) for cotangent in cotangents]
    base = _renamed(params, '')
    if base['name'] is not None and base['name'].endswith('.tangent'):
        base['name'] = base['name'][:-len('.tangent')]
    kind = params['kind']
    if kind in (ALLREDUCE, ALLTOALL):
        return list(collective_p.bind(*given, **_renamed(base, '.grad')))
    if kind == ALLGATHER:
        return list(collective_p.bind(*given, **_renamed(base, '.grad', kind=REDUCESCATTER,
                                                         op=Sum)))
    if kind == BROADCAST:
        sums = collective_p.bind(*given, **_renamed(base, '.grad', kind=ALLREDUCE, op=Sum))
        return list(sums) if _core.is_root(params['root']) else list(map(jnp.zeros_like, sums))
    factor = params['prescale'] * params['postscale']
    if params['op'] == Average:
        factor /= params['size']
    everyones = collective_p.bind(*given, **_renamed(base, '.grad', kind=ALLGATHER, op=Sum,
                                                     prescale=1.0, postscale=1.0))
    return [each if factor == 1 else each * jnp.asarray(factor, each.dtype) for each in everyones]


ad.primitive_jvps[collective_p] = _jvp
ad.primitive_transposes[collective_p] = _transpose


def _batch(values: Any, axes: Any, **params: Any) -> Any:
    """Under vmap: one operation for the whole batch. Each rank's batch must have one size."""
    if params['kind'] not in BY_ROWS:
        if params['kind'] == ALLREDUCE and params['op'] == _core.Adasum:
            raise TypeError(f'{_what(params)}: Adasum cannot be used under jax.vmap.')
        return collective_p.bind(*values, **params), axes
    # Rows stay first; a batch is one more dimension behind them.
    moved = [value if axis is None else jnp.moveaxis(value, axis, 1)
             for value, axis in zip(values, axes)]
    return (collective_p.bind(*moved, **params),
            [None if axis is None else 1 for axis in axes])


batching.primitive_batchers[collective_p] = _batch
