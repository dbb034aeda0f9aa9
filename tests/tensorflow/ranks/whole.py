# SPDX-License-Identifier: Apache-2.0
"""What the programs of this folder share: a small problem, and who trains on which part of it.

N ranks with batches of b must do what one rank does with batches of N x b, in the same order.
"""
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

import numpy as np  # noqa: E402  the variable has to be set before TensorFlow is imported

COUNT = 48
BATCH = 4


def problem():
    """(samples [COUNT, 8], classes [COUNT] of 3)"""
    samples = np.random.RandomState(0).randn(COUNT, 8).astype(np.float32)
    return samples, ((samples.sum(1) > 0).astype(np.int64) + (samples[:, 0] > 1))


def own_order(rank, size):
    """Positions of one rank's samples, batch after batch."""
    return np.concatenate([np.arange(start + rank * BATCH, start + (rank + 1) * BATCH)
                           for start in range(0, COUNT, BATCH * size)])


def weights(model):
    return np.concatenate([np.asarray(w).ravel() for w in model.get_weights()])


def close(one, other, what):
    distance = float(np.abs(np.asarray(one) - np.asarray(other)).max())
    assert distance < 1e-5, f'{what}: {distance} apart'


def everywhere(hvd, array, what):
    """All ranks hold the same bits."""
    found = hvd.allgather_object(np.asarray(array).tobytes())
    assert all(f == found[0] for f in found), f'{what} differs between ranks'


def run(module, hvd):
    """Call every check_*() of the module; rank 0 says that all is well."""
    for name in sorted(n for n in dir(module) if n.startswith('check_')):
        print(f'rank {hvd.rank()}: {name}', flush=True)
        getattr(module, name)()
