# SPDX-License-Identifier: Apache-2.0
"""Several sockets between two hosts, and several networks at once: what goes where, how much
quicker it is, and what is said of values that are wrong."""
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from bed import Cluster, Network
from bed.node import wait_until
from built import PROGRAMS

TIMEOUT = 60
MIB = 1 << 20


def command(*options, nbytes=16 * MIB, iterations=5, warmup=3):
    return [PROGRAMS.reigen, 'run', '-H', 'node1:1,node2:1', *options, '--', PROGRAMS.reigen,
            'bench', '--check', '--min-bytes', str(nbytes), '--max-bytes', str(nbytes),
            '--iterations', str(iterations), '--rounds', '1', '--warmup', str(warmup)]


def sent(node):
    """Bytes that have left by eth0 and by eth1."""
    return [int(node.run(['cat', f'/sys/class/net/eth{i}/statistics/tx_bytes']).stdout)
            for i in (0, 1)]


def allreduce(node, *options, **kwargs):
    """Microseconds that one takes; its results are right."""
    done = node.run(command(*options, **kwargs), timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    words = done.stdout.split('allreduce sum')[1].split()
    assert words[5] == '0', done.stdout
    return float(words[0])


@pytest.fixture(scope='module')
def two():
    with Cluster(2, networks=2) as cluster:
        yield cluster


@pytest.fixture
def clean(two):
    yield two
    two.assert_clean()


def share_of_second(two, *options):
    before = sent(two[1])
    allreduce(two[1], *options)
    first, second = (after - was for after, was in zip(sent(two[1]), before))
    return second / (first + second)


@pytest.mark.parametrize('named, share', [
    ('eth0', 0), ('eth1', 1), ('eth0,eth1', 0.5), ('10.78.0.0/16,eth0', 0.5)])
def test_data_go_over_all_networks_that_are_named(clean, named, share):
    options = ['-x', f'REIGEN_NETWORK_INTERFACE={named}']
    assert share_of_second(clean, *options) == pytest.approx(share, abs=0.02)


def test_five_sockets_on_two_networks(clean):
    options = ['-x', 'REIGEN_NETWORK_INTERFACE=eth1,eth0', '-x', 'REIGEN_SOCKETS_PER_PAIR=5']
    assert share_of_second(clean, *options) == pytest.approx(3 / 5, abs=0.02)


def test_horovodrun_names_several(clean):
    before = sent(clean[1])
    words = command()
    done = clean[1].run([PROGRAMS.reigen.with_name('horovodrun'), '-np', '2', '-H',
                         'node1:1,node2:1', '--network-interfaces', 'eth0,eth1',
                         *words[words.index('--') + 1:]], timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (after - was for after, was in zip(sent(clean[1]), before))
    assert second / (first + second) == pytest.approx(0.5, abs=0.02)


@pytest.fixture
def bridged(clean):
    """Each host has a bridge to containers, with the same address."""
    for node in clean.nodes:
        for words in ('link add docker0 type bridge', 'addr add 172.17.0.1/16 dev docker0',
                      'link set docker0 up'):
            node.in_network(['ip', *words.split()])
    yield clean
    for node in clean.nodes:
        node.in_network(['ip', 'link', 'del', 'docker0'])


@pytest.mark.parametrize('second', ['lo', 'docker0'])
def test_a_network_that_cannot_connect_hosts_is_left_out(bridged, second):
    done = bridged[1].run(command('-x', f'REIGEN_NETWORK_INTERFACE=eth0,{second}'),
                          timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall('interface 2 of the list .* does not connect the hosts', done.stderr)
    assert len(said) == 1, done.stderr


@pytest.mark.parametrize('hosts', [[1], [2], [1, 2]])
def test_a_network_that_a_host_lacks_is_left_out(clean, hosts):
    for host in {1, 2} - set(hosts):
        clean[host].in_network(['ip', 'link', 'add', 'ib0', 'type', 'bridge'])
        clean[host].in_network(['ip', 'addr', 'add', f'10.99.0.{host}/24', 'dev', 'ib0'])
        clean[host].in_network(['ip', 'link', 'set', 'ib0', 'up'])
    done = clean[1].run(command('-x', 'REIGEN_NETWORK_INTERFACE=eth0,ib0'), timeout=TIMEOUT)
    for host in {1, 2} - set(hosts):
        clean[host].in_network(['ip', 'link', 'del', 'ib0'])
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.findall('REIGEN_NETWORK_INTERFACE=ib0: no interface that is up', done.stderr)
    assert len(said) == len(hosts), done.stderr


def test_a_network_where_nobody_answers_is_left_out(clean):
    """What node1 sends to node2 there gets lost on the way."""
    shown = clean[2].in_network(['ip', '-o', '-4', 'addr', 'show', 'eth1'])
    address = re.search(r'inet ([0-9.]+)/', shown)[1]
    neighbour = ['neigh', 'replace', address, 'lladdr', '02:00:00:00:00:99', 'dev', 'eth1', 'nud',
                 'permanent']
    clean[1].in_network(['ip', *neighbour])
    done = clean[1].run(command('-x', 'REIGEN_NETWORK_INTERFACE=eth0,eth1'), timeout=TIMEOUT)
    clean[1].in_network(['ip', 'neigh', 'del', address, 'dev', 'eth1'])
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf'rank 1 on node2 is not reached at {address}:.* from .*timed out.*what goes '
                     'by that network goes by the first one', done.stderr), done.stderr


@pytest.mark.parametrize('named, text', [
    ('eth9,eth0', r'REIGEN_NETWORK_INTERFACE=eth9: no interface .*there are: lo, eth0, eth1'),
    ('eth0,', r'REIGEN_NETWORK_INTERFACE: an interface without a name'),
    (','.join(['eth0'] * 9), r'REIGEN_NETWORK_INTERFACE=eth0,.*: more than 8 interfaces')])
def test_an_interface_that_is_not_there_is_named(clean, named, text):
    done = clean[1].run(command('-x', f'REIGEN_NETWORK_INTERFACE={named}'), timeout=TIMEOUT)
    assert done.returncode == 2
    assert re.search(text, done.stdout + done.stderr), done.stdout + done.stderr


def test_ranks_that_differ_are_named(clean):
    done = clean[1].run([PROGRAMS.reigen, 'run', '-H', 'node1:1,node2:1', '--', 'sh', '-c',
                         f'REIGEN_SOCKETS_PER_PAIR=$((RANK + 1)) exec {PROGRAMS.reigen} bench'],
                        timeout=TIMEOUT)
    assert done.returncode != 0
    assert re.search('ranks 0 and 1 differ in .*REIGEN_SOCKETS_PER_PAIR', done.stderr), done.stderr


def test_two_networks_carry_twice_as_much(clean):
    for node in clean.nodes:
        node.in_network(['sysctl', '-q', '-w', 'net.ipv4.tcp_congestion_control=reno'])
        for i in (0, 1):
            node.in_network(['tc', 'qdisc', 'replace', 'dev', f'eth{i}', 'root', 'tbf', 'rate',
                             '40mbit', 'burst', '73728', 'limit', str(64 << 20)])
    one, both = (allreduce(clean[1], '-x', f'REIGEN_NETWORK_INTERFACE={named}', nbytes=4 * MIB,
                           iterations=2, warmup=1) for named in ('eth0', 'eth0,eth1'))
    for node in clean.nodes:
        for i in (0, 1):
            node.in_network(['tc', 'qdisc', 'del', 'dev', f'eth{i}', 'root'])
    assert both < 0.7 * one


@pytest.fixture
def long_line():
    """5 MB are under way on it; a socket's buffers let 256 KiB be."""
    with Network(2, '1gbit', 20) as net:
        for node in net.nodes:
            node.in_network(['sysctl', '-q', '-w', f'net.ipv4.tcp_wmem=4096 16384 {MIB // 4}'])
        yield net


def test_several_sockets_fill_a_long_line(long_line):
    one, four = (allreduce(long_line[1], '-x', f'REIGEN_SOCKETS_PER_PAIR={n}', nbytes=4 * MIB,
                           iterations=2, warmup=2) for n in (1, 4))
    assert four < 0.6 * one


def connections(node):
    """Those that a rank of the job has there."""
    shown = node.run(['ss', '-tnpH', 'state', 'established']).stdout
    return shown.count('"reigen-bench"')


def test_who_says_nothing_gets_several_sockets_on_a_long_line(long_line):
    """Once the ranks have seen what the line can do, at the 2nd, 4th and 16th operation and soon
    after each that gave them more. How quick that is depends on when the kernel tries whether the
    round trip has become shorter, so sockets are counted."""
    counts = {}
    for n in 1, 'auto':
        job = long_line[1].popen(command('-x', f'REIGEN_SOCKETS_PER_PAIR={n}', nbytes=4 * MIB,
                                         iterations=20, warmup=0),
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        most = 0
        while job.poll() is None:
            most = max(most, connections(long_line[2]))
            time.sleep(0.1)  # patient: between two looks of many
        out = job.communicate(timeout=TIMEOUT)[0]
        assert job.returncode == 0, out
        counts[n] = most
    assert counts['auto'] >= counts[1] + 3, counts


@pytest.fixture(params=[0, 1], ids=['near', 'far'])
def bbr(request):
    """Hosts that send to each other by BBR, or by Reno if this kernel has no BBR; its name."""
    show = ['ip', 'route', 'show', 'dev', 'eth0', 'scope', 'link']
    with Network(2, '1gbit', request.param) as net:
        for node in net.nodes:
            route = node.in_network(show).split()
            node.in_network(['ip', 'route', 'change', *route, 'dev', 'eth0', 'congctl', 'bbr'],
                            check=False)
            hosts = 'bbr' if 'bbr' in node.in_network(show) else 'reno'
        kernel = Path('/proc/sys/net/ipv4/tcp_available_congestion_control').read_text().split()
        assert (hosts == 'bbr') == ('bbr' in kernel)
        yield net, request.param == 0, hosts


@pytest.mark.parametrize('said', ['auto', 'host'])
def test_near_hosts_are_not_sent_to_by_bbr(bbr, said):
    """By the sockets of coll/far, and of the tcp plane; the one of the leaders' tree keeps it."""
    net, near, hosts = bbr
    left = said == 'auto' and hosts == 'bbr'
    job = net[1].popen(command('-x', f'REIGEN_TCP_CONGESTION={said}', nbytes=4 * MIB,
                               iterations=100000), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)

    def names():
        shown = net[2].run(['ss', '-tinpH', 'state', 'established']).stdout
        return re.findall(r'"reigen-bench".*\n\s+(\w+) ', shown)

    wait_until(lambda: len(names()) >= 3 and (names().count(hosts) == 1) == (near and left),
               TIMEOUT, 'sockets')
    job.terminate()
    job.communicate(timeout=TIMEOUT)


def test_a_rank_that_dies_with_several_sockets_ends_the_job(clean):
    """As with one socket: within seconds, with its name, and nothing is left."""
    before = sent(clean[2])[0]
    job = clean[1].popen(command('-x', 'REIGEN_SOCKETS_PER_PAIR=4', iterations=100000),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: sent(clean[2])[0] > before + 64 * MIB, TIMEOUT, 'traffic')
    pid = clean[2].run(['pgrep', '-x', 'reigen-bench']).stdout.strip()
    clean[2].run(['kill', '-KILL', pid])
    out, err = job.communicate(timeout=TIMEOUT)
    assert job.returncode == 128 + signal.SIGKILL, out + err
    assert 'rank 1 on node2' in err
