# SPDX-License-Identifier: Apache-2.0
"""What every framework module of Horovod shares, over reigen."""
import functools
from typing import Any, Optional, Sequence, Union

import reigen
from horovod.common import process_sets as _sets
from horovod.common.process_sets import ProcessSet, global_process_set
from reigen import _core
from reigen._lib import has_driver, quick

#: reigen_mpi()
_STARTED, _PLANE, _THERE, _THREADS = 1, 2, 4, 8


def _mpi() -> int:
    """What this job has to do with MPI; 0 before init."""
    return max(0, quick.reigen_mpi())


class HorovodBasics:
    """The functions that horovod.torch and its sisters have in common."""

    Average, Sum, Adasum = reigen.Average, reigen.Sum, reigen.Adasum
    Min, Max, Product = reigen.Min, reigen.Max, reigen.Product

    def __init__(self, pkg_path: str = '', *args: str):
        """Horovod's arguments say where its compiled extension lies; they are not needed."""

    def init(self, comm: Union[None, Sequence[int], Any] = None,
             process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
        """Join the job. Does nothing when initialised already.

        comm: None or [] for all ranks; ranks of the job that form a world of their own (each rank
            gives a list that holds it); an mpi4py communicator; or a list of these, of which the
            first is the world and the others become process sets.
        process_sets: sets to register, the same on all ranks; or 'dynamic', which allows
            add_process_set() and remove_process_set().
        Raises ValueError for sets that do not fit together, HorovodInternalError when the ranks
        cannot come together.
        """
        if reigen.is_initialized():
            return
        wanted = _sets.prepare(process_sets)
        given = [comm] if _sets.is_comm(comm) else [] if comm is None else list(comm)
        comms = [each for each in given if _sets.is_comm(each)]
        more = [ProcessSet(each) for each in comms[1:]]
        while True:
            reigen.init(comm=_sets.ranks_of_comm(comms[0]) if comms else given)
            global_process_set.mpi_comm = comms[0] if comms else None
            elastic = _core.epoch().number > 0
            try:
                if elastic:
                    return _sets.renew(more + wanted)
                if process_sets is not None or more:
                    _sets.register_all(more + wanted)
                return None
            except BaseException as error:
                reigen.shutdown()
                # Of an elastic job's ranks one has died: those that are left meet again.
                if not (elastic and _core.lost(error)):
                    raise

    shutdown = staticmethod(reigen.shutdown)
    is_initialized = staticmethod(reigen.is_initialized)

    def size(self) -> int:
        """How many ranks the job has; ValueError before init, as with the next ones."""
        return reigen.size()

    def local_size(self) -> int:
        """How many ranks this host has."""
        return reigen.local_size()

    def cross_size(self) -> int:
        """How many hosts have this local rank."""
        return reigen.cross_size()

    def rank(self) -> int:
        """This process's number among all ranks."""
        return reigen.rank()

    def local_rank(self) -> int:
        """This process's number among the ranks of its host."""
        return reigen.local_rank()

    def cross_rank(self) -> int:
        """The number of this host among those that have this local rank."""
        return reigen.cross_rank()

    def is_homogeneous(self) -> bool:
        """True when all hosts have equally many ranks."""
        return reigen.is_homogeneous()

    @functools.wraps(reigen.start_timeline)
    def start_timeline(self, *args, **kwargs):
        return reigen.start_timeline(*args, **kwargs)

    @functools.wraps(reigen.stop_timeline)
    def stop_timeline(self, *args, **kwargs):
        return reigen.stop_timeline(*args, **kwargs)

    @functools.wraps(reigen.diagnose)
    def diagnose(self, *args, **kwargs):
        return reigen.diagnose(*args, **kwargs)

    # Horovod's own tests, and code that was made from them, look at sets by these names.
    _process_set_rank = staticmethod(reigen.process_set_rank)
    _process_set_size = staticmethod(reigen.process_set_size)
    _get_process_set_ids_and_ranks = staticmethod(_sets.get_process_set_ids_and_ranks)
    _comm_process_set_id = staticmethod(_sets.comm_process_set_id)

    def _add_process_set_impl(self, ranks: Sequence[int]) -> Optional[int]:
        """The number of a new set; ValueError where there is one with these ranks."""
        return _sets.add_process_set(ranks).process_set_id

    def _remove_process_set_impl(self, process_set_id: int) -> Optional[int]:
        """The number, where the set was there and is not that of all ranks."""
        return process_set_id if _sets.remove_by_id(process_set_id) else None

    def mpi_threads_supported(self) -> bool:
        """Whether this program may use MPI beside, as by mpi4py: MPI's launcher has started it, and
        an MPI that the process had at init was initialised with MPI_THREAD_MULTIPLE."""
        reigen.rank()  # as Horovod: ValueError before init
        found = _mpi()
        return bool(found & (_THREADS if found & _THERE else _STARTED))

    def mpi_enabled(self) -> bool:
        """Whether this job is one of MPI's: MPI's launcher or Slurm has started its ranks, or data
        between hosts go over MPI (REIGEN_MPI, HOROVOD_CPU_OPERATIONS). False before init."""
        return bool(_mpi() & (_STARTED | _PLANE))

    def mpi_built(self) -> bool:
        """True: jobs of every MPI's launcher are taken, without compiling against any."""
        return True

    def gloo_enabled(self) -> bool:
        """Whether this job does without MPI, as Horovod's do with Gloo. False before init."""
        return reigen.is_initialized() and not self.mpi_enabled()

    def gloo_built(self) -> bool:
        """True: jobs that were started without MPI are taken."""
        return True

    def nccl_built(self) -> int:
        """The version of the NCCL that CUDA tensors go by, as 22105 for 2.21.5; 0: there is none,
        or one older than 2.18, and they go through the host's memory."""
        return quick.reigen_nccl_version()

    def ddl_built(self) -> bool:
        return False

    def ccl_built(self) -> bool:
        return False

    def cuda_built(self) -> bool:
        """Whether this computer has NVIDIA's driver, so that CUDA tensors may be given."""
        return has_driver()

    def rocm_built(self) -> bool:
        return False


_basics = HorovodBasics()

init = _basics.init
shutdown = _basics.shutdown
is_initialized = _basics.is_initialized
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
diagnose = _basics.diagnose
size = _basics.size
local_size = _basics.local_size
cross_size = _basics.cross_size
rank = _basics.rank
local_rank = _basics.local_rank
cross_rank = _basics.cross_rank
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported = _basics.mpi_threads_supported
mpi_enabled = _basics.mpi_enabled
mpi_built = _basics.mpi_built
gloo_enabled = _basics.gloo_enabled
gloo_built = _basics.gloo_built
nccl_built = _basics.nccl_built
ddl_built = _basics.ddl_built
ccl_built = _basics.ccl_built
cuda_built = _basics.cuda_built
rocm_built = _basics.rocm_built

__all__ = ['HorovodBasics', 'global_process_set',
           'ccl_built', 'cross_rank', 'cross_size', 'cuda_built', 'ddl_built', 'diagnose',
           'gloo_built', 'gloo_enabled', 'init', 'is_homogeneous', 'is_initialized', 'local_rank',
           'local_size', 'mpi_built', 'mpi_enabled', 'mpi_threads_supported', 'nccl_built', 'rank',
           'rocm_built', 'shutdown', 'size', 'start_timeline', 'stop_timeline']
