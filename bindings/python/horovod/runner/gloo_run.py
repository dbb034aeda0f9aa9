# SPDX-License-Identifier: Apache-2.0
"""Starting a job without mpirun: by Reigen's launcher."""
import os
import shlex
import signal
import subprocess
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.launch import command_line

_ELASTIC = ('Elastic jobs come with a later version of Reigen; this one runs a fixed number of '
            'ranks (gloo_run, horovod.run).')


class MultiFile:
    """Several files that are written as one."""

    def __init__(self, files: Iterable[Any]):
        self._files = list(files)

    def write(self, text: str) -> None:
        for file in self._files:
            file.write(text)

    def flush(self) -> None:
        for file in self._files:
            file.flush()


def create_slot_env_vars(slot_info: SlotInfo) -> Dict[str, str]:
    """The variables that tell a rank its place."""
    return {'HOROVOD_HOSTNAME': str(slot_info.hostname), 'HOROVOD_RANK': str(slot_info.rank),
            'HOROVOD_SIZE': str(slot_info.size),
            'HOROVOD_LOCAL_RANK': str(slot_info.local_rank),
            'HOROVOD_LOCAL_SIZE': str(slot_info.local_size),
            'HOROVOD_CROSS_RANK': str(slot_info.cross_rank),
            'HOROVOD_CROSS_SIZE': str(slot_info.cross_size)}


def create_run_env_vars(server_ip: str, nics: Iterable[str], port: int,
                        elastic: bool = False) -> Dict[str, str]:
    """The variables of horovodrun that are equal for all ranks of a job."""
    names = list(nics)
    env = {'HOROVOD_GLOO_RENDEZVOUS_ADDR': server_ip, 'HOROVOD_GLOO_RENDEZVOUS_PORT': str(port),
           'HOROVOD_CONTROLLER': 'gloo', 'HOROVOD_CPU_OPERATIONS': 'gloo',
           'HOROVOD_GLOO_IFACE': names[0] if names else '', 'NCCL_SOCKET_IFNAME': ','.join(names)}
    if elastic:
        env['HOROVOD_ELASTIC'] = '1'
    return env


def get_run_command(command: Union[str, Sequence[str]], server_ip: str, nics: Iterable[str],
                    port: int, elastic: bool = False) -> str:
    """A shell command: the variables of create_run_env_vars, then command."""
    env = create_run_env_vars(server_ip, nics, port, elastic)
    words = [f'{name}={shlex.quote(value)}' for name, value in env.items()]
    return ' '.join(words + [command if isinstance(command, str)
                             else ' '.join(shlex.quote(w) for w in command)])


def register_shutdown_event() -> threading.Event:
    """An event that SIGINT and SIGTERM set, beside what they did before."""
    event = threading.Event()

    def watch(signum: int) -> None:
        before = signal.getsignal(signum)

        def handler(number: int, frame: Any) -> None:
            event.set()
            if callable(before):
                before(number, frame)

        signal.signal(signum, handler)

    watch(signal.SIGINT)
    watch(signal.SIGTERM)
    return event


def flags_of(settings: Any, nics: Optional[Iterable[str]]) -> List[str]:
    """horovodrun's flags for settings (horovod.runner.common.util.settings)."""
    flags = ['--verbose'] if settings.verbose and settings.verbose >= 2 else []
    named = {'--output-filename': settings.output_filename, '--ssh-port': settings.ssh_port,
             '--ssh-identity-file': settings.ssh_identity_file,
             '--network-interfaces': ','.join(sorted(nics)) if nics else None}
    flags += [f'{name}={value}' for name, value in named.items() if value]
    if settings.prefix_output_with_timestamp:
        flags.append('--prefix-output-with-timestamp')
    timeout = settings.start_timeout
    if timeout is not None:
        seconds = timeout.remaining() if hasattr(timeout, 'remaining') else timeout
        flags.append(f'--start-timeout={max(1, int(seconds))}')
    return flags


def _words(command: Union[str, Sequence[str]]) -> List[str]:
    return ['sh', '-c', command] if isinstance(command, str) else [str(w) for w in command]


def gloo_run(settings: Any, nics: Optional[Iterable[str]], env: Optional[Dict[str, str]],
             server_ip: Optional[str], command: Union[str, Sequence[str]]) -> None:
    """Run command on settings.num_proc ranks of settings.hosts. RuntimeError when one fails.

    server_ip is Horovod's and means nothing here.
    """
    argv = command_line(_words(command), settings.num_proc, getattr(settings, 'hosts', None),
                        flags_of(settings, nics))
    status = subprocess.call(argv, env=os.environ if env is None else env)
    if status:
        raise RuntimeError('Horovod detected that one or more processes exited with non-zero '
                           'status, thus causing the job to be terminated. Exit code: '
                           f'{status}')


def launch_gloo(command: Union[str, Sequence[str]], exec_command: Any, settings: Any,
                nics: Optional[Iterable[str]], env: Optional[Dict[str, str]],
                server_ip: Optional[str]) -> None:
    """As gloo_run; exec_command, which starts one rank of Horovod's, is not needed."""
    gloo_run(settings, nics, env, server_ip, command)


def launch_gloo_elastic(command_or_func: Any, exec_command: Any, settings: Any, env: Any,
                        get_common_interfaces: Callable, rendezvous: Any,
                        executable: Any = None) -> Any:
    """Refused with a RuntimeError by this version."""
    raise RuntimeError(_ELASTIC)


def gloo_run_elastic(settings: Any, env: Any, command_or_func: Any, executable: Any = None) -> Any:
    """Refused with a RuntimeError by this version."""
    raise RuntimeError(_ELASTIC)
