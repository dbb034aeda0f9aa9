# SPDX-License-Identifier: Apache-2.0
"""Every operation of horovod.jax, inside and outside of jit, and under JAX's transformations."""
import os
import sys

os.environ['XLA_FLAGS'] = '--xla_force_host_platform_device_count=2'  # one of them is used

import checks  # noqa: E402
import horovod.jax as hvd  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

INTEGERS = ['uint8', 'int8', 'uint16', 'int16', 'int32']
FLOATS = ['float16', 'bfloat16', 'float32']
SHAPES = [(), (1,), (17,), (3, 4, 5), (0,), (300, 33)]


def ramp(shape, dtype, seed):
    """Small whole numbers, other ones for each seed."""
    count = int(np.prod(shape, dtype=np.int64))
    return jnp.asarray(((np.arange(count) * 7 + seed * 3) % 11).reshape(shape), dtype)


def everyones(shape, dtype):
    return [ramp(shape, dtype, r) for r in range(hvd.size())]


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)  # comparing in JAX would compile much
    assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape)
    assert np.array_equal(a, b), (a, b)


def close(a, b):
    np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), 1e-5, 1e-5)


def both(call, *args):
    """The result outside of jit, having seen that it is the same inside."""
    outside, inside = call(*args), jax.jit(call)(*args)
    jax.tree_util.tree_map(same, outside, inside)
    return inside


def check_allreduce_of_all_types_and_shapes():
    for dtype in INTEGERS + FLOATS:
        # Compiling is what takes time: each type meets each operation, and all shapes at once.
        parts = [{str(s): ramp(s, dtype, r) for s in SHAPES} for r in range(hvd.size())]
        mine = parts[hvd.rank()]
        wide = [np.stack([np.asarray(p[str(s)], np.float64) for p in parts]) for s in SHAPES]

        # Each type's element is read by the same code for all reductions.
        ops = {hvd.Sum: np.sum, hvd.Min: np.min, hvd.Max: np.max}
        if dtype not in ('int32', 'bfloat16'):
            ops = {hvd.Sum: np.sum}
        results = both(lambda tree: [hvd.allreduce(tree, op=op) for op in ops], mine)
        for got, model in zip(results, ops.values()):
            for s, w in zip(SHAPES, wide):
                same(got[str(s)], jnp.asarray(model(w, 0), dtype))
    flags = jnp.array([True, False, hvd.rank() == 0])
    same(both(lambda x: hvd.allreduce(x, op=hvd.Max), flags), jnp.array([True, False, True]))


def check_average_scales_and_compresses():
    parts = everyones((40,), 'float32')
    mean = sum(np.asarray(p, np.float64) for p in parts) / hvd.size()
    mine = parts[hvd.rank()]
    close(both(hvd.allreduce, mine), mean)
    close(both(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0),
               mine), mean * hvd.size() * 1.5)
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        small = both(lambda x, c=compression: hvd.allreduce(x, compression=c), mine)
        assert small.dtype == jnp.float32
        np.testing.assert_allclose(small, mean, rtol=1e-2)


def check_trees_of_several_types_keep_their_structure():
    tree = {'a': jnp.ones((2, 3)), 'b': [jnp.ones(4, jnp.int32), (jnp.ones((), jnp.bfloat16),)]}
    total = both(lambda t: hvd.grouped_allreduce(t, name='tree', op=hvd.Sum), tree)
    jax.tree_util.tree_map(lambda t, x: same(t, x * hvd.size()), total, tree)
    got = both(lambda t: hvd.broadcast(t, 0), tree)
    jax.tree_util.tree_map(same, got, tree)
    assert hvd.allreduce({}) == {}


def check_rows_are_moved():
    rank, size = hvd.rank(), hvd.size()
    for dtype in ('float32', 'int32', 'bfloat16', 'bool'):
        parts = everyones((2 * size, 3), dtype)
        mine = parts[rank]
        same(both(hvd.allgather, mine), jnp.concatenate(parts))
        same(both(lambda x: hvd.broadcast(x, size - 1), mine), parts[size - 1])
        same(both(hvd.alltoall, mine), jnp.concatenate([p[2 * rank:2 * rank + 2] for p in parts]))
        if dtype != 'bool':
            total = sum(np.asarray(p, np.float64) for p in parts)[2 * rank:2 * rank + 2]
            same(both(lambda x: hvd.reducescatter(x, op=hvd.Sum), mine), jnp.asarray(total, dtype))


def check_unequal_rows_work_outside_of_jit_and_are_errors_inside():
    rank, size = hvd.rank(), hvd.size()
    mine = jnp.full((rank + 1, 2), rank)
    same(hvd.allgather(mine), jnp.concatenate([jnp.full((r + 1, 2), r) for r in range(size)]))
    rows, received = hvd.alltoall(jnp.full(size * (rank + 1), rank), [rank + 1] * size)
    same(received, jnp.arange(1, size + 1, dtype=jnp.int32))
    same(rows, jnp.concatenate([jnp.full(r + 1, r) for r in range(size)]))
    assert hvd.reducescatter(jnp.ones((size + 1, 2))).shape == (2 if rank == 0 else 1, 2)
    if size > 1:
        checks.raises(ValueError, lambda: jax.jit(hvd.reducescatter)(jnp.ones(size * 3 + 1)),
                      'reducescatter', 'equally')
    checks.raises(ValueError, lambda: jax.jit(hvd.allgather)(jnp.float32(1)), 'one dimension')
    checks.raises(ValueError, lambda: hvd.reducescatter(jnp.float32(1)), 'scalar')
    checks.raises(ValueError, lambda: jax.jit(lambda x: hvd.alltoall(x, [1] * size))(mine),
                  'splits')
    if size > 1:
        odd = jnp.ones((1 if rank == 0 else 2, 2))
        error = checks.raises(hvd.HorovodInternalError,
                              lambda: hvd.jit(lambda x: hvd.allgather(x, 'odd'))(odd),
                              'rows', 'equal shapes')
        assert error.errno == 22, error.errno


def check_gradients_are_those_of_one_process_that_holds_all_ranks_arrays():
    rank, size = hvd.rank(), hvd.size()
    xs = [x / 16 for x in everyones((2 * size, 3), 'float32')]
    cases = {
        'sum': (lambda x: hvd.allreduce(x, op=hvd.Sum), lambda all_, r: all_.sum(0)),
        'scaled': (lambda x: hvd.allreduce(x, op=hvd.Average, prescale_factor=2.0),
                   lambda all_, r: 2 * all_.mean(0)),
        'broadcast': (lambda x: hvd.broadcast(x, size - 1), lambda all_, r: all_[size - 1]),
        'allgather': (hvd.allgather, lambda all_, r: all_.reshape(-1, 3)),
        'alltoall': (hvd.alltoall, lambda all_, r: all_[:, 2 * r:2 * r + 2].reshape(-1, 3)),
        'scatter': (lambda x: hvd.reducescatter(x, op=hvd.Average, postscale_factor=3.0),
                    lambda all_, r: 3 * all_.mean(0)[2 * r:2 * r + 2]),
    }
    stacked = jnp.stack(xs)
    for name, (call, model) in cases.items():
        weights = [ramp(model(stacked, r).shape, 'float32', r + 5) for r in range(size)]

        def total(all_, model=model, weights=weights):
            return sum((jnp.sin(model(all_ ** 2, r)) * weights[r]).sum() for r in range(size))

        def mine(x, call=call, weights=weights):
            return (jnp.sin(call(x ** 2)) * weights[rank]).sum()

        want = np.asarray(jax.jit(jax.grad(total))(stacked))[rank]
        if name in ('scaled', 'allgather'):  # what is not compiled as a whole takes long
            close(jax.grad(mine)(xs[rank]), want)
        close(jax.jit(jax.grad(jax.checkpoint(mine)))(xs[rank]), want)
        value, tangent = jax.jvp(call, (xs[rank],), (xs[rank] * 2,))
        close(tangent, value * 2)
    checks.raises(TypeError, lambda: jax.grad(
        lambda x: hvd.allreduce(x, op=hvd.Max).sum())(xs[rank]), 'Average and Sum')


def check_control_flow_and_vmap():
    rank, size = hvd.rank(), hvd.size()
    x = jnp.arange(4.0) + rank
    mean = np.arange(4.0) + (size - 1) / 2

    def body(carry, _):
        carry = hvd.allreduce(carry) + 1
        return carry, carry.sum()

    def scanned(x):
        return jax.lax.scan(body, x, None, length=5)

    carry, sums = jax.jit(scanned)(x)
    close(carry, mean + 5)
    close(sums, mean.sum() + 4 * np.arange(1, 6))
    close(jax.jit(jax.grad(lambda x: scanned(x)[0].sum()))(x), np.ones(4))
    close(jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: hvd.allreduce(c), x))(x), mean)
    close(jax.jit(lambda x: jax.lax.cond(x.sum() > -1, hvd.allreduce, lambda x: x, x))(x), mean)
    close(jax.jit(lambda x: jax.lax.while_loop(
        lambda c: hvd.allreduce(c.sum(), op=hvd.Max) < 100, lambda c: c * 2, x))(x),
        x * 2.0 ** np.ceil(np.log2(100 / (6 + 4 * (size - 1)))))
    stack = jnp.stack([x, x * 2])
    close(jax.jit(jax.vmap(hvd.allreduce))(stack), np.stack([mean, mean * 2]))
    close(jax.vmap(hvd.allreduce, in_axes=1, out_axes=1)(stack.T), np.stack([mean, mean * 2]).T)
    gathered = jax.jit(jax.vmap(hvd.allgather))(stack)
    everyone = np.concatenate([np.arange(4.0) + r for r in range(size)])
    close(gathered, np.stack([everyone, everyone * 2]))


def check_more_collectives_than_threads_in_another_order_on_each_rank():
    count = 64
    inputs = [ramp((24, 24), 'float32', i) for i in range(count)]
    order = np.random.RandomState(hvd.rank()).permutation(count)

    def program(inputs):
        results = {}
        for i in order:
            results[int(i)] = hvd.allreduce(jnp.sin(inputs[i] @ inputs[i]), f'many.{i}', op=hvd.Sum)
        return [results[i] for i in range(count)]

    program = jax.jit(program)
    for _ in range(5):
        results = program(inputs)
    for x, result in zip(inputs, results):
        np.testing.assert_allclose(result, jnp.sin(x @ x) * hvd.size(), 1e-3, 1e-3)


def check_one_jitted_function_called_often_in_a_program_keeps_its_calls_apart():
    inner = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))

    def slow(x, turns):
        return jax.lax.fori_loop(0, turns, lambda _, m: jnp.sin(m @ m), x) * 0 + x

    def program(x, first, second):
        a, b = slow(x, first), slow(x * 100, second)
        return [inner((a if i % 2 else b) + i)[0, 0] for i in range(24)]

    # One half becomes ready early on one rank, the other half on the others.
    turns = (200, 1) if hvd.rank() == 0 else (1, 200)
    got = jax.jit(program)(jnp.ones((100, 100)), *turns)
    want = [((1 if i % 2 else 100) + i) * hvd.size() for i in range(24)]
    close(jnp.stack(got), want)


def check_an_operation_whose_result_one_rank_does_not_use_is_carried_out():
    def program(x):
        total = hvd.allreduce(x, op=hvd.Sum)
        return total if hvd.rank() == 0 else x

    got = jax.jit(program)(jnp.ones(3))
    close(got, np.full(3, hvd.size() if hvd.rank() == 0 else 1))


def check_large_arrays_end_beside_computation():
    big = jnp.full((1 << 20,), float(hvd.rank()))
    results = jax.jit(lambda x: [hvd.allreduce(x * i, op=hvd.Sum) + i for i in range(6)])(big)
    for i, result in enumerate(results):
        close(result[:3], np.full(3, i * sum(range(hvd.size())) + i))


def check_a_program_for_several_devices_is_refused():
    devices = jax.devices()
    assert len(devices) == 2, devices
    checks.raises(ValueError, lambda: jax.pmap(lambda x: hvd.allreduce(x, 'two'))(
        jnp.ones((2, 2))), '2 devices')
    mesh = jax.sharding.Mesh(np.array(devices), 'a')
    halves = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec('a'))
    checks.raises(ValueError, lambda: jax.jit(lambda x: hvd.allreduce(x, 'two'))(
        jax.device_put(np.ones(4), halves)), '2 devices')


def check_mismatches_are_our_exceptions_and_the_job_goes_on():
    if hvd.size() > 1:
        mine = jnp.ones(3 + (hvd.rank() == 1))
        for call in (lambda: hvd.allreduce(mine, 'bad'),
                     lambda: hvd.jit(lambda x: hvd.allreduce(x, 'bad'))(mine)):
            error = checks.raises(hvd.HorovodInternalError, call, 'shape', '[3]', '[4]')
            assert error.errno == 22
        kind = checks.raises(RuntimeError,
                             lambda: jax.jit(lambda x: hvd.allreduce(x, 'bad'))(mine),
                             'HorovodInternalError', 'shape')
        assert not isinstance(kind, hvd.HorovodInternalError)
    checks.raises(ValueError, lambda: hvd.allreduce(jnp.ones(2), op=17), 'not a reduction')
    checks.raises(hvd.HorovodInternalError,
                  lambda: hvd.jit(hvd.allreduce)(jnp.ones(2, jnp.uint32)), 'cannot be reduced')
    checks.raises(ValueError, lambda: jax.jit(hvd.allgather)(jnp.ones(2, jnp.int4)), 'int8')
    checks.raises(ValueError, lambda: hvd.broadcast(np.array(['text']), 0), 'object')
    checks.raises(ValueError, lambda: hvd.broadcast(np.array([1 << 40]), 0), 'JAX_ENABLE_X64')
    checks.raises(ValueError, lambda: hvd.jit(lambda x: hvd.allreduce(x, 'n' * 600))(jnp.ones(2)),
                  'name')
    checks.raises(ValueError, lambda: hvd.allreduce('text'), 'rray')
    close(hvd.allreduce(jnp.ones(2)), np.ones(2))


def check_every_type_is_moved():
    rank, size = hvd.rank(), hvd.size()
    for dtype in (jnp.uint32, jnp.complex64, jnp.float8_e4m3fn, jnp.float8_e5m2):
        parts = [jnp.arange(size).astype(dtype) + jnp.ones((), dtype) * r for r in range(size)]
        x = parts[rank]
        same(both(lambda x: hvd.broadcast(x, size - 1), x), parts[-1])
        same(both(hvd.allgather, x), jnp.concatenate(parts))
        same(both(hvd.alltoall, x), jnp.stack([part[rank] for part in parts]))
    same(hvd.broadcast(jnp.full(2, rank, jnp.int4), 0), jnp.zeros(2, jnp.int4))
    z = jnp.full(2, rank + 1j, jnp.complex64)
    same(both(lambda x: hvd.allreduce(x, op=hvd.Sum), z),
         jnp.full(2, sum(range(size)) + 1j * size, jnp.complex64))
    gradient = jax.grad(lambda z: jnp.real(hvd.allreduce(z, op=hvd.Sum)).sum())(z)
    same(gradient, jnp.full(2, size, jnp.complex64))


def both_keys(function, keys):
    """As both(), of random keys."""
    outside, inside = function(keys), jax.jit(function)(keys)
    assert outside.dtype == inside.dtype == keys.dtype and (outside == inside).all()
    return outside


def check_random_keys_travel():
    rank, size = hvd.rank(), hvd.size()
    for make in (jax.random.PRNGKey, jax.random.key, lambda n: jax.random.key(n, impl='rbg')):
        root = make(size - 1)
        got = hvd.broadcast_parameters({'rng': make(rank), 'w': jnp.ones(1)}, root_rank=size - 1)
        assert got['rng'].dtype == root.dtype and (got['rng'] == root).all()
        assert (both_keys(lambda key: hvd.broadcast(key, size - 1), make(rank)) == root).all()
        keys = jax.random.split(make(rank), 2)
        everyones = both_keys(hvd.allgather, keys)
        assert len(everyones) == 2 * size
        assert (everyones[2 * rank:2 * rank + 2] == keys).all()
    key = jax.random.key(rank)
    checks.raises(ValueError, lambda: hvd.allgather(key), 'key[None]')
    checks.raises(ValueError, lambda: hvd.allreduce({'rng': key}), 'cannot be reduced')


def check_process_sets():
    rank, size = hvd.rank(), hvd.size()
    if size < 3:
        return
    members = [0, 2]
    mine = hvd.ProcessSet(members)
    hvd.add_process_set(mine)
    if rank in members:
        x = jnp.full(4, float(rank))
        same(both(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=mine), x), jnp.full(4, 2.0))
        same(both(lambda x: hvd.allgather(x[:1], process_set=mine), x), jnp.array([0.0, 2.0]))
        same(both(lambda x: hvd.broadcast(x, 2, process_set=mine), x), jnp.full(4, 2.0))
        same(both(lambda x: hvd.alltoall(x, process_set=mine), x), jnp.array([0.0, 0, 2, 2]))
        gradient = jax.grad(lambda x: (hvd.allreduce(x, process_set=mine) ** 2).sum())
        close(gradient(x), np.full(4, 2.0))
    hvd.barrier()
    hvd.remove_process_set(mine)


def check_objects_parameters_and_metrics():
    rank, size = hvd.rank(), hvd.size()
    params = {'w': jnp.full((2, 3), rank), 'step': rank, 'n': np.full(2, rank, np.float64),
              'big': np.full(2, 2**63 + rank, np.uint64), 'names': np.array([f'r{rank}', None])}
    got = hvd.broadcast_parameters(params, root_rank=size - 1)
    assert got['step'] == size - 1 and isinstance(got['w'], jax.Array)
    assert got['n'].dtype == np.float64 and (got['n'] == size - 1).all()
    assert (got['big'] == np.uint64(2**63 + size - 1)).all()
    assert list(got['names']) == [f'r{size - 1}', None]
    assert (got['w'] == size - 1).all() and got['w'].dtype == params['w'].dtype
    assert hvd.broadcast_object({'r': rank}) == {'r': 0}
    assert hvd.allgather_object(rank) == list(range(size))
    assert hvd.average_metrics({'loss': rank, 'acc': jnp.float32(1)}) == {
        'loss': (size - 1) / 2, 'acc': 1.0}
    hvd.barrier()


def check_after_a_shutdown_it_begins_again():
    program = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))
    close(program(jnp.ones(3)), np.full(3, hvd.size()))
    hvd.shutdown()
    checks.raises(ValueError, lambda: hvd.allreduce(jnp.ones(3)), 'hvd.init()')
    checks.raises(RuntimeError, lambda: program(jnp.ones(3)), 'HorovodInternalError', 'initialized')
    hvd.init(process_sets="dynamic")
    close(program(jnp.ones(3)), np.full(3, hvd.size()))


if __name__ == '__main__':
    checks.raises(ValueError, lambda: hvd.allreduce(jnp.ones(1)), 'hvd.init()')
    hvd.init(process_sets="dynamic")
    checks.run(sys.modules[__name__], *sys.argv[1:])
    hvd.shutdown()
