# SPDX-License-Identifier: Apache-2.0
"""Workers of Ray Train as the ranks of a job, in place of ray.train.horovod, which needs Horovod's
own servers:

    from horovod.ray.train import HorovodTrainer

    HorovodTrainer(train, scaling_config=ScalingConfig(num_workers=4)).fit()

Ray Train starts the workers, calls the function and starts others when some fail. In the function
hvd.init() joins the others. Trainers that take a backend_config take HorovodConfig(), too.
"""
import os
from dataclasses import InitVar, dataclass
from typing import Any, Callable, Optional

import ray
from ray.exceptions import RayActorError
from ray.train.backend import Backend, BackendConfig

from horovod.ray import _ring, worker
from reigen import _member

try:
    from ray.train.v2._internal.constants import is_v2_enabled
except ImportError:  # Ray is older than its second Train
    _V2 = False
else:
    _V2 = is_v2_enabled()

if _V2:
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
else:
    from ray.train.data_parallel_trainer import DataParallelTrainer

__all__ = ['HorovodConfig', 'HorovodTrainer']

#: Workers have so many seconds to leave the job at its end, and to say which other one was lost.
_LEAVE_S, _GRACE_S = 5.0, 2.0


@dataclass
class HorovodConfig(BackendConfig):
    """nics: network interfaces that ranks use. timeout_s: seconds for the workers to find each
    other, and again for init() in them. The others say nothing here, and are kept nowhere."""
    nics: Any = None
    verbose: int = 1
    key: InitVar[Any] = None
    ssh_port: InitVar[Optional[int]] = None
    ssh_identity_file: InitVar[Optional[str]] = None
    ssh_str: InitVar[Optional[str]] = None
    timeout_s: float = 300
    placement_group_timeout_s: float = 100

    @property
    def backend_cls(self) -> type:
        return _HorovodBackend


#: This worker of Ray Train's has that place in the ring of them, or none.
_seat: Optional[worker._Seat] = None


def _sit(call: _member.Call, index: int, timeout: float) -> None:
    """Within a worker: be a rank from now on. Blocks until all have come."""
    global _seat
    _rise()
    # Ray Train orders its workers by this, and so a rank has the same number there and here.
    facts = {'machine': ray.util.get_node_ip_address()}
    _seat = worker._Seat(call, index, timeout, facts)
    os.environ.update({**worker._variables(_seat.place), **call.env})


def _rise() -> None:
    """Within a worker: leave the job."""
    global _seat
    seat, _seat = _seat, None
    if seat is not None:
        seat.leave()


class _HorovodBackend(Backend):
    """Ray Train has one of these in the process that looks after the workers, and lets it know of
    one group of them after another."""

    share_cuda_visible_devices = True  # each sees its own at hvd.local_rank()
    ring: Optional[_ring.Ring] = None

    def on_start(self, worker_group: Any, backend_config: HorovodConfig) -> None:
        self._end()  # one whose workers were killed has had no end
        ring = self.ring = _ring.Ring(len(worker_group), _ring.env(None, backend_config),
                                      _GRACE_S)
        limit = float(backend_config.timeout_s)
        try:
            ring.seat([worker_group.execute_single_async(index, _sit, ring.call, index, limit)
                       for index in range(len(worker_group))], limit)
        except Exception as error:
            self._end()
            if isinstance(error.__cause__, RayActorError):  # Ray Train starts others then
                raise error.__cause__
            raise

    def on_shutdown(self, worker_group: Any, backend_config: HorovodConfig) -> None:
        ray.wait(worker_group.execute_async(_rise), num_returns=len(worker_group),
                 timeout=_LEAVE_S)
        self._end()

    def _end(self) -> None:
        ring, self.ring = self.ring, None
        if ring is not None:
            ring.end()


class HorovodTrainer(DataParallelTrainer):
    """Calls train_loop_per_worker on as many workers as scaling_config says; in it hvd.init()
    works. horovod_config: a HorovodConfig. The others: as of TorchTrainer."""

    def __init__(self, train_loop_per_worker: Callable[..., Any], *,
                 horovod_config: Optional[HorovodConfig] = None, **others: Any):
        super().__init__(train_loop_per_worker,
                         backend_config=horovod_config or HorovodConfig(), **others)
