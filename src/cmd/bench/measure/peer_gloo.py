# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's gloo, one process for each rank, as reigen bench --peer gloo asks for it.

Reads a command per line and answers with one line: "ok [VALUE]", "unsupported WHY" or "error WHY".
RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are those of this job of its own.
"""
import sys
import time


def say(word, value=''):
    """One line, of at most 500 bytes whatever the error's language is."""
    line = ' '.join([word] + str(value).split()).encode('ascii', 'replace').decode()
    sys.stdout.write(line[:500] + '\n')
    sys.stdout.flush()


class Row:
    """One operation on a group of tensors."""

    def __init__(self, torch, dist, words):
        op, dtype, reduction, group, in_place, count, part = words
        self.dist, self.op, self.in_place = dist, op, in_place == '1'
        self.reduction = {'sum': dist.ReduceOp.SUM, 'min': dist.ReduceOp.MIN,
                          'max': dist.ReduceOp.MAX,
                          'product': dist.ReduceOp.PRODUCT}.get(reduction)
        if op in ('allreduce', 'reducescatter') and self.reduction is None:
            raise RuntimeError('it has no ' + reduction)
        count, part, kind = int(count), int(part), getattr(torch, dtype)
        sizes = {'allgather': (part, count), 'reducescatter': (count, part)}
        ins, outs = sizes.get(op, (count, count))
        self.pairs = [(torch.zeros(ins, dtype=kind), torch.zeros(outs, dtype=kind))
                      for _ in range(int(group))]

    def start(self, pair):
        source, out = pair
        if self.op == 'allreduce':
            if not self.in_place:
                out.copy_(source)
            return self.dist.all_reduce(out, self.reduction, async_op=True)
        if self.op == 'broadcast':
            return self.dist.broadcast(out, 0, async_op=True)
        if self.op == 'allgather':
            return self.dist.all_gather_into_tensor(out, source, async_op=True)
        if self.op == 'alltoall':
            return self.dist.all_to_all_single(out, source, async_op=True)
        if self.op == 'reducescatter':
            return self.dist.reduce_scatter_tensor(out, source, self.reduction, async_op=True)
        raise RuntimeError('it has no ' + self.op)

    def perform(self):
        if self.op == 'barrier':
            self.dist.barrier()
            return
        for work in [self.start(pair) for pair in self.pairs]:
            if work is not None:
                work.wait()

    def run(self, n):
        began = time.perf_counter()
        for _ in range(n):
            self.perform()
        return time.perf_counter() - began


def main():
    try:
        import torch
        import torch.distributed as dist
        torch.set_num_threads(1)
    except Exception as error:
        say('error', f'{sys.executable}: {error}')
        return
    say('ok', torch.__version__)
    row = None
    for line in sys.stdin:
        words = line.split()
        try:
            if words[0] == 'join':
                dist.init_process_group('gloo')
                say('ok')
            elif words[0] == 'begin':
                row = None
                try:
                    row = Row(torch, dist, words[1:])
                    row.perform()
                    say('ok')
                except Exception as error:
                    say('unsupported', error)
            else:
                say('ok', repr(row.run(int(words[1]))))
        except Exception as error:
            say('error', error)
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == '__main__':
    main()
