# SPDX-License-Identifier: Apache-2.0
"""Jobs of horovodrun's flags, and the error of those that fail. How a function reaches the ranks is
reigen.run()'s own way."""
import errno
import os
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence

from reigen import _launcher, _run

#: The launcher's exit code of an elastic job whose hosts came or went once too often.
EXIT_RESET_LIMIT = 78


class JobFailed(_run.JobFailed):
    """A job ended with an exit code other than 0, its status. Says so as Horovod does, as programs
    look for its words, and then what else is known."""

    @property
    def status(self) -> int:
        return self.exit_code

    def __str__(self) -> str:
        explain = f'`reigen explain {self.exit_code}` tells more of the code.'
        told = (f'The function failed on rank {self.rank}:\n{self.traceback}' if self.traceback else
                '\n'.join([f'{self.cause}; {explain}', *self.last_lines]))
        return ('Horovod detected that one or more processes exited with non-zero status, thus '
                'causing the job to be terminated. The first process to do so was:\n'
                f'Process name: {"unknown" if self.rank is None else self.rank}\n'
                f'Exit code: {self.exit_code}\n\n{told}')


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


def launch_command(command: Sequence[str], flags: Sequence[str], env: Dict[str, str]) -> None:
    """Run a command on the ranks that horovodrun's flags describe. JobFailed when it fails."""
    status = subprocess.call([_launcher.find(), 'horovodrun', '--detach=false', *flags, '--',
                              *command], env=env)
    if status:
        raise JobFailed(status, 'Which rank, and why, stands in the output above')


def launch_function(func: Callable[[], Any], flags: Sequence[str], env: Dict[str, str],
                    executable: Optional[str], elastic: bool, mpi: bool,
                    wanted: int = 0) -> List[Any]:
    """Run func on the ranks that horovodrun's flags describe; the results by rank. mpi: by mpirun.
    wanted: only those of so many ranks, the first that there are in the end; 0: those of all
    ranks."""
    __tracebackhide__ = True  # from IPython's tracebacks
    return _run.launch(func, [_launcher.find(), 'horovodrun', *flags], env,
                       executable or sys.executable, goes_on=elastic, no_input=mpi, tag=_tag,
                       wanted=wanted, kind=JobFailed)


def _tag(rank: int, stream: str, when: float) -> str:
    """What horovodrun puts in front of a line."""
    return f'[{rank}]<{stream}>:'

