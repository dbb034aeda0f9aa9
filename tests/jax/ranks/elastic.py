# SPDX-License-Identifier: Apache-2.0
"""A loop of JAX's in an elastic job.

usage: elastic.py GO jit|plain

It trains until the file GO is there, by hvd.jit, or by jax.jit with donated parameters. All ranks
have the same examples, so the loss does not depend on how many they are.
"""
import collections
import functools
import os
import sys
import time

import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np

GO, HOW = sys.argv[1:3]
Momentum = collections.namedtuple('Momentum', 'count speed')
rng = np.random.RandomState(1)
examples, answers = rng.rand(16, 8).astype(np.float32), rng.rand(16, 1).astype(np.float32)
hvd.init()
print(f'place {os.environ["REIGEN_PLACE"]} on {os.environ["LOGIN"]} pid {os.getpid()}', flush=True)


def loss_of(params):
    return jnp.mean((examples @ params['w'] + params['b'] - answers) ** 2)


@hvd.jit if HOW == 'jit' else functools.partial(jax.jit, donate_argnums=(0, 1))
def step(params, momentum):
    loss, gradients = hvd.distributed_value_and_grad(loss_of)(params)
    speed = jax.tree_util.tree_map(lambda s, g: 0.9 * s + g, momentum.speed, gradients)
    params = jax.tree_util.tree_map(lambda p, s: p - 0.01 * s, params, speed)
    ranks = hvd.allgather(jnp.full((1,), hvd.rank()))  # its shape is of this number of ranks
    return params, Momentum(momentum.count + 1, speed), loss, ranks


def fresh():
    """Every process begins with another one."""
    return {'w': jnp.asarray(rng.rand(8, 1) * (1 + hvd.rank()), jnp.float32), 'b': jnp.zeros(1)}


# What comes before the loop is done alone by a rank that comes later.
params = hvd.broadcast_parameters(fresh(), root_rank=0)
hvd.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))(jnp.ones(3))
state = hvd.elastic.JaxState(
    params=params, momentum=Momentum(0, jax.tree_util.tree_map(jnp.zeros_like, params)),
    key=jax.random.key(hvd.rank()), seen=np.zeros(2, np.int64), batch=0, over=False,
    table={1: 'a', 'b': {2}}, extra=None)


@hvd.elastic.run
def train(state):
    if hvd.rank() == 0:
        print(f'goes on at batch {state.batch} with {hvd.size()} ranks', flush=True)
    while not state.over:
        state.params, state.momentum, loss, ranks = step(state.params, state.momentum)
        assert ranks.tolist() == list(range(hvd.size())), ranks
        state.key, _ = jax.random.split(state.key)
        state.seen = state.seen + 1
        state.batch += 1
        state.extra = {'batch': jnp.asarray(state.batch)}
        state.table['b'].add(state.batch)
        state.over = hvd.broadcast_object(os.path.exists(GO), 0, name='over')
        state.commit()
        if hvd.rank() == 0:
            print(f'batch {state.batch}: loss {float(loss):.7f}, {hvd.size()} ranks', flush=True)
            time.sleep(0.05)  # patient: the processors are for ranks that begin


train(state)
assert state.momentum.count == state.batch == state.seen[0] == int(state.extra['batch'])
assert state.table == {1: 'a', 'b': {2, *range(1, state.batch + 1)}}, state.table
mine = [state.params['w'], state.momentum.speed['b'], jax.random.key_data(state.key)]
for index, first in enumerate(hvd.broadcast_parameters(mine, root_rank=0)):
    assert np.array_equal(first, mine[index]), (index, first, mine[index])
print('done', hvd.rank(), 'of', hvd.size(), flush=True)
