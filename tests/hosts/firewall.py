# SPDX-License-Identifier: Apache-2.0
"""Firewalls and switches of simulated hosts, for as long as a block lasts."""
from contextlib import contextmanager


@contextmanager
def closed(node, interface='+', way='DROP', but=None):
    """Nobody opens connections to the node's ports from 1024 on, but to these (FIRST:LAST); ssh is
    as before."""
    hole = ['-m', 'multiport', '!', '--dports', but] if but else []
    rule = ['INPUT', '-i', interface, '!', '-s', '127.0.0.0/8', '-p', 'tcp', '--syn', '--dport',
            '1024:65535', *hole, '-j', way]
    node.run(['iptables', '-I', *rule], user='root', check=True)
    try:
        yield
    finally:
        node.run(['iptables', '-D', *rule], user='root', check=True)


@contextmanager
def narrow(cluster, interface):
    """All nodes send packets of 9000 bytes there, and the switch between them lets 1500 through:
    it drops what is larger, and tells nobody. The kernel must cut packets itself for it."""
    def set_all(mtu, segments):
        for node in cluster.nodes:
            cluster.ip(node, [f'link set {interface} mtu {mtu} gso_max_segs {segments}'])
    set_all(9000, 1)
    try:
        yield
    finally:
        set_all(1500, 65535)
