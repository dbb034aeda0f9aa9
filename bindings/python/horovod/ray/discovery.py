# SPDX-License-Identifier: Apache-2.0
"""The hosts of a cluster of Ray's, as elastic jobs of Horovod's want them."""
import random
import time
from typing import Any, Collection, Dict, List

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


class TestDiscovery(RayHostDiscovery):
    """Shows some of the hosts, and every so many seconds one more or one less: a try of how a job
    bears that. The others: as of RayHostDiscovery."""

    __test__ = False  # pytest takes its name for a test's

    def __init__(self, min_hosts: int, max_hosts: int, change_frequency_s: float,
                 use_gpu: bool = False, cpus_per_slot: float = 1, gpus_per_slot: float = 1,
                 verbose: bool = True, _graceful: bool = True, **named: Any):
        if not 1 <= min_hosts <= max_hosts:
            raise ValueError(f'min_hosts={min_hosts}, max_hosts={max_hosts}: they are numbers of '
                             'hosts, 1 or more, and the second is not the smaller one')
        super().__init__(use_gpu, cpus_per_slot, gpus_per_slot, **named)
        self._min, self._max, self._every = min_hosts, max_hosts, change_frequency_s
        self._verbose = verbose
        self._shown: List[str] = []
        self._next = time.monotonic() + change_frequency_s

    def add_host(self, hosts: Collection[str]) -> None:
        """Show one more of them, if there is one more."""
        hidden = sorted(set(hosts) - set(self._shown))
        if hidden:
            self._shown.append(random.choice(hidden))

    def remove_host(self, hosts: Collection[str]) -> None:
        """Show one less of them."""
        shown = [host for host in self._shown if host in hosts]
        if shown:
            self._shown.remove(random.choice(shown))

    def change_hosts(self, hosts: Collection[str]) -> None:
        """One more or one less, within the limits."""
        more = len(self._shown) < self._max
        less = len(self._shown) > self._min
        if more and (not less or random.random() < 0.5):
            self.add_host(hosts)
        elif less:
            self.remove_host(hosts)

    def find_available_hosts_and_slots(self) -> Dict[str, int]:
        """Of those that are shown now."""
        found = super().find_available_hosts_and_slots()
        before, self._shown = self._shown, [host for host in self._shown if host in found]
        while len(self._shown) < min(self._min, len(found)):
            self.add_host(found)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            self.change_hosts(found)
        if self._verbose and self._shown != before:
            print(f'horovod.ray: hosts are {", ".join(self._shown)} now', flush=True)
        return {host: found[host] for host in self._shown}
