# SPDX-License-Identifier: Apache-2.0
"""Training with N ranks equals training with the N-fold batch on one rank, within rounding."""
import sys
from typing import NamedTuple

import checks
import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np

STEPS, BATCH = 6, 8


class Pair(NamedTuple):
    """An optimizer as optax makes them."""

    init: object
    update: object


def momentum(rate):
    def update(grads, state, params=None):
        state = jax.tree_util.tree_map(lambda s, g: 0.9 * s + g, state, grads)
        return jax.tree_util.tree_map(lambda s: -rate * s, state), state

    return Pair(lambda params: jax.tree_util.tree_map(jnp.zeros_like, params), update)


def parameters(seed=0):
    keys = jax.random.split(jax.random.PRNGKey(seed), 2)
    return {'a': jax.random.normal(keys[0], (5, 16)) * 0.3,
            'b': jax.random.normal(keys[1], (16, 1)) * 0.3, 'c': jnp.zeros(1)}


def loss_of(params, batch):
    x, y = batch
    return ((jnp.tanh(x @ params['a']) @ params['b'] + params['c'] - y) ** 2).mean()


def batches(ranks):
    """STEPS batches of the given ranks together."""
    rng = np.random.RandomState(7)
    x = rng.randn(STEPS, hvd.size(), BATCH, 5).astype(np.float32)
    y = np.sin(x.sum(-1, keepdims=True))
    return [(jnp.asarray(x[s, ranks].reshape(-1, 5)), jnp.asarray(y[s, ranks].reshape(-1, 1)))
            for s in range(STEPS)]


def train(optimizer, gradient, data, params):
    state = optimizer.init(params)

    @hvd.jit
    def step(params, state, batch):
        _, grads = gradient(params, batch)
        updates, state = optimizer.update(grads, state, params)
        return jax.tree_util.tree_map(jnp.add, params, updates), state

    for batch in data:
        params, state = step(params, state, batch)
    return params


def alone():
    """What one process makes of all ranks' batches."""
    return train(momentum(0.05), jax.value_and_grad(loss_of), batches(list(range(hvd.size()))),
                 parameters())


def close(got, want):
    jax.tree_util.tree_map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), got, want)


def mine():
    return batches([hvd.rank()])


def start():
    """Rank 0's parameters; the others begin with other ones."""
    return hvd.broadcast_parameters(parameters(hvd.rank()), root_rank=0)


def check_an_optimizer_with_averaged_gradients():
    plain = jax.value_and_grad(loss_of)
    optimizer = hvd.DistributedOptimizer(momentum(0.05))
    assert type(optimizer) is Pair
    got = train(optimizer, plain, mine(), start())
    close(got, alone())
    everyone = hvd.allgather_object(np.asarray(got['a']).tobytes())
    assert len(set(everyone)) == 1, 'the ranks differ'
    close(train(hvd.DistributedOptimizer(momentum(0.05), gradient_predivide_factor=2.0), plain,
                mine(), start()), alone())


def check_any_pair_is_an_optimizer():
    init, update = momentum(0.05)
    plain = jax.value_and_grad(loss_of)

    def of_two(grads, state):
        return update(grads, state)

    class Named:
        pass

    named = Named()
    named.init, named.update = init, of_two
    for pair in (momentum(0.05), (init, update), [init, update]):
        optimizer = hvd.DistributedOptimizer(pair)
        close(train(optimizer, plain, mine(), start()), alone())
        assert tuple(optimizer) == (optimizer.init, optimizer.update)
    optimizer = hvd.DistributedOptimizer(named)
    optimizer.update(plain(start(), mine()[0])[1], optimizer.init(start()))


def check_averaged_gradients_of_a_function():
    close(train(momentum(0.05), hvd.distributed_value_and_grad(loss_of), mine(), start()), alone())
    grads, extra = hvd.distributed_grad(lambda p, b: (loss_of(p, b), 7), has_aux=True)(
        start(), mine()[0])
    assert extra == 7 and set(grads) == {'a', 'b', 'c'}


def check_a_transformation_in_a_chain():
    first, second = hvd.DistributedGradientTransformation(), momentum(0.05)

    def update(grads, state, params=None):
        return second.update(first.update(grads, (), params)[0], state, params)

    close(train(Pair(second.init, update), jax.value_and_grad(loss_of), mine(), start()), alone())


def check_several_backward_passes_count_as_one_batch():
    passes = 2
    optimizer = hvd.DistributedOptimizer(momentum(0.05), backward_passes_per_step=passes)
    got = train(optimizer, jax.value_and_grad(loss_of), mine(), start())
    data = batches(list(range(hvd.size())))
    pairs = [tuple(jnp.concatenate(parts) for parts in zip(*data[i:i + passes]))
             for i in range(0, STEPS, passes)]
    close(got, train(momentum(0.05), jax.value_and_grad(loss_of), pairs, parameters()))


def check_what_is_no_optimizer_is_refused():
    for bad in (object(), (len,), (len, 3), {'init': len, 'update': len}):
        checks.raises(ValueError, lambda: hvd.DistributedOptimizer(bad), 'init and update')
    checks.raises(ValueError, lambda: hvd.DistributedOptimizer(
        momentum(1), gradient_predivide_factor=2.0, op=hvd.Sum), 'gradient_predivide_factor')
    checks.raises(ValueError, lambda: hvd.DistributedOptimizer(
        momentum(1), backward_passes_per_step=0), 'backward_passes_per_step')


if __name__ == '__main__':
    hvd.init()
    checks.run(sys.modules[__name__])
    hvd.shutdown()
