# SPDX-License-Identifier: Apache-2.0
"""Which MPI there is. Jobs are started by Reigen's launcher, whichever it is."""
import subprocess
from typing import Any, Dict, Iterable, Optional, Sequence, Union

from horovod.runner.gloo_run import gloo_run

_SIGNS = {'OpenMPI': ('Open MPI', 'OpenRTE', 'PRRTE'), 'SpectrumMPI': ('IBM Spectrum MPI',),
          'MPICH': ('MPICH', 'HYDRA'), 'IntelMPI': ('Intel(R) MPI',)}
_TRIED_SECONDS = 30


def _get_mpi_implementation(env: Optional[Dict[str, str]] = None) -> Optional[str]:
    """'OpenMPI', 'SpectrumMPI', 'MPICH', 'IntelMPI', 'Unknown', or None without an mpirun."""
    try:
        done = subprocess.run(['mpirun', '--version'], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                              errors='replace', timeout=_TRIED_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    for name in ('SpectrumMPI', 'IntelMPI', 'OpenMPI', 'MPICH'):
        if any(sign in done.stdout for sign in _SIGNS[name]):
            return name
    return 'Unknown'


def mpi_available(env: Optional[Dict[str, str]] = None) -> bool:
    """Whether an mpirun is there that this module knows."""
    return _get_mpi_implementation(env) not in (None, 'Unknown')


def is_open_mpi(env: Optional[Dict[str, str]] = None) -> bool:
    return _get_mpi_implementation(env) == 'OpenMPI'


def is_spectrum_mpi(env: Optional[Dict[str, str]] = None) -> bool:
    return _get_mpi_implementation(env) == 'SpectrumMPI'


def is_mpich(env: Optional[Dict[str, str]] = None) -> bool:
    return _get_mpi_implementation(env) == 'MPICH'


def is_intel_mpi(env: Optional[Dict[str, str]] = None) -> bool:
    return _get_mpi_implementation(env) == 'IntelMPI'


def mpi_run(settings: Any, nics: Optional[Iterable[str]], env: Optional[Dict[str, str]],
            command: Union[str, Sequence[str]], stdout: Any = None, stderr: Any = None) -> None:
    """Run the job by Reigen's launcher, as gloo_run does: mpirun is not needed."""
    gloo_run(settings, nics, env, None, command)
