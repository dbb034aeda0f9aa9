# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs on a cluster of Ray's. There are none yet; the names are, for who imports them."""
from typing import Any

from horovod.ray.discovery import RayHostDiscovery
from horovod.ray.runner import NO_ELASTIC

__all__ = ['ElasticRayExecutor', 'RayHostDiscovery']


class ElasticRayExecutor:
    """Refused, with what to use."""

    @staticmethod
    def create_settings(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(NO_ELASTIC)

    def __init__(self, *args: Any, **kwargs: Any):
        raise NotImplementedError(NO_ELASTIC)
