# SPDX-License-Identifier: Apache-2.0
"""The real MPIs of tools/mpis.sh: where each is, and the command lines that start ranks with it."""
import os
import signal
import subprocess
from functools import lru_cache
from pathlib import Path

from built import PROGRAMS, ROOT

NAMES = ['openmpi4', 'mpich4', 'openmpi5', 'mpich5', 'impi']
#: Those of NAMES that have a library of the standard ABI too, by that library.
STANDARD = ['mpich5abi', 'impiabi']
FAMILY = {'openmpi4': 'openmpi', 'openmpi5': 'openmpi', 'mpich4': 'mpich', 'mpich5': 'mpich',
          'mpich5abi': 'mpich', 'impi': 'impi', 'impiabi': 'impi'}
DEBIAN = {'openmpi4': 'libmpi.so.40', 'mpich4': 'libmpich.so.12'}


@lru_cache(None)
def prefix(name):
    done = subprocess.run([ROOT / 'tools/mpis.sh', name], capture_output=True, text=True,
                          timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.strip())


def library(name):
    """The file that a program of this MPI loads, by its name where the system finds it."""
    if name in DEBIAN:
        return DEBIAN[name]
    file = f'libmpi.so.{40 if FAMILY[name] == "openmpi" else 12}'
    if name in STANDARD:
        file = 'libmpi_abi.so.[0-9]'
    found = list((prefix(name) / 'lib').glob(file))
    assert len(found) == 1, found
    return str(found[0])


def environment(name, beside=None):
    """Variables for mpirun of `name`; beside: the MPI that mpi4py shall take in the ranks."""
    base = prefix(name)
    variables = {'PATH': f'{base}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin',
                 'REIGEN_LIBRARY': str(PROGRAMS.library), 'OMP_NUM_THREADS': '1',
                 'PYTHONPATH': str(ROOT / 'bindings/python'), 'OMPI_ALLOW_RUN_AS_ROOT': '1',
                 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1'}
    if beside:
        variables['PYTHONPATH'] += f':{prefix("mpi4py")}'
        variables['MPI4PY_MPIABI'] = FAMILY[beside]
        if beside != 'openmpi4':
            variables['LD_LIBRARY_PATH'] = f'{prefix(beside)}/lib'
    return variables


def mpirun(name, nranks, *argv, hosts=None):
    """The command line; hosts: names of hosts which get equal shares, else all run here."""
    command = [prefix(name) / 'bin/mpirun', '-np', nranks]
    if hosts:
        each = nranks // len(hosts)
        if FAMILY[name] == 'impi':
            command += ['-hosts', ','.join(hosts), '-ppn', each]
        else:
            command += ['-H' if FAMILY[name] == 'openmpi' else '-hosts',
                        ','.join(f'{host}:{each}' for host in hosts)]
        if name == 'openmpi5':
            command += ['--prefix', prefix(name)]
    elif FAMILY[name] == 'openmpi':
        command += ['--oversubscribe']
    if FAMILY[name] == 'openmpi' and hosts:
        # The variables of mpirun itself reach the ranks on other hosts only if they are named.
        command += [word for v in ('REIGEN_LIBRARY', 'PYTHONPATH', 'OMP_NUM_THREADS')
                    for word in ('-x', v)]
    return [str(word) for word in command + list(argv)]


def ordinary_environment():
    """The caller's, without what other launchers may have left in it."""
    return {k: v for k, v in os.environ.items()
            if not k.startswith(('OMPI_', 'PMIX_', 'PMI_', 'SLURM_', 'HOROVOD_', 'REIGEN_')) and
            k not in ('RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT')}


def start(command, env, limit):
    """To its end, or killed with all that it started: status 124."""
    child = subprocess.Popen(command, env=env, text=True, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             start_new_session=True)
    try:
        out, err = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        out, err = child.communicate()
        return subprocess.CompletedProcess(command, 124, out, f'killed after {limit} s: {err}')
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def run(name, command, env, limit):
    """As start; Open MPI 5 is known to hang now and then, whatever it starts, and what does not
    hang takes some seconds."""
    if name == 'openmpi5':
        done = start(['timeout', '-k', '5', '100', *command], env, limit)
        if done.returncode != 124:
            return done
    return start(command, env, limit)
