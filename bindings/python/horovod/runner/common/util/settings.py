# SPDX-License-Identifier: Apache-2.0
"""What a job was asked to be, as one object."""
from typing import Any, Optional


class BaseSettings:
    """num_proc ranks; the other fields mean what horovodrun's flags mean."""

    def __init__(self, num_proc: Optional[int] = None, verbose: int = 0,
                 ssh_port: Optional[int] = None, ssh_identity_file: Optional[str] = None,
                 extra_mpi_args: Optional[str] = None, tcp_flag: Optional[bool] = None,
                 binding_args: Optional[str] = None, key: Optional[bytes] = None,
                 start_timeout: Any = None, output_filename: Optional[str] = None,
                 run_func_mode: Optional[bool] = None, nics: Optional[set] = None,
                 elastic: bool = False, prefix_output_with_timestamp: bool = False):
        self.num_proc = num_proc
        self.verbose = verbose
        self.ssh_port = ssh_port
        self.ssh_identity_file = ssh_identity_file
        self.extra_mpi_args = extra_mpi_args
        self.tcp_flag = tcp_flag
        self.binding_args = binding_args
        self.key = key
        self.start_timeout = start_timeout
        self.output_filename = output_filename
        self.run_func_mode = run_func_mode
        self.nics = nics
        self.elastic = elastic
        self.prefix_output_with_timestamp = prefix_output_with_timestamp

    def __repr__(self) -> str:
        shown = {k: '****' if k == 'key' and v else v for k, v in sorted(vars(self).items())}
        return f'{type(self).__name__}({shown})'


class Settings(BaseSettings):
    """A job on fixed hosts, 'a:2,b:2'."""

    def __init__(self, hosts: Optional[str] = None, **kwargs: Any):
        super().__init__(**kwargs)
        self.hosts = hosts
