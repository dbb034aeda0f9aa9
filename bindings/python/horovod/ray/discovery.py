# SPDX-License-Identifier: Apache-2.0
"""The hosts of a cluster of Ray's, as elastic jobs of Horovod's want them."""
from typing import Dict

import ray

from horovod.runner.elastic.discovery import HostDiscovery


class RayHostDiscovery(HostDiscovery):
    """Asks the cluster that this program is connected to. cpus_per_slot, gpus_per_slot: what a rank
    takes; elastic_v2 calls them cpus_per_worker and gpus_per_worker."""

    def __init__(self, use_gpu: bool = False, cpus_per_slot: float = 1, gpus_per_slot: float = 1,
                 **named: float):
        self.use_gpu = use_gpu
        self.cpus_per_slot = named.pop('cpus_per_worker', cpus_per_slot)
        self.gpus_per_slot = named.pop('gpus_per_worker', gpus_per_slot)
        if named:
            raise TypeError(f'RayHostDiscovery has no argument {min(named)!r}')

    def find_available_hosts_and_slots(self) -> Dict[str, int]:
        """By the address of each live node that has room for a rank at all, for how many."""
        found: Dict[str, int] = {}
        for node in ray.nodes():
            slots = self._slots(node['Resources']) if node['Alive'] else 0
            if slots:
                address = node['NodeManagerAddress']
                found[address] = found.get(address, 0) + slots
        return found

    def _slots(self, resources: Dict[str, float]) -> int:
        needs = {'CPU': self.cpus_per_slot, 'GPU': self.gpus_per_slot if self.use_gpu else 0}
        return int(min((resources.get(name, 0) // need for name, need in needs.items() if need),
                       default=resources.get('CPU', 0)))
