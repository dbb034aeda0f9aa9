# SPDX-License-Identifier: Apache-2.0
"""reigen doctor on hosts and in containers: it finds what was broken for it, says what to do, and
--require turns that into a refusal."""
import json

import pytest
from built import PROGRAMS
from firewall import closed, narrow

TIMEOUT = 90
HOSTS = 'node1:1,node2:1'


@pytest.fixture
def two(nets):
    yield nets
    nets.assert_clean()


def doctor(two, *arguments, code=0):
    """The findings, as (level, host, check, value, remedy)."""
    done = two[1].run([PROGRAMS.reigen, 'doctor', '-H', HOSTS, *arguments], timeout=TIMEOUT)
    assert done.returncode == code, done.stdout + done.stderr
    findings = [line.split('\t') for line in done.stdout.splitlines()]
    assert all(len(f) == 5 and f[0] in ('ok', 'warn', 'fail') for f in findings), done.stdout
    assert all(bool(f[4]) == (f[0] != 'ok') for f in findings), done.stdout
    return findings


def of(findings, check, host=None):
    return [f for f in findings if f[2] == check and host in (None, f[1])]


def test_healthy_hosts_have_no_failure(two):
    found = doctor(two)
    for host in ('node1', 'node2'):
        for check in ('system', 'cpus', 'memory', 'shm', 'memlock', 'nofile', 'cma', 'interfaces',
                      'names', 'rdma', 'gpu', 'mpi', 'python', 'disk', 'clock'):
            assert of(found, check, host), (host, check, found)
        assert 'eth0 10.77.0.' in of(found, 'interfaces', host)[0][3]
        assert '10.77.0.0/16 by eth0' in of(found, 'routes', host)[0][3]
        assert 'numpy' in of(found, 'python', host)[0][3]
        assert of(found, 'clock', host)[0][0] == 'ok'
    assert of(found, 'network') == [['ok', '-', 'network', "10.77.0.0/16, on node1's eth0", '']]
    assert of(found, 'reach')[0][3].startswith('all 2 pairs reach each other')


def test_small_shm_and_blocked_port_are_found_and_explained(two):
    with closed(two[2]):
        found = doctor(two, '--image', 'base', '--shm-size', '32m', code=1)
    for host in ('node1', 'node2'):
        level, _, _, value, remedy = of(found, 'shm', host)[0]
        assert level == 'warn' and '/dev/shm has 32 MiB' in value and '--shm-size' in remedy
    level, _, _, value, remedy = of(found, 'reach')[0]
    assert level == 'fail'
    assert value.startswith('node1 cannot reach node2: 10.77.0.2 (eth0): no answer: a firewall')
    assert '--network-interface' in remedy and 'ports' in remedy
    assert len(of(found, 'reach')) == 1  # the other direction is open
    assert of(found, 'network')[0][0] == 'fail'


def test_network_that_swallows_large_packets_is_found(two):
    with narrow(two, 'eth1'):
        found = of(doctor(two), 'reach')
        assert {f[0] for f in found} == {'warn', 'ok'}
        bad = [f for f in found if f[0] == 'warn']
        assert 'node1 cannot reach node2 at 10.78.0.2 (eth1): small packets pass' in bad[0][3]
        assert 'ip link set dev' in bad[0][4]
        found = doctor(two, '--network-interface', 'eth1', code=1)
        assert [f[0] for f in of(found, 'reach')] == ['fail', 'fail']
        assert 'mtu' in of(found, 'network')[0][4]


@pytest.mark.parametrize('line, says', [
    ('127.0.1.1 node2', 'node2 is 127.0.1.1, by which no other host reaches this one'),
    ('10.77.0.2 node1', 'node1 is 10.77.0.2, which is node2'),
    ('127.0.0.1 node1', 'node1 is 127.0.0.1, which is this host itself'),
])
def test_name_that_leads_elsewhere_is_found(two, line, says):
    hosts = two.folder / 'etc/hosts'
    own = two.folder / 'hosts-of-node2'
    own.write_text(line + '\n' + hosts.read_text())
    node = two[2]
    node.run(['mount', '--bind', own, '/etc/hosts'], user='root', check=True)
    try:
        level, host, _, value, remedy = of(doctor(two), 'names', 'node2')[0]
        assert (level, host, value) == ('warn', 'node2', says) and '/etc/hosts' in remedy
        assert of(doctor(two), 'names', 'node1')[0][0] == 'ok'
    finally:
        node.run(['umount', '/etc/hosts'], user='root', check=True)


def test_limits_of_containers_and_memory_of_other_processes(two):
    """Docker's filter forbids it to all but containers with this capability."""
    level, _, _, value, remedy = of(doctor(two, '--image', 'base'), 'cma', 'node1')[0]
    assert (level, 'seccomp' in value, '--cap-add=SYS_PTRACE' in remedy) == ('warn', True, True)
    found = doctor(two, '--image', 'base', '--container-option=--cap-add=SYS_PTRACE',
                   '--container-option=--memory=300m', '--container-option=--cpus=0.5')
    assert of(found, 'cma', 'node1')[0][0] == 'ok'
    for check, limit in ('memory', '300 MiB'), ('cpus', 'limited to 0.5'):
        level, _, _, value, remedy = of(found, check, 'node2')[0]
        assert level == 'warn' and limit in value and '--container-option' in remedy


def test_table_for_programs(two):
    done = two[1].run([PROGRAMS.reigen, 'doctor', '-H', HOSTS, '--json'], timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found['schema'] == 1 and found['ok'] is True and found['network'] == '10.77.0.0/16'
    assert [h['name'] for h in found['hosts']] == ['node1', 'node2']
    assert abs(found['hosts'][1]['clock_ms']) < 60000
    assert {(t['from'], t['to'], t['reached']) for t in found['reach']} == {
        ('node1', 'node2', True), ('node2', 'node1', True)}
    assert all(t['rtt_ms'] >= 0 and t['error'] == '' for t in found['reach'])
    assert {f['level'] for f in found['findings']} <= {'ok', 'warn'}


def test_requirement_refuses_a_job_before_it_starts(two):
    done = two[1].run([PROGRAMS.reigen, 'run', '-H', HOSTS, '--image', 'base', '--shm-size', '32m',
                       '--require', 'python,shm=1g', '--', 'touch', f'{two[1].home()}/started'],
                      timeout=TIMEOUT)
    assert done.returncode == 69
    assert 'host node1: --require shm=1g: it has 32 MiB; start the containers with --shm-size' \
        in done.stderr
    assert not two[1].path('started').exists()
    done = two[1].run([PROGRAMS.reigen, 'run', '-H', HOSTS, '--require', 'python,numpy,shm=1m,cma',
                       '--', 'echo', 'started'], timeout=TIMEOUT)
    assert done.returncode == 0 and done.stdout.count('started') == 2, done.stderr


def test_host_that_cannot_be_reached_ends_the_doctor_with_its_reason(two):
    done = two[1].run([PROGRAMS.reigen, 'doctor', '-H', 'node9:1'], timeout=TIMEOUT)
    assert done.returncode == 69
    assert 'node9' in done.stderr and done.stdout == ''
