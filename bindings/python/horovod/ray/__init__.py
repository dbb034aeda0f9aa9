# SPDX-License-Identifier: Apache-2.0
"""Functions and objects on the workers of a Ray cluster, as the ranks of one job.

    from horovod.ray import RayExecutor

    executor = RayExecutor(RayExecutor.create_settings(timeout_s=30), num_workers=4)
    executor.start()
    results = executor.run(train, args=[3])
    executor.shutdown()
"""
import importlib
from typing import TYPE_CHECKING, Any, List

try:
    import ray
except ImportError as error:
    raise ImportError('horovod.ray needs Ray, here and on the cluster: pip install ray') from error

if TYPE_CHECKING:
    from horovod.ray.elastic import ElasticRayExecutor
    from horovod.ray.runner import RayExecutor
    from horovod.ray.worker import BaseHorovodWorker

_WHERE = {'RayExecutor': 'runner', 'BaseHorovodWorker': 'worker', 'ElasticRayExecutor': 'elastic'}
__all__ = ['RayExecutor', 'BaseHorovodWorker', 'ElasticRayExecutor']


def __getattr__(name: str) -> Any:
    """A worker loads no more than it needs."""
    if name not in _WHERE:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(f'horovod.ray.{_WHERE[name]}'), name)


def __dir__() -> List[str]:
    return sorted({*globals(), *_WHERE})
