# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts whose network has a rate and a delay."""
import subprocess
from pathlib import Path

from .cluster import BED, Cluster, compile_once
from .node import BedError, Closing

#: What tbf lets pass at once. A piece of TCP has up to 64 KiB, and its segments' headers count.
BURST_NBYTES = 72 << 10
#: What may wait in a host before its line: more than TCP ever lets wait there.
QUEUE_NBYTES = 64 << 20
#: How long line.c may take to end by itself.
LINE_END_SECONDS = 30
RATES = {'kbit': 1e-3, 'mbit': 1.0, 'gbit': 1e3}


def mbit(rate):
    """'10gbit' -> 10000.0; None, or '', is no limit: 0.0."""
    if not rate:
        return 0.0
    for unit, factor in RATES.items():
        if rate.endswith(unit):
            return float(rate[:-len(unit)]) * factor
    raise BedError(f'{rate!r} is no rate, such as 500mbit or 10gbit')


class Network(Closing):
    """`hosts` hosts node1, node2, ..., each on a cable of its own to one switch.

    rate       of each cable, each way, such as '1gbit'; None: as fast as the machine goes
    delay_ms   one way, from any host to any other: a round trip takes twice as long
    sshd       start sshd on every host, so that root and alice can ssh from each to each
    congestion TCP's way of sending. The computer's own may be BBR, which spreads packets out by
               timers, and this machine's cores would be busy with that; Reno is in every kernel,
               and on lines that lose nothing it sends as CUBIC does, most computers' way

    Further arguments are those of Cluster. The rate is tbf's on the host's end of the cable, which
    holds TCP back as a network card does. With a delay, a process of this network's (line.c) says
    when each packet goes on; it counts the time that the packet itself takes on both cables.
    """

    def __init__(self, hosts=2, rate=None, delay_ms=0.0, sshd=True, congestion='reno', **options):
        self.line = None
        self.cluster = Cluster(hosts, sshd=sshd, **options)
        self.nodes = self.cluster.nodes
        with self.or_close():
            for node in self.nodes:
                node.in_network(['sysctl', '-q', '-w',
                                 f'net.ipv4.tcp_congestion_control={congestion}'])
            self.change(rate, delay_ms)

    def __getitem__(self, host):
        """The host of that number, from 1 on, or of that name."""
        return self.cluster[host]

    def run(self, host, argv, env=None, user='root', **options):
        """Run a command on the host of that number, from 1 on: a subprocess.CompletedProcess."""
        return self[host].run(argv, user=user, env=env, **options)

    def popen(self, host, argv, env=None, user='root', **options):
        """Start a command there: a bed.node.Process."""
        return self[host].popen(argv, user=user, env=env, **options)

    def change(self, rate=None, delay_ms=0.0):
        """Give the cables another rate and delay; connections stay as they are."""
        self.end_line()
        limit = mbit(rate)
        for node in self.nodes:
            if limit:
                node.in_network(['tc', 'qdisc', 'replace', 'dev', 'eth0', 'root', 'tbf', 'rate',
                                   f'{limit:g}mbit', 'burst', str(BURST_NBYTES), 'limit',
                                   str(QUEUE_NBYTES)])
            else:
                node.in_network(['tc', 'qdisc', 'del', 'dev', 'eth0', 'root'], check=False)
        if delay_ms:
            self.start_line(delay_ms, limit)

    def start_line(self, delay_ms, limit):
        for node in self.nodes:
            node.in_network(['iptables', '-w', '-t', 'mangle', *RULE])
        program = compile_once(Path(__file__).with_name('line.c'), BED / 'line', '-O2')
        with open(self.cluster.folder / 'line.log', 'wb') as log:
            self.line = subprocess.Popen(
                [program, f'{delay_ms * 1000:g}', f'{limit:g}', *(str(n.pid) for n in self.nodes)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True)
        if self.line.stdout.readline() != 'ready\n':
            raise BedError(f'line: {(self.cluster.folder / "line.log").read_text().strip()}')

    def end_line(self):
        if not self.line:
            return
        self.stop_line()
        for node in self.nodes:
            node.in_network(['iptables', '-w', '-t', 'mangle', '-F', 'PREROUTING'])

    def stop_line(self):
        """It ends when its standard input does; else, by force."""
        line, self.line = self.line, None
        line.stdin.close()
        try:
            line.wait(LINE_END_SECONDS)
        except subprocess.TimeoutExpired:
            line.kill()
            line.wait()
        line.stdout.close()

    def close(self):
        """End every process of it, and leave nothing; again does nothing."""
        if self.line:
            self.stop_line()
        self.cluster.close()


#: What arrives waits for line.c; it passes where that is no more.
RULE = ['-A', 'PREROUTING', '-i', 'eth0', '-j', 'NFQUEUE', '--queue-num', '0', '--queue-bypass']
