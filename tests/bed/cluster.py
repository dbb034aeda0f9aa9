# SPDX-License-Identifier: Apache-2.0
"""A cluster of simulated hosts: how it is brought up, and how nothing of it stays."""
import contextlib
import fcntl
import ipaddress
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from .node import USER, USER_ID, BedError, Closing, Node, read_or, wait_until

ROOT = Path(__file__).resolve().parents[2]
# Where a link leads: in a host there may be no link.
BED = Path(os.environ.get('REIGEN_BED_DIR', ROOT / 'build/bed')).resolve()
RUNS = BED / 'run'
BOOT_TIMEOUT = 60
# Where every node has something of its own, so that what the machine has there is out of sight.
HIDDEN = ('/run', '/tmp', '/var/tmp', '/home', '/root', '/dev/shm')
# From so many nodes on the kernel's neighbour table, one for all nodes, is too small.
MANY_NODES = 16
NEIGHBOURS = {Path(f'/proc/sys/net/ipv4/neigh/default/gc_thresh{n}'): 32768 << n
              for n in (1, 2, 3)}
DOCKER_GROUP = 2999


class Cluster(Closing):
    """`nodes` hosts node1, node2, ... on one network.

    sshd         start sshd on every node
    dockerd      start dockerd on every node, with `images` in it (names as in bed.images)
    docker0      an interface docker0 that is up with 172.17.0.1/16 on every node, as Docker makes
                 it: the same address everywhere, and no way from one to the other
    subnet       the network's addresses; default 10.77.0.0/16
    networks     how many networks the nodes are on; the second is 10.78.0.0/16 on eth1, and so on
    shared_home  one home directory of alice for all nodes, as with NFS; else each has its own
    keep         more paths of this machine below /tmp, /run, /home ... that nodes shall see
    others       names of more hosts on the networks, which are no nodes and have no dockerd
    """

    def __init__(self, nodes=2, sshd=True, dockerd=False, docker0=False, subnet=None, networks=1,
                 shared_home=False, images=(), keep=(), others=()):
        if os.geteuid() != 0:
            raise BedError('simulated hosts: only root can make them')
        sweep()
        self.docker0 = docker0
        self.shared_home = shared_home
        self.keep = [str(k) for k in keep]
        first = ipaddress.ip_network(subnet or '10.77.0.0/16')
        self.networks = [ipaddress.ip_network((int(first.network_address) + i * first.num_addresses,
                                               first.prefixlen)) for i in range(networks)]
        self.id = secrets.token_hex(4)
        self.folder = RUNS / self.id
        self.cgroup = f'/reigen-bed-{self.id}'
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        self.images = []
        self.nodes = [Node(self, f'node{i}', self.address(i), self.folder / f'node{i}')
                      for i in range(1, nodes + 1)]
        self.hosts = self.nodes + [Node(self, name, self.address(i), self.folder / name)
                                   for i, name in enumerate(others, nodes + 1)]
        self.hub = Node(self, 'hub', None, self.folder / 'hub')
        with self.or_close():
            self.write_owner()
            self.boot(sshd)
            self.load(*images)
            if dockerd:
                self.start_dockerds()

    def __getitem__(self, name):
        """The node of that name, or of that number from 1 on."""
        wanted = f'node{name}' if isinstance(name, int) else name
        return next(n for n in self.hosts if n.name == wanted)

    def address(self, number, network=0):
        return str(self.networks[network].network_address + number)

    # ------------------------------------------------------------ up

    def boot(self, sshd):
        self.write_etc()
        self.write_ssh()
        init = build_init()
        for node in [self.hub, *self.hosts]:
            self.start_init(init, node)
        for node in [self.hub, *self.hosts]:
            self.wait_init(node)
        self.write_owner()
        self.connect()
        if sshd:
            started = [node.launch_sshd() for node in self.hosts]
            for node, process in zip(self.hosts, started):
                process.wait(60)
                node.wait_sshd()

    def start_init(self, init, node):
        steps = ['tmpfs', '755', '/run', 'tmpfs', '1777', '/tmp', 'tmpfs', '1777', '/var/tmp',
                 'tmpfs', '1777', '/dev/shm', 'tmpfs', '755', '/home']
        if node is not self.hub:
            home = self.folder / 'home' if self.shared_home else node.folder / 'home'
            self.make_home(home, USER_ID)
            self.make_home(node.folder / 'root', 0)
            containers = node.folder / 'containers'
            containers.mkdir()
            steps += ['bind', home, node.home(), 'bind', node.folder / 'root', '/root',
                      'bind', containers, '/var/lib/containers']
            if os.path.exists('/usr/local/bin/docker') and os.path.exists('/usr/bin/docker'):
                steps += ['bind', '/usr/bin/docker', '/usr/local/bin/docker']
        for path in self.kept():
            steps += ['bind', path, path]
        # Last, since the cluster's own folder may be one of those that are kept.
        steps += ['sys', 'dev', 'etc', self.folder / 'etc']
        node.start_init([init, node.name, *steps])

    def kept(self):
        wanted = [str(ROOT), str(BED), sys.prefix, *self.keep]
        return [p for p in dict.fromkeys(wanted)
                if p.startswith(tuple(h + '/' for h in HIDDEN)) and os.path.exists(p)]

    def make_home(self, home, uid):
        if home.exists():
            return
        shutil.copytree(self.folder / 'ssh', home / '.ssh')
        home.chmod(0o755)
        (home / '.ssh').chmod(0o700)
        for path in [home, home / '.ssh', *(home / '.ssh').iterdir()]:
            os.chown(path, uid, uid)

    @staticmethod
    def wait_init(node):
        node.wait_init()
        runtime = node.path(f'/run/user/{USER_ID}')
        runtime.mkdir(parents=True, mode=0o755)
        runtime.chmod(0o700)
        os.chown(runtime, USER_ID, USER_ID)
        node.path('/run/sshd').mkdir(mode=0o755)

    def connect(self):
        """One bridge per network, inside the hub's network name space, and a cable to each node."""
        if len(self.hosts) >= MANY_NODES:
            for setting, least in NEIGHBOURS.items():
                borrow_setting(self.folder, setting, least)
        lines = []
        for k in range(len(self.networks)):
            lines += [f'link add br{k} type bridge', f'link set br{k} up']
            for i, node in enumerate(self.hosts, 1):
                lines += [f'link add v{k}n{i} type veth peer name eth{k} netns {node.pid}',
                          f'link set v{k}n{i} master br{k} up']
        self.ip(self.hub, lines)
        for i, node in enumerate(self.hosts, 1):
            for k, network in enumerate(self.networks):
                node.init.stdin.write(f'net eth{k} {self.address(i, k)} {network.netmask}\n')
                node.init.stdin.flush()
                answer = node.init.stdout.readline()
                if answer != 'ok\n':
                    raise BedError(f'{node.name}: eth{k}: {answer.strip()}')
            if self.docker0:
                # The second interface is there so that docker0 has a carrier, and so is up.
                self.ip(node, ['link add docker0 type bridge', 'link set docker0 up',
                               'addr add 172.17.0.1/16 dev docker0',
                               'link add veth0 type veth peer name veth1',
                               'link set veth0 master docker0 up', 'link set veth1 up'])

    @staticmethod
    def ip(node, lines):
        """Give lines to `ip -batch` in the node's network, with pids as the caller counts them."""
        node.in_network(['ip', '-batch', '-'], input='\n'.join(lines) + '\n')

    def switch(self, node, how):
        number = self.hosts.index(node) + 1
        self.ip(self.hub, [f'link set v{k}n{number} nomaster' if how == 'nomaster' else
                           f'link set v{k}n{number} master br{k}'
                           for k in range(len(self.networks))])

    def left_behind(self):
        """What runs on the nodes, or lies in their dockerds: "node1: 17 sleep 100", ..."""
        found = []
        for node in self.hosts:
            found += [f'{node.name}: {pid} {line}' for pid, line in node.processes().items()]
            if node.dockerd:
                found += [f'{node.name}: container {name}' for name in node.containers()]
        return found

    def assert_clean(self, timeout=30):
        """Fail with what is left behind on the nodes, if it has not gone within `timeout`."""
        try:
            wait_until(lambda: not self.left_behind(), timeout, 'clean nodes')
        except BedError:
            found = self.left_behind()
            self.sweep()
            raise AssertionError('left behind:\n' + '\n'.join(found)) from None

    def sweep(self):
        """End what is left behind, so that the next test does not fail for the last one's sake."""
        for node in self.hosts:
            if node.dockerd and (names := node.containers()):
                node.run(['/usr/bin/docker', 'rm', '-f', *names], user='root', timeout=60)
            if pids := node.processes():
                node.run(['kill', '-KILL', *map(str, pids)], user='root')

    # ------------------------------------------------------------ files of all nodes

    def write_etc(self):
        etc = self.folder / 'etc'
        etc.mkdir()
        hosts = ['127.0.0.1 localhost', '::1 localhost']
        hosts += [f'{node.address} {node.name}' for node in self.hosts]
        passwd = [l for l in read_or(Path('/etc/passwd'), '').splitlines()
                  if not l.startswith(f'{USER}:')]
        group = [l for l in read_or(Path('/etc/group'), '').splitlines()
                 if not l.startswith((f'{USER}:', 'docker:'))]
        files = {
            'hosts': hosts,
            'passwd': passwd + [f'{USER}:x:{USER_ID}:{USER_ID}:Alice:/home/{USER}:/bin/bash'],
            'group': group + [f'{USER}:x:{USER_ID}:', f'docker:x:{DOCKER_GROUP}:{USER}'],
            # "*" permits no password, but keys: sshd takes "!" for a locked account.
            'shadow': ['root:*:19000::::::', f'{USER}:*:19000::::::', 'sshd:*:19000::::::'],
            'subuid': [f'{USER}:100000:65536'], 'subgid': [f'{USER}:100000:65536'],
            # No DNS here: a name that /etc/hosts lacks is answered at once, by a refusal.
            'resolv.conf': ['nameserver 127.0.0.1', 'options timeout:1 attempts:1'],
        }
        for name, lines in files.items():
            (etc / name).write_text('\n'.join(lines) + '\n')
        (etc / 'shadow').chmod(0o640)
        (self.folder / 'docker.json').write_text('{}\n')

    def write_ssh(self):
        ssh = self.folder / 'ssh'
        ssh.mkdir(mode=0o700)
        host_key = self.folder / 'host_key'
        for key in (ssh / 'id_ed25519', host_key):
            subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-C', 'bed', '-f', key],
                           check=True, timeout=60)
        shutil.copy(ssh / 'id_ed25519.pub', ssh / 'authorized_keys')
        public = (self.folder / 'host_key.pub').read_text()
        names = ','.join(['node*', *(str(n.network_address).split('.')[0] + '.*'
                                     for n in self.networks[:1])])
        (ssh / 'known_hosts').write_text(f'{names} {public}')
        (ssh / 'config').write_text('Host *\n    StrictHostKeyChecking yes\n    BatchMode yes\n')
        for path in ssh.iterdir():
            path.chmod(0o600)
        (self.folder / 'sshd_config').write_text(
            f'Port 22\nHostKey {host_key}\nPidFile /run/sshd.pid\nUsePAM no\nUseDNS no\n'
            'PermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 500:30:1000\n'
            'MaxSessions 100\nPrintMotd no\nSubsystem sftp internal-sftp\n')

    # ------------------------------------------------------------ Docker

    def start_dockerds(self):
        for node in self.nodes:
            node.launch_dockerd()
        for node in self.nodes:
            node.wait_dockerd()

    def load(self, *names):
        """Put images into every node's dockerd; one that runs is stopped for it, and restarted."""
        if not names:
            return
        from . import images
        self.images += [name for name in names if name not in self.images]
        prepared = images.prepare(self.images)
        for node in self.nodes:
            running = node.dockerd is not None
            node.stop_dockerd()
            images.install(prepared, node.folder / 'docker')
            if running:
                node.launch_dockerd()
        for node in self.nodes:
            if node.dockerd:
                node.wait_dockerd()

    # ------------------------------------------------------------ down

    def write_owner(self):
        """What a later sweep has to know: whose cluster this is, and which processes to end."""
        inits = [[n.pid, start_time(n.pid)] for n in [self.hub, *self.hosts] if n.pid]
        owner = {'owner': [os.getpid(), start_time(os.getpid())], 'inits': inits}
        write_whole(self.folder / 'owner.json', json.dumps(owner))

    def close(self):
        """End everything of the cluster; again does nothing."""
        nodes = [*self.hosts, self.hub]
        for node in nodes:
            node.end_init()
        thaw(self.folder)
        for node in nodes:
            node.wait_end()
        remove(self.folder)


def start_time(pid):
    """When the process started, in ticks since boot: with the pid, its name for good."""
    try:
        return Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]
    except OSError:
        return None


def has_ended(pid, started):
    """Also one that nobody has waited for yet: process 1 of a node ends after all others."""
    try:
        fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    except OSError:
        return True
    return fields[19] != started or fields[0] in 'ZX'


def write_whole(path, text):
    path.with_suffix('.new').write_text(text)
    os.replace(path.with_suffix('.new'), path)


def remove(folder):
    """Delete a cluster's files and cgroups; its processes have ended."""
    def free():
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()
    give_back(folder)
    try:
        wait_until(free, 10, f'removal of {folder}')
    finally:
        for root in Path('/sys/fs/cgroup').glob(f'*/reigen-bed-{folder.name}'):
            remove_cgroup(root)
        remove_cgroup(Path(f'/sys/fs/cgroup/reigen-bed-{folder.name}'))


def thaw(folder):
    """Let containers die that are frozen: runc freezes one to kill it, and may itself be killed
    before it has thawed it again."""
    for state in Path('/sys/fs/cgroup/freezer').glob(f'reigen-bed-{folder.name}/**/freezer.state'):
        try:
            state.write_text('THAWED')
        except OSError:
            pass


def remove_cgroup(root):
    """Another cluster's sweep may be at it, too; os.walk passes over what is no more."""
    for folder, _, _ in os.walk(root, topdown=False):
        drop_folder(Path(folder))


def drop_folder(path):
    """As soon as nothing is in it; where that does not come soon, it stays."""
    def dropped():
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return False
        return True
    with contextlib.suppress(BedError):
        wait_until(dropped, 0.5, f'{path} is empty')


def sweep():
    """Remove what clusters left whose owner is no more. Clusters of others are not touched."""
    for folder in RUNS.glob('*'):
        try:
            record = json.loads((folder / 'owner.json').read_text())
        except (OSError, ValueError):
            # Being made this moment, or its maker died before it had started anything.
            if age(folder) > 60:
                remove(folder)
            continue
        pid, started = record['owner']
        if start_time(pid) == started:
            continue
        for pid, started in record['inits']:
            if started and start_time(pid) == started:
                kill(pid)
        thaw(folder)
        try:
            wait_until(lambda inits=record['inits']: all(has_ended(p, s) for p, s in inits if s),
                       10, f'end of the nodes in {folder}')
        except BedError:
            continue  # It is not in our way; another sweep will come.
        remove(folder)
    for root in Path('/sys/fs/cgroup').glob('*/reigen-bed-library-*'):
        if start_time(int(root.name.rpartition('-')[2])) is None:
            remove_cgroup(root)


def age(folder):
    """In seconds; 0 where another sweep was quicker."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def borrow_setting(folder, setting, least):
    """Raise a setting of the machine, a file, where it may be written, for as long as a cluster is
    there that needs it; the last one gives it back. `folder` is the cluster's, with a file for each
    setting that it has borrowed."""
    with locked_loans(), contextlib.suppress(OSError):
        now = int(setting.read_text())
        first = [loan['was'] for loan in loans() if loan['setting'] == str(setting)]
        write_whole(folder / f'loan{len(list(folder.glob("loan*.json"))) or ""}.json', json.dumps(
            {'setting': str(setting), 'was': first[0] if first else now}))
        if now < least:
            setting.write_text(str(least))


def give_back(folder):
    """What a cluster has borrowed, unless another one needs it still."""
    with locked_loans():
        for path in folder.glob('loan*.json'):
            with contextlib.suppress(OSError):
                mine = json.loads(path.read_text())
                path.unlink()
                if not any(loan['setting'] == mine['setting'] for loan in loans()):
                    Path(mine['setting']).write_text(str(mine['was']))


def loans():
    return [json.loads(path.read_text()) for path in RUNS.glob('*/loan*.json')]


@contextlib.contextmanager
def locked_loans():
    with open(RUNS.parent / 'loans.lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build_init():
    """The program that is process 1 of every node."""
    return compile_once(Path(__file__).with_name('init.c'), BED / 'init', '-O1')


def compile_once(source, program, *flags):
    """A program of one file in C, compiled when its source is newer."""
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        BED.mkdir(parents=True, exist_ok=True)
        new = program.with_name(f'{program.name}.{os.getpid()}')
        subprocess.run(['cc', *flags, '-Wall', '-o', new, source], check=True, timeout=120)
        os.replace(new, program)
    return program
