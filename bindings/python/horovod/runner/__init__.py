# SPDX-License-Identifier: Apache-2.0
"""Running a Python function on several ranks: `horovod.run(train, args=(3,), np=2)`."""
from typing import Any, Callable, List, Optional, Sequence

from horovod.runner._call import launch_function


def run(func: Callable, args: Sequence = (), kwargs: Optional[dict] = None,
        num_proc: int = 1, min_num_proc: Optional[int] = None,
        max_num_proc: Optional[int] = None, slots: Optional[int] = None,
        reset_limit: Optional[int] = None, cooldown_range: Optional[Sequence[int]] = None,
        hosts: Optional[str] = None, hostfile: Optional[str] = None,
        host_discovery_script: Optional[str] = None, start_timeout: Optional[int] = None,
        ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None,
        disable_cache: Optional[bool] = None, output_filename: Optional[str] = None,
        verbose: Optional[int] = None, use_gloo: Optional[bool] = None,
        use_mpi: Optional[bool] = None, mpi_args: Optional[str] = None,
        network_interface: Optional[str] = None, network_interfaces: Optional[str] = None,
        executable: Optional[str] = None, np: Optional[int] = None,
        min_np: Optional[int] = None, max_np: Optional[int] = None) -> List[Any]:
    """Call func(*args, **kwargs) on each of num_proc ranks; what they return, in rank order.

    func and its arguments travel by cloudpickle where it is installed, else by pickle, which takes
    functions of modules only. Each rank is a new process of `executable` (this python); func calls
    hvd.init() itself. The other arguments mean what horovodrun's flags of the same names mean. np,
    min_np, max_np and network_interface are old names.

    Raises RuntimeError with the traceback of the first rank that failed; ValueError for arguments
    that exclude each other; what pickling raises when func cannot travel.
    """
    num_proc = num_proc if np is None else np
    min_num_proc = min_num_proc if min_num_proc is not None else min_np
    max_num_proc = max_num_proc if max_num_proc is not None else max_np
    if hosts is not None and hostfile is not None:
        raise ValueError('Argument hosts and hostfile only allow one provided.')
    if use_gloo and use_mpi:
        raise ValueError('Argument use_gloo and use_mpi only allow one set True.')
    if network_interfaces is None and network_interface is not None:
        network_interfaces = network_interface
    if isinstance(network_interfaces, (list, tuple, set)):
        network_interfaces = ','.join(network_interfaces)
    values = {
        '--min-num-proc': min_num_proc, '--max-num-proc': max_num_proc, '--slots-per-host': slots,
        '--reset-limit': reset_limit, '-H': hosts, '--hostfile': hostfile,
        '--host-discovery-script': host_discovery_script, '--start-timeout': start_timeout,
        '--ssh-port': ssh_port, '--ssh-identity-file': ssh_identity_file,
        '--output-filename': output_filename, '--mpi-args': mpi_args,
        '--network-interfaces': network_interfaces,
    }
    flags = ['-np', str(num_proc)]
    flags += [f'{name}={value}' if name != '-H' else f'-H{value}'
              for name, value in values.items() if value is not None]
    if cooldown_range is not None:
        flags += ['--blacklist-cooldown-range', *(str(s) for s in cooldown_range)]
    flags += [name for name, given in (('--disable-cache', disable_cache), ('--verbose', verbose),
                                       ('--gloo', use_gloo), ('--mpi', use_mpi)) if given]
    return launch_function(func, tuple(args), dict(kwargs or {}), flags, executable)


__all__ = ['run']
