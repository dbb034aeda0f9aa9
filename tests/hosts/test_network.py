# SPDX-License-Identifier: Apache-2.0
"""Which network connects the hosts of a job, by itself and as the user says, and what happens when
none does. Every host has docker0 with the same address, as Docker makes it."""
import re
import time

import pytest
from built import PROGRAMS
from firewall import closed, narrow
from wait import soon

TIMEOUT = 60
NAMES = ('REIGEN_NETWORK', 'NCCL_SOCKET_IFNAME', 'GLOO_SOCKET_IFNAME', 'MASTER_ADDR')
SHOW = 'echo ' + ' '.join(f'{name}=${name}' for name in NAMES)


@pytest.fixture
def two(nets):
    yield nets
    nets.assert_clean()


def reigen(two, *arguments, hosts='node1:1,node2:1', **kwargs):
    return two[1].run([PROGRAMS.reigen, 'run', '-H', hosts, *arguments], timeout=TIMEOUT, **kwargs)


def variables(two, *arguments, **kwargs):
    """What each rank finds, as {rank: {name: value}}."""
    done = reigen(two, *arguments, '--', 'sh', '-c', SHOW, **kwargs)
    assert done.returncode == 0, done.stderr
    lines = {int(line[1]): line[4:] for line in done.stdout.splitlines()}
    return {rank: dict(word.split('=', 1) for word in line.split()) for rank, line in lines.items()}


def meet(two, *arguments, **kwargs):
    """The ranks' runtimes meet, and reduce together."""
    done = reigen(two, *arguments, '--', PROGRAMS.build / 'tests/programs/again', '2', **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_common_network_is_found_and_docker0_is_not(two):
    for found in variables(two).values():
        assert found == {'REIGEN_NETWORK': '10.77.0.0/16', 'NCCL_SOCKET_IFNAME': '=eth0',
                         'GLOO_SOCKET_IFNAME': 'eth0', 'MASTER_ADDR': '10.77.0.1'}
    meet(two, hosts='node1:2,node2:2')


def test_what_the_user_sets_is_left_alone(two):
    found = variables(two, '-x', 'NCCL_SOCKET_IFNAME=eth', '-x', 'MASTER_ADDR=10.78.0.1')[1]
    assert found['NCCL_SOCKET_IFNAME'] == 'eth'
    assert found['MASTER_ADDR'] == '10.78.0.1'
    assert found['GLOO_SOCKET_IFNAME'] == 'eth0'


@pytest.mark.parametrize('wanted', ['eth1', '10.78.0.0/16', '10.78.0.0/24,node2=eth1'])
def test_user_names_the_network(two, wanted):
    for found in variables(two, '--network-interface', wanted).values():
        assert found['REIGEN_NETWORK'] == '10.78.0.0/16'
        assert found['MASTER_ADDR'] == '10.78.0.1'
        assert found['GLOO_SOCKET_IFNAME'] == 'eth1'


def test_hosts_without_a_common_network_use_routes(two):
    arguments = ['--network-interface', 'node1=eth0', '--network-interface', 'node2=eth1']
    found = variables(two, *arguments)
    assert {v['REIGEN_NETWORK'] for v in found.values()} == {'10.77.0.0/16,10.78.0.0/16'}
    assert [found[r]['GLOO_SOCKET_IFNAME'] for r in (0, 1)] == ['eth0', 'eth1']
    assert found[1]['MASTER_ADDR'] == '10.77.0.1'
    meet(two, *arguments)


def test_network_that_is_closed_gives_way_to_one_that_is_open(two):
    with closed(two[2], 'eth0'):
        assert variables(two)[0]['REIGEN_NETWORK'] == '10.78.0.0/16'
        meet(two)
    with closed(two[1], 'eth0', 'REJECT'):
        assert variables(two)[1]['MASTER_ADDR'] == '10.78.0.1'


def test_a_range_of_ports_passes_a_firewall_that_drops_all_others(two):
    hosts = 'node1:2,node2:2'
    with closed(two[1], but='20000:20019'), closed(two[2], but='20000:20019'):
        meet(two, '--port-range', '20000-20019', hosts=hosts)
        meet(two, '--tf-config', hosts=hosts, env={'REIGEN_PORT_RANGE': '20000-20019'})
        shown = reigen(two, '--port-range', '20000-20019', '--', 'sh', '-c', 'echo $MASTER_PORT')
        assert all(20000 <= int(line.split()[-1]) < 20020 for line in shown.stdout.splitlines())
    done = reigen(two, '--port-range', '20000-20001', '--', PROGRAMS.build / 'tests/programs/again',
                  '2', hosts='node1:3,node2:1')
    assert done.returncode != 0
    assert 'ports 20000-20001 are all taken' in done.stderr + done.stdout


@pytest.mark.parametrize('way, why', [('DROP', 'no answer: a firewall'),
                                      ('REJECT', 'refused: a firewall')])
def test_hosts_that_do_not_reach_each_other_are_refused_before_the_start(two, way, why):
    with closed(two[2], way=way):
        done = reigen(two, '--', 'touch', 'started')
    assert done.returncode == 69
    assert 'host node1 cannot reach host node2' in done.stderr
    assert '10.77.0.2 (eth0)' in done.stderr and '10.78.0.2 (eth1)' in done.stderr
    assert why in done.stderr
    assert '--network-interface' in done.stderr
    assert not two[1].path('started').exists() and not two[2].path('started').exists()


def test_network_that_swallows_large_packets_is_refused_or_passed_over(two):
    with narrow(two, 'eth1'):
        began = time.monotonic()
        done = reigen(two, '--network-interface', 'eth1', '--', 'touch', 'started')
        assert done.returncode == 69
        # It holds in both directions: the one is named that was noticed first.
        found = re.search(r'host node(1|2) cannot reach host node(1|2): it tried 10\.78\.0\.(\d)',
                          done.stderr)
        assert found and found[1] != found[2] == found[3], done.stderr
        for word in ('(eth1)', 'small packets pass, large ones do not', 'MTU', 'ip link set dev'):
            assert word in done.stderr, done.stderr
        assert soon(began, 25)
        assert not two[1].path('started').exists()
        assert variables(two)[0]['REIGEN_NETWORK'] == '10.77.0.0/16'
    # The same network serves as soon as its switch lets them pass.
    assert variables(two, '--network-interface', 'eth1')[1]['MASTER_ADDR'] == '10.78.0.1'


def test_containers_on_networks_of_their_own_are_refused_with_the_remedy(two):
    done = reigen(two, '--image', 'base', '--network', 'bridge', '--', 'true')
    assert done.returncode == 69
    assert 'another host of the job has the same (172.17.0.' in done.stderr
    assert '--network host' in done.stderr


def test_interface_that_is_not_there_is_named_with_those_that_are(two):
    done = reigen(two, '--network-interface', 'node2=ib0', '--', 'true')
    assert done.returncode == 69
    assert 'host node2: --network-interface ib0' in done.stderr
    assert '10.77.0.2/16 eth0' in done.stderr
    done = reigen(two, '--network-interface', 'docker0', '--', 'true')
    assert done.returncode == 69
    assert 'has no address of its own' in done.stderr and '172.17.0.1 on docker0' in done.stderr


def test_containers_on_the_hosts_network_meet(two):
    found = variables(two, '--image', 'base')
    assert {v['REIGEN_NETWORK'] for v in found.values()} == {'10.77.0.0/16'}


def test_one_host_needs_no_network(two):
    found = variables(two, hosts='node2:2')
    assert {v['REIGEN_NETWORK'] for v in found.values()} == {''}
    assert found[1]['MASTER_ADDR'] == '127.0.0.1'
