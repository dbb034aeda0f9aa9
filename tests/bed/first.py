# SPDX-License-Identifier: Apache-2.0
"""A process and its children go before all others of the machine, for what measures time."""
import contextlib
import os
from pathlib import Path

CGROUPS = Path('/sys/fs/cgroup')
#: Of every other group 1024 (or 100): the rest of the machine gets little, but does not stand.
SHARES = {'cpu.shares': '131072', 'cpu.weight': '10000'}


@contextlib.contextmanager
def first():
    """This process and what it starts, within. Without the right to it, or without a cgroup of
    CPUs, nothing happens. What a killed process leaves, the next cluster's sweep removes."""
    own = make()
    if not own:
        yield
        return
    try:
        (own / 'cgroup.procs').write_text(str(os.getpid()))
        yield
    finally:
        (own.parent / 'cgroup.procs').write_text(str(os.getpid()))
        with contextlib.suppress(OSError):
            own.rmdir()


def make():
    """A cgroup with a large share of the CPUs, or None."""
    parent = CGROUPS / 'cpu' if (CGROUPS / 'cpu').is_dir() else CGROUPS
    own = parent / f'reigen-bed-library-{os.getpid()}'
    try:
        own.mkdir()
    except OSError:
        return None
    for name, value in SHARES.items():
        with contextlib.suppress(OSError):
            if (own / name).exists():
                (own / name).write_text(value)
                return own
    own.rmdir()
    return None
