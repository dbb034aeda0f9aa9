# SPDX-License-Identifier: Apache-2.0
"""Run by two ranks with Keras 3 on PyTorch: a gradient that one rank lacks counts as zeros."""
import keras
import torch

import horovod.keras as hvd

hvd.init()
variables = [keras.Variable([1.0, 2.0]) for _ in range(3)]
optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
for step in range(4):
    # The first of all ranks, the second of rank 0 from the second step on, the third of nobody.
    grads = [torch.ones(2), torch.ones(2) if hvd.rank() == 0 and step in (1, 2) else None, None]
    optimizer.apply(grads, variables)
found = [v.numpy().tolist() for v in variables]
mean = 1.0 / hvd.size()
assert found == [[-3.0, -2.0], [1.0 - 2 * mean, 2.0 - 2 * mean], [1.0, 2.0]], found
if hvd.rank() == 0:
    print('all good')
hvd.shutdown()
