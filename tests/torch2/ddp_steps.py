# SPDX-License-Identifier: Apache-2.0
"""A script of DDP as people write it for torchrun: it knows nothing of Reigen or of elastic jobs,
and begins at its last checkpoint.

usage: ddp_steps.py FOLDER BACKEND

At step 6 of its first start all ranks wait until the test has stopped one of them, if there is a
FOLDER/hold. Rank 0 says at the end what the parameters are.
"""
import hashlib
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

FOLDER, BACKEND = Path(sys.argv[1]), sys.argv[2]
STEPS, HOLD = 12, 6
RANK, SIZE = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
RESTARTS = int(os.environ['TORCHELASTIC_RESTART_COUNT'])


def batch(step):
    """A step's examples, of which each rank has an equal part."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(16, 4, generator=generator).chunk(SIZE)[RANK]


def main():
    dist.init_process_group(BACKEND)
    assert (dist.get_rank(), dist.get_world_size()) == (RANK, SIZE)
    assert os.environ['ROLE_RANK'] == str(RANK) and dist.is_torchelastic_launched()
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint, first = FOLDER / 'checkpoint', 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved['model'])
        first = saved['step']
    print(f'place {os.environ.get("REIGEN_PLACE")} on {os.environ.get("LOGIN")} pid {os.getpid()}',
          flush=True)
    print(f'rank {RANK} of {SIZE} begins at {first}, restart {RESTARTS}', flush=True)
    for step in range(first, STEPS):
        while step == HOLD and not RESTARTS and (FOLDER / 'hold').exists():
            time.sleep(0.01)  # patient: until the test has ended a rank
            dist.barrier()
        examples = batch(step)
        loss = (model(examples) - examples.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if RANK == 0:
            torch.save({'model': model.state_dict(), 'step': step + 1}, FOLDER / 'new')
            (FOLDER / 'new').rename(checkpoint)
    if RANK == 0:
        numbers = torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()
        print('parameters', hashlib.sha256(numbers.tobytes()).hexdigest(), *numbers, flush=True)
    dist.destroy_process_group()


main()
