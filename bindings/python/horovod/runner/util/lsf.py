# SPDX-License-Identifier: Apache-2.0
"""IBM's LSF: whether it has started this process. What it allocated Reigen does not ask."""
import os
from typing import Any

_REFUSED = ('Reigen does not read LSF\'s allocations: name the hosts with -H or --hostfile (LSF '
            'has them in LSB_MCPU_HOSTS).')


class LSFUtils:
    """using_lsf() answers; the other functions raise RuntimeError."""

    @staticmethod
    def using_lsf() -> bool:
        return 'LSB_JOBID' in os.environ

    @staticmethod
    def get_allocation_info() -> Any:
        raise RuntimeError(_REFUSED)

    get_compute_hosts = get_num_cores = get_num_gpus = get_allocation_info
    get_num_processes = get_num_threads = get_allocation_info
