# SPDX-License-Identifier: Apache-2.0
"""PyTorch's switch for algorithms that repeat their bits, as it reaches the runtime. Every rank
counts as a host: REIGEN_PLANES=tcp."""
import sys

import torch

import checks
import horovod.torch as hvd
import reigen

CALLS = {
    'allreduce': lambda: hvd.allreduce(torch.ones(4), name='a'),
    'allreduce_async': lambda: hvd.synchronize(hvd.allreduce_async(torch.ones(4), name='b')),
    'grouped_allreduce': lambda: hvd.grouped_allreduce([torch.ones(4), torch.ones(2)], name='c'),
    'reducescatter': lambda: hvd.reducescatter(torch.ones(4), name='d'),
    'optimizer': lambda: step(),
}
weight = torch.nn.Parameter(torch.ones(4))
optimizer = None


def step():
    optimizer.zero_grad()
    weight.sum().backward()
    optimizer.step()


def on(value):
    torch.use_deterministic_algorithms(value)


def check_each_reduction_looks_at_the_switch():
    """The errors show that it was seen: the ranks do not agree."""
    for name, call in CALLS.items():
        call()
        on(hvd.rank() == 1)
        error = checks.raises(hvd.HorovodInternalError, call, 'Mismatched determinism')
        assert 'rank 1: asked' in str(error), (name, error)
        for value in (True, False):
            on(value)
            call()


def check_what_only_moves_does_not_care():
    on(hvd.rank() == 1)
    hvd.broadcast(torch.ones(4), 0)
    hvd.allgather(torch.ones(4))
    hvd.allgather_object('x')
    hvd.barrier()
    on(False)


def check_one_of_those_who_may_ask_is_enough():
    reigen.deterministic(hvd.rank() == 0)
    on(hvd.rank() == 1)
    hvd.allreduce(torch.ones(4))
    on(True)
    hvd.allreduce(torch.ones(4))
    on(False)
    checks.raises(hvd.HorovodInternalError, lambda: hvd.allreduce(torch.ones(4)), 'rank 0: asked')
    reigen.deterministic(False)
    reigen.allreduce([1.0])


if __name__ == '__main__':
    hvd.init()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0),
                                         named_parameters=[('w', weight)])
    checks.run(sys.modules[__name__])
    hvd.shutdown()
