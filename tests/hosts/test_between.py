# SPDX-License-Identifier: Apache-2.0
"""Simulated hosts on a network with a rate and a delay (bed.Network), and what bench/ measures on
them: whether figures between hosts are those that were recorded."""
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bed import Network, cluster as clusters, first, network as networks
from bed.node import BedError, wait_until

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / 'tests'
#: Sends so many bytes from one host to another, and says how many seconds they were under way. The
#: sender waits for a word, as bytes that came before the clock was read would not be counted.
RECEIVE = """
import socket, sys, time
s = socket.create_server(('', 5000)); print('up', flush=True)
c = s.accept()[0]; left = int(sys.argv[1]); began = time.monotonic(); c.sendall(b'.')
while left: left -= len(c.recv(left))
print(time.monotonic() - began)
"""
SEND = """
import socket, sys
c = socket.create_connection((sys.argv[1], 5000))
c.recv(1)
c.sendall(bytes(int(sys.argv[2])))
"""
JOIN = """
import socket, sys, threading, time
def take(c, left):
    while left: left -= len(c.recv(left))
    c.sendall(b'.')
s = socket.create_server(('', 5000)); print('up', flush=True)
cs = [s.accept()[0] for _ in range(2)]; began = time.monotonic()
[c.sendall(b'.') for c in cs]
ts = [threading.Thread(target=take, args=(c, int(sys.argv[1]))) for c in cs]
[t.start() for t in ts]; [t.join() for t in ts]
print(time.monotonic() - began)
"""
SEND_AND_WAIT = """
import socket, sys
c = socket.create_connection((sys.argv[1], 5000))
c.recv(1)
c.sendall(bytes(int(sys.argv[2])))
c.recv(1)
"""


def round_trip_ms(net, there='node2', count=30):
    """The shortest of some. With -U it is what a program sees: the kernel's own stamp on what
    arrives is from before it was held up."""
    done = net.run(1, ['ping', '-U', '-q', '-i', '0.02', '-c', str(count), there])
    return float(re.search(r'= ([\d.]+)/', done.stdout)[1])


def seconds(net, nbytes):
    """How long the bytes are on the way from host 1 to host 2."""
    receiver = net.popen(2, [sys.executable, '-c', RECEIVE, nbytes], stdout=subprocess.PIPE,
                         text=True)
    assert receiver.stdout.readline() == 'up\n'
    net.run(1, [sys.executable, '-c', SEND, net[2].address, str(nbytes)], check=True)
    out = receiver.communicate(timeout=60)[0]
    return float(out)


def test_packets_are_as_long_under_way_as_asked():
    with Network(2, sshd=False) as net:
        plain = round_trip_ms(net)
        for delay_ms in (20, 2, 0.5):
            net.change(delay_ms=delay_ms)
            assert 2 * delay_ms <= round_trip_ms(net) <= 2 * delay_ms + plain + 1
        net.change()
        assert round_trip_ms(net) < 1


@pytest.mark.parametrize('delay_ms', [0, 5])
def test_bytes_go_no_faster_than_the_rate(delay_ms):
    """One Mbit per 20 ms; what tbf lets pass at once goes for nothing, and headers cost a bit."""
    with Network(2, '50mbit', delay_ms, sshd=False) as net:
        nbytes = 2_500_000
        line = (nbytes - (72 << 10)) * 8 / 50e6
        assert line <= seconds(net, nbytes) <= 1.3 * line + 0.2


def test_two_senders_share_the_cable_of_the_one_who_receives():
    with Network(3, '50mbit', 1, sshd=False) as net:
        nbytes = 1_250_000
        receiver = net.popen(1, [sys.executable, '-c', JOIN, nbytes], stdout=subprocess.PIPE,
                             text=True)
        assert receiver.stdout.readline() == 'up\n'
        senders = [net.popen(i, [sys.executable, '-c', SEND_AND_WAIT, net[1].address, nbytes])
                   for i in (2, 3)]
        took = float(receiver.communicate(timeout=60)[0])
        assert [s.wait(30) for s in senders] == [0, 0]
        assert took >= (2 * nbytes - 2 * (72 << 10)) * 8 / 50e6


def test_a_connection_lives_on_when_the_network_changes():
    echo = ("import socket\nc = socket.create_server(('', 5000)).accept()[0]\n"
            "while True:\n    d = c.recv(1)\n    if not d: break\n    c.sendall(d)")
    ask = ("import socket, sys, time\ntime.sleep(0.5)\n"
           "c = socket.create_connection((sys.argv[1], 5000))\n"
           "for _ in sys.stdin:\n    began = time.monotonic(); c.sendall(b'.'); c.recv(1)\n"
           "    print(time.monotonic() - began, flush=True)")
    with Network(2, sshd=False) as net:
        server = net.popen(2, [sys.executable, '-c', echo])
        client = net.popen(1, [sys.executable, '-c', ask, net[2].address], text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)

        def asked():
            client.stdin.write('\n')
            client.stdin.flush()
            return float(client.stdout.readline())

        asked()
        net.change('1gbit', 30)
        assert asked() >= 0.06
        net.change()
        assert asked() < 0.06
        client.stdin.close()
        assert client.wait(30) == 0 and server.wait(30) == 0
        client.stdout.close()


def test_a_rate_that_is_none_is_refused_and_nothing_stays():
    before = set(clusters.RUNS.glob('*'))
    with pytest.raises(BedError, match="'fast' is no rate"):
        Network(2, 'fast', sshd=False)
    assert not set(clusters.RUNS.glob('*')) - before


def test_nothing_is_left_where_what_delays_packets_hangs(monkeypatch):
    monkeypatch.setattr(networks, 'LINE_END_SECONDS', 0.5)
    with Network(2, delay_ms=1, sshd=False) as net:
        folder, line = net.cluster.folder, net.line
        line.send_signal(signal.SIGSTOP)
    assert line.returncode == -signal.SIGKILL and not folder.exists()


def test_nothing_is_left_of_a_network_whose_owner_was_killed():
    script = ('import sys, time; from bed import Network, first\n'
              'with first():\n'
              '    n = Network(2, "1gbit", 1, sshd=False)\n'
              '    print(n.cluster.id, n.line.pid, *(x.pid for x in n.nodes), flush=True)\n'
              '    time.sleep(1000)\n')
    owner = subprocess.Popen([sys.executable, '-c', script], cwd=TESTS, text=True,
                             stdout=subprocess.PIPE)
    name, *pids = owner.stdout.readline().split()
    assert len(pids) == 3
    owner.kill()
    owner.wait(60)
    owner.stdout.close()
    wait_until(lambda: not [p for p in pids if os.path.exists(f'/proc/{p}')], 60, 'their end')
    clusters.sweep()
    assert not (clusters.RUNS / name).exists()
    assert not list(Path('/sys/fs/cgroup').glob(f'**/reigen-bed-library-{owner.pid}'))


def test_who_goes_first_is_where_it_was_afterwards():
    def group():
        return Path('/proc/self/cgroup').read_text()

    before = group()
    with first():
        own = f'reigen-bed-library-{os.getpid()}'
        assert own in group() or not os.access('/sys/fs/cgroup/cpu', os.W_OK)
    assert group() == before
    assert not list(Path('/sys/fs/cgroup').glob(f'**/{own}'))


def test_a_command_by_hand_runs_on_the_host_that_is_named():
    done = subprocess.run([sys.executable, ROOT / 'bench/between.py', 'shell', '--rate', '1gbit',
                           '--delay', '1', '--node', '2', '--', 'sh', '-c', 'hostname; exit 3'],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ('node2\n', 3), done.stderr


# ---------------------------------------------------------------------------- bench/

def bench(*words, timeout=170):
    return subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, capture_output=True,
                          text=True, timeout=timeout, check=False)


@pytest.mark.slow
@pytest.mark.serial
def test_the_tables_are_made_of_one_quick_run(tmp_path):
    done = bench('bench/between.py', '--quick', '--networks', '1g-1', '--layouts', '2x1', '--sizes',
                 '4,64K', '--only', 'allreduce,wire', '--contenders', 'reigen,mpi', '--out',
                 tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / 'benchmarks-hosts.md').read_text()
    assert re.search(r'\| 4 B \| [\d.,*]+ \| - \| [\d.,]+ \|', page), page
    assert (tmp_path / 'benchmarks-hosts-1g-1.svg').exists()
    rows = {row['row']: row for row in
            json.loads((tmp_path / 'benchmarks-hosts.json').read_text())['rows']}
    counted = rows['bytes on the wire, 2x1, 16 MiB: of the minimum']
    assert 1 <= counted['ratio'] < 1.1 and counted['limit'] == 1.02


@pytest.mark.slow
@pytest.mark.serial
def test_no_recorded_figure_between_hosts_is_a_quarter_worse():
    done = bench('bench/regress.py')
    assert done.returncode == 0, done.stdout + done.stderr
