# SPDX-License-Identifier: Apache-2.0
"""A rank of bench/elastic.py that both Reigen and Horovod can run: steps of 5 ms with one allreduce
each, and a commit after each 10, until FOLDER/stop.

usage: elastic_hvd.py FOLDER

It writes lines to FOLDER/events-PLACE, as elastic_rank.py does; its place is its first rank.
"""
import os
import sys
import time

import torch
import horovod.torch as hvd

FOLDER, STEP_S, COMMIT, COUNT = sys.argv[1], 0.005, 10, 16 << 10
PLACE = os.environ['HOROVOD_RANK']
torch.set_num_threads(1)
out = open(f'{FOLDER}/events-{PLACE}', 'w', buffering=1, encoding='utf-8')
print('pid', f'{os.getpid():.6f}', file=out)


@hvd.elastic.run
def train(state):
    while not state.over:
        end = time.monotonic() + STEP_S
        while time.monotonic() < end:
            pass
        hvd.allreduce(torch.zeros(COUNT), name='gradient')
        state.step += 1
        if state.step % COMMIT == 0:
            stop = torch.tensor([float(os.path.exists(f'{FOLDER}/stop'))])
            state.over = bool(hvd.allreduce(stop, name='over', op=hvd.Sum))
            state.commit()
        print('step', f'{time.monotonic():.6f}', hvd.size(), file=out)


hvd.init()
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(hvd.elastic.TorchState(model, optimizer, step=0, over=False))
