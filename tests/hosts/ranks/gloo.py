# SPDX-License-Identifier: Apache-2.0
"""A rank of torch.distributed that knows nothing of Reigen."""
import os

import torch
import torch.distributed as dist

dist.init_process_group('gloo', init_method='env://')
tensor = torch.ones(1000) * (dist.get_rank() + 1)
dist.all_reduce(tensor)
print(f'torch {dist.get_rank()} of {dist.get_world_size()} on {os.uname().nodename}: '
      f'{tensor[999].item():g}', flush=True)
dist.destroy_process_group()
