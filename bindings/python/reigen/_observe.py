# SPDX-License-Identifier: Apache-2.0
"""Looking at a job while it runs: the timeline, and what each rank is doing."""
import ctypes
import errno
import os
from typing import Any, Dict

from reigen._core import last_error, not_initialized
from reigen._lib import lib, quick


def start_timeline(file_path: Any, mark_cycles: bool = False) -> None:
    """Write a timeline to this file from now on, in place of one that is being written.

    Rank 0 writes, the other ranks do nothing, unless the path has '{rank}' or '%r' in it.
    mark_cycles: mark each batch of operations that is carried out. Raises ValueError before
    init(), OSError when the file cannot be written.
    """
    path = os.fspath(file_path)
    rc = lib.reigen_timeline_start(os.fsencode(path), int(bool(mark_cycles)))
    if rc == -errno.ENOTCONN:
        raise ValueError(not_initialized())
    if rc == -errno.EINVAL:
        raise ValueError(last_error())
    if rc < 0:
        raise OSError(-rc, last_error(), path)


def stop_timeline() -> None:
    """Write what is left of the timeline and close its file. Raises ValueError before init()."""
    if lib.reigen_timeline_stop() < 0:
        raise ValueError(not_initialized())


class Diagnosis(Dict[str, Any]):
    """What each rank is doing: a dict for programs, and as a str a few lines for people."""

    def __str__(self) -> str:
        lines = [f'{self["size"]} ranks on {self["nodes"]} host(s), seen from rank {self["rank"]}']
        if self['failure']:
            lines.append(f'the job has failed: {self["failure"]}')
        for rank in sorted(self['ranks'], key=lambda r: r['rank']):
            lines.append(f'rank {rank["rank"]} on {rank["host"] or "this host"}: {_rank(rank)}')
        for what in self['pending']:
            lines.append(f'{what["name"]} waits for rank(s) '
                         f'{", ".join(map(str, what["missing"]))} since {what["seconds"]:.1f} s')
        if not self['pending'] and not self['failure']:
            lines.append('nothing waits for other ranks')
        if not self['complete']:
            lines.append('other hosts are not known from here; rank 0 can ask them')
        return '\n'.join(lines)


def _rank(rank: Dict[str, Any]) -> str:
    words = []
    if 'pid' in rank:
        where = f' in {rank["waits_in"]}' if 'waits_in' in rank else ''
        words.append(f'process {rank["pid"]} is {rank["state"]}{where}')
    if not rank['known']:
        return '; '.join([*words, 'nothing more is known'])
    if rank['left']:
        words.append('it has left the job')
    elif rank['joined']:
        words.append('it has joined')
    if rank['last'] is None:
        words.append('it has submitted nothing yet')
    else:
        words.append(f'{rank["operations"]} operations, the last of them {rank["last"]} about '
                     f'{rank["idle_seconds"]:.0f} s ago')
    return '; '.join(words)


def diagnose(timeout: float = 2.0) -> Diagnosis:
    """What each rank is doing: {'rank', 'size', 'nodes', 'complete', 'failure', 'ranks': [...],
    'pending': [...]}; docs/timeline.md has the fields, and str() of it is for people.

    The other ranks need not do anything for it, they may hang or be stopped. With several hosts
    rank 0 asks the others, at most `timeout` seconds; other ranks know their own host only. Raises
    ValueError before init().
    """
    import json

    text = ctypes.c_void_p()
    rc = lib.reigen_diagnose(int(timeout * 1000), ctypes.byref(text))
    if rc == -errno.ENOTCONN:
        raise ValueError(not_initialized())
    if rc < 0:
        raise OSError(-rc, last_error())
    try:
        return Diagnosis(json.loads(ctypes.string_at(text.value)))
    finally:
        quick.reigen_free(text)


def planes() -> str:
    """Which data plane serves which operation in this job, by group, type, memory and size: a table
    for people. Raises ValueError before init()."""
    text = ctypes.c_void_p()
    rc = lib.reigen_planes(ctypes.byref(text))
    if rc == -errno.ENOTCONN:
        raise ValueError(not_initialized())
    if rc < 0:
        raise OSError(-rc, last_error())
    try:
        return ctypes.string_at(text.value).decode()
    finally:
        quick.reigen_free(text)
