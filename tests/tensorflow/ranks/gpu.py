# SPDX-License-Identifier: Apache-2.0
"""Every operation of horovod.tensorflow on tensors in a GPU's memory, which device/standin.c passes
for: a kernel that took it for the host's would end by a fault. Prints "all good".

usage: gpu.py STANDIN
"""
import ctypes
import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels, load_library

load_library.load_pluggable_device_library(sys.argv[1])
STANDIN = ctypes.CDLL(sys.argv[1])
STANDIN.standin_copies_to_host.restype = STANDIN.standin_copies_to_device.restype = ctypes.c_uint64

import horovod.tensorflow as hvd  # noqa: E402
from horovod.tensorflow import mpi_ops as ops  # noqa: E402

KINDS = ['Allreduce', 'GroupedAllreduce', 'Allgather', 'GroupedAllgather', 'Broadcast', 'Alltoall',
         'Reducescatter', 'GroupedReducescatter', 'Join', 'Size', 'Rank', 'LocalSize', 'LocalRank',
         'ProcessSetIncluded']


def data(rank, *shape):
    return ((np.arange(np.prod(shape)) + rank) % 5).astype(np.float32).reshape(shape)


def on_gpu(array):
    """In the device's memory, behind work of its stream."""
    tensor = tf.identity(tf.constant(array))
    assert not tf.executing_eagerly() or tensor.backing_device.endswith('GPU:0'), tensor
    return tensor


def same(found, expected):
    np.testing.assert_array_equal(tf.identity(found).numpy(), np.asarray(expected))


def check_kernels(_r, _n):
    """All are registered for GPUs, with each argument and result in host memory."""
    for kind in KINDS:
        found = kernels.get_registered_kernels_for_op(f'Horovod{kind}').kernel
        args = {k.device_type: list(k.host_memory_arg) for k in found}
        assert set(args) == {'CPU', 'GPU'}, (kind, args)
        counts = {'Alltoall': 4, 'Join': 1, 'Size': 1, 'Rank': 1, 'LocalSize': 1, 'LocalRank': 1,
                  'ProcessSetIncluded': 1}
        assert len(args['GPU']) == counts.get(kind, 2), (kind, args)


def collectives(n, x, y):
    received, splits = ops.alltoall(x, splits=[x.shape[0] // n] * n, name='t')
    return {'sum': ops._allreduce(x, name='r'), 'group': ops._grouped_allreduce([x, y], name='g'),
            'rows': ops.allgather(y, name='a'), 'both': ops.grouped_allgather([x, y], name='q'),
            'root': ops.broadcast(x, n - 1, name='b'), 'sent': received, 'splits': splits,
            'part': ops._reducescatter(x, name='s'),
            'parts': ops._grouped_reducescatter([x, x], name='p'),
            'facts': [ops.size_op(), ops.rank_op(), ops.local_rank_op(), ops.local_size_op()]}


def check_collectives(r, n):
    """Without soft placement: each operation is on the GPU, or there is an error."""
    rows, width = 2 * n, 501
    xs = [data(k, rows, width) for k in range(n)]
    ys = [data(k + 2, k + 1, 3) for k in range(n)]
    total = sum(xs)
    for run in (collectives, tf.function(collectives)):
        for _ in range(3):
            with tf.device('/GPU:0'):
                got = run(n, on_gpu(xs[r]), on_gpu(data(r, 7)))
                same(got['sum'], total)
                same(got['group'][0], total)
                same(got['group'][1], sum(data(k, 7) for k in range(n)))
                same(got['rows'], np.concatenate([data(k, 7) for k in range(n)]))
                same(got['both'][0], np.concatenate(xs))
                same(got['root'], xs[n - 1])
                same(got['sent'], np.concatenate([x[2 * r:2 * r + 2] for x in xs]))
                same(got['splits'], [2] * n)
                for part in [got['part'], *got['parts']]:
                    same(part, total[2 * r:2 * r + 2])
                assert [int(fact) for fact in got['facts']] == [n, r, r, n]
    with tf.device('/GPU:0'):
        same(ops.allgather(on_gpu(ys[r])), np.concatenate(ys))


def check_devices_that_the_user_names(r, n):
    for place in ('', '/cpu:0', '/gpu:0'):
        with tf.device('/GPU:0'):
            x = on_gpu(data(r, 40))
            got = hvd.allreduce(x, op=hvd.Sum, device_dense=place, name='named')
            same(got, sum(data(k, 40) for k in range(n)))


def check_copies(r, n):
    """What it costs: a copy to the host, and one back where the result is used on the GPU."""
    with tf.device('/GPU:0'):
        x = on_gpu(data(r, 1000))
        x.numpy()
        down, up = STANDIN.standin_copies_to_host(), STANDIN.standin_copies_to_device()
        result = ops._allreduce(x, name='counted')
        assert STANDIN.standin_copies_to_host() - down == 1
        kept = tf.identity(result)
        assert kept.backing_device.endswith('GPU:0')
        assert STANDIN.standin_copies_to_device() - up == 1
        same(kept, sum(data(k, 1000) for k in range(n)))


def check_many_in_flight(r, n):
    @tf.function
    def program(xs):
        return [tf.identity(ops._allreduce(tf.identity(x), name=f'many{i}'))
                for i, x in enumerate(xs)]

    with tf.device('/GPU:0'):
        for i, got in enumerate(program([on_gpu(data(r + i, 3000)) for i in range(30)])):
            same(got, sum(data(k + i, 3000) for k in range(n)))


def check_training(r, n):
    """Variables on the GPU; what it has no kernels for is computed by the CPU."""
    tf.config.set_soft_device_placement(True)
    with tf.device('/GPU:0'):
        variable = tf.Variable(data(r, 12))
    assert variable.device.endswith('GPU:0'), variable.device
    hvd.broadcast_variables([variable], root_rank=0)
    same(variable, data(0, 12))
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_sum(variable * data(r, 12))
    gradient = tape.gradient(loss, variable)
    np.testing.assert_allclose(gradient.numpy(), sum(data(k, 12) for k in range(n)) / n)
    variable.assign(variable.value() - gradient)
    with tf.device('/GPU:0'):
        sparse = tf.IndexedSlices(on_gpu(data(r, 2, 3)), tf.constant([r, r + 1]),
                                  tf.constant([n + 1, 3]))
        summed = hvd.allreduce(sparse, op=hvd.Sum, device_sparse='/gpu:0')
    same(summed.values, np.concatenate([data(k, 2, 3) for k in range(n)]))
    tf.config.set_soft_device_placement(False)


def check_errors(r, n):
    if n > 1:
        with tf.device('/GPU:0'):
            try:
                ops._allreduce(on_gpu(data(r, 3 + r)), name='bad')
                raise AssertionError('no error')
            except tf.errors.FailedPreconditionError as error:
                assert 'shape' in str(error), error


def main():
    assert tf.config.list_physical_devices('GPU'), tf.config.list_physical_devices()
    tf.config.set_soft_device_placement(False)
    hvd.init()
    for name, check in list(globals().items()):
        if name.startswith('check_'):
            check(hvd.rank(), hvd.size())
            print(name, 'passed', flush=True)
    print(f'all good on rank {hvd.rank()}', flush=True)
    hvd.shutdown()


if __name__ == '__main__':
    main()
