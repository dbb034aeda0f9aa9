# SPDX-License-Identifier: Apache-2.0
"""Backends: what calls an estimator's training function on the ranks."""
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

_NONE: Mapping[str, Any] = {}


def default_num_proc() -> int:
    """The slots that Spark has: spark.default.parallelism."""
    from horovod.spark.runner import _context
    return _context().defaultParallelism


class Backend:
    """run() calls fn on num_processes() ranks and returns what they return, by rank."""

    def run(self, fn: Callable, args: Sequence = (), kwargs: Mapping[str, Any] = _NONE,
            env: Optional[Mapping[str, str]] = None) -> List[Any]:
        """env: variables of the ranks, besides the backend's own."""
        raise NotImplementedError

    def num_processes(self) -> int:
        raise NotImplementedError


class SparkBackend(Backend):
    """The tasks of the active Spark session, by horovod.spark.run(), which takes kwargs."""

    def __init__(self, num_proc: Optional[int] = None, env: Optional[Mapping[str, str]] = None,
                 **kwargs: Any):
        self._num_proc = num_proc or default_num_proc()
        self._env: Dict[str, str] = dict(env or {})
        self._options = kwargs

    def run(self, fn: Callable, args: Sequence = (), kwargs: Mapping[str, Any] = _NONE,
            env: Optional[Mapping[str, str]] = None) -> List[Any]:
        import horovod.spark
        return horovod.spark.run(fn, args=args, kwargs=kwargs, num_proc=self._num_proc,
                                 env={**self._env, **(env or {})}, **self._options)

    def num_processes(self) -> int:
        return self._num_proc


class LocalBackend(Backend):
    """Processes of this computer, by reigen.run(), which takes kwargs: Spark only makes the
    data."""

    def __init__(self, num_proc: int = 1, env: Optional[Mapping[str, str]] = None, **kwargs: Any):
        self._num_proc = num_proc
        self._env: Dict[str, str] = dict(env or {})
        self._options = kwargs

    def run(self, fn: Callable, args: Sequence = (), kwargs: Mapping[str, Any] = _NONE,
            env: Optional[Mapping[str, str]] = None) -> List[Any]:
        import reigen
        return reigen.run(fn, args=args, kwargs=kwargs, np=self._num_proc,
                          env={**self._env, **(env or {})}, **self._options)

    def num_processes(self) -> int:
        return self._num_proc
