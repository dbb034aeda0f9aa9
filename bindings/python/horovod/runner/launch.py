# SPDX-License-Identifier: Apache-2.0
"""horovodrun's command line, for programs that import it. The command itself is Reigen's program:
run_commandline() becomes it."""
import argparse
import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence

import horovod
from horovod import _other
from horovod.runner import _call
from horovod.runner.common.util import config_parser
from horovod.runner.elastic import driver
from horovod.runner.elastic.constants import RESET_LIMIT_EXCEEDED_MESSAGE
from reigen import _launcher

CACHE_FOLDER = os.path.join(os.path.expanduser('~'), '.horovod')
CACHE_STALENESS_THRESHOLD_MINUTES = 60
SSH_ATTEMPTS = 5
SSH_CONNECT_TIMEOUT_S = 10


def run_commandline() -> None:
    """Become `reigen horovodrun` with this program's arguments. Does not return."""
    program = _launcher.find()
    sys.stdout.flush()
    os.execv(program, [program, 'horovodrun', *sys.argv[1:]])


def check_build(verbose: bool = False) -> None:
    """Print which frameworks and ways to move data there are, and exit."""
    sys.stdout.flush()
    sys.exit(subprocess.call([_launcher.find(), 'horovodrun', '--check-build']))


# ------------------------------------------------------------------------------ argparse

def make_check_build_action(np_arg: argparse.Action) -> type:
    """An action that prints the build at once; np_arg is not required with it."""

    class CheckBuildAction(argparse.Action):
        def __call__(self, parser, args, values, option_string=None):
            np_arg.required = False
            args.check_build = True

    return CheckBuildAction


def make_override_action(override_args: set) -> type:
    """An action that stores, and notes in override_args that the command line has a value."""

    class StoreOverrideAction(argparse.Action):
        def __call__(self, parser, args, values, option_string=None):
            override_args.add(self.dest)
            setattr(args, self.dest, values)

    return StoreOverrideAction


def make_override_bool_action(override_args: set, bool_value: bool) -> type:
    """The same for a flag without a value."""

    class StoreOverrideBoolAction(argparse.Action):
        def __init__(self, option_strings, dest, required=False, help=None):
            super().__init__(option_strings=option_strings, dest=dest, const=bool_value, nargs=0,
                             default=None, required=required, help=help)

        def __call__(self, parser, args, values, option_string=None):
            override_args.add(self.dest)
            setattr(args, self.dest, self.const)

    return StoreOverrideBoolAction


def make_override_true_action(override_args: set) -> type:
    return make_override_bool_action(override_args, True)


def make_override_false_action(override_args: set) -> type:
    return make_override_bool_action(override_args, False)


def make_deprecated_bool_action(override_args: set, bool_value: bool, replacement_option: str,
                                remove_version: str = 'a later version') -> type:
    """The same for a flag that has a new name."""
    base: Any = make_override_bool_action(override_args, bool_value)

    class StoreOverrideBoolDeprecatedAction(base):
        def __call__(self, parser, args, values, option_string=None):
            sys.stderr.write(f'{option_string} is an old name; use {replacement_option}\n')
            super().__call__(parser, args, values, option_string)

    return StoreOverrideBoolDeprecatedAction


def make_nic_action(deprecated: bool) -> type:
    """An action that collects network interfaces in the set args.nics."""

    class StoreNicAction(argparse.Action):
        def __call__(self, parser, args, values, option_string=None):
            nics = getattr(args, self.dest, None) or set()
            names = [values] if deprecated else values.split(',')
            setattr(args, self.dest, nics | set(names))

    return StoreNicAction


# One line per flag: names, then the keyword arguments of add_argument.
_VALUES = (
    ('--output-filename', str), ('-p --ssh-port', int), ('-i --ssh-identity-file', str),
    ('--mpi-args', str), ('--binding-args', str), ('-H --hosts', str),
    ('-hostfile --hostfile', str), ('--host-discovery-script', str),
    ('--min-np --min-num-proc', int), ('--max-np --max-num-proc', int),
    ('--slots --slots-per-host', int), ('--elastic-timeout', int), ('--reset-limit', int),
    ('--fusion-threshold-mb', int), ('--cycle-time-ms', float), ('--cache-capacity', int),
    ('--autotune-log-file', str), ('--autotune-warmup-samples', int),
    ('--autotune-steps-per-sample', int), ('--autotune-bayes-opt-max-samples', int),
    ('--autotune-gaussian-process-noise', float), ('--timeline-filename', str),
    ('--stall-check-warning-time-seconds', int), ('--stall-check-shutdown-time-seconds', int),
    ('--num-nccl-streams', int), ('--thread-affinity', int), ('--gloo-timeout-seconds', int),
    # Reigen's own.
    ('--env-file', str), ('--port-range', str), ('--connect-timeout', str),
)
_SWITCHES = (
    ('--hierarchical-allreduce', 'hierarchical_allreduce', True),
    ('--no-hierarchical-allreduce', 'hierarchical_allreduce', False),
    ('--hierarchical-allgather', 'hierarchical_allgather', True),
    ('--no-hierarchical-allgather', 'hierarchical_allgather', False),
    ('--torus-allreduce', 'torus_allreduce', True),
    ('--no-torus-allreduce', 'torus_allreduce', False),
    ('--autotune', 'autotune', True), ('--no-autotune', 'autotune', False),
    ('--timeline-mark-cycles', 'timeline_mark_cycles', True),
    ('--no-timeline-mark-cycles', 'timeline_mark_cycles', False),
    ('--no-stall-check', 'no_stall_check', True), ('--stall-check', 'no_stall_check', False),
    ('--mpi-threads-disable', 'mpi_threads_disable', True),
    ('--no-mpi-threads-disable', 'mpi_threads_disable', False),
    ('--log-with-timestamp', 'log_with_timestamp', True),
    ('--log-without-timestamp', 'log_with_timestamp', False),
    ('--no-log-hide-timestamp', 'log_with_timestamp', True),
    ('--log-hide-timestamp', 'log_with_timestamp', False),
)
_DESTS = {'--min-np': 'min_num_proc', '--max-np': 'max_num_proc', '--slots': 'slots'}


def _add_flags(parser: argparse.ArgumentParser, override_args: set) -> None:
    for names, kind in _VALUES:
        first = names.split()[0]
        extra = {'dest': _DESTS[first]} if first in _DESTS else {}
        parser.add_argument(*names.split(), type=kind, action=make_override_action(override_args),
                            **extra)
    for name, dest, value in _SWITCHES:
        parser.add_argument(name, dest=dest,
                            action=make_override_bool_action(override_args, value))
    for name in ('--disable-cache', '--tcp'):
        parser.add_argument(name, action='store_true', dest=name.strip('-').replace('-', '_')
                            if name != '--tcp' else 'tcp_flag')
    parser.add_argument('--verbose', action='store_const', const=2, default=0)
    parser.add_argument('-prefix-timestamp', '--prefix-output-with-timestamp',
                        action='store_true', dest='prefix_output_with_timestamp')
    parser.add_argument('--log-level', choices=config_parser.LOG_LEVELS,
                        action=make_override_action(override_args))
    parser.add_argument('--blacklist-cooldown-range', nargs=2, type=int, dest='cooldown_range')
    parser.add_argument('--network-interfaces', dest='nics', action=make_nic_action(False))
    parser.add_argument('--network-interface', dest='nics', action=make_nic_action(True))
    parser.add_argument('--start-timeout', type=int, default=None)
    for name in ('gloo', 'mpi', 'jsrun'):
        parser.add_argument('--' + name, action='store_true', dest='use_' + name)


def parse_args(argv: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """horovodrun's arguments (sys.argv by default), the configuration file included."""
    override_args: set = set()
    parser = argparse.ArgumentParser('horovodrun', description='Run a command on several ranks.')
    parser.add_argument('-v', '--version', action='version',
                        version=horovod.__version__ + _other.OURS)
    np_arg = parser.add_argument('-np', '--num-proc', dest='num_proc', type=int)
    parser.add_argument('-cb', '--check-build', action=make_check_build_action(np_arg), nargs=0)
    parser.add_argument('--config-file', action=make_override_action(override_args))
    _add_flags(parser, override_args)
    parser.add_argument('command', nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    if args.config_file:
        config = _read_config(args.config_file)
        config_parser.set_args_from_config(args, config, override_args)
    config_parser.validate_config_args(args)
    args.run_func = None
    args.executable = None
    if args.check_build:
        check_build(args.verbose)
    return args


def _read_config(path: str) -> dict:
    try:
        import yaml
    except ImportError as error:
        raise ImportError('--config-file needs PyYAML here: pip install pyyaml. The program '
                          'horovodrun reads the file without it.') from error
    with open(path) as stream:
        return yaml.safe_load(stream) or {}


# ------------------------------------------------------------------------------ controllers

def is_gloo_used(use_gloo: Optional[bool] = None, use_mpi: Optional[bool] = None,
                 use_jsrun: Optional[bool] = None) -> bool:
    """Whether ranks are started without mpirun: yes, unless MPI or jsrun was asked for."""
    return bool(use_gloo or not (use_mpi or use_jsrun))


def run_controller(use_gloo: bool, gloo_run: Callable, use_mpi: bool, mpi_run: Callable,
                   use_jsrun: bool, js_run: Callable, verbosity: Optional[int] = None) -> None:
    """Call the function of the controller that was asked for; gloo_run when none was."""
    if use_jsrun:
        js_run()
    elif use_mpi and not use_gloo:
        mpi_run()
    else:
        gloo_run()


# ------------------------------------------------------------------------------ jobs

#: What the program is told by flags of these names; the rest are variables of the ranks.
_TOLD = ('num_proc', 'min_num_proc', 'max_num_proc', 'slots', 'elastic_timeout', 'reset_limit',
         'hosts', 'hostfile', 'host_discovery_script', 'start_timeout', 'ssh_port',
         'ssh_identity_file', 'output_filename', 'mpi_args', 'binding_args', 'env_file',
         'port_range', 'connect_timeout')
_TOLD_SWITCHES = {'verbose': '--verbose', 'disable_cache': '--disable-cache', 'use_gloo': '--gloo',
                  'use_mpi': '--mpi', 'use_jsrun': '--jsrun',
                  'prefix_output_with_timestamp': '--prefix-output-with-timestamp'}


def flags_of(args: Any) -> List[str]:
    """horovodrun's flags for arguments as parse_args() gives them; those that are missing are as
    None. Those of set_env_from_args() are left out."""
    given = {name: getattr(args, name, None) for name in _TOLD}
    flags = [f'--{name.replace("_", "-")}={value}' for name, value in given.items()
             if value is not None]
    flags += [flag for name, flag in _TOLD_SWITCHES.items() if getattr(args, name, None)]
    if getattr(args, 'nics', None):
        flags.append(f'--network-interfaces={",".join(sorted(args.nics))}')
    if getattr(args, 'cooldown_range', None):
        flags += ['--blacklist-cooldown-range', *map(str, args.cooldown_range)]
    return flags


def _is_elastic(args: Any) -> bool:
    return any(getattr(args, name, None) is not None
               for name in ('host_discovery_script', 'min_num_proc', 'max_num_proc'))


def start(args: Any, env: Optional[Dict[str, str]] = None) -> Optional[List[Any]]:
    """Run args.command, or args.run_func, whose results are returned by rank. RuntimeError, with
    Horovod's sentences, when that fails.

    env: the variables of the job, to which those of args come; None: this process's.
    """
    env = config_parser.set_env_from_args(dict(os.environ if env is None else env), args)
    try:
        if not args.run_func:
            _call.launch_command(args.command, flags_of(args), env)
            return None
        elastic = _is_elastic(args)
        wanted = (getattr(args, 'min_num_proc', None) or args.num_proc) if elastic else 0
        return _call.launch_function(args.run_func, flags_of(args), env, args.executable, elastic,
                                     bool(getattr(args, 'use_mpi', None)), wanted)
    except _call.JobFailed as failed:
        if failed.status != _call.EXIT_RESET_LIMIT:
            raise
        raise RuntimeError(RESET_LIMIT_EXCEEDED_MESSAGE.format(args.reset_limit)) from failed


def start_elastic(args: Any, env: Optional[Dict[str, str]] = None) -> Optional[List[Any]]:
    """The same, as patient as horovod.runner.elastic.driver says."""
    env = dict(os.environ if env is None else env)
    env.setdefault('REIGEN_DISCOVERY_MS', str(round(driver.DISCOVER_HOSTS_FREQUENCY_SECS * 1000)))
    env.setdefault('HOROVOD_ELASTIC_TIMEOUT', str(driver.ELASTIC_TIMEOUT_SECS))
    return start(args, env)


def _run_static(args: Any) -> Optional[List[Any]]:
    return start(args)


def _run_elastic(args: Any) -> Optional[List[Any]]:
    return start_elastic(args)


def _run(args: Any) -> Optional[List[Any]]:
    """The job of parse_args(), to its end."""
    return _run_elastic(args) if _is_elastic(args) else _run_static(args)
