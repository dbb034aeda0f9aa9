# SPDX-License-Identifier: Apache-2.0
"""How a test waits: for a condition, never for a time. A limit says what a quiet machine needs,
with room; it is multiplied by what this machine gives at that moment."""
import os
import time

#: What even a quiet machine grants, and what no machine is granted.
LEAST, MOST = 3, 20
#: What a test waits for on a quiet machine, where it says nothing else.
LIMIT_S = 20.0
LOOK_S = 0.01


def patience():
    """How many times longer than written a limit is now."""
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(LEAST, LEAST * busy), MOST)


def until(condition, what='what is waited for', seconds=LIMIT_S):
    """What condition() returns, once that is true. what: for the message when it does not become
    true within so many seconds of a quiet machine; a text, or a function that makes one then."""
    end = time.monotonic() + seconds * patience()
    while not (found := condition()):
        assert time.monotonic() < end, what() if callable(what) else f'{what}: it did not come'
        time.sleep(LOOK_S)
    return found
