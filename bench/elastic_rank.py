# SPDX-License-Identifier: Apache-2.0
"""A rank of bench/elastic.py, which says when it does what, by the clock of this computer.

usage: elastic_rank.py FOLDER STEPS COMMIT [MODULE...]

It imports the modules; then it takes steps of 5 ms with one allreduce each: STEPS, or as many
as come before FOLDER/stop. In an elastic job it commits after each COMMIT of them. Place P writes
lines to FOLDER/events-P: an event, the time in seconds, and for a step how many ranks took it.
"""
import time

BEGAN = time.monotonic()
# pylint: disable=wrong-import-position
import importlib  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from array import array  # noqa: E402

FOLDER, STEPS, COMMIT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for name in sys.argv[4:]:
    importlib.import_module(name)

import reigen  # noqa: E402
from horovod.common.elastic import ObjectState, run_fn  # noqa: E402

STEP_S, COUNT = 0.005, 16 << 10
PLACE = os.environ.get('REIGEN_PLACE', os.environ['RANK'])
out = open(f'{FOLDER}/events-{PLACE}', 'w', buffering=1, encoding='utf-8')


def say(event, when, *more):
    print(event, f'{when:.6f}', *more, file=out)


def reset():
    began = time.monotonic()
    reigen.shutdown()
    reigen.init()
    say('reset', time.monotonic() - began, reigen.size())


def train(state):
    gradient = array('f', bytes(4 * COUNT))
    while not state.over:
        end = time.monotonic() + STEP_S
        while time.monotonic() < end:
            pass
        reigen.synchronize(reigen.allreduce_async(gradient, name='gradient'))
        state.step += 1
        state.over = state.step == STEPS
        if not STEPS and state.step % COMMIT == 0:
            state.over = reigen.broadcast_object(os.path.exists(f'{FOLDER}/stop'), 0, name='over')
        if elastic and state.step % COMMIT == 0:
            state.commit()
        say('step', time.monotonic(), reigen.size())


class Plain:
    step, over = 0, False


print(f'place {PLACE} on {os.environ.get("LOGIN")} pid {os.getpid()}', flush=True)
say('began', BEGAN)
say('imported', time.monotonic())
elastic = os.environ.get('REIGEN_ELASTIC') == '1'
reigen.init()
if elastic:
    run_fn(train, reset)(ObjectState(reigen.broadcast_object, reigen.rank, step=0, over=False))
else:
    train(Plain())
