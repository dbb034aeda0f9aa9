# SPDX-License-Identifier: Apache-2.0
"""One rank's side of horovod.run(): calls the function and leaves what came of it."""
import os
import pickle
import sys
import time
import traceback

from horovod.runner._call import FUNCTION, PATH_FILE, dumps, result_file, write_private
from reigen import _core


def call(directory: str) -> bool:
    """Call the function that lies in the directory and write the result there. False: it failed."""
    rank, size = int(os.environ['HOROVOD_RANK']), int(os.environ['HOROVOD_SIZE'])
    with open(os.path.join(directory, PATH_FILE), 'rb') as stream:
        sys.path += [entry for entry in pickle.load(stream) if entry not in sys.path]
    try:
        with open(os.path.join(directory, FUNCTION), 'rb') as stream:
            func, args, kwargs = pickle.load(stream)
        outcome = (True, time.time(), size, dumps(func(*args, **kwargs)))
    except BaseException:
        # sys.exit(), too: it brings no result.
        traceback.print_exc()
        outcome = (False, time.time(), size, traceback.format_exc())
    write_private(result_file(directory, rank), pickle.dumps(outcome))
    return outcome[0]


def main(directory: str) -> None:
    if not call(directory):
        _core.failed = True
        sys.exit(1)
