# SPDX-License-Identifier: Apache-2.0
"""Running a Python function on several ranks: `horovod.run(train, args=(3,), np=2)`."""
from typing import Any, Callable, List, Optional, Sequence


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

    With min_num_proc, max_num_proc or host_discovery_script the job is elastic. The list has the
    results of min_num_proc ranks then (of num_proc, if it is not given): the first of those that
    there are in the end.

    What ranks print is written to sys.stdout and sys.stderr as it comes, also in a notebook. An
    interrupt ends the job, and KeyboardInterrupt is raised when nothing is left of it.

    Raises RuntimeError (a reigen.JobFailed) with the traceback of the first rank that failed;
    ValueError for arguments that exclude each other; what pickling raises when func cannot travel.
    """
    # Whoever imports horovod for a rank needs none of this.
    import argparse
    import functools

    from horovod.runner.launch import _run

    num_proc = num_proc if np is None else np
    min_num_proc = min_num_proc if min_num_proc is not None else min_np
    max_num_proc = max_num_proc if max_num_proc is not None else max_np
    if hosts is not None and hostfile is not None:
        raise ValueError('Argument hosts and hostfile only allow one provided.')
    if use_gloo and use_mpi:
        raise ValueError('Argument use_gloo and use_mpi only allow one set True.')
    nics = network_interface if network_interfaces is None else network_interfaces
    nics = nics.split(',') if isinstance(nics, str) else nics
    return _run(argparse.Namespace(
        num_proc=num_proc, min_num_proc=min_num_proc, max_num_proc=max_num_proc, slots=slots,
        reset_limit=reset_limit, cooldown_range=cooldown_range, hosts=hosts, hostfile=hostfile,
        host_discovery_script=host_discovery_script, start_timeout=start_timeout,
        ssh_port=ssh_port, ssh_identity_file=ssh_identity_file, disable_cache=disable_cache,
        output_filename=output_filename, verbose=verbose, use_gloo=use_gloo, use_mpi=use_mpi,
        mpi_args=mpi_args, nics=nics, executable=executable,
        run_func=functools.partial(func, *args, **(kwargs or {}))))


__all__ = ['run']
