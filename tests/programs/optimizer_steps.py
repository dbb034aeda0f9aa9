# SPDX-License-Identifier: Apache-2.0
"""A rank that trains nine steps by horovod.torch, and says 'begin N' before each."""
import horovod.torch as hvd
import torch

hvd.init()
model = torch.nn.Linear(2, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                     named_parameters=model.named_parameters())
for number in range(1, 10):
    print('begin', number, flush=True)
    optimizer.zero_grad()
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
