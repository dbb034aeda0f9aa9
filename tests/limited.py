# SPDX-License-Identifier: Apache-2.0
"""Run a C test with the limit that follows from what it took before (took.py), and write down what
it takes now. meson starts each test by this where tools/check.py runs them.

usage: tests/limited.py [WRAPPER...] PROGRAM [ARGUMENT...]

One that hangs is killed, with all that it has started, when stderr has where each thread was.
"""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import took

#: What a test that nobody has seen may take on a quiet machine.
GENERAL_S = 60
#: What the sanitizers make of it (tests/unit/help/limit.c).
SLOWER = {'build-asan': 2, 'build-tsan': 3}
HANG_STATUS = 99
PR_SET_CHILD_SUBREAPER = 36


def program_of(argv):
    """Where a build's program begins, behind wrappers such as setarch."""
    return next((Path(a) for a in argv if '/tests/' in a and os.access(a, os.X_OK)), Path(argv[0]))


def name_of(argv):
    """(the folder of the build, the test's name in the record)"""
    program = program_of(argv)
    folder = program.parents[1].name if len(program.parents) > 1 else ''
    return folder, f'{folder}/{program.name}'


def read(path):
    try:
        return Path(path).read_text(errors='replace').strip()
    except OSError:
        return '?'


def parents():
    """The parent of each process."""
    found = {}
    for entry in os.listdir('/proc'):
        if entry.isdigit():
            fields = read(f'/proc/{entry}/stat').rpartition(')')[2].split()
            if len(fields) > 1:
                found[int(entry)] = int(fields[1])
    return found


def descendants(pid):
    known, found = parents(), []
    for child in sorted(known):
        above = child
        while above in known and above != pid:
            above = known[above]
        if above == pid and child != pid:
            found.append(child)
    return found


def lines_of(pid):
    """Where each thread of a process is, as far as the kernel says."""
    command = read(f'/proc/{pid}/cmdline').replace('\0', ' ')
    yield f'process {pid}: {command[:200]}'
    try:
        tids = sorted(os.listdir(f'/proc/{pid}/task'), key=int)
    except OSError:
        tids = []
    for tid in tids:
        place = f'/proc/{pid}/task/{tid}'
        state = next((line.partition(':')[2].strip() for line in
                      read(f'{place}/status').splitlines() if line.startswith('State:')), '?')
        yield (f'    thread {tid} {read(f"{place}/comm")}, {state}, in the kernel at '
               f'{read(f"{place}/wchan")}, system call {read(f"{place}/syscall")}')


def kill(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end(argv, limit):
    """Say where all is, and kill it."""
    print(f'{" ".join(argv)}: not over within {limit:.0f} s; what it does:', file=sys.stderr)
    found = descendants(os.getpid())
    for pid in found:
        print('\n'.join(lines_of(pid)), file=sys.stderr, flush=True)
    while found:
        kill(found, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
        found = descendants(os.getpid())


def run(argv, limit):
    """The exit status; HANG_STATUS: it hung."""
    # What a killed parent leaves is ours to find, then.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(argv)
    try:
        status = child.wait(limit)
    except subprocess.TimeoutExpired:
        end(argv, limit)
        return HANG_STATUS
    return status if status >= 0 else 128 - status


def main(argv):
    folder, name = name_of(argv)
    slower = SLOWER.get(folder, 1)
    limit = took.limit_s(name, GENERAL_S * slower, least_s=took.LEAST_S * slower)
    start = time.monotonic()
    status = run(argv, limit)
    if status == 0:
        took.add({name: time.monotonic() - start})
    return status


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
