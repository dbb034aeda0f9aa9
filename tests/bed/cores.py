# SPDX-License-Identifier: Apache-2.0
"""The cores of this machine, which all simulated hosts share."""
import os
from pathlib import Path

SHOW = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status"


def cores():
    """What `reigen run` may bind ranks to, in its order: a list of sets of cpus."""
    usable = os.sched_getaffinity(0)
    found = {}
    for cpu in usable:
        topology = Path(f'/sys/devices/system/cpu/cpu{cpu}/topology')
        siblings = expand((topology / 'thread_siblings_list').read_text())
        socket = int((topology / 'physical_package_id').read_text())
        found[max(socket, 0), min(siblings)] = siblings & usable
    return [found[key] for key in sorted(found)]


def expand(text):
    """{0, 1, 2, 8} of 0-2,8."""
    pairs = [part.split('-') for part in text.strip().split(',')]
    return {cpu for pair in pairs for cpu in range(int(pair[0]), int(pair[-1]) + 1)}
