# SPDX-License-Identifier: Apache-2.0
"""make check-gpu: programs of JAX with `horovod.jax` on a CUDA device, against the same on the CPU.

usage: check_jax.py RANKS [cpu]        cpu: on the CPU twice, to try this program
"""
import sys

import ranks

KINDS = ['sum', 'average', 'max', 'allgather', 'broadcast', 'alltoall', 'reducescatter']
DTYPES = ['uint8', 'int8', 'int32', 'float16', 'bfloat16', 'float32']


def check(where):
    import horovod.jax as hvd
    import jax
    import jax.numpy as jnp
    import numpy as np

    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    devices = [jax.devices('cuda' if where == 'gpu' else 'cpu')[0], jax.devices('cpu')[0]]
    calls = {'sum': lambda x: hvd.allreduce(x, 'r', op=hvd.Sum),
             'average': lambda x: hvd.allreduce(x, 'v', op=hvd.Average),
             'max': lambda x: hvd.allreduce(x, 'm', op=hvd.Max),
             'allgather': lambda x: hvd.allgather(x, 'g'),
             'broadcast': lambda x: hvd.broadcast(x, size - 1, 'b'),
             'alltoall': lambda x: hvd.alltoall(x, name='t'),
             'reducescatter': lambda x: hvd.reducescatter(x, 's', op=hvd.Sum)}

    def program(x):
        # Work before, between and behind the operations, on the stream that they share.
        y = x * 2 + 1
        return {kind: calls[kind](y) + 1 for kind in KINDS}

    def on(device, call, x):
        result = jax.block_until_ready(jax.jit(call)(jax.device_put(x, device)))
        return jax.tree_util.tree_map(np.asarray, result)

    compared = 0
    for name in DTYPES:
        x = jnp.asarray((np.arange(size * 6000) % 3 + rank % 2).reshape(size * 60, 100), name)
        for _ in range(3):
            found, wanted = (on(device, program, x) for device in devices)
            for kind in KINDS:
                assert np.array_equal(found[kind], wanted[kind]), (kind, name)
                compared += 1

    def train(w):
        def loss(w, x):
            return jnp.square(x @ w).mean()

        def step(w, x):
            return w - 0.1 * hvd.allreduce(jax.grad(loss)(w, x), 'grad'), None

        batches = jnp.asarray(np.random.RandomState(rank).randn(20, 8, 20), jnp.float32)
        return jax.lax.scan(step, w, batches)[0]

    found, wanted = (on(device, train, jnp.ones((20, 5))) for device in devices)
    np.testing.assert_allclose(found, wanted, 1e-2, 1e-4)
    error = None
    try:
        on(devices[0], lambda x: hvd.allreduce(x, 'bad'), jnp.ones(3 + rank))
    except RuntimeError as raised:
        error = str(raised)
    assert size == 1 or 'HorovodInternalError' in error and 'shape' in error, error
    hvd.shutdown()
    if rank == 0:
        print(f'horovod.jax, {size} rank{"s"[:size > 1]} on one {devices[0].platform} device: '
              f'{compared} operations of compiled programs as on the CPU, and 20 steps of training',
              flush=True)


if __name__ == '__main__':
    sys.exit(ranks.main(check))
