# SPDX-License-Identifier: Apache-2.0
"""An error that nobody catches, as the argument says, and what the user's own code sees of it."""
import sys
import threading
import traceback

import numpy as np

import reigen


def step():
    count = 3 + (reigen.rank() if reigen.is_initialized() else 0)
    return reigen.allreduce(np.ones(count), name='x')  # the user's line


def uncaught():
    reigen.init()
    step()


def chained():
    try:
        step()
    except reigen.OperationError as error:
        raise RuntimeError('the step failed') from error


def thread():
    worker = threading.Thread(target=step)
    worker.start()
    worker.join()


def caught():
    """Whoever catches it, or looks at it later, sees all of it."""
    try:
        step()
    except reigen.OperationError:
        traceback.print_exc()


def replaced():
    sys.excepthook = traceback.print_exception
    step()


def own():
    """A mistake of ours is no refusal."""
    from reigen import arrays
    arrays._operations = None
    step()


def misspelt():
    try:
        reigen.alreduce(np.ones(3))  # the user's line
    finally:
        print(stepp)  # noqa: F821


if __name__ == '__main__':
    {f.__name__: f for f in (uncaught, chained, thread, caught, replaced, own,
                             misspelt)}[sys.argv[1]]()
