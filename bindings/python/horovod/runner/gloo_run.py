# SPDX-License-Identifier: Apache-2.0
"""Starting a job without mpirun: by Reigen's launcher."""
import argparse
import shlex
import signal
import threading
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union

from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.elastic import discovery
from horovod.runner.launch import start, start_elastic


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


def _args_of(settings: Any, nics: Optional[Iterable[str]], command: Any,
             **more: Any) -> argparse.Namespace:
    """What parse_args() would give for these settings (horovod.runner.common.util.settings)."""
    same = ('num_proc', 'ssh_port', 'ssh_identity_file', 'output_filename',
            'prefix_output_with_timestamp')
    timeout = settings.start_timeout
    if timeout is not None:
        seconds = timeout.remaining() if hasattr(timeout, 'remaining') else timeout
        more['start_timeout'] = max(1, int(seconds))
    return argparse.Namespace(
        **{name: getattr(settings, name) for name in same}, nics=nics,
        verbose=settings.verbose and settings.verbose >= 2,
        run_func=command if callable(command) else None, command=_words(command), **more)


def _words(command: Any) -> List[str]:
    if callable(command):
        return []
    return ['sh', '-c', command] if isinstance(command, str) else [str(w) for w in command]


def _get_min_start_hosts(settings: Any) -> int:
    """So many hosts of an elastic job are waited for: it begins with the ranks that it has."""
    return 1


def gloo_run(settings: Any, nics: Optional[Iterable[str]], env: Optional[Dict[str, str]],
             server_ip: Optional[str], command: Union[str, Sequence[str]]) -> None:
    """Run command on settings.num_proc ranks of settings.hosts. RuntimeError when one fails.

    server_ip is Horovod's and means nothing here.
    """
    start(_args_of(settings, nics, command, hosts=getattr(settings, 'hosts', None)), env)


def launch_gloo(command: Union[str, Sequence[str]], exec_command: Any, settings: Any,
                nics: Optional[Iterable[str]], env: Optional[Dict[str, str]],
                server_ip: Optional[str]) -> None:
    """As gloo_run; exec_command, which starts one rank of Horovod's, is not needed."""
    gloo_run(settings, nics, env, server_ip, command)


def launch_gloo_elastic(command_or_func: Any, exec_command: Any, settings: Any, env: Any,
                        get_common_interfaces: Callable, rendezvous: Any,
                        executable: Any = None) -> Any:
    """As gloo_run_elastic; what starts one rank of Horovod's, and its server, are not needed."""
    return gloo_run_elastic(settings, env, command_or_func, executable)


def gloo_run_elastic(settings: Any, env: Optional[Dict[str, str]], command_or_func: Any,
                     executable: Optional[str] = None) -> Optional[List[Any]]:
    """Run a command, or a function, whose results are returned, on the hosts that
    settings.discovery finds. settings: horovod.runner.elastic.settings.ElasticSettings.
    RuntimeError when it fails."""
    with discovery.as_script(settings.discovery) as (script, slots):
        return start_elastic(_args_of(
            settings, settings.nics, command_or_func, executable=executable,
            host_discovery_script=script, slots=slots, min_num_proc=settings.min_num_proc,
            max_num_proc=settings.max_num_proc, elastic_timeout=settings.elastic_timeout,
            reset_limit=settings.reset_limit, cooldown_range=settings.cooldown_range), env)
