# SPDX-License-Identifier: Apache-2.0
"""One rank's side of reigen.run() and horovod.run(): calls the function, and sends what came of
it."""
import os
import signal
import sys
import time
import traceback
from typing import Any, Tuple

from reigen import _core, _traceback, _travel


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the function may have put anything there
            pass


def _print(sender: _travel.Sender, token: str, error: BaseException) -> str:
    """Print the traceback without what stands below the function; its text."""
    with _traceback.shortened(error):
        text = ''.join(traceback.format_exception(type(error), error, error.__traceback__))
    _flush()
    sender.failing(token)
    sender.tell(text)
    return text


def _place() -> Tuple[int, int, str]:
    """Rank, size, and place. An elastic job may have given it other numbers meanwhile; where an
    mpirun has started it, the runtime knows them alone."""
    if 'HOROVOD_RANK' not in os.environ:
        _core.init()
        return _core.rank(), _core.size(), str(_core.rank())
    rank = os.environ['HOROVOD_RANK']
    return int(rank), int(os.environ['HOROVOD_SIZE']), os.environ.get('REIGEN_PLACE', rank)


_RESULT = 'Return what can be sent: numbers, arrays, a state_dict().'


def call(sender: _travel.Sender) -> bool:
    """Call the function. False: it failed."""
    parcel = _travel.receive()
    data: Any = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        data = _travel.dumps(_travel.unpack(parcel)(), 'The result', _RESULT)
        well = True
    except BaseException as error:
        # sys.exit(), too: it brings no result.
        well, data = False, _print(sender, parcel.token, error)
    _flush()
    rank, size, place = _place()
    sender.send(parcel.token, _travel.Outcome(well, time.time(), rank, size, place, data))
    return well


def main() -> None:
    if not call(_travel.Sender()):
        _core.failed = True
        sys.exit(1)
