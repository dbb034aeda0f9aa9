# SPDX-License-Identifier: Apache-2.0
"""Running a shell command so that nothing of it is left behind."""
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, Optional

GRACEFUL_TERMINATION_TIME_S = 5


def _signal_group(pid: int, signum: int) -> bool:
    try:
        os.killpg(pid, signum)
        return True
    except (ProcessLookupError, PermissionError):
        return False


def terminate_executor_shell_and_children(pid: int,
                                          reap: Optional[Callable] = None) -> None:
    """End the process group that pid leads: SIGTERM, and SIGKILL to what is left after
    GRACEFUL_TERMINATION_TIME_S. reap: called meanwhile, to wait for children of the caller's."""
    if not _signal_group(pid, signal.SIGTERM):
        return
    deadline = time.monotonic() + GRACEFUL_TERMINATION_TIME_S
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if reap is not None:
            reap()
        if not _signal_group(pid, 0):
            return
    _signal_group(pid, signal.SIGKILL)


def prefix_connection(src_connection: Any, dst_stream: Any, prefix: Optional[str],
                      index: Optional[int], prefix_output_with_timestamp: bool) -> None:
    """Copy text lines until the end, with '[index]<prefix>:' and, if asked for, the time before
    each where index and prefix are given."""
    for line in src_connection:
        if index is not None and prefix is not None:
            when = time.strftime('%a %b %d %H:%M:%S %Y') if prefix_output_with_timestamp else ''
            line = f'{when}[{index}]<{prefix}>:{line}'
        dst_stream.write(line)
        dst_stream.flush()


def execute(command: Any, env: Optional[Dict[str, str]] = None, stdout: Any = None,
            stderr: Any = None, index: Optional[int] = None,
            events: Optional[Iterable[threading.Event]] = None,
            prefix_output_with_timestamp: bool = False) -> int:
    """Run a shell command (or a list of arguments) to its end; its exit code.

    stdout, stderr: streams of text to copy to; None: this program's own. events: when one of them
    is set, the command and its children are ended.
    """
    plain = index is None and not prefix_output_with_timestamp
    pipes = [subprocess.PIPE if stream is not None or not plain else None
             for stream in (stdout, stderr)]
    child = subprocess.Popen(command, shell=isinstance(command, str), env=env, stdout=pipes[0],
                             stderr=pipes[1], text=True, errors='replace', start_new_session=True)
    copiers = []
    for source, target, name in ((child.stdout, stdout or sys.stdout, 'stdout'),
                                 (child.stderr, stderr or sys.stderr, 'stderr')):
        if source is not None:
            copiers.append(threading.Thread(target=prefix_connection, daemon=True, args=(
                source, target, name, index, prefix_output_with_timestamp)))
            copiers[-1].start()
    try:
        while child.poll() is None:
            if any(event.is_set() for event in events or ()):
                terminate_executor_shell_and_children(child.pid, child.poll)
            try:
                child.wait(0.1)
            except subprocess.TimeoutExpired:
                pass
    finally:
        if child.poll() is None:
            terminate_executor_shell_and_children(child.pid, child.poll)
        child.wait()
    for copier in copiers:
        copier.join(GRACEFUL_TERMINATION_TIME_S)
    return child.returncode
