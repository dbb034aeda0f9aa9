# SPDX-License-Identifier: Apache-2.0
"""make check-gpu: `horovod.tensorflow` on tensors of a GPU, against the same on the CPU.

usage: check_tf.py RANKS [cpu]        cpu: on the CPU twice, to try this program
"""
import sys
import time

import ranks

DTYPES = ['uint8', 'int8', 'int32', 'int64', 'float16', 'bfloat16', 'float32', 'float64']
TIMED_NBYTES = 64 << 20


def check(where):
    import numpy as np
    import tensorflow as tf

    for device in tf.config.list_physical_devices('GPU'):
        tf.config.experimental.set_memory_growth(device, True)  # all ranks share it
    import horovod.tensorflow as hvd

    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    places = ['/GPU:0' if where == 'gpu' else '/CPU:0', '/CPU:0']

    def program(x):
        y = x + x
        return [hvd.allreduce(y, op=hvd.Sum, name='r'), hvd.allgather(y, name='g'),
                hvd.broadcast(y, size - 1, name='b'), hvd.alltoall(y, name='t'),
                hvd.reducescatter(y, op=hvd.Sum, name='s')]

    compared = 0
    for run in (program, tf.function(program)):
        for name in DTYPES:
            found = []
            for place in places:
                with tf.device(place):
                    x = tf.cast((tf.range(size * 6000) + rank) % 5, name)
                    found.append([tf.identity(t) for t in run(tf.reshape(x, (size * 60, 100)))])
            for on_gpu, on_cpu in zip(*found):
                np.testing.assert_array_equal(tf.cast(on_gpu, tf.float64).numpy(),
                                              tf.cast(on_cpu, tf.float64).numpy())
                compared += 1

    with tf.device(places[0]):
        model = tf.keras.Sequential([tf.keras.layers.Input((20,)), tf.keras.layers.Dense(5)])
        hvd.broadcast_variables(model.variables, root_rank=0)
        x = tf.random.stateless_normal((8, 20), seed=(1, rank))
        for _ in range(5):
            with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
                loss = tf.reduce_mean(tf.square(model(x)))
            for variable, gradient in zip(model.trainable_variables,
                                          tape.gradient(loss, model.trainable_variables)):
                variable.assign_sub(0.1 * gradient)
    for weights in model.get_weights():
        everyones = hvd.allgather(tf.constant(weights[np.newaxis]), name='same').numpy()
        assert (everyones == everyones[0]).all(), 'the ranks have trained different models'

    costs = {place: cost(tf, hvd, place) for place in places}
    hvd.shutdown()
    if rank == 0:
        there, host = (costs[place] * 1e3 for place in places)
        print(f'hvd.tensorflow, {size} rank{"s"[:size > 1]} on {places[0]}: {compared} operations '
              f'as on the CPU, and five steps of training. An allreduce of 64 MiB took {there:.1f} '
              f'ms there, and {host:.1f} ms in host memory', flush=True)


def cost(tf, hvd, place):
    """Seconds for an allreduce, the copies of TensorFlow's included; the best of several."""
    best = float('inf')
    with tf.device(place):
        x = tf.identity(tf.ones(TIMED_NBYTES // 4))
        for _ in range(5):
            begin = time.perf_counter()
            tf.identity(hvd.allreduce(x, op=hvd.Sum, name='timed'))[0].numpy()
            best = min(best, time.perf_counter() - begin)
    return best


if __name__ == '__main__':
    sys.exit(ranks.main(check))
