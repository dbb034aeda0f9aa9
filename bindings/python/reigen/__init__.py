# SPDX-License-Identifier: Apache-2.0
"""Reigen's runtime for Python: the collectives inside a data-parallel job.

    import reigen
    import reigen.torch

    reigen.init()
    total = reigen.torch.allreduce(tensor, op=reigen.Sum)

Most scripts want `import horovod.torch as hvd`, which is this with Horovod's names and semantics.
"""
from reigen._core import (Adasum, Average, Max, Min, Product, Sum, cross_rank, cross_size, describe,
                          init, is_homogeneous, is_initialized, local_rank, local_size, rank,
                          shutdown, size, stats, version)
from reigen.errors import HorovodInternalError, InvalidOperationError, OperationError

__version__ = '0.1.0'

__all__ = ['Adasum', 'Average', 'HorovodInternalError', 'InvalidOperationError', 'Max', 'Min',
           'OperationError', 'Product', 'Sum', 'cross_rank', 'cross_size', 'describe', 'init',
           'is_homogeneous', 'is_initialized', 'local_rank', 'local_size', 'rank', 'shutdown',
           'size', 'stats', 'version']
