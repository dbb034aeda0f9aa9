# SPDX-License-Identifier: Apache-2.0
"""Addresses and ports of this host."""
import functools
import random
import socket
from typing import Any, Callable, Iterable, List, Optional, Set, Tuple


@functools.lru_cache(maxsize=None)
def get_local_host_addresses() -> Set[str]:
    """All IP addresses by which this host knows itself."""
    found = {'127.0.0.1', '::1', '0.0.0.0'}
    for name in {socket.gethostname(), 'localhost'}:
        try:
            found |= {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
        except OSError:
            pass
    return found


def get_local_intfs(nic: Optional[str] = None) -> Set[str]:
    """The names of this host's network interfaces; only nic if it is given and exists."""
    names = {name for _, name in socket.if_nameindex()}
    return names & {nic} if nic else names


def resolve_host_address(host_name: str) -> Optional[str]:
    """The host's IPv4 address, or None when it has none."""
    try:
        return socket.gethostbyname(host_name)
    except OSError:
        return None


def filter_local_addresses(all_host_names: Iterable[str]) -> List[str]:
    """Those that are not this host."""
    local = get_local_host_addresses()
    return [name for name in all_host_names
            if name not in ('localhost', socket.gethostname())
            and resolve_host_address(name) not in local]


def find_port(server_factory: Callable[[Tuple[str, int]], Any]) -> Tuple[Any, int]:
    """(server, port): server_factory((address, port)) with the first port that it can have."""
    for port in [0] + random.sample(range(1024, 65536), 100):
        try:
            server = server_factory(('', port))
            return server, server.socket.getsockname()[1]
        except OSError:
            continue
    raise RuntimeError('Unable to find a port to bind to.')


def get_driver_ip(nics: Optional[Iterable[str]] = None) -> str:
    """An address of this host that other hosts may reach; 127.0.0.1 when it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the kernel only chooses the route.
            probe.connect(('192.0.2.1', 9))
            return probe.getsockname()[0]
        except OSError:
            return '127.0.0.1'
