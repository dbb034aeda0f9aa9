# SPDX-License-Identifier: Apache-2.0
"""A newer name of what horovod.ray.elastic has."""
from horovod.ray.discovery import RayHostDiscovery, TestDiscovery

__all__ = ['RayHostDiscovery', 'TestDiscovery']
