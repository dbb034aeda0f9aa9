# SPDX-License-Identifier: Apache-2.0
"""Steps of an elastic job without any framework, until the file that the first argument names is
there. A step adds one to a number that all ranks have; it is never lost and never added twice."""
import os
import sys

import numpy as np

import reigen
from horovod.common.basics import HorovodBasics
from horovod.common.elastic import ObjectState, run_fn

basics = HorovodBasics()


def reset():
    basics.shutdown()
    basics.init()


def work(state):
    print('epoch', os.environ['REIGEN_EPOCH'], 'rank', basics.rank(), 'size', basics.size(),
          'from', state.step, flush=True)
    while True:
        mine = [float(basics.rank() == 0 and os.path.exists(sys.argv[1])), state.step, 1.0]
        stop, steps, size = reigen.allreduce(np.array(mine), op=reigen.Sum, name='step')
        assert size == basics.size() and steps == state.step * size, (stop, steps, size, state.step)
        if stop:
            return state.step
        state.step += 1
        if state.step % 2 == 0:
            state.commit()


def main():
    basics.init()
    state = ObjectState(reigen.broadcast_object, reigen.rank, step=0)
    print('steps', run_fn(work, reset)(state), flush=True)
    basics.shutdown()


if __name__ == '__main__':
    main()
