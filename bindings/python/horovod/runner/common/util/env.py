# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment, and what they tell of the job."""
import os
import re
from typing import Tuple

from horovod.runner.common.util import secret

LOG_LEVEL_STR = ['FATAL', 'ERROR', 'WARNING', 'INFO', 'DEBUG', 'TRACE']
#: Variables that are not handed on to ranks.
IGNORE_REGEXES = {'BASH_FUNC_.*', 'OLDPWD', '.*CUDA_VISIBLE_DEVICES', secret.HOROVOD_SECRET_KEY}
KUBEFLOW_MPI_EXEC = '/etc/mpi/kubexec.sh'


def is_exportable(v: str) -> bool:
    """Whether the variable of this name is handed on to ranks."""
    return not any(re.match(pattern, v) for pattern in IGNORE_REGEXES)


def get_env_rank_and_size() -> Tuple[int, int]:
    """(rank, size) as the launcher set them; (0, 1) without a launcher."""
    for rank, size in (('HOROVOD_RANK', 'HOROVOD_SIZE'),
                       ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE'),
                       ('PMI_RANK', 'PMI_SIZE')):
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def is_kubeflow_mpi() -> bool:
    """Whether Kubeflow's MPI operator has started this process."""
    return os.environ.get('OMPI_MCA_plm_rsh_agent') == KUBEFLOW_MPI_EXEC
