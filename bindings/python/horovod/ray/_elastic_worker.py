# SPDX-License-Identifier: Apache-2.0
"""The actor that is a rank of an elastic job, of one epoch after another
(reigen/_elastic_member.py). Ray shows what it prints."""
import os
import pickle
from typing import Any, Callable, Optional, Tuple

import ray

from horovod.ray import ray_logger, worker
from reigen import _elastic_member, _member, boot
from reigen._frames import seal


def _work(way: _elastic_member._Way, place: Any, call: _member.Call,
          func: Callable[[], Any]) -> _member.Outcome:
    def function() -> _member.Outcome:
        # What cannot be pickled is a failure of the function.
        return _member.Outcome(True, False, ray.cloudpickle.dumps(func()))

    def in_job() -> _member.Outcome:
        with boot.lending(way.join, way):
            end = _member._call(function)
            if not end.well:  # the others fail when this one leaves the job: it is to be the first
                way.line.send('failed', end.data, follows=end.follows or way.stopped)
            return end

    with _member._variables(call.env, place):
        end = _member._call(in_job)
    way.line.send('end', b'' if end.well else end.data, well=end.well,
                  follows=end.follows or way.stopped)
    return end


class WithObject:
    """fn(object), where make() makes the object anew."""

    def __init__(self, make: Callable[[], Any], fn: Callable[[Any], Any]):
        self._make, self._fn = make, fn

    def __call__(self) -> Any:
        return self._fn(self._make())


class ElasticHorovodWorker:
    """One for each slot of a node. It is called once."""

    def take_part(self, index: int, call: _member.Call, listens: bool,
                  func: Callable[[], Any]) -> Optional[Tuple[int, bytes]]:
        """Be a rank as long as the job has use for this worker, and until the function ends well:
        its last rank, and what it returned, pickled. None: it never did."""
        way = _member.connect(_elastic_member._Way, call, index, {'gpus': worker.gpus()})
        if listens:
            ray_logger.configure(lambda info: way.line.send(
                'log', seal(call.key, pickle.dumps(info))))

        def work(place: Any) -> _member.Outcome:
            if place['gpus']:
                os.environ['CUDA_VISIBLE_DEVICES'] = ','.join(place['gpus'])
            return _work(way, place, call, func)
        try:
            data = _elastic_member.until_well(way, work)
        finally:
            ray_logger.configure(None)
        return None if data is None else (way.rank, data)
