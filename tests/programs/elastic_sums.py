# SPDX-License-Identifier: Apache-2.0
"""A rank of an elastic job that counts steps until the file argv[1] is there, and knows what every
sum has to be. It writes a line for each event, so that a test can follow it:

    place P pid N               at the start, before anything is imported
    train R of S at B epoch E pid N      when the loop begins, again and again
    sync epoch E pid N          when the state is about to be sent
    step B size S epoch E pid N          rank 0, for each step that is committed
    done R of S
    WRONG ...                   a sum or a state is not what it has to be: then it ends with 9
"""
import os
import sys

print('place', os.environ['REIGEN_PLACE'], 'pid', os.getpid(), flush=True)

import time  # noqa: E402 (after the line above)
from array import array  # noqa: E402

import reigen  # noqa: E402
from horovod.common.elastic import ObjectState, run_fn  # noqa: E402
from reigen import _core  # noqa: E402

#: Elements of what is summed up, in turns: both small ones and such as take a while.
COUNTS = (1, 700, 20_000, 300_000)
#: Of the state, so that its sync takes a while, too.
NBYTES = 3_000_000
#: Between two steps, so that there are not too many.
PAUSE_S = 0.004


def say(*words):
    print(*words, 'epoch', _core.epoch().number, 'pid', os.getpid(), flush=True)


def reset():
    reigen.shutdown()
    reigen.init()


def expect(what, found, wanted):
    if found != wanted:
        say('WRONG', what, found, 'and not', wanted)
        os._exit(9)


def check(state):
    expect('total', state.total, state.batch * (state.batch + 1) // 2)


def one_step(state):
    """Two sums in flight at once; each rank gives its number, times that of the step."""
    n, size, number = COUNTS[state.batch % len(COUNTS)], reigen.size(), state.batch + 1
    mine = array('q', [number * (reigen.rank() + 1)])
    handles = [reigen.allreduce_async(mine * n, op=reigen.Sum, name='long'),
               reigen.allreduce_async(mine, op=reigen.Sum, name='short')]
    long, short = [reigen.synchronize(handle) for handle in handles]
    wanted = number * size * (size + 1) // 2
    expect('ends', (int(long[0]), int(long[-1])), (wanted, wanted))
    expect('sum', sum(map(int, long[::97])), wanted * len(range(0, n, 97)))
    expect('short', int(short[0]), wanted)
    return wanted // (size * (size + 1) // 2)


class Synced(ObjectState):
    def sync(self):
        say('sync')
        super().sync()
        expect('bytes', len(self.ballast), NBYTES)


def train(state):
    check(state)
    say('train', reigen.rank(), 'of', reigen.size(), 'at', state.batch)
    while not state.over:
        state.total += one_step(state)
        state.batch += 1
        state.over = reigen.broadcast_object(os.path.exists(sys.argv[1]), 0, name='over')
        state.commit()
        check(state)
        if reigen.rank() == 0:
            say('step', state.batch, 'size', reigen.size())
        time.sleep(PAUSE_S)  # patient: what a step's own work would be


reigen.init()
run_fn(train, reset)(Synced(reigen.broadcast_object, reigen.rank, batch=0, total=0, over=False,
                            ballast=bytes(NBYTES)))
print('done', reigen.rank(), 'of', reigen.size(), flush=True)
