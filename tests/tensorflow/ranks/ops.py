# SPDX-License-Identifier: Apache-2.0
"""Every operation of horovod.tensorflow.mpi_ops on real ranks: results, types, gradients, errors,
order. Prints "all good" when nothing was wrong."""
import os
import sys

import numpy as np
import tensorflow as tf

import horovod.tensorflow as hvd
from horovod.common.process_sets import ProcessSet
from horovod.tensorflow import mpi_ops as ops
from reigen import _core
from tensorflow.python.framework import config as tf_config

# Fewer threads than collectives in flight.
tf.config.threading.set_inter_op_parallelism_threads(2)
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.get_logger().setLevel('ERROR')  # of functions that are traced often

FLOATS = [tf.float32, tf.float64, tf.float16, tf.bfloat16]
INTEGERS = [tf.uint8, tf.int8, tf.uint16, tf.int16, tf.int32, tf.int64]


def same(found, expected):
    found = tf.cast(found, tf.float64).numpy() if tf.is_tensor(found) else np.asarray(found)
    np.testing.assert_array_equal(found, np.asarray(expected, np.float64))


def raises(kinds, text, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except kinds as error:
        assert text in str(error), str(error)
        return
    raise AssertionError(f'no error with {text!r}')


def both(function):
    """The function executed eagerly, and as a graph."""
    return [function, tf.function(function)]


def data(rank, *shape, dtype=tf.float32):
    """A small number per element; those of all ranks differ."""
    count = int(np.prod(shape))
    return tf.reshape(tf.cast((tf.range(count) + rank) % 5, dtype), shape)


def summed(n, *shape):
    return sum(data(r, *shape).numpy() for r in range(n))


def check_types(r, n):
    for run in both(lambda x: ops._allreduce(x)):
        for dtype in FLOATS + INTEGERS:
            for shape in [(), (3,), (0, 2), (40, 1000)]:
                result = run(data(r, *shape, dtype=dtype))
                assert result.dtype == dtype and result.shape == shape
                same(result, summed(n, *shape))
        same(run(tf.constant([r == 0, False])), [1, 0])
    for run in both(lambda x: (ops.allgather(x), ops.broadcast(x, n - 1), ops.alltoall(x),
                               ops._reducescatter(x))):
        for dtype in FLOATS + INTEGERS:
            gathered, sent, swapped, scattered = run(data(r, n, 2, dtype=dtype))
            assert {t.dtype for t in (gathered, sent, swapped, scattered)} == {dtype}
            same(gathered, np.concatenate([data(k, n, 2) for k in range(n)]))
            same(sent, data(n - 1, n, 2))
            same(swapped, [data(k, n, 2)[r] for k in range(n)])
            same(scattered, summed(n, n, 2)[r:r + 1])
    same(ops.allgather(tf.constant([r % 2 == 0])), [k % 2 == 0 for k in range(n)])


def check_shapes(r, n):
    """Unequal numbers of rows, and what a graph knows of the results."""
    rows = [data(k, k + 1, 3).numpy() for k in range(n)]
    splits = [[(k + to) % 3 for to in range(n)] for k in range(n)]
    sources = [data(k, sum(splits[k]) + 1, 2).numpy() for k in range(n)]
    starts = [np.cumsum([0] + s) for s in splits]

    def shaped(x, y):
        gathered = ops.allgather(x)
        out, received = ops.alltoall(y, splits=splits[r])
        scattered = ops._reducescatter(data(r, n + 1, 2), op=ops.Average)
        if not tf.executing_eagerly():
            assert gathered.shape.as_list() == [None, 3], gathered.shape
            assert out.shape.as_list() == [None, 2] and received.shape.as_list() == [None]
            raises(ValueError, 'scalars', ops.allgather, tf.constant(1.0))
        return gathered, out, received, scattered

    for run in both(shaped):
        gathered, out, received, scattered = run(tf.constant(rows[r]), tf.constant(sources[r]))
        same(gathered, np.concatenate(rows))
        same(received, [splits[k][r] for k in range(n)])
        same(out, np.concatenate([sources[k][starts[k][r]:starts[k][r + 1]] for k in range(n)]))
        mine = slice(0, 2) if r == 0 else slice(r + 1, r + 2)
        np.testing.assert_allclose(scattered, summed(n, n + 1, 2)[mine] / n, rtol=1e-6)


def check_reductions(r, n):
    x = data(r, 6) + 1
    every = np.array([data(k, 6).numpy() + 1 for k in range(n)])
    third = 1.0 / 3.0
    for run in both(lambda x: [ops._allreduce(x, op=op) for op in (ops.Min, ops.Max, ops.Product,
                                                                   ops.Average)]):
        low, high, product, mean = run(x)
        same(low, every.min(0)), same(high, every.max(0)), same(product, every.prod(0))
        np.testing.assert_allclose(mean, every.mean(0), rtol=1e-6)
    # A factor that 32 bits do not hold.
    for run in both(lambda x: ops._allreduce(x, prescale_factor=third, postscale_factor=2.0)):
        ones = run(tf.ones([2], tf.float64)).numpy()
        expected = 0.0
        for _ in range(n):
            expected += third
        np.testing.assert_allclose(ones, [2 * expected] * 2, rtol=1e-15)

    def grouped(x, y):
        return (ops._grouped_allreduce([x, y]), ops.grouped_allgather([x[:r + 1], y]),
                ops._grouped_reducescatter([y, y * 2]))

    for run in both(grouped):
        reduced, gathered, scattered = run(data(r, 6), data(r, n, 2))
        same(reduced[0], summed(n, 6)), same(reduced[1], summed(n, n, 2))
        same(gathered[0], np.concatenate([data(k, 6)[:k + 1] for k in range(n)]))
        same(scattered[1], summed(n, n, 2)[r:r + 1] * 2)
    assert ops._grouped_allreduce([]) == []


def check_buffers(r, n):
    """An input that is used after the operation keeps its value, whatever buffer the output has."""
    @tf.function
    def run(x):
        once, kept = x + 1, x + 2
        return ops._allreduce(once), kept, ops._allreduce(kept), ops.broadcast(kept, 0), x

    for size in (5, 50000):
        x = data(r, size)
        for _ in range(3):
            reduced, kept, both_used, sent, before = run(x)
            same(reduced, summed(n, size) + n), same(both_used, summed(n, size) + 2 * n)
            same(kept, x.numpy() + 2), same(sent, data(0, size).numpy() + 2), same(before, x)
    variable = tf.Variable(data(r, 4))
    same(ops._allreduce(variable), summed(n, 4))
    same(variable, data(r, 4))
    same(ops.broadcast_([variable], n - 1)[0], data(n - 1, 4))
    same(variable, data(n - 1, 4))


def check_gradients(r, n):
    splits = [k + 1 for k in range(n)]
    weight = float(r + 1)
    total = float(sum(range(1, n + 1)))
    cases = [
        (lambda x: ops._allreduce(x), [n, 2], lambda g: total),
        (lambda x: ops._allreduce(x, op=ops.Average), [n, 2], lambda g: total / n),
        (lambda x: ops._allreduce(x, prescale_factor=0.5, postscale_factor=3.0), [n],
         lambda g: 1.5 * total),
        (lambda x: ops._grouped_allreduce([x, x * 3])[1], [n], lambda g: 3 * total),
        (lambda x: ops.allgather(x), [r + 1, 2], lambda g: total / n),
        (lambda x: ops.grouped_allgather([x, x])[0], [r + 1, 2], lambda g: total / n),
        (lambda x: ops.broadcast(x, 1), [3], lambda g: total / n if r == 1 else 0.0),
        (lambda x: ops.alltoall(x), [n, 2], lambda g: np.arange(1, n + 1)[:, None] + [0, 0]),
        (lambda x: ops.alltoall(x, splits=splits)[0], [sum(splits)],
         lambda g: np.repeat(np.arange(1, n + 1), splits)),
        (lambda x: ops._reducescatter(x, op=ops.Average), [n, 2],
         lambda g: np.arange(1, n + 1)[:, None] + [0, 0]),
        (lambda x: ops._reducescatter(x), [n, 2],
         lambda g: n * (np.arange(1, n + 1)[:, None] + [0, 0])),
        (lambda x: ops._grouped_reducescatter([x, x], op=ops.Average)[0], [n, 2],
         lambda g: np.arange(1, n + 1)[:, None] + [0, 0]),
    ]
    for function, shape, expected in cases:
        def gradient(x, function=function):
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(function(x)) * weight
            return tape.gradient(loss, x)

        for run in both(gradient):
            grad = run(tf.ones(shape, tf.float64))
            np.testing.assert_allclose(grad, np.ones(shape) * expected(grad), rtol=1e-12)


def check_sessions(r, n):
    """Graphs of TensorFlow 1."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2])
        reduced = ops._allreduce(x)
        grad, = tf.gradients(reduced * (r + 1), x)
        with tf.name_scope('mine' if r else 'yours'):
            shared = ops._allreduce(x * 2, name='shared', ignore_name_scope=True)
        fetches = [reduced, grad, shared, ops.allgather(x), ops.size_op(), ops.rank_op(),
                   ops.local_size_op(), ops.local_rank_op(), ops.process_set_included_op()]
        variable = tf.compat.v1.get_variable('v', initializer=float(r))
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(3):
            found = session.run(fetches, {x: np.ones([2, 2])})
            same(found[0], np.full([2, 2], n)), same(found[2], np.full([2, 2], 2 * n))
            same(found[1], np.full([2, 2], sum(range(1, n + 1))))
            assert found[3].shape == (2 * n, 2) and list(found[4:]) == [n, r, n, r, 1]
        same(session.run(ops.broadcast_([variable], 1)), [1.0])
        same(session.run(variable), 1.0)


def check_order(r, n):
    """Many collectives, in another order on each rank, on fewer threads."""
    order = np.random.RandomState(r).permutation(48)

    @tf.function
    def run(x):
        results = {}
        for i in order:
            size = 30000 if i % 4 == 0 else 3
            results[f'{i:02}'] = ops._allreduce(x[:size] + float(i), name=f'many.{i}')
            if i % 6 == 1:
                results[f'g{i}'] = ops.allgather(x[:2], name=f'gather.{i}')
        return results

    for _ in range(3):
        results = run(tf.ones([30000]))
        for i in range(48):
            assert np.all(results[f'{i:02}'].numpy() == n * (1.0 + i)), i
        assert results['g1'].shape == (2 * n,)

    @tf.function
    def loop(x):
        for _ in tf.range(20):
            x = ops._allreduce(x, op=ops.Average) + 1.0
        return tf.cond(x[0] > 5, lambda: ops._allreduce(x, name='in_cond'), lambda: x)

    np.testing.assert_allclose(loop(tf.zeros([4])), [20.0 * n] * 4, rtol=1e-5)


def check_errors(r, n):
    bad = tf.errors.FailedPreconditionError
    for run in both(lambda x: ops._allreduce(x)):
        raises(bad, 'Mismatched', run, tf.ones([3 + r]))
        raises(bad, 'Mismatched', run, tf.ones([3], tf.float64 if r else tf.float32))
        same(run(tf.ones([3])), [n] * 3)
    raises(bad, 'Mismatched', ops.broadcast, tf.ones([3]), r)
    raises(bad, 'Mismatched', ops.allgather, tf.ones([3, 2 + r]))
    raises(bad, 'HorovodGroupedAllreduce', ops._grouped_allreduce, [tf.ones([2]), tf.ones([2 + r])])
    invalid = tf.errors.InvalidArgumentError
    raises(invalid, 'splits', ops.alltoall, tf.ones([3]), splits=[1] * (n + 1))
    raises(invalid, '1D', ops.alltoall, tf.ones([3]), splits=[[1] * n])
    raises(invalid, 'scalar', ops._reducescatter, tf.constant(1.0))
    raises((invalid, bad), 'bool', ops._allreduce, tf.constant([True]), op=ops.Average)
    raises((invalid, bad), 'uint32 cannot be reduced', ops._allreduce, tf.ones([2], tf.uint32))
    raises((invalid, bad), 'there is no max', ops._allreduce, tf.constant([1j]), op=ops.Max)
    raises(invalid, 'allgather_object', ops.broadcast, tf.constant(['text']), 0)
    raises(bad, 'complex128', ops.broadcast,
           tf.ones([2], tf.complex128 if r else tf.float64), 0)

    @tf.function(jit_compile=True)
    def compiled(x):
        return ops._allreduce(x)

    raises(NotImplementedError, 'jit_compile=False', compiled, tf.ones([2]))
    same(ops._allreduce(tf.ones([3])), [n] * 3)


def check_join(r, n):
    @tf.function
    def step(x):
        return ops._allreduce(x, name='uneven')

    for i in range(3 + r):
        there = sum(1 for k in range(n) if i < 3 + k)
        same(step(tf.ones([4])), [there] * 4)
        same(ops._allreduce(tf.ones([4])), [there] * 4)
    assert 0 <= int(ops.join()) < n
    same(step(tf.ones([4])), [n] * 4)
    # Those that joined first have counted fewer operations without a name.
    same(ops._allreduce(tf.ones([4])), [n] * 4)


def check_op_determinism_is_told_to_the_runtime(r, n):
    tf.config.experimental.enable_op_determinism()
    same(ops._allreduce(tf.ones([3])), [n] * 3)
    assert _core._determinism == {'tensorflow'}
    tf_config.disable_op_determinism()
    same(tf.function(ops._allreduce)(tf.ones([3])), [n] * 3)
    assert not _core._determinism


def check_sets(r, n):
    """n >= 3: two sets that overlap."""
    some, all_but = ProcessSet([0, n - 1]), ProcessSet(list(range(1, n)))
    for subset in (some, all_but):
        hvd.add_process_set(subset)
    for subset, ranks in ((some, [0, n - 1]), (all_but, list(range(1, n)))):
        assert int(ops.process_set_included_op(subset.process_set_id)) == int(r in ranks)
        if r not in ranks:
            raises(tf.errors.InvalidArgumentError, 'not a member', ops._allreduce, tf.ones([1]),
                   process_set=subset)
            continue
        assert int(ops.size_op(subset.process_set_id)) == len(ranks)

        def run(x, subset=subset, ranks=ranks):
            with tf.GradientTape() as tape:
                tape.watch(x)
                reduced = ops._allreduce(x, process_set=subset)
                gathered = ops.allgather(x, process_set=subset)
            return (reduced, gathered, ops.broadcast(x, ranks[-1], process_set=subset),
                    ops._reducescatter(x, process_set=subset),
                    ops.alltoall(x, splits=[1] * len(ranks), process_set=subset),
                    tape.gradient([reduced, gathered], x))

        for call in both(run):
            reduced, gathered, sent, scattered, swapped, grad = call(
                tf.fill([len(ranks), 2], float(r)))
            same(reduced, np.full([len(ranks), 2], sum(ranks)))
            same(gathered, np.repeat(ranks, len(ranks))[:, None] + [0, 0])
            same(sent, np.full([len(ranks), 2], ranks[-1]))
            same(scattered, [[sum(ranks)] * 2])
            same(swapped[1], ranks and [1] * len(ranks))
            np.testing.assert_allclose(grad, np.full([len(ranks), 2], len(ranks) + 1.0))
    same(ops._allreduce(tf.ones([1])), [n])


def check_life():
    hvd.shutdown()
    raises(tf.errors.FailedPreconditionError, 'not been initialized', ops._allreduce,
           tf.ones([1]))
    raises(tf.errors.FailedPreconditionError, 'not been initialized', ops.size_op)
    raises(tf.errors.FailedPreconditionError, 'not been initialized', ops.join)
    hvd.init()
    for run in both(lambda x: ops._allreduce(x)):
        same(run(tf.ones([3])), [hvd.size()] * 3)


def check_death(r, n):
    """The last rank goes without a word; nobody hangs, and the error says who it was."""
    @tf.function
    def step(x):
        return ops._allreduce(x), ops.allgather(x)

    step(tf.ones([3]))
    if r == n - 1:
        sys.stdout.flush()
        os._exit(7)
    raises(tf.errors.UnknownError, 'Horovod', step, tf.ones([3]))
    raises(tf.errors.UnknownError, f'rank {n - 1}', ops._allreduce, tf.ones([3]))


def main():
    raises(tf.errors.FailedPreconditionError, 'not been initialized', ops._allreduce,
           tf.ones([1]))
    hvd.init(process_sets='dynamic')
    r, n = hvd.rank(), hvd.size()
    for check in (check_types, check_shapes, check_reductions, check_buffers, check_gradients,
                  check_sessions, check_order, check_errors, check_join,
                  check_op_determinism_is_told_to_the_runtime):
        check(r, n)
    if n >= 3:
        check_sets(r, n)
    check_life()
    print(f'all good on rank {r}', flush=True)
    if 'die' in sys.argv:
        check_death(r, n)
        print(f'told on rank {r}', flush=True)


if __name__ == '__main__':
    main()
