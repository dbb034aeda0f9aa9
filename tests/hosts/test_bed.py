# SPDX-License-Identifier: Apache-2.0
"""The bed itself: what the other tests of this folder rely on."""
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bed import Cluster, cluster as clusters, images
from bed.node import wait_until
from wait import until

TESTS = Path(__file__).resolve().parents[1]


def test_each_node_is_a_host_of_its_own(clean2):
    one, two = clean2.nodes
    assert one.run(['hostname']).stdout == 'node1\n'
    one.run(['touch', '/tmp/here', '/dev/shm/here'], check=True)
    assert two.run(['ls', '/tmp/here']).returncode == 2
    assert two.run(['ls', '/dev/shm']).stdout == ''
    one.write('file', 'text')
    assert one.run(['stat', '-c', '%U %n', 'file']).stdout == 'alice file\n'
    assert two.run(['cat', 'file']).returncode == 1


@pytest.mark.parametrize('user', ['alice', 'root'])
def test_ssh_works_from_every_node_to_every_node(clean2, user):
    for here in clean2.nodes:
        for there in clean2.nodes:
            done = here.run(['ssh', there.name, 'hostname; id -un'], user=user)
            assert done.stdout == f'{there.name}\n{user}\n', done.stderr


def test_plain_docker_works_for_the_ordinary_user(clean2):
    for node in clean2.nodes:
        done = node.run(['docker', 'run', '--rm', '--network=host', 'base', 'hostname'])
        assert done.stdout == f'{node.name}\n', done.stderr


@pytest.mark.parametrize('user', ['alice', 'root'])
def test_podman_runs_containers_in_the_nodes_network_and_in_its_own(clean2, user):
    node = clean2[1]
    node.run(['podman', 'load', '-i', images.archive('scratch-static')], user=user, check=True)
    for network in ('host', None):
        option = [f'--network={network}'] if network else []
        done = node.run(['podman', 'run', '--rm', *option, 'localhost/scratch-static'], user=user)
        assert done.stdout.startswith('program '), done.stderr
    node.run(['podman', 'rmi', '-af'], user=user, check=True)


def test_what_is_left_behind_is_seen(cluster2):
    node = cluster2[1]
    sleeper = node.popen(['setsid', 'sleep', '1000'])
    node.run(['docker', 'run', '-d', '--name', 'forgotten', '--network=none', 'base', 'sleep', '9'],
             check=True)
    sleeper.inner_pid()
    found = '\n'.join(cluster2.left_behind())
    assert 'node1: container forgotten' in found and 'sleep' in found
    sleeper.kill()
    node.docker('rm', '-f', 'forgotten')
    sleeper.wait(60)
    cluster2.assert_clean()


def test_what_was_left_behind_fails_one_test_and_is_gone_for_the_next(cluster2):
    node = cluster2[1]
    sleeper = node.popen(['setsid', 'sleep', '1000'])
    node.docker('run', '-d', '--name', 'forgotten', '--network=none', 'base', 'sleep', '99')
    sleeper.inner_pid()
    with pytest.raises(AssertionError, match='container forgotten'):
        cluster2.assert_clean(timeout=1)
    cluster2.assert_clean()
    sleeper.wait(60)


def test_a_signal_reaches_the_command_and_its_status_comes_back(clean2):
    child = clean2[1].popen(['sleep', '1000'])
    child.send_signal(signal.SIGTERM)
    assert child.wait(30) == -signal.SIGTERM


def test_a_command_past_its_time_is_ended(clean2):
    with pytest.raises(subprocess.TimeoutExpired) as error:
        clean2[1].run(['sh', '-c', 'echo before; sleep 1000 & sleep 1000'], timeout=1)
    assert 'before' in str(error.value.output)


def test_cut_block_and_kill_do_what_they_say():
    with Cluster(3, sshd=True, networks=2) as cluster:
        one, two, three = cluster.nodes
        ssh = ['ssh', '-o', 'ConnectTimeout=40', 'node2', 'true']
        silent = ['ssh', '-o', 'ConnectTimeout=2', 'node2', 'true']
        assert one.run(ssh).returncode == 0
        assert one.run(['ping', '-c1', '-W20', '10.78.0.2']).returncode == 0
        two.block(22)
        assert one.run(silent).returncode == 255
        two.unblock(22)
        two.block(22, 'REJECT')
        assert 'Connection refused' in one.run(ssh).stderr
        two.unblock(22, 'REJECT')
        two.cut()
        assert one.run(silent).returncode == 255
        two.join()
        assert one.run(ssh).returncode == 0
        three.kill()
        assert not os.path.exists(f'/proc/{three.pid}')
        assert one.run(ssh).returncode == 0


def test_two_clusters_do_not_see_each_other(cluster2):
    with Cluster(2, sshd=False, shared_home=True) as other:
        assert other[1].address == cluster2[1].address
        other[1].write('file', 'text')
        assert other[2].run(['cat', 'file']).stdout == 'text'
        other[2].run(['rm', 'file'], check=True)
        assert other[1].path('file').exists() is False
        assert cluster2[1].run(['ssh', 'node2', 'hostname']).stdout == 'node2\n'


def test_nothing_is_left_of_a_cluster_whose_owner_was_killed():
    script = ('import sys, time; from bed import Cluster\n'
              'c = Cluster(2, dockerd=True, images=["scratch-static"])\n'
              'c[1].docker("run", "-d", "scratch-static", "/program", "1000")\n'
              'print(c.id, *(n.pid for n in c.nodes), flush=True); time.sleep(1000)\n')
    owner = subprocess.Popen([sys.executable, '-c', script], cwd=TESTS, text=True,
                             stdout=subprocess.PIPE)
    name, *pids = owner.stdout.readline().split()
    assert len(pids) == 2
    owner.kill()
    owner.wait(60)
    owner.stdout.close()
    until(lambda: not any(os.path.exists(f'/proc/{p}') for p in pids), 'the end of its nodes', 60)
    clusters.sweep()
    assert not (clusters.RUNS / name).exists()
    assert not list(Path('/sys/fs/cgroup').glob(f'*/reigen-bed-{name}'))


def test_a_node_that_nobody_waits_for_holds_no_sweep_up():
    child = subprocess.Popen(['sleep', '1000'])
    started = clusters.start_time(child.pid)
    assert not clusters.has_ended(child.pid, started)
    child.kill()
    try:
        wait_until(lambda: clusters.has_ended(child.pid, started), 30, 'a zombie')
    finally:
        child.wait()
    assert clusters.has_ended(child.pid, started)


def test_64_nodes_come_up_and_all_reach_the_first():
    with Cluster(64, sshd=False) as cluster:
        done = cluster[1].run(['ping', '-c1', '-W20', cluster[64].address])
        assert done.returncode == 0, done.stdout
        borrowed = {json.loads(path.read_text())['setting']
                    for path in cluster.folder.glob('loan*.json')}
        assert borrowed == {f'/proc/sys/net/ipv4/neigh/default/gc_thresh{n}' for n in (1, 2, 3)}


def test_a_cluster_by_hand_stays_until_it_is_ended(tmp_path):
    def bed(*words):
        return subprocess.run([sys.executable, TESTS / 'bed/bed.py', *words], text=True,
                              env={**os.environ, 'REIGEN_BED_DIR': str(tmp_path)},
                              capture_output=True, timeout=60, check=False)
    try:
        assert bed('up', '--no-sshd').stdout == 'up: node1 (10.77.0.1) node2 (10.77.0.2)\n'
        assert 'is up already' in bed('up').stderr
        done = bed('run', '--node', 'node2', '--', 'sh', '-c', 'hostname; id -un; exit 3')
        assert done.stdout == 'node2\nalice\n' and done.returncode == 3
    finally:
        assert bed('down').returncode == 0
    assert 'no node1 is up' in bed('run', '--', 'true').stderr
    assert not list((tmp_path / 'run').iterdir())
