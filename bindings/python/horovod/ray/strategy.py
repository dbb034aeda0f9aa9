# SPDX-License-Identifier: Apache-2.0
"""Where workers are placed: bundles of a placement group, each for one worker, or for all workers
of a host."""
import contextlib
import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import ray
from ray.util.placement_group import (PlacementGroup, get_current_placement_group,
                                      placement_group, remove_placement_group)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


def __getattr__(name: str) -> Any:
    if name in ('BaseStrategy', 'ColocatedStrategy', 'PGStrategy'):
        raise ImportError(
            f'horovod.ray.strategy has no {name}, whose workers need Horovod\'s own servers. '
            'RayExecutor places workers: by num_workers, also in the current placement group, or '
            'by num_hosts and num_workers_per_host')
    raise AttributeError(f'module {__name__!r} has no attribute {name!r}')


class Share(NamedTuple):
    """What one worker takes."""
    cpus: float
    gpus: float

    def bundle(self, workers: int) -> Dict[str, float]:
        """What so many take. A bundle of nothing is refused by Ray."""
        amounts = {'CPU': self.cpus * workers, 'GPU': self.gpus * workers}
        return {name: amount for name, amount in amounts.items() if amount} or {'CPU': 0.001}


def _words(resources: Mapping[str, float]) -> str:
    return ' and '.join(f'{amount:g} {name}' for name, amount in sorted(resources.items()))


def _there() -> str:
    """What the cluster's nodes have, and what is free."""
    nodes = [node for node in ray.nodes() if node['Alive']]
    each = [f'{node["NodeManagerAddress"]} has '
            f'{_words({name: node["Resources"].get(name, 0) for name in ("CPU", "GPU")})}'
            for node in nodes]
    free = ray.available_resources()
    total = _words({name: free.get(name, 0) for name in ('CPU', 'GPU')})
    return f'There are {len(nodes)} nodes: {"; ".join(each)}. Of all, {total} are free'


def _asked(bundles: Sequence[Mapping[str, float]], strategy: str) -> str:
    where = {'STRICT_SPREAD': ', each on a node of its own', 'STRICT_PACK': ', all on one node'}
    kinds = {_words(bundle): sum(_words(one) == _words(bundle) for one in bundles)
             for bundle in bundles}
    asked = ', '.join(f'{count} bundle{"s" * (count > 1)} of {words}'
                      for words, count in kinds.items())
    return asked + where.get(strategy, '')


def _create(bundles: List[Dict[str, float]], timeout: float, strategy: str) -> PlacementGroup:
    """TimeoutError: the cluster did not have that within so many seconds."""
    group = placement_group(bundles, strategy=strategy)
    ready = False
    try:
        ready = group.wait(max(math.ceil(timeout), 1))
    finally:
        if not ready:
            with contextlib.suppress(Exception):
                remove_placement_group(group)
    if not ready:
        raise TimeoutError(f'Ray did not give {_asked(bundles, strategy)}, within {timeout:g} s '
                           f'(placement_group_timeout_s). {_there()}')
    return group


def create_placement_group(resources_per_bundle: Dict[str, float], num_bundles: int,
                           pg_timeout: float, pg_strategy: str) -> PlacementGroup:
    """A placement group that is there. TimeoutError says what was asked for and what there is."""
    return _create([dict(resources_per_bundle)] * num_bundles, pg_timeout, pg_strategy)


class Room:
    """A place for each worker, by its index. end() gives it back."""

    def __init__(self, group: PlacementGroup, bundles: Optional[List[int]] = None):
        """bundles: of a group of our own; None: any one of somebody else's."""
        self._group, self._bundles = group, bundles

    def options(self, index: int) -> Dict[str, Any]:
        return {'scheduling_strategy': PlacementGroupSchedulingStrategy(
            placement_group=self._group, placement_group_bundle_index=(
                -1 if self._bundles is None else self._bundles[index]))}

    def end(self) -> None:
        if self._bundles is not None:
            with contextlib.suppress(Exception):  # Ray may have ended
                remove_placement_group(self._group)


def _fits(amounts: Mapping[str, float], share: Share) -> int:
    return min(int(amounts.get(name, 0) // need) for name, need in share.bundle(1).items())


def current(workers: int, share: Share) -> Optional[Room]:
    """Room in the placement group that the caller is in; None: it is in none. ValueError: it has
    too little, also without the caller."""
    group = get_current_placement_group()
    if group is None:
        return None
    fit = sum(_fits(bundle, share) for bundle in group.bundle_specs)
    if fit < workers:
        raise ValueError(
            f'{workers} workers of {_words(share.bundle(1))} do not fit in the current placement '
            f'group, {_asked(group.bundle_specs, "")}: {fit} do. '
            'use_current_placement_group=False makes another group')
    return Room(group)


def packed(workers: int, share: Share, timeout: float) -> Room:
    """On few nodes."""
    return Room(_create([share.bundle(1)] * workers, timeout, 'PACK'), list(range(workers)))


def colocated(hosts: int, workers_per_host: int, share: Share, timeout: float) -> Room:
    """Equally many on each of so many nodes."""
    group = _create([share.bundle(workers_per_host)] * hosts, timeout,
                    'STRICT_SPREAD' if hosts > 1 else 'STRICT_PACK')
    return Room(group, [host for host in range(hosts) for _ in range(workers_per_host)])
