# SPDX-License-Identifier: Apache-2.0
"""Horovod for JAX: `import horovod.jax as hvd`.

    hvd.init()
    params = hvd.broadcast_parameters(params, root_rank=0)

    @hvd.jit
    def step(params, batch):
        loss, grads = hvd.distributed_value_and_grad(loss_of)(params, batch)
        return [p - 0.1 * g for p, g in zip(params, grads)], loss

Import it before the first array is made. Operations work inside and outside of jax.jit, on the CPU:
one process per rank, one device each.
"""
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from horovod.common.process_sets import (ProcessSet, add_process_set, global_process_set,
                                         remove_process_set)
from horovod.jax import elastic
from horovod.jax.compression import Compression
from horovod.jax.functions import (allgather_object, average_metrics, broadcast_object,
                                   broadcast_optimizer_state, broadcast_parameters)
from horovod.jax.mpi_ops import (Adasum, Average, Max, Min, Product, Sum, allgather, allreduce,
                                 alltoall, barrier, broadcast, ccl_built, cross_rank, cross_size,
                                 cuda_built, ddl_built, diagnose, gloo_built, gloo_enabled,
                                 grouped_allreduce, init, is_homogeneous, is_initialized, join,
                                 local_rank, local_size, mpi_built, mpi_enabled,
                                 mpi_threads_supported, nccl_built, rank, reducescatter,
                                 rocm_built, shutdown, size, start_timeline, stop_timeline)
from horovod.jax.optimizer import (DistributedGradientTransformation, DistributedOptimizer,
                                   distributed_grad, distributed_value_and_grad)
from reigen.jax import errors, jit

__all__ = [name for name in dir() if not name.startswith('_')]
