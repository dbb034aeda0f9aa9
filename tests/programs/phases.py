# SPDX-License-Identifier: Apache-2.0
"""A rank that says which phase of a job it is in, and is struck where the test wants it to be.

    phases.py FOLDER elastic|plain|alone PLACE:PHASE:COUNT:HOW...

It counts steps until there is FOLDER/stop. `elastic`: by hvd.elastic.run; `plain`: it begins again
where a job starts it again; `alone`: it knows nothing of Reigen. Phases are start (nothing is
imported), meeting (about to call init), sync, step (a sum is in flight), commit, reforming (between
shutdown and init) and end (the last step is done). When PLACE comes to PHASE for the COUNT-th time
it does HOW to itself: kill, stop, exit, or a number of seconds for which it does something else,
such as a checkpoint; `now` only says that it is there. No more than once each.

In each step it reads the next part of the file TRIAL_PAGES, if there is one, page by page, and
again from the beginning.

    place P pid N host H    at the start
    struck PHASE place P rank R pid N at T    seconds of the monotonic clock
    step B size S           rank 0, for each step that is committed
    done P
"""
import mmap
import os
import signal
import sys
import time

FOLDER, KIND, *STRIKES = sys.argv[1:]
PLACE = os.environ.get('REIGEN_PLACE') or os.environ['RANK']
#: Between two steps, so that there are not too many.
PAUSE_S = 0.01
COUNTS = {}
#: Of TRIAL_PAGES, in each step.
PART_NBYTES = 2 << 20
#: By which number others call this rank now.
RANK = [os.environ['RANK']]


def say(*words):
    # In one piece, also where the process is killed at once.
    os.write(1, (' '.join(map(str, words)) + '\n').encode())


def first(name):
    try:
        os.close(os.open(f'{FOLDER}/{name}', os.O_CREAT | os.O_EXCL))
        return True
    except FileExistsError:
        return False


def at(phase):
    COUNTS[phase] = COUNTS.get(phase, 0) + 1
    for strike in STRIKES:
        place, where, count, how = strike.split(':')
        if (place, where, int(count)) == (PLACE, phase, COUNTS[phase]) and first(
                strike.replace(':', '-')):
            say('struck', phase, 'place', PLACE, 'rank', RANK[0], 'pid', os.getpid(), 'at',
                time.monotonic())
            if how == 'exit':
                os._exit(7)
            if how.isdigit():
                time.sleep(int(how))  # patient: it is busy with something else
            elif how != 'now':
                os.kill(os.getpid(), signal.SIGKILL if how == 'kill' else signal.SIGSTOP)


def stopping():
    return os.path.exists(f'{FOLDER}/stop')


say('place', PLACE, 'pid', os.getpid(), 'host', os.environ.get('LOGIN', 'here'))
at('start')


def alone():
    batch = 0
    while not stopping():
        at('step')
        batch += 1
        if PLACE == '0':
            say('step', batch, 'size', os.environ['WORLD_SIZE'])
        time.sleep(PAUSE_S)  # patient: what a step's own work would be
    at('end')


def reader():
    """What reads the next part."""
    if 'TRIAL_PAGES' not in os.environ:
        return lambda: None
    with open(os.environ['TRIAL_PAGES'], 'rb') as file:
        pages, begin = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), [0]

    def read():
        for page in range(begin[0], begin[0] + PART_NBYTES, mmap.PAGESIZE):
            assert pages[page % len(pages)] >= 0
        begin[0] = (begin[0] + PART_NBYTES) % len(pages)
    return read


def with_reigen():
    from array import array
    import reigen
    from horovod.common.elastic import ObjectState, run_fn

    class State(ObjectState):
        def sync(self):
            at('sync')
            super().sync()

    class Plain:
        batch, over = 0, False

        def commit(self):
            pass

    def reset():
        reigen.shutdown()
        at('reforming')
        reigen.init()

    read = reader()

    def train(state):
        RANK[0] = reigen.rank()
        while not state.over:
            handle = reigen.allreduce_async(array('q', [1] * 5000), op=reigen.Sum, name='sum')
            at('step')
            read()
            assert reigen.synchronize(handle)[0] == reigen.size()
            state.batch += 1
            state.over = reigen.broadcast_object(stopping(), 0, name='over')
            at('commit')
            state.commit()
            if reigen.rank() == 0:
                say('step', state.batch, 'size', reigen.size())
            time.sleep(PAUSE_S)  # patient: what a step's own work would be
        at('end')

    at('meeting')
    reigen.init()
    if KIND == 'elastic':
        run_fn(train, reset)(State(reigen.broadcast_object, reigen.rank, batch=0, over=False))
    else:
        train(Plain())
    reigen.shutdown()


alone() if KIND == 'alone' else with_reigen()
say('done', PLACE)
