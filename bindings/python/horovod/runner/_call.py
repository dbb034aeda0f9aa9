# SPDX-License-Identifier: Apache-2.0
"""How a function reaches the ranks, and how their results come back: through a directory that only
this user can enter, and which is removed again."""
import errno
import functools
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import traceback
from typing import Any, Callable, Dict, List, Optional, Sequence

import reigen
from reigen import _launcher

FUNCTION = 'function.pkl'
PATH_FILE = 'path.pkl'
#: The launcher's exit code of an elastic job whose hosts came or went once too often.
EXIT_RESET_LIMIT = 78


class JobFailed(RuntimeError):
    """A job ended with an exit code other than 0, its status. Says so as Horovod does, as programs
    look for its words, and then what else is known."""

    def __init__(self, status: int, rank: Optional[int] = None, more: str = ''):
        super().__init__(
            'Horovod detected that one or more processes exited with non-zero status, thus causing '
            'the job to be terminated. The first process to do so was:\n'
            f'Process name: {"unknown" if rank is None else rank}\nExit code: {status}\n' + (
                more or '\nWhich rank, and why, stands in the output above; `reigen explain '
                f'{status}` tells more of the code.'))
        self.status = status


def result_file(directory: str, place: str) -> str:
    """place: the rank, or its place in an elastic job, where others may get its number."""
    return os.path.join(directory, f'result.{place}.pkl')


def write_private(path: str, data: bytes) -> None:
    """Write a file that only its owner can read; it has its name when it is complete. A link stays
    one, and what is no file, as a pipe or a device, is written to and not replaced."""
    if os.path.islink(path) and os.lstat(path).st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, 'it is a link of somebody else', path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, 'wb') as out:
            out.write(data)
        return
    folder, name = os.path.split(os.path.realpath(path))
    with tempfile.NamedTemporaryFile(dir=folder, prefix=name, delete=False) as out:
        out.write(data)
    os.replace(out.name, os.path.join(folder, name))


def dumps(value: Any) -> bytes:
    """cloudpickle's bytes where it is installed, else pickle's."""
    try:
        import cloudpickle
    except ImportError:
        cloudpickle = None
    if cloudpickle is not None:
        return cloudpickle.dumps(value)
    main = sys.modules.get('__main__')
    parts = (value.func, *value.args) if isinstance(value, functools.partial) else (value,)
    if any(getattr(part, '__module__', None) == '__main__' and callable(part) for part in parts):
        raise pickle.PicklingError(
            'A function of the script itself '
            f'({getattr(main, "__file__", "interactive")}) cannot travel without the package '
            'cloudpickle: pip install cloudpickle, or put the function into a module.')
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise pickle.PicklingError(
            f'{error}. Lambdas and functions inside functions can travel with the package '
            'cloudpickle: pip install cloudpickle.') from error


def launch_command(command: Sequence[str], flags: Sequence[str], env: Dict[str, str]) -> None:
    """Run a command on the ranks that horovodrun's flags describe. JobFailed when it fails."""
    status = subprocess.call([_launcher.find(), 'horovodrun', *flags, '--', *command], env=env)
    if status:
        raise JobFailed(status)


def launch_function(func: Callable[[], Any], flags: Sequence[str], env: Dict[str, str],
                    executable: Optional[str], wanted: int = 0) -> List[Any]:
    """Run func on the ranks that horovodrun's flags describe; the results by rank. wanted: only
    those of so many ranks, the first that there are in the end; 0: those of all ranks."""
    data = dumps(func)
    directory = tempfile.mkdtemp(prefix='reigen-run-')
    try:
        write_private(os.path.join(directory, FUNCTION), data)
        # The ranks find the modules that this process finds, the function's among them.
        write_private(os.path.join(directory, PATH_FILE), pickle.dumps(list(sys.path)))
        home = os.path.dirname(os.path.dirname(os.path.abspath(reigen.__file__)))
        command = [executable or sys.executable, '-c',
                   f'import sys; {home!r} in sys.path or sys.path.append({home!r}); '
                   'from horovod.runner import run_task; run_task.main(sys.argv[1])', directory]
        try:
            launch_command(command, flags, env)
        except JobFailed as failed:
            _tell_first(_found(directory), failed.status)
            raise
        return _gather(_found(directory), wanted)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _found(directory: str) -> List[Any]:
    """(well, when, rank, size, text or bytes) of each rank that has left something, as they
    ended."""
    found = []
    for name in os.listdir(directory):
        if name.startswith('result.') and name.endswith('.pkl'):
            with open(os.path.join(directory, name), 'rb') as stream:
                found.append(pickle.load(stream))
    return sorted(found, key=lambda one: one[1])


def _tell_first(found: List[Any], status: int) -> None:
    """JobFailed with the traceback of the rank that failed first, if one has left it."""
    for well, _, rank, _, text in found:
        if not well:
            raise JobFailed(status, rank, f'\nThe function failed on rank {rank}:\n{text}')


def _gather(found: List[Any], wanted: int) -> List[Any]:
    """In an elastic job a rank may have failed, or a number may have been another rank's before."""
    results = {rank: data for well, _, rank, _, data in found if well}
    size = wanted or next((size for _, _, _, size, _ in found), 1)
    missing = sorted(set(range(size)) - set(results))
    if missing:
        raise RuntimeError(f'Rank {missing[0]} ended well but brought no result: did the function '
                           'leave the process by itself?')
    return [_loads(rank, results[rank]) for rank in range(size)]


def _loads(rank: int, data: bytes) -> Any:
    try:
        return pickle.loads(data)
    except Exception as error:
        raise RuntimeError(f'The result of rank {rank} cannot be read here: '
                           f'{traceback.format_exc()}') from error
