# SPDX-License-Identifier: Apache-2.0
"""A cluster of simulated hosts by hand, as root; `up` leaves it there until `down`.

    python3 tests/bed/bed.py up --nodes 4 --dockerd --image base
    python3 tests/bed/bed.py shell                    # as alice on node1
    python3 tests/bed/bed.py run --node node2 -- docker ps
    python3 tests/bed/bed.py down
"""
import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bed import Cluster, KubeCluster, Node, SlurmCluster  # noqa: E402 (see above)
from bed import cluster as clusters  # noqa: E402

RECORD = clusters.BED / 'by-hand.json'


def parse(argv):
    parser = argparse.ArgumentParser(prog='bed.py', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest='command', required=True)
    up = commands.add_parser('up', help='bring up a cluster')
    up.add_argument('--nodes', type=int, default=2)
    up.add_argument('--no-sshd', action='store_true')
    up.add_argument('--dockerd', action='store_true')
    up.add_argument('--docker0', action='store_true', help='the same docker0 on every node')
    up.add_argument('--networks', type=int, default=1)
    up.add_argument('--shared-home', action='store_true')
    up.add_argument('--slurm', action='store_true', help='with Slurm, and its login node `head`')
    up.add_argument('--kubernetes', action='store_true',
                    help='with Kubernetes, and the computer `laptop` with kubectl and helm')
    up.add_argument('--image', action='append', default=[], metavar='NAME[=TAG]',
                    help='base, debian, trainer, mnode, pai, mpich, musl, distroless, '
                         'scratch-static')
    for name, text in (('shell', 'an interactive shell'), ('run', 'one command')):
        command = commands.add_parser(name, help=f'{text} on a node (default node1)')
        command.add_argument('--node', default='node1')
        command.add_argument('--user', default='alice')
        if name == 'run':
            command.add_argument('words', nargs='+', metavar='COMMAND')
    commands.add_parser('down', help='end the cluster and all that runs in it')
    return parser.parse_args(argv)


def bring_up(args):
    if keeper():
        sys.exit('bed: a cluster is up already; `bed.py down` ends it')
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        with os.fdopen(read) as told:
            answer = told.read()
        print(answer, end='')
        return 0 if answer.startswith('up: ') else 1
    # The keeper: the cluster lives as long as it does.
    os.close(read)
    os.setsid()
    with os.fdopen(write, 'w') as tell:
        keep(args, tell)
    os._exit(0)


def keep(args, tell):
    ended = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.append(1))
    try:
        cluster = make(args)
    except Exception as error:  # pylint: disable=broad-except
        tell.write(f'bed: {error}\n')
        return
    with cluster:
        nodes = {n.name: n.pid for n in cluster.hosts}
        more = cluster.environment() if args.kubernetes else {}
        clusters.write_whole(RECORD, json.dumps(
            {'keeper': [os.getpid(), clusters.start_time(os.getpid())], 'nodes': nodes,
             'environment': more}))
        tell.write('up: ' + ' '.join(f'{n.name} ({n.address})' for n in cluster.hosts) + '\n')
        tell.close()
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(quiet, fd)
        while not ended:
            signal.sigtimedwait([], 1)
    RECORD.unlink(missing_ok=True)


def make(args):
    if args.kubernetes:
        return KubeCluster(args.nodes, images=args.image or ['base'])
    return (SlurmCluster if args.slurm else Cluster)(
        args.nodes, sshd=not args.no_sshd, dockerd=args.dockerd, docker0=args.docker0,
        networks=args.networks, shared_home=args.shared_home or args.slurm, images=args.image)


def keeper():
    """The record of the cluster that is up; None where there is none."""
    try:
        record = json.loads(RECORD.read_text())
    except (OSError, ValueError):
        return None
    pid, started = record['keeper']
    return record if clusters.start_time(pid) == started else None


def bring_down():
    record = keeper()
    if not record:
        print('bed: no cluster is up')
        return 0
    os.kill(record['keeper'][0], signal.SIGTERM)
    clusters.wait_until(lambda: not keeper(), 60, 'end of the cluster')
    return 0


def enter(args):
    record = keeper()
    if not record or args.node not in record['nodes']:
        sys.exit(f'bed: no {args.node} is up; `bed.py up` brings up a cluster')
    node = Node(None, args.node, None, None)
    node.pid = record['nodes'][args.node]
    words = args.words if args.command == 'run' else ['bash', '-i']
    term = {**record['environment'], 'TERM': os.environ.get('TERM', 'dumb'),
            'PS1': f'{args.user}@{args.node}$ '}
    child = node.popen(words, user=args.user, env=term, start_new_session=False)
    while True:
        try:
            status = child.wait()
            return 128 - status if status < 0 else status
        except KeyboardInterrupt:
            pass


def main(argv):
    args = parse(argv)
    if os.geteuid() != 0:
        sys.exit('bed: only root can make hosts')
    if args.command == 'up':
        return bring_up(args)
    if args.command == 'down':
        return bring_down()
    return enter(args)


if __name__ == '__main__':
    try:
        sys.exit(main(sys.argv[1:]))
    except subprocess.SubprocessError as error:
        sys.exit(f'bed: {error}')
