# SPDX-License-Identifier: Apache-2.0
"""Elastic training with PyTorch: hvd.elastic.run, TorchState and ElasticSampler."""
from typing import Callable

from horovod.common.elastic import run_fn
from horovod.torch.elastic.sampler import ElasticSampler
from horovod.torch.elastic.state import TorchState
from horovod.torch.mpi_ops import init, shutdown

__all__ = ['ElasticSampler', 'TorchState', 'run']


def run(func: Callable) -> Callable:
    """Decorator: func(state, ...) is called again, from a state that all ranks share, when ranks
    are lost or come. Its first argument is a horovod.common.elastic.State.

    Do not use operations between init() and the decorated function: a rank that comes later would
    carry them out while the others synchronise their state.
    """
    return run_fn(func, _reset)


def _reset() -> None:
    shutdown()
    init()
