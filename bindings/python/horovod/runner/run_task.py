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
    with open(os.path.join(directory, PATH_FILE), 'rb') as stream:
        sys.path += [entry for entry in pickle.load(stream) if entry not in sys.path]
    try:
        with open(os.path.join(directory, FUNCTION), 'rb') as stream:
            func = pickle.load(stream)
        well, result = True, dumps(func())
    except BaseException:
        # sys.exit(), too: it brings no result.
        traceback.print_exc()
        well, result = False, traceback.format_exc()
    # An elastic job may have given it other numbers meanwhile.
    rank, size = int(os.environ['HOROVOD_RANK']), int(os.environ['HOROVOD_SIZE'])
    place = os.environ.get('REIGEN_PLACE', str(rank))
    outcome = (well, time.time(), rank, size, result)
    write_private(result_file(directory, place), pickle.dumps(outcome))
    return well


def main(directory: str) -> None:
    if not call(directory):
        _core.failed = True
        sys.exit(1)
