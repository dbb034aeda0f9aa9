# SPDX-License-Identifier: Apache-2.0
"""The old way: mpirun over a real sshd, in containers as Horovod's documentation has it, and on
hosts with `reigen sshd`.
"""
import time

import pytest
from bed import Cluster, images
from built import PROGRAMS
from wait import until

pytestmark = pytest.mark.timeout(300)
RSH_ARGS = '-mca plm_rsh_args "-p 12345"'


@pytest.fixture(scope='module')
def hosts(horovod_image, docker_context):
    """Two hosts that share a home, with the same docker0 on both, as Docker makes it."""
    sshd = images.build('horovod:sshd', docker_context, 'Dockerfile.sshd',
                        args={'BASE': images.recipe('trainer')})
    with Cluster(2, sshd=False, dockerd=True, docker0=True, shared_home=True,
                 images=[f'{horovod_image}=horovod:latest', f'{sshd}=horovod:sshd']) as cluster:
        yield cluster


@pytest.fixture
def share(hosts):
    """A fresh directory that the containers of both hosts mount; it belongs to alice."""
    name = f'share-{time.monotonic_ns()}'
    hosts[1].run(['mkdir', '-p', f'{name}/ssh'], check=True)
    yield f'{hosts[1].home()}/{name}/ssh'
    for node in hosts.nodes:
        node.docker('ps', '-q')
        left = node.containers()
        if left:
            node.docker('rm', '-f', *left)


def docker_run(node, share, *words, image='horovod:latest', detached=False):
    options = ['-d'] if detached else ['-i', '--rm']
    mount = share if ':' in share else f'{share}:/root/.ssh'
    return node.run(['docker', 'run', *options, '--network=host', '-v', mount, image, *words],
                    timeout=180)


def wait_for_port(node, port):
    """The container is up before its sshd listens."""
    listening = f'ss -ltn | grep -q ":{port} "'
    until(lambda: node.run(['sh', '-c', listening]).returncode == 0,
          f'{node.name} listens on port {port}', 30)


def test_primary_and_secondary_workers_work_as_documented(hosts, share):
    one, two = hosts.nodes
    done = docker_run(two, share, 'bash', '-c', '/usr/sbin/sshd -p 12345; sleep infinity',
                      detached=True)
    assert done.returncode == 0, done.stderr
    wait_for_port(two, 12345)
    done = docker_run(one, share, 'bash', '-c', f'mpirun -np 4 -H node1:2,node2:2 {RSH_ARGS} '
                                                'python keras_mnist_advanced.py --epochs 1')
    assert done.returncode == 0, done.stdout + done.stderr
    assert '40/40 - ' in done.stdout and done.stdout.count('accuracy 0.') == 1, done.stdout


def test_the_image_with_sshd_starts_it_and_makes_the_keys(hosts, share):
    one, two = hosts.nodes
    assert docker_run(two, share, image='horovod:sshd', detached=True).returncode == 0
    wait_for_port(two, 12345)
    done = docker_run(one, share, 'bash', '-c', f'mpirun -np 2 -H node1:1,node2:1 {RSH_ARGS} '
                                                'hostname', image='horovod:sshd')
    assert sorted(done.stdout.split()) == ['node1', 'node2'], done.stderr


def test_a_share_that_is_complete_may_be_read_only(hosts, share):
    one = hosts[1]
    docker_run(one, share, 'reigen', 'sshd')
    done = docker_run(one, f'{share}:/root/.ssh:ro', 'bash', '-c',
                      'reigen sshd && ssh -p 12345 node1 hostname')
    assert done.stdout.endswith('\nnode1\n'), done.stderr


def test_a_user_without_a_name_is_told_what_ssh_wants(hosts):
    done = hosts[1].run(['docker', 'run', '--rm', '--user=4242', 'horovod:sshd', 'reigen', 'sshd'])
    assert done.returncode == 2 and 'user id 4242 has no entry in /etc/passwd' in done.stderr, done


def test_a_host_with_another_key_is_refused(hosts, share):
    one, two = hosts.nodes
    hosts[1].run(['mkdir', '-p', f'{share}-other'], check=True)
    docker_run(one, share, 'bash', '-c', '/usr/sbin/sshd -p 12345')
    assert docker_run(two, f'{share}-other', image='horovod:sshd', detached=True).returncode == 0
    wait_for_port(two, 12345)
    done = docker_run(one, share, 'ssh', '-p', '12345', 'node2', 'true')
    assert done.returncode == 255 and 'Host key verification failed' in done.stderr, done


@pytest.fixture(scope='module')
def bare():
    """Two hosts that share a home, with no sshd and no key anywhere."""
    with Cluster(2, sshd=False, shared_home=True) as cluster:
        for user in ('alice', 'root'):
            for node in cluster.nodes:
                node.run(['rm', '-rf', '.ssh'], user=user, check=True)
        yield cluster


def sshd(node, *options, user='alice', env=None):
    return node.run([PROGRAMS.reigen, 'sshd', *options], user=user, env=env)


def end_sshds(node):
    for pid, line in node.processes().items():
        if line.startswith('sshd:'):
            node.run(['kill', str(pid)], user='root')


def test_an_ordinary_user_needs_one_command_per_host(bare):
    one, two = bare.nodes
    for node in bare.nodes:
        done = sshd(node)
        assert done.returncode == 0 and '-p 12345' in done.stdout, done.stderr
    done = one.run(['sh', '-c', f'mpirun -np 4 -H node1:2,node2:2 {RSH_ARGS} hostname'])
    assert sorted(done.stdout.split()) == ['node1'] * 2 + ['node2'] * 2, done.stderr
    known = one.path('.ssh/known_hosts').read_text()
    assert known.count('\n') == 1 and known.startswith('[*]:12345 ssh-ed25519 ')
    for name in ('id_ed25519', 'reigen_host_key', 'authorized_keys'):
        assert one.path(f'.ssh/{name}').stat().st_mode & 0o777 == 0o600, name
    # Where keys are, they stay: a second start adds nothing.
    before = {p.name: p.read_text() for p in one.path('.ssh').iterdir()}
    end_sshds(two)
    done = sshd(two, '-p', '12346')
    assert done.returncode == 0, done.stderr
    after = {p.name: p.read_text() for p in one.path('.ssh').iterdir()}
    added = after.pop('known_hosts').replace(before.pop('known_hosts'), '')
    assert after == before and added.startswith('[*]:12346 ')
    for node in bare.nodes:
        end_sshds(node)


def test_each_host_may_have_a_port_of_its_own(bare):
    """The original: machine-specific ports in ssh's configuration instead of -p."""
    ports = {node: 7011 + i for i, node in enumerate(bare.nodes)}
    for node, port in ports.items():
        done = sshd(node, '-p', str(port))
        assert done.returncode == 0, done.stderr
    one = bare[1]
    one.write('.ssh/config', ''.join(f'Host {node.name}\n    Port {port}\n'
                                     for node, port in ports.items()), mode=0o600)
    try:
        done = one.run(['mpirun', '-np', '2', '-H', 'node1:1,node2:1', 'hostname'])
        assert sorted(done.stdout.split()) == ['node1', 'node2'], done.stderr
        assert one.path('.ssh/known_hosts').read_text().count('[*]:701') == 2
    finally:
        one.path('.ssh/config').unlink()
        for node in bare.nodes:
            end_sshds(node)


def test_keys_can_lie_elsewhere_and_it_can_stay_in_the_foreground(bare):
    one, two = bare.nodes
    child = two.popen([PROGRAMS.reigen, 'sshd', '-D', '--port=7001', '--dir', 'made/keys'])
    wait_for_port(two, 7001)
    where = f'{one.home()}/made/keys'
    client = ['ssh', '-p', '7001', '-F', 'none', '-i', f'{where}/id_ed25519', '-o',
              f'UserKnownHostsFile={where}/known_hosts', '-o', 'StrictHostKeyChecking=yes']
    done = one.run([*client, 'node2', 'hostname; echo $PYTHONPATH'])
    assert done.stdout == 'node2\n\n', done.stderr
    child.terminate()
    assert child.wait(30) in (0, 143, 255)
    assert one.run([*client, 'node2', 'true']).returncode == 255


def test_sessions_get_the_paths_that_the_container_has(bare):
    one = bare[1]
    env = {'LD_LIBRARY_PATH': '/opt/lib', 'PYTHONPATH': '/opt/python',
           'PATH': '/opt/bin:/usr/bin:/bin'}
    assert sshd(one, '-p', '7002', user='root', env=env).returncode == 0
    done = one.run(['ssh', '-p', '7002', 'node1', 'echo $LD_LIBRARY_PATH $PYTHONPATH $PATH'],
                   user='root')
    assert done.stdout == '/opt/lib /opt/python /opt/bin:/usr/bin:/bin\n', done
    end_sshds(one)


def test_hosts_that_start_at_once_agree_on_the_keys(bare):
    children = [node.popen([PROGRAMS.reigen, 'sshd', '-p', '7003', '--dir', 'at-once'], stdout=-3)
                for node in bare.nodes]
    assert [child.wait(30) for child in children] == [0, 0]
    known = bare[1].path('at-once/known_hosts').read_text().splitlines()
    allowed = bare[1].path('at-once/authorized_keys').read_text().splitlines()
    assert len(known) == 1 and len(allowed) == 1
    for node in bare.nodes:
        end_sshds(node)


@pytest.mark.parametrize('options, env, code, text', [
    (['-p', '22'], None, 2, 'give a port that only these hosts use'),
    (['-p', '0'], None, 2, 'sshd -p 0'),
    (['-p'], None, 2, 'sshd -p: its value is missing'),
    (['--nonsense'], None, 2, 'sshd --nonsense: unknown option'),
    (['-p', '99'], None, 77, 'cannot listen on port 99'),
    ([], {'REIGEN_SSHD': '/no/sshd'}, 69, '/no/sshd is not here; install OpenSSH'),
    (['--dir', '/proc/keys'], None, 2, '/proc/keys'),
])
def test_what_is_wrong_is_named(bare, options, env, code, text):
    done = sshd(bare[1], *options, env=env)
    assert done.returncode == code and text in done.stderr, done


def test_a_port_in_use_is_named(bare):
    assert sshd(bare[1], '-p', '7004').returncode == 0
    done = sshd(bare[1], '-p', '7004')
    assert done.returncode == 69 and 'port 7004: Address already in use' in done.stderr, done
    end_sshds(bare[1])
