# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition, for every test that is written in Python.

A test waits for what happened and never for a time: until() looks often, and gives up when even a
busy machine would have been done. Its text then says what was waited for and what was seen last.
"""
import contextlib
import os
import sys
import time

#: What even a quiet machine grants, and what no machine is granted.
LEAST, MOST = 3, 20
#: Seconds between two looks, at first and at most.
FINE_S, COARSE_S = 0.005, 0.05
#: A look may cost a process, such as kubectl. Then this many times what it took of a processor is
#: left to what is waited for, up to so many seconds.
LEFT, LEFT_MOST_S = 4, 1.0


def patience():
    """How many times longer than written a limit is now; REIGEN_TEST_PATIENCE says otherwise."""
    if 'REIGEN_TEST_PATIENCE' in os.environ:
        return float(os.environ['REIGEN_TEST_PATIENCE'])
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(max(LEAST, LEAST * busy), MOST)


def crowd():
    """How many times longer what is promised of a quiet machine may take on this one now: 1 on a
    quiet one, and else as many as programs want each core, as patience() counts them."""
    return max(1, patience() / LEAST)


def soon(since, seconds):
    """Whether no more time has passed since then, of time.monotonic(), than this machine may need
    now for what takes a quiet one so many seconds."""
    return time.monotonic() < since + seconds * patience()


@contextlib.contextmanager
def told(what):
    """Where the limit of the whole test ends what is within, its report has what() as well."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        print(f'this was waited for: {what()}', file=sys.stderr)
        raise


def spent_s():
    """What this process and those that it has waited for have taken of the processors."""
    return sum(os.times()[:4])


def until(condition, what, seconds=20.0, seen=None, error=AssertionError):
    """What condition() returns, once that is true; else `error` after `seconds`, which say what a
    quiet machine needs. `what` was waited for; seen(), or the last answer, is shown then."""
    began, nap, found = time.monotonic(), FINE_S, None
    with told(lambda: f'{what}; last seen: {found}'):
        while True:
            before = spent_s()
            found = condition()
            if found:
                return found
            cost = spent_s() - before
            waited = time.monotonic() - began
            if waited >= seconds * patience():
                last = seen() if seen else found
                raise error(f'{what}: not within {waited:.1f} s; last seen: {last}')
            time.sleep(max(nap, min(LEFT * cost, LEFT_MOST_S)))
            nap = min(nap * 1.5, COARSE_S)
