# SPDX-License-Identifier: Apache-2.0
"""Hosts, slots, and which rank runs where."""
import re
from typing import Dict, List, Optional, Sequence, Tuple

HOST_PATTERN = re.compile(r'(\[[^\]]+\]|[^:\s]+):([0-9]+)')


class HostInfo:
    """A host and how many ranks it takes."""

    def __init__(self, hostname: str, slots: int):
        self.hostname = hostname
        self.slots = slots

    @staticmethod
    def from_string(host_string: str) -> 'HostInfo':
        """'name:4'; ValueError for anything else."""
        match = HOST_PATTERN.fullmatch(host_string.strip())
        if not match:
            raise ValueError(f'Invalid host input, please make sure it has format as : '
                             f'worker-0:2,worker-1:2. It is "{host_string}".')
        return HostInfo(match[1], int(match[2]))

    def __repr__(self) -> str:
        return f'HostInfo({self.hostname!r}, {self.slots})'


class SlotInfo:
    """One rank's place."""

    def __init__(self, hostname: str, rank: int, local_rank: int, cross_rank: int,
                 size: Optional[int] = None, local_size: Optional[int] = None,
                 cross_size: Optional[int] = None):
        self.hostname = hostname
        self.rank = rank
        self.size = size
        self.local_rank = local_rank
        self.local_size = local_size
        self.cross_rank = cross_rank
        self.cross_size = cross_size

    def to_response_string(self) -> str:
        """'rank,size,local_rank,local_size,cross_rank,cross_size'"""
        return ','.join(str(v) for v in (self.rank, self.size, self.local_rank, self.local_size,
                                         self.cross_rank, self.cross_size))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SlotInfo) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f'SlotInfo({vars(self)})'


#: The place of a rank that has none.
INVALID_SLOT_INFO = SlotInfo('', -1, -1, -1, -1, -1, -1)


def parse_host_files(filename: str) -> str:
    """A host file, lines 'name slots=4' or 'name:4', as 'name:4,...'."""
    hosts = []
    # An editor of another system may have put a byte order mark in front.
    with open(filename, encoding='utf-8-sig') as stream:
        for line in stream:
            words = line.split('#')[0].split()
            if not words:
                continue
            slots = next((w[6:] for w in words[1:] if w.startswith('slots=')), None)
            hosts.append(words[0] if slots is None and ':' in words[0]
                         else f'{words[0]}:{slots or 1}')
    return ','.join(hosts)


def parse_hosts_and_slots(hosts: str) -> Tuple[List[str], Dict[str, int]]:
    """'a:2,b:1' as (['a', 'b'], {'a': 2, 'b': 1})."""
    names, slots = [], {}
    for info in parse_hosts(hosts):
        names.append(info.hostname)
        slots[info.hostname] = info.slots
    return names, slots


def parse_hosts(hosts_string: str) -> List[HostInfo]:
    return [HostInfo.from_string(text) for text in hosts_string.split(',')]


def get_host_assignments(hosts: Sequence[HostInfo], min_num_proc: int,
                         max_num_proc: Optional[int] = None) -> List[SlotInfo]:
    """Each rank's place: hosts are filled in order, up to max_num_proc (or all slots).

    ValueError when there are fewer slots than min_num_proc.
    """
    slots: List[SlotInfo] = []
    on_local_rank: Dict[int, int] = {}
    for host in hosts:
        first = len(slots)
        for local_rank in range(host.slots):
            if max_num_proc is not None and len(slots) == max_num_proc:
                break
            cross_rank = on_local_rank.get(local_rank, 0)
            on_local_rank[local_rank] = cross_rank + 1
            slots.append(SlotInfo(host.hostname, len(slots), local_rank, cross_rank))
        for slot in slots[first:]:
            slot.local_size = len(slots) - first
    if len(slots) < min_num_proc:
        raise ValueError(f'Requested more processes ({min_num_proc}) than there are available '
                         f'slots ({len(slots)})')
    for slot in slots:
        slot.size = len(slots)
        slot.cross_size = on_local_rank[slot.local_rank]
    return slots
