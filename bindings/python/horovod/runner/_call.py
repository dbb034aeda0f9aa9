# SPDX-License-Identifier: Apache-2.0
"""How a function reaches the ranks, and how their results come back: through a directory that only
this user can enter, and which is removed again."""
import errno
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import traceback
from typing import Any, Callable, List, Optional, Sequence

import reigen
from reigen import _launcher

FUNCTION = 'function.pkl'
PATH_FILE = 'path.pkl'


def result_file(directory: str, rank: int) -> str:
    return os.path.join(directory, f'result.{rank}.pkl')


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
    if any(getattr(part, '__module__', None) == '__main__' and callable(part)
           for part in (value if isinstance(value, tuple) else (value,))):
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


def launch_function(func: Callable, args: tuple, kwargs: dict, flags: Sequence[str],
                    executable: Optional[str] = None) -> List[Any]:
    """Run func on the ranks that horovodrun's flags describe; the results by rank."""
    data = dumps((func, args, kwargs))
    directory = tempfile.mkdtemp(prefix='reigen-run-')
    try:
        write_private(os.path.join(directory, FUNCTION), data)
        # The ranks find the modules that this process finds, the function's among them.
        write_private(os.path.join(directory, PATH_FILE), pickle.dumps(list(sys.path)))
        home = os.path.dirname(os.path.dirname(os.path.abspath(reigen.__file__)))
        command = [_launcher.find(), 'horovodrun', *flags, '--', executable or sys.executable,
                   '-c', f'import sys; {home!r} in sys.path or sys.path.append({home!r}); '
                   'from horovod.runner import run_task; run_task.main(sys.argv[1])', directory]
        status = subprocess.call(command)
        return _gather(directory, status)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _first_to_end(status: int, rank: Optional[int] = None) -> str:
    """What Horovod says of a job that failed; programs look for its words."""
    return ('Horovod detected that one or more processes exited with non-zero status, thus causing '
            'the job to be terminated. The first process to do so was:\n'
            f'Process name: {"unknown" if rank is None else rank}\nExit code: {status}\n')


def _gather(directory: str, status: int) -> List[Any]:
    found = {}
    for name in os.listdir(directory):
        if name.startswith('result.') and name.endswith('.pkl'):
            with open(os.path.join(directory, name), 'rb') as stream:
                found[int(name.split('.')[1])] = pickle.load(stream)
    failed = sorted((when, rank) for rank, (ok, when, _, _) in found.items() if not ok)
    if failed:
        rank = failed[0][1]
        raise RuntimeError(f'{_first_to_end(status or 1, rank)}\n'
                           f'The function failed on rank {rank}:\n{found[rank][3]}')
    if status:
        raise RuntimeError(f'{_first_to_end(status)}\nWhich rank, and why, stands in the output '
                           f'above; `reigen explain {status}` tells more of the code.')
    size = next((size for _, _, size, _ in found.values()), 1)
    missing = sorted(set(range(size)) - set(found))
    if missing:
        raise RuntimeError(f'Rank {missing[0]} ended well but brought no result: did the function '
                           'leave the process by itself?')
    results = []
    for rank in range(size):
        data = found[rank][3]
        try:
            results.append(pickle.loads(data))
        except Exception as error:
            raise RuntimeError(f'The result of rank {rank} cannot be read here: '
                               f'{traceback.format_exc()}') from error
    return results
