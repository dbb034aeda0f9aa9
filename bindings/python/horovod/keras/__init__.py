# SPDX-License-Identifier: Apache-2.0
"""Horovod for Keras: `import horovod.keras as hvd`.

With Keras 3 on PyTorch (KERAS_BACKEND=torch) TensorFlow is not imported.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))
    model.compile(optimizer=optimizer, ...)
    model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""
from typing import Any, Optional

import keras

import horovod._keras as _impl
from horovod._keras.groups import check_groups
from horovod._keras.offered import functions

_hvd = _impl.framework(keras.backend).hvd

Adasum = _hvd.Adasum
Average = _hvd.Average
Compression = _hvd.Compression
Max = _hvd.Max
Min = _hvd.Min
Product = _hvd.Product
ProcessSet = _hvd.ProcessSet
Sum = _hvd.Sum
add_process_set = _hvd.add_process_set
allgather_object = _hvd.allgather_object
broadcast_object = _hvd.broadcast_object
ccl_built = _hvd.ccl_built
cross_rank = _hvd.cross_rank
cross_size = _hvd.cross_size
cuda_built = _hvd.cuda_built
ddl_built = _hvd.ddl_built
diagnose = _hvd.diagnose
global_process_set = _hvd.global_process_set
gloo_built = _hvd.gloo_built
gloo_enabled = _hvd.gloo_enabled
init = _hvd.init
is_homogeneous = _hvd.is_homogeneous
is_initialized = _hvd.is_initialized
local_rank = _hvd.local_rank
local_size = _hvd.local_size
mpi_built = _hvd.mpi_built
mpi_enabled = _hvd.mpi_enabled
mpi_threads_supported = _hvd.mpi_threads_supported
nccl_built = _hvd.nccl_built
rank = _hvd.rank
remove_process_set = _hvd.remove_process_set
rocm_built = _hvd.rocm_built
shutdown = _hvd.shutdown
size = _hvd.size
start_timeline = _hvd.start_timeline
stop_timeline = _hvd.stop_timeline

_functions = functions(keras, __name__)
allgather = _functions.allgather
broadcast = _functions.broadcast
broadcast_global_variables = _functions.broadcast_global_variables
load_model = _functions.load_model
reducescatter = _functions.reducescatter

from horovod.keras import callbacks, elastic  # noqa: E402  they need the names above


# These three take their arguments in another way than in horovod.tensorflow.keras.
def DistributedOptimizer(optimizer: Any, name: Optional[str] = None, device_dense: str = '',
                         device_sparse: str = '', compression=Compression.none,
                         sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
                         op: int = Average, num_groups: int = 0, groups=None,
                         backward_passes_per_step: int = 1,
                         average_aggregated_gradients: bool = False,
                         process_set: ProcessSet = global_process_set,
                         scale_local_gradients: bool = True) -> Any:
    arguments = dict(locals(), groups=check_groups(num_groups, groups), num_groups=0)
    return _functions.DistributedOptimizer(**arguments)


def PartialDistributedOptimizer(optimizer: Any, name: Optional[str] = None, device_dense: str = '',
                                device_sparse: str = '', compression=Compression.none,
                                sparse_as_dense: bool = False,
                                gradient_predivide_factor: float = 1.0, op: int = Average,
                                groups=None, process_set: ProcessSet = global_process_set,
                                local_layers=None, scale_local_gradients: bool = True,
                                backward_passes_per_step: int = 1,
                                average_aggregated_gradients: bool = False) -> Any:
    return _functions.PartialDistributedOptimizer(**locals())


def allreduce(value: Any, name: Optional[str] = None, average: Optional[bool] = True,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              op: Optional[int] = None, compression=Compression.none):
    average = None if average or op is not None else average
    return _functions.allreduce(value, name, average, prescale_factor, postscale_factor, op,
                                compression)


for _function in (DistributedOptimizer, PartialDistributedOptimizer, allreduce):
    _function.__doc__ = getattr(_functions, _function.__name__).__doc__
allreduce.__doc__ += ' `op` goes before `average`.'
