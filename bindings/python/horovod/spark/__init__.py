# SPDX-License-Identifier: Apache-2.0
"""Functions on Spark's executors, as the ranks of one job.

    import horovod.spark
    results = horovod.spark.run(train, args=(3,), num_proc=4)
"""
import importlib
from typing import TYPE_CHECKING, Any, List

from horovod.spark import conf

if TYPE_CHECKING:
    from horovod.spark.elastic import run_elastic
    from horovod.spark.runner import run

_RUNNER = {'run': 'horovod.spark.runner', 'run_elastic': 'horovod.spark.elastic'}
__all__ = ['conf', 'run', 'run_elastic']


def __getattr__(name: str) -> Any:
    """Spark's package is loaded by who runs something."""
    if name not in _RUNNER:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(_RUNNER[name]), name)


def __dir__() -> List[str]:
    return sorted({*globals(), *_RUNNER})
