# SPDX-License-Identifier: Apache-2.0
"""Firewalls of simulated hosts, for as long as a block lasts."""
from contextlib import contextmanager


@contextmanager
def closed(node, interface='+', way='DROP'):
    """Nobody opens connections to the node's ports from 1024 on, ssh is as before."""
    rule = ['INPUT', '-i', interface, '!', '-s', '127.0.0.0/8', '-p', 'tcp', '--syn', '--dport',
            '1024:65535', '-j', way]
    node.run(['iptables', '-I', *rule], user='root', check=True)
    try:
        yield
    finally:
        node.run(['iptables', '-D', *rule], user='root', check=True)
