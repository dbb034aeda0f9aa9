# SPDX-License-Identifier: Apache-2.0
"""A rank of an elastic job that fails, and waits for other hosts, as a schedule says.

usage: scheduled.py LOG JSON    the JSON has the arguments of run()

Rank 0 writes a line of JSON to LOG for each of the epochs of training: what it was at its start,
and what it is now. A discovery script that counts these lines knows how far training is.
"""
import json
import os
import signal
import sys
from array import array
from pathlib import Path

import reigen
from horovod.common.elastic import ObjectState, run_fn

sys.path.append(str(Path(__file__).resolve().parents[1]))
from wait import until  # noqa: E402

EPOCHS, BATCHES = 3, 4


def reset():
    reigen.shutdown()
    reigen.init()


def run(log, exits=(), kill=False, changes=()):
    """Train for three epochs; returns rank, size and how many batches all ranks have counted.

    exits: [epoch, ranks]: who began as one of these ranks fails when that epoch begins, by an
    exception or a SIGKILL. changes: other hosts are waited for at the end of these epochs.
    """
    first, host = int(os.environ['HOROVOD_RANK']), os.environ['HOROVOD_HOSTNAME']
    reigen.init()

    def fail_in_time(state):
        if exits and state.epoch == exits[0] and state.batch == 0 and first in exits[1]:
            if kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError(f'rank {first} fails as it was told')

    def tell(state):
        with open(log, 'a') as out:
            out.write(json.dumps({'first': first, 'host': host, 'size': reigen.size(),
                                  'meeting': state.meetings}) + '\n')
        if state.epoch in changes:
            until(lambda: not state._host_messages.empty(), 'other hosts', 60)

    def train(state):
        state.meetings += 1
        while state.epoch < EPOCHS:
            while state.batch < BATCHES:
                fail_in_time(state)
                state.total += reigen.synchronize(
                    reigen.allreduce_async(array('q', [1]), op=reigen.Max, name='batch'))[0]
                state.batch += 1
                state.commit()
            if reigen.rank() == 0:
                tell(state)
            state.epoch, state.batch = state.epoch + 1, 0
            state.commit()
        return reigen.rank(), reigen.size(), state.total

    return run_fn(train, reset)(ObjectState(reigen.broadcast_object, reigen.rank, epoch=0, batch=0,
                                            total=0, meetings=0))


if __name__ == '__main__':
    run(sys.argv[1], **json.loads(sys.argv[2]))
