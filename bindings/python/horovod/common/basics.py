# SPDX-License-Identifier: Apache-2.0
"""What every framework module of Horovod shares, over reigen."""
from typing import Optional, Sequence

import reigen
from horovod.common.process_sets import ProcessSet, global_process_set


class HorovodBasics:
    """The functions that horovod.torch and its sisters have in common."""

    Average, Sum, Adasum = reigen.Average, reigen.Sum, reigen.Adasum
    Min, Max, Product = reigen.Min, reigen.Max, reigen.Product

    def init(self, comm: Optional[Sequence[int]] = None,
             process_sets: Optional[Sequence[ProcessSet]] = None) -> None:
        """Join the job. comm: None or all ranks; process_sets: None or the global one.

        Raises ValueError for a part of the ranks, HorovodInternalError when the ranks cannot come
        together.
        """
        if process_sets == 'dynamic' or any(
                getattr(s, 'process_set_id', None) != 0 for s in process_sets or ()):
            raise ValueError('Process sets other than the global one are not offered by this '
                             'version of Reigen.')
        if comm is not None and not isinstance(comm, (list, tuple, range)):
            raise ValueError('init(comm=...) with an MPI communicator is not offered by this '
                             'version of Reigen.')
        reigen.init()
        if comm and list(comm) != list(range(reigen.size())):
            reigen.shutdown()
            raise ValueError('init(comm=...) with a part of the ranks is not offered by this '
                             'version of Reigen.')

    shutdown = staticmethod(reigen.shutdown)
    is_initialized = staticmethod(reigen.is_initialized)
    size = staticmethod(reigen.size)
    local_size = staticmethod(reigen.local_size)
    cross_size = staticmethod(reigen.cross_size)
    rank = staticmethod(reigen.rank)
    local_rank = staticmethod(reigen.local_rank)
    cross_rank = staticmethod(reigen.cross_rank)
    is_homogeneous = staticmethod(reigen.is_homogeneous)

    start_timeline = staticmethod(reigen.start_timeline)
    stop_timeline = staticmethod(reigen.stop_timeline)
    diagnose = staticmethod(reigen.diagnose)

    def mpi_threads_supported(self) -> bool:
        reigen.rank()  # as Horovod: ValueError before init
        return False

    def mpi_enabled(self) -> bool:
        """False: Reigen moves the data itself, over its own planes."""
        return False

    def mpi_built(self) -> bool:
        return False

    def gloo_enabled(self) -> bool:
        return False

    def gloo_built(self) -> bool:
        return False

    def nccl_built(self) -> int:
        return 0

    def ddl_built(self) -> bool:
        return False

    def ccl_built(self) -> bool:
        return False

    def cuda_built(self) -> bool:
        return False

    def rocm_built(self) -> bool:
        return False


__all__ = ['HorovodBasics', 'global_process_set']
