# SPDX-License-Identifier: Apache-2.0
"""Running a shell command so that nothing of it is left behind."""
import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

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


# A line on its standard input says that all is well; the input's end without one, that we were
# killed. Then it does to the process group $1 what terminate_executor_shell_and_children() does.
_GUARD = '''read -r word && exit
kill -TERM "-$1" 2>/dev/null
tries=0
while kill -0 "-$1" 2>/dev/null && [ $tries -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -KILL "-$1" 2>/dev/null'''


class _Guard:
    """Ends a process group when this process is killed and can do nothing itself any more."""

    def __init__(self, group: int):
        # Of a session of its own, as a signal to this process's group is not meant for it.
        self._shell = subprocess.Popen(['/bin/sh', '-c', _GUARD, 'guard', str(group)],
                                       stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)

    def dismiss(self) -> None:
        try:
            self._shell.communicate(b'done\n')
        except BrokenPipeError:
            self._shell.wait()


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


def _start_guarded(command: Any, env: Optional[Dict[str, str]],
                   pipes: List[Optional[int]]) -> Tuple[subprocess.Popen, _Guard]:
    """Start the command, which begins once its guard is there: whenever this process is killed,
    either the guard ends the command, or it never begins."""
    argv = ['/bin/sh', '-c', command] if isinstance(command, str) else list(command)
    if shutil.which(argv[0], path=(os.environ if env is None else env).get('PATH')) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
    closed, gate = os.pipe()
    try:
        child = subprocess.Popen(
            ['/bin/sh', '-c', f'read -r go </proc/self/fd/{closed} && exec "$@"', 'sh', *argv],
            env=env, stdout=pipes[0], stderr=pipes[1], text=True, errors='replace',
            start_new_session=True, pass_fds=(closed,))
        guard = _Guard(child.pid)
        os.write(gate, b'go\n')
    finally:
        os.close(closed)
        os.close(gate)
    return child, guard


def execute(command: Any, env: Optional[Dict[str, str]] = None, stdout: Any = None,
            stderr: Any = None, index: Optional[int] = None,
            events: Optional[Iterable[threading.Event]] = None,
            prefix_output_with_timestamp: bool = False) -> int:
    """Run a shell command (or a list of arguments) to its end; its exit code. Its process group
    ends with this process, whatever ends that.

    stdout, stderr: streams of text to copy to; None: this program's own. events: when one of them
    is set, the command and its children are ended.
    """
    plain = index is None and not prefix_output_with_timestamp
    pipes = [subprocess.PIPE if stream is not None or not plain else None
             for stream in (stdout, stderr)]
    child, guard = _start_guarded(command, env, pipes)
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
        guard.dismiss()
    for copier in copiers:
        copier.join(GRACEFUL_TERMINATION_TIME_S)
    return child.returncode
