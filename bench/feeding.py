# SPDX-License-Identifier: Apache-2.0
"""Standard input to a rank, beside the same bytes through ssh: for bench/hosts.py.

usage: bench/feeding.py [RUNS]

Prints the table. Each command is `wc -c` on node2, which says how much came; the times hold its
start as well. Both programs take turns. The far host is the same one behind bench/delay.py.
"""
import statistics
import subprocess
import sys
import time

from starting import REIGEN, ROOT

sys.path.insert(0, str(ROOT / 'tests'))

from bed import Cluster  # noqa: E402 (needs the path above)

DELAY_MS = 100  # in one direction
SIZES = {'node2': 200 << 20, 'far': 40 << 20}
FAR = """
Host far
    HostName node2
    HostKeyAlias node2
    ProxyCommand {python} {root}/bench/delay.py {delay} node2 22
"""
WAYS = {'ssh': lambda host: ['ssh', host, 'wc', '-c'],
        'reigen': lambda host: [REIGEN, 'run', '-q', '-H', f'{host}:1', '--', 'wc', '-c']}


def timed(node, argv, nbytes):
    began = time.monotonic()
    with open(node.path('bytes'), 'rb') as source:
        child = node.popen(argv, stdin=source, stdout=subprocess.PIPE, text=True)
        told = child.communicate(timeout=300)[0]
    assert child.returncode == 0 and told.split()[-1] == str(nbytes), told
    return time.monotonic() - began


def measure(runs):
    """{(host, program): median of seconds}."""
    found = {}
    with Cluster(2) as cluster:
        node = cluster[1]
        with open(node.path('.ssh/config'), 'a') as config:
            config.write(FAR.format(python=sys.executable, root=ROOT, delay=DELAY_MS))
        for host, nbytes in SIZES.items():
            with open('/dev/urandom', 'rb') as noise:
                node.path('bytes').write_bytes(noise.read(nbytes))
            for i in range(runs + 1):  # the first is to warm up
                for name, argv in WAYS.items():
                    seconds = timed(node, argv(host), nbytes)
                    found.setdefault((host, name), []).extend([seconds] if i else [])
    return {key: statistics.median(values) for key, values in found.items()}


def table(runs):
    m = measure(runs)
    lines = ['| | ssh | reigen run | reigen / ssh |', '|---|---|---|---|']
    for host, text in ('node2', 'on this machine'), ('far', '200 ms away, there and back'):
        ssh, reigen = m[host, 'ssh'], m[host, 'reigen']
        lines.append(f'| {SIZES[host] >> 20} MiB to a host {text} | {ssh:.2f} s | {reigen:.2f} s | '
                     f'{reigen / ssh:.2f} |')
    print('\n'.join(lines))
    return '\n'.join(lines)


if __name__ == '__main__':
    table(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
