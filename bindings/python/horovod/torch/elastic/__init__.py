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

    Operations between init() and the decorated function are among all ranks at the beginning of the
    job. A rank that comes later carries them out alone, as the others are at work already.
    """
    return run_fn(func, _reset)


def _reset() -> None:
    shutdown()
    init()
