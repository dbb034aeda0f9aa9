# SPDX-License-Identifier: Apache-2.0
"""The peer torch.distributed with gloo. RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT as usual."""
import torch
import torch.distributed as dist

import measure


class TorchDistributed(measure.Contender):
    def __init__(self):
        dist.init_process_group('gloo')
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.many = {'many-calls': self.calls}

    def broadcast(self, value):
        tensor = torch.tensor([value])
        dist.broadcast(tensor, 0)
        return int(tensor[0])

    def barrier(self):
        dist.barrier()

    def out(self, tensor):
        result = tensor.clone()
        dist.all_reduce(result)
        return result

    def inplace(self, tensor):
        dist.all_reduce(tensor)
        return tensor

    def calls(self, tensors):
        for work in [dist.all_reduce(t, async_op=True) for t in tensors]:
            work.wait()


if __name__ == '__main__':
    torch.set_num_threads(1)
    measure.main(TorchDistributed())
    dist.destroy_process_group()
