# SPDX-License-Identifier: Apache-2.0
"""A machine without NVIDIA's driver: CUDA tensors are refused, and the rest works."""
import torch

import checks
import horovod.torch as hvd
from reigen.torch import _device

hvd.init()
checks.raises(ValueError, lambda: _device.enter(0, 0), 'libcuda.so.1')
assert not hvd.cuda_built()
assert (hvd.allreduce(torch.ones(3), op=hvd.Sum) == hvd.size()).all()
assert hvd.join() >= 0 and hvd.join(hvd.local_rank()) >= 0
hvd.shutdown()
