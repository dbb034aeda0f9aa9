# SPDX-License-Identifier: Apache-2.0
"""Hosts on a network with a rate and a delay.

usage: bench/between.py shell [--hosts 2] [--rate 1gbit] [--delay MS] [--node 1] [-- COMMAND...]

shell      a shell of root's on one of the hosts, or one command; the hosts go when it ends.
           `ssh node2` reaches the next host. --delay is one way: a round trip takes twice as long.

Needs root and tests/bed; everything runs on this machine.
"""
import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests'))

from bed import Network, first  # noqa: E402 (needs the path above)


def shell(args):
    with first(), Network(args.hosts, args.rate, args.delay) as net:
        return net.popen(args.node, args.words or ['bash'], cwd=Path.cwd(),
                         start_new_session=False).wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    by_hand = commands.add_parser('shell', help='a shell or a command on one of the hosts')
    by_hand.add_argument('--hosts', type=int, default=2)
    by_hand.add_argument('--rate', help='of each cable, such as 10gbit; none: no limit')
    by_hand.add_argument('--delay', type=float, default=0, metavar='MS', help='one way')
    by_hand.add_argument('--node', type=int, default=1)
    by_hand.add_argument('words', nargs='*', metavar='COMMAND')
    args = parser.parse_args()
    return shell(args)


if __name__ == '__main__':
    sys.exit(main())
