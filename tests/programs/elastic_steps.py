# SPDX-License-Identifier: Apache-2.0
"""A rank of an elastic job that counts steps until the file argv[1] is there: each step adds up
how many ranks there are. It writes a line for each event, so that a test can follow it:

    place P pid N           at the start
    train R of S at B   when the loop begins, again and again
    step B size S       rank 0, for each step that is committed
    done R of S

Where there is a file argv[2]-P, place P ends by itself: with the code in it, or 3. With PLAIN in
the environment it knows nothing of elastic jobs. With SAVES it asks to be told of the end, and says

    saved R at B

when it is to save its work; where there is a file of that name, it stops committing then.
With AGAIN, a pipe, it says "leaves P" and starts its runtime anew when it has read a byte there.
With LINGER, likewise, all but rank 0 stay when they are done.
In a job that is not elastic, P is the rank.
"""
import os
import signal
import sys
from array import array

import reigen
from horovod.common.elastic import ObjectState, run_fn

STOP, FAIL = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ''


def say(*words):
    print(*words, flush=True)


def reset():
    reigen.shutdown()
    reigen.init()


def train(state):
    say('train', reigen.rank(), 'of', reigen.size(), 'at', state.batch)
    while not state.over:
        number = array('q', [1])
        size = reigen.synchronize(reigen.allreduce_async(number, op=reigen.Sum, name='step'))[0]
        assert size == reigen.size(), (size, reigen.size())
        if FAIL and os.path.exists(f'{FAIL}-{PLACE}'):
            with open(f'{FAIL}-{PLACE}', encoding='ascii') as file:
                sys.exit(int(file.read() or 3))
        state.batch += 1
        state.over = reigen.broadcast_object(os.path.exists(STOP), 0, name='over')
        while os.path.exists(SAVES):
            signal.pause()
        state.commit()
        if reigen.rank() == 0:
            say('step', state.batch, 'size', reigen.size())


def wait_for(pipe):
    os.read(os.open(os.environ[pipe], os.O_RDONLY), 1)


class Plain:
    """The state of a program that knows nothing of other ranks."""
    batch, over = 0, False

    def commit(self):
        pass


PLACE, SAVES = os.environ.get('REIGEN_PLACE', os.environ['RANK']), os.environ.get('SAVES', '')
say('place', PLACE, 'pid', os.getpid(), 'rank', os.environ['RANK'], os.environ['WORLD_SIZE'],
    'restarts', os.environ.get('REIGEN_RESTART_COUNT', 0))
reigen.init()
if 'PLAIN' in os.environ:
    train(Plain())
else:
    kept = ObjectState(reigen.broadcast_object, reigen.rank, batch=0, over=False)
    if SAVES:
        kept.register_preemption_callbacks([lambda: say('saved', reigen.rank(), 'at', kept.batch)])
    if 'AGAIN' in os.environ:
        reigen.shutdown()
        say('leaves', PLACE)
        wait_for('AGAIN')
        reigen.init()
    run_fn(train, reset)(kept)
say('done', reigen.rank(), 'of', reigen.size())
if 'LINGER' in os.environ and reigen.rank() > 0:
    wait_for('LINGER')
