# SPDX-License-Identifier: Apache-2.0
"""Horovod for PyTorch: `import horovod.torch as hvd`.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
"""
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,
                                         remove_process_set)
from horovod.common.util import check_extension
from horovod.torch import autograd, elastic, mpi_ops
from horovod.torch.autograd import (HorovodAllgather, HorovodAllreduce, HorovodAlltoall,
                                    HorovodBroadcast, HorovodGroupedAllgather,
                                    HorovodGroupedAllreduce, HorovodGroupedReducescatter,
                                    HorovodReducescatter, allgather, allreduce, alltoall,
                                    broadcast, grouped_allgather, grouped_allreduce,
                                    grouped_reducescatter, reducescatter)
from horovod.torch.compression import Compression
from horovod.torch.functions import (allgather_object, broadcast_object,
                                     broadcast_optimizer_state, broadcast_parameters)
from horovod.torch.mpi_ops import (Adasum, Average, Max, Min, Product, Sum, allgather_async,
                                   allreduce_, allreduce_async, allreduce_async_, alltoall_async,
                                   barrier, broadcast_, broadcast_async, broadcast_async_,
                                   ccl_built, cross_rank, cross_size, cuda_built, ddl_built,
                                   diagnose,
                                   gloo_built, gloo_enabled, grouped_allgather_async,
                                   grouped_allreduce_, grouped_allreduce_async,
                                   grouped_allreduce_async_, grouped_reducescatter_async, init,
                                   is_homogeneous, is_initialized, join, local_rank, local_size,
                                   mpi_built, mpi_enabled, mpi_threads_supported, nccl_built, poll,
                                   rank, reducescatter_async, rocm_built, shutdown, size,
                                   sparse_allreduce_async, start_timeline, stop_timeline,
                                   synchronize)
from horovod.torch.optimizer import DistributedOptimizer, _DistributedOptimizer
from horovod.torch.sync_batch_norm import SyncBatchNorm
from reigen.torch import _untraced

__all__ = [name for name in dir() if not name.startswith('_')]

# Horovod has the differentiable forms in mpi_ops, too.
for _name, _value in vars(autograd).items():
    if not hasattr(mpi_ops, _name):
        setattr(mpi_ops, _name, _value)


def _check_has_gpu() -> bool:
    import torch
    return torch.cuda.is_available()


_untraced.hide('horovod')
