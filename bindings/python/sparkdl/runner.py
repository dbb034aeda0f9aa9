# SPDX-License-Identifier: Apache-2.0
"""HorovodRunner: ranks in Spark's tasks, or on the computer of the notebook."""
import functools
import re
import sys
from typing import Any, Callable

from reigen._display import put
from sparkdl import horovod as words

_ALL, _CALLBACKS = 'all', 'log_callback_only'
_LINE = re.compile(r'\[\w+\]<stdout>:' + words.MARK + '(.*)', re.S)


class _Shown:
    """Takes the lines of ranks, and shows those that are to be seen."""

    def __init__(self, name: str, verbosity: str):
        self._name, self._verbosity = name, verbosity

    def write(self, line: str) -> None:
        """One whole line, as horovod.spark.run() writes it."""
        stream, said = getattr(sys, self._name), _LINE.fullmatch(line)
        if said:
            put(stream, said[1])
        elif self._verbosity == _ALL:
            put(stream, line)

    def flush(self) -> None:
        getattr(sys, self._name).flush()


class HorovodRunner:
    """np: ranks, each a task of the active Spark session; 0: as many as it has slots; below 0: -np
    ranks on this computer, without Spark, to try a function. driver_log_verbosity: 'all': what
    ranks print is shown here; 'log_callback_only': of ranks in tasks, what they say by
    sparkdl.horovod.log_to_driver()."""

    def __init__(self, *, np: int, driver_log_verbosity: str = _CALLBACKS):
        if not isinstance(np, int) or isinstance(np, bool):
            raise TypeError(f'np is {np!r}: it is a number of ranks, 0 for all slots, or below 0 '
                            'for ranks on this computer')
        if driver_log_verbosity not in (_ALL, _CALLBACKS):
            raise ValueError(f'driver_log_verbosity is {driver_log_verbosity!r}: it is {_ALL!r} or '
                             f'{_CALLBACKS!r}')
        self.num_processor = np
        self.driver_log_verbosity = driver_log_verbosity

    def run(self, main: Callable, **kwargs: Any) -> Any:
        """Call main(**kwargs) on each rank; what rank 0 returned. Raises reigen.JobFailed."""
        if self.num_processor < 0:
            import reigen
            return reigen.run(functools.partial(words.here, main, kwargs),
                              np=-self.num_processor)[0]
        import pyspark.sql

        import horovod.spark
        pyspark.sql.SparkSession.builder.getOrCreate()
        verbosity = self.driver_log_verbosity
        return horovod.spark.run(main, kwargs=kwargs, num_proc=self.num_processor or None,
                                 stdout=_Shown('stdout', verbosity),
                                 stderr=_Shown('stderr', verbosity))[0]
