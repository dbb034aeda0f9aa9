# SPDX-License-Identifier: Apache-2.0
"""`import horovod.torch as hvd`: Reigen's under .venv/bin/python, Horovod's own with its wheel in
PYTHONPATH. One script, so that both are asked for the same."""
import torch
import horovod.torch as hvd

import measure


class Hvd(measure.Contender):
    def __init__(self):
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()
        self.many = {'many-calls': self.calls, 'many-grouped': self.grouped}

    def broadcast(self, value):
        return int(hvd.broadcast(torch.tensor([value]), root_rank=0, name='bench.value')[0])

    def barrier(self):
        hvd.barrier()

    def out(self, tensor):
        return hvd.allreduce(tensor, name=f'bench.{tensor.numel()}', op=hvd.Sum)

    def inplace(self, tensor):
        return hvd.allreduce_(tensor, name=f'bench.{tensor.numel()}', op=hvd.Sum)

    def calls(self, tensors):
        handles = [hvd.allreduce_async_(t, name=f'bench.{t.numel()}.{i}', op=hvd.Sum)
                   for i, t in enumerate(tensors)]
        for handle in handles:
            hvd.synchronize(handle)

    def grouped(self, tensors):
        hvd.grouped_allreduce_(tensors, name=f'bench.{tensors[0].numel()}', op=hvd.Sum)


if __name__ == '__main__':
    torch.set_num_threads(1)
    measure.main(Hvd())
    hvd.shutdown()
