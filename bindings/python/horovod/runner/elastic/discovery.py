# SPDX-License-Identifier: Apache-2.0
"""Which hosts there are now, for jobs whose hosts come and go."""
import contextlib
import os
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from horovod.common.elastic import HostUpdateResult
from horovod.runner.elastic import driver

DEFAULT_COOLDOWN_LOWER_LIMIT_SECONDS = 1
DEFAULT_COOLDOWN_UPPER_LIMIT_SECONDS = 1 * 60 * 60
SCRIPT_SECONDS = 60
PATIENCE_S = 5


class HostState:
    """What is known of one host: an event that ends its ranks, and whether it is left alone.

    cooldown_range: (least, most) seconds that a host which failed is left alone; None: for good.
    The time doubles with each failure (exponential backoff with jitter).
    """

    def __init__(self, cooldown_range: Optional[Sequence[int]] = None):
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._range = tuple(cooldown_range) if cooldown_range else None
        self._blacklisted = False
        self._count = 0
        self._until = 0.0

    def get_event(self) -> threading.Event:
        """The event; a new one when the old one was set."""
        with self._lock:
            if self._event.is_set():
                self._event = threading.Event()
            return self._event

    def set_event(self) -> None:
        with self._lock:
            self._event.set()

    def blacklist(self) -> None:
        with self._lock:
            self._blacklisted = True
            if self._range:
                least, most = self._range
                delay = min(most, least * 2 ** min(self._count, 32) * (1 + random.random()))
                self._until = time.monotonic() + max(least, delay)
            self._count += 1
            self._event.set()

    def whitelist(self) -> None:
        with self._lock:
            self._blacklisted = False
            self._until = 0.0

    def is_blacklisted(self) -> bool:
        return self._blacklisted

    def is_resurrected(self) -> bool:
        """Blacklisted, and its time is over."""
        return bool(self._blacklisted and self._range and time.monotonic() > self._until)


class DiscoveredHosts:
    """host_slots: name -> slots; host_assignment_order: the hosts, oldest first."""

    def __init__(self, host_slots: Dict[str, int], host_assignment_order: Sequence[str]):
        self._host_slots = dict(host_slots)
        self._order = list(host_assignment_order)

    @property
    def host_slots(self) -> Dict[str, int]:
        return self._host_slots

    @property
    def available_hosts(self) -> set:
        return set(self._order)

    @property
    def host_assignment_order(self) -> List[str]:
        return self._order

    def get_slots(self, host: str) -> int:
        return self._host_slots.get(host, 0)

    def count_available_slots(self) -> int:
        return sum(self.get_slots(host) for host in self._order)

    def update(self, hosts_state: Dict[str, HostState]) -> 'DiscoveredHosts':
        """Without the hosts that are blacklisted."""
        self._order = [host for host in self._order
                       if host not in hosts_state or not hosts_state[host].is_blacklisted()]
        return self


class HostDiscovery:
    """Something that knows the hosts."""

    def find_available_hosts_and_slots(self) -> Dict[str, int]:
        raise NotImplementedError()


class HostDiscoveryScript(HostDiscovery):
    """A program that prints one host, or host:slots, per line."""

    def __init__(self, discovery_script: str, slots: Optional[int]):
        self._script = discovery_script
        self._slots = slots

    def _execute_discovery_script(self) -> str:
        """What the program prints; subclasses and tests put something else here. RuntimeError when
        it fails."""
        path = os.path.expanduser(self._script)
        done = subprocess.run(path, shell=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, timeout=SCRIPT_SECONDS,
                              check=False)
        if done.returncode:
            raise RuntimeError(f'Failed to execute discovery script: {path}. Exit code: '
                               f'{done.returncode}. {done.stderr.strip()}')
        return done.stdout

    def find_available_hosts_and_slots(self) -> Dict[str, int]:
        """RuntimeError when the program fails, or prints a host without slots and none are set;
        ValueError for slots that are no number. A host that is printed again is one host."""
        hosts: Dict[str, int] = {}
        lines = self._execute_discovery_script().lstrip('\ufeff').splitlines()
        for line in filter(None, (line.partition('#')[0].strip() for line in lines)):
            host, _, slots = line.rpartition(':') if ':' in line else (line, '', None)
            if slots is not None and not slots.strip().isdecimal():
                raise ValueError(f'{self._script} printed "{line}", whose slots are no number; '
                                 'each line is HOST or HOST:SLOTS')
            if slots is None and self._slots is None:
                raise RuntimeError(f'{self._script} printed {line} without slots; set '
                                   '--slots-per-host.')
            hosts[host] = int(slots) if slots is not None else int(self._slots or 0)
        return hosts


class FixedHosts(HostDiscovery):
    """Hosts that change when set() is called."""

    def __init__(self, host_slots: Dict[str, int]):
        self._host_slots = host_slots

    def find_available_hosts_and_slots(self) -> Dict[str, int]:
        return self._host_slots

    def set(self, host_slots: Dict[str, int]) -> None:
        self._host_slots = host_slots


class HostManager:
    """Keeps the list of hosts that may be used, oldest first."""

    def __init__(self, discovery: HostDiscovery, cooldown_range: Optional[Tuple] = None):
        self._discovery = discovery
        self._cooldown_range = cooldown_range
        self._current = DiscoveredHosts({}, [])
        self._states: Dict[str, HostState] = {}

    def _state(self, host: str) -> HostState:
        return self._states.setdefault(host, HostState(self._cooldown_range))

    def update_available_hosts(self) -> HostUpdateResult:
        """Ask the discovery; what has changed since the last time."""
        before, slots = self._current, self._discovery.find_available_hosts_and_slots()
        result = HostUpdateResult.no_update
        for host in list(self._states):
            if host in slots and self._states[host].is_resurrected():
                self._states[host].whitelist()
                result |= HostUpdateResult.added
        for host in set(slots) | set(before.host_slots):
            old, new = before.host_slots.get(host, 0), slots.get(host, 0)
            if self._state(host).is_blacklisted() or old == new:
                continue
            result |= HostUpdateResult.added if new > old else HostUpdateResult.removed
            if new < old:
                self._state(host).set_event()
        usable = {h for h in slots if not self._state(h).is_blacklisted()}
        order = self.order_available_hosts(usable, before.host_assignment_order)
        self._current = DiscoveredHosts(slots, order)
        return result

    @property
    def current_hosts(self) -> DiscoveredHosts:
        return self._current.update(self._states)

    def blacklist(self, host: str) -> None:
        self._state(host).blacklist()

    def is_blacklisted(self, host: str) -> bool:
        return self._state(host).is_blacklisted()

    def get_host_event(self, host: str) -> threading.Event:
        return self._state(host).get_event()

    @staticmethod
    def order_available_hosts(available_hosts: set,
                              prev_host_assignment_order: Sequence[str]) -> List[str]:
        """Hosts that were there before keep their order; new ones follow."""
        kept = [host for host in prev_host_assignment_order if host in available_hosts]
        return kept + sorted(set(available_hosts) - set(kept))


@contextlib.contextmanager
def as_script(found: HostDiscovery) -> Iterator[Tuple[str, Optional[int]]]:
    """(command, slots or None): what to give to the launcher while the context lasts, so that it
    learns of hosts what this object knows. What the first question raises is raised."""
    if type(found) is HostDiscoveryScript:
        yield found._script, found._slots
        return
    with tempfile.TemporaryDirectory(prefix='reigen-hosts-') as folder:
        path, over = os.path.join(folder, 'hosts'), threading.Event()
        _write_hosts(found, path)
        thread = threading.Thread(target=_keep_written, args=(found, path, over), daemon=True)
        thread.start()
        try:
            yield 'cat ' + shlex.quote(path), None
        finally:
            over.set()
            thread.join(PATIENCE_S)  # it may be in a call that does not return


def _write_hosts(found: HostDiscovery, path: str) -> None:
    hosts = found.find_available_hosts_and_slots()
    with open(path + '.new', 'w') as out:
        out.writelines(f'{host}:{slots}\n' for host, slots in hosts.items())
    os.replace(path + '.new', path)


def _keep_written(found: HostDiscovery, path: str, over: threading.Event) -> None:
    while not over.wait(driver.DISCOVER_HOSTS_FREQUENCY_SECS):
        try:
            _write_hosts(found, path)
        except Exception as error:
            # As with a script: the hosts stay as they were.
            print(f'{type(found).__name__}: {error}; the hosts stay as they are', file=sys.stderr)
