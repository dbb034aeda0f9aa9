# SPDX-License-Identifier: Apache-2.0
"""What each test took before, and the limit that follows from it.

A test that hangs is to cost a minute and not the run: it may take TIMES what it took before, at
least LEAST_S, and that times what the machine is granted now (wait.patience()). A test that nobody
has seen yet has a general limit, and so has each test's setup, which makes what others use as well.

The record lies beside the simulated hosts, which are kept from run to run. What took.txt says holds
where there is none; it has the tests that take long, and `python3 tests/took.py` prints it anew.
"""
import contextlib
import fcntl
import json
import os
import sys
from pathlib import Path

from wait import patience

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(os.environ.get('REIGEN_BED_DIR', ROOT / 'build/bed')) / 'took.json'
COMMITTED = ROOT / 'tests/took.txt'
TIMES, LEAST_S = 10, 20.0
#: What is shorter has the least limit anyway.
LISTED_S = 6.0
#: How much of what a slow run took is forgotten at each quicker one.
FORGOTTEN = 0.25


def committed(path=COMMITTED):
    """What took.txt says: seconds by name."""
    lines = path.read_text(encoding='utf-8').splitlines() if path.exists() else []
    return {name: float(seconds) for seconds, name in
            (line.split(' ', 1) for line in lines if line and not line.startswith('#'))}


def measured(path=RECORD):
    """What earlier runs wrote down; nothing where that cannot be read."""
    try:
        return {str(name): float(seconds) for name, seconds in
                json.loads(path.read_text(encoding='utf-8')).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def holds():
    """Whether what a test takes is its own affair: not where somebody says for how long to try."""
    return not any(name in os.environ for name in ('REIGEN_SWEEP_SECONDS', 'REIGEN_FUZZ_SECONDS'))


def known():
    return {**committed(), **measured()}


def remembered(before, seconds):
    """Of several times the longest, which quicker ones make forgotten step by step."""
    return seconds if before is None or seconds > before else \
        before + FORGOTTEN * (seconds - before)


def add(times, path=RECORD):
    """Take what tests that passed have just taken into the record. Several processes may do so at
    once; where nothing can be written, nothing is."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_suffix('.lock'), 'a', encoding='utf-8') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            record = measured(path)
            for name, seconds in times.items():
                record[name] = round(remembered(record.get(name), seconds), 2)
            fresh = path.with_suffix(f'.{os.getpid()}')
            fresh.write_text(json.dumps(record, indent=0, sort_keys=True), encoding='utf-8')
            fresh.replace(path)


def limit_s(name, general_s, times=None, least_s=LEAST_S):
    """How many seconds the test may take now, where a new one may take a quiet machine general_s,
    and none has to be quicker than least_s."""
    before = (known() if times is None else times).get(name)
    return (general_s if before is None else max(TIMES * before, least_s)) * patience()


def main():
    print('# Seconds that tests took, of those that take long; tests/took.py wrote this.')
    for name, seconds in sorted(measured().items()):
        if seconds >= LISTED_S:
            print(f'{seconds:.0f} {name}')


if __name__ == '__main__':
    sys.exit(main())
