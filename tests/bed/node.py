# SPDX-License-Identifier: Apache-2.0
"""One simulated host, and what can be done in it and to it."""
import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from wait import until

USER = 'alice'
USER_ID = 2001
PATHS = {'root': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'}
ORDINARY_PATH = '/usr/local/bin:/usr/bin:/bin'
DOCKERD_TIMEOUT = 120
OWN_PIDS = ('/run/sshd.pid', '/run/docker.pid', f'/run/user/{USER_ID}/libpod/tmp/pause.pid',
            '/run/munged.pid', '/run/slurmctld.pid', '/run/slurmd.pid')
OWN_LINES = ('/run/docker/containerd/containerd.toml', ': slurmscriptd')
NSENTER = shutil.which('nsenter') or '/usr/bin/nsenter'


class Closing:
    """What a `with` statement ends by its close(). Where it comes up, as in

        with self.or_close():
            self.boot()

    a failure ends what is up already."""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    @contextlib.contextmanager
    def or_close(self):
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self):
        raise NotImplementedError


class BedError(Exception):
    """The bed itself could not do what was asked of it; says what, and shows the log if any."""


def wait_until(done, timeout, what):
    """Poll done() until it is true; BedError naming `what` after `timeout` seconds."""
    until(done, what, timeout, error=BedError)


class Process(subprocess.Popen):
    """A command in a node. Signals go to the command itself, not to what carries it there."""

    def send_signal(self, sig):
        inner = self.inner_pid()
        if inner is None:
            super().send_signal(sig)
        else:
            try:
                os.kill(inner, sig)
            except ProcessLookupError:
                pass

    def inner_pid(self, timeout=30):
        """The command's pid as this process counts; None when it has ended."""
        def first():
            if self.poll() is not None:
                return [None]
            try:
                children = Path(f'/proc/{self.pid}/task/{self.pid}/children').read_text().split()
            except OSError:
                return [None]
            return [int(pid) for pid in children]
        try:
            return until(first, 'the command', timeout, error=BedError)[0]
        except BedError:
            return None

    def kill_all(self):
        """End the command and what is still in its process group."""
        for kill, pid in ((os.kill, self.inner_pid(0.1)), (os.killpg, self.pid)):
            try:
                if pid is not None:
                    kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass


class Node:
    """A simulated host. Made by Cluster; `pid` is its process 1, as the caller counts."""

    def __init__(self, cluster, name, address, folder):
        self.cluster = cluster
        self.name = name
        self.address = address
        self.folder = folder
        self.pid = None
        self.init = None
        self.dockerd = None
        self.dockerd_env = None

    # ------------------------------------------------------------ its process 1

    def in_network(self, argv, check=True, **options):
        """What a command of this machine's prints in the host's network, and in nothing else of
        it."""
        done = subprocess.run([NSENTER, '-t', str(self.pid), '-n', *argv], capture_output=True,
                              text=True, timeout=120, check=False, **options)
        if check and done.returncode:
            raise BedError(f'{self.name}: {" ".join(argv)}: {done.stderr.strip()}')
        return done.stdout

    def start_init(self, argv):
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / 'init.log', 'wb') as log:
            self.init = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=log, text=True, start_new_session=True)

    def wait_init(self):
        ready = False
        while self.pid is None or not ready:
            line = self.init.stdout.readline()
            if line.startswith('pid '):
                self.pid = int(line.split()[1])
            elif line == 'ready\n':
                ready = True
            else:
                raise BedError(f'{self.name} did not come up: {line}{self.tail("init.log")}')

    def end_init(self):
        """Kill process 1, if it still lives; the kernel ends all others with it."""
        if self.init and self.init.poll() is None:
            self.init.stdin.close()
            if self.pid:
                try:
                    os.kill(self.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def wait_end(self):
        if self.init:
            self.init.wait(60)
            self.init.stdout.close()
        if self.dockerd:
            self.dockerd.wait(30)
            self.dockerd = None

    # ------------------------------------------------------------ commands in it

    def popen(self, argv, user=USER, env=None, cwd=None, **options):
        """Start a command as `user` in `cwd` (default: home); a Process. It starts with no other
        variables than a fresh login has, and those of `env`; None there takes one away."""
        variables = self.environment(user, env)
        command = [NSENTER, '-t', str(self.pid), '-m', '-u', '-n', '-p', '-i', '--']
        if user != 'root':
            command += ['setpriv', f'--reuid={user}', f'--regid={user}', '--init-groups', '--']
        command += ['env', '-C', str(cwd or variables['HOME'])]
        options.setdefault('start_new_session', True)
        return Process(command + [str(a) for a in argv], env=variables, **options)

    @staticmethod
    def home(user=USER):
        return '/root' if user == 'root' else f'/home/{user}'

    def environment(self, user, env=None):
        variables = {'HOME': self.home(user), 'USER': user, 'LOGNAME': user, 'SHELL': '/bin/bash',
                     'PATH': PATHS.get(user, ORDINARY_PATH), 'LANG': 'C.UTF-8'}
        if user == USER:
            variables['XDG_RUNTIME_DIR'] = f'/run/user/{USER_ID}'
        variables.update((k, v) for k, v in (env or {}).items())
        return {k: str(v) for k, v in variables.items() if v is not None}

    def run(self, argv, user=USER, env=None, cwd=None, input=None, timeout=60, check=False):
        """Run a command to its end: a CompletedProcess with text. Past `timeout` it and its process
        group are killed, and subprocess.TimeoutExpired carries what it had written."""
        stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        child = self.popen(argv, user, env, cwd, stdin=stdin, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, errors='replace')
        try:
            out, err = child.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            child.kill_all()
            out, err = finish(child)
            raise subprocess.TimeoutExpired(argv, timeout, out, err) from None
        except BaseException:
            child.kill_all()
            raise
        done = subprocess.CompletedProcess(argv, child.returncode, out, err)
        if check and done.returncode:
            raise BedError(f'{self.name}: {argv} ended with {done.returncode}:\n{out}{err}')
        return done

    def path(self, name):
        """Where the caller finds the node's file `name` (absolute, or in alice's home)."""
        return Path(f'/proc/{self.pid}/root' + os.path.join(self.home(), name))

    def write(self, name, text, user=USER, mode=0o644):
        """Put a file into the node, owned by `user`; the folders are made. Its path in the node."""
        path = self.path(name)
        owner = 0 if user == 'root' else USER_ID
        missing = [p for p in path.parents if not p.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        for each in [path, *missing]:
            os.chown(each, owner, owner)
        return os.path.join(self.home(), name)

    # ------------------------------------------------------------ what is in it

    def processes(self):
        """{pid in the node: command line} of all processes but the bed's own: process 1, sshd's
        listener, dockerd and its containerd, Slurm's, and the one by which rootless Podman keeps
        its name spaces. Zombies are in it as well."""
        proc = Path(f'/proc/{self.pid}/root/proc')
        found = {}
        for entry in proc.iterdir():
            if entry.name.isdigit():
                line = read_or(entry / 'cmdline', '').replace('\0', ' ').strip()
                found[int(entry.name)] = line or f'[{read_or(entry / "comm", "gone").strip()}]'
        own = {1} | {self.pid_in(file) for file in OWN_PIDS}
        return {pid: line for pid, line in found.items()
                if pid not in own and not any(each in line for each in OWN_LINES)}

    def pid_in(self, file):
        text = read_or(Path(f'/proc/{self.pid}/root{file}'), '').strip()
        return int(text) if text.isdigit() else None

    def containers(self):
        """Names of all containers of the node's dockerd, running or not."""
        return self.docker('ps', '-a', '--format', '{{.Names}}').split()

    def docker(self, *args, timeout=60):
        """What a docker command that must work prints."""
        return self.run(['/usr/bin/docker', *args], user='root', timeout=timeout, check=True).stdout

    # ------------------------------------------------------------ its daemons

    def launch_sshd(self):
        return self.popen(['/usr/sbin/sshd', '-f', self.cluster.folder / 'sshd_config', '-E',
                           self.folder / 'sshd.log'], user='root')

    def start_sshd(self):
        self.launch_sshd().wait(30)
        self.wait_sshd()

    def wait_sshd(self):
        wait_until(lambda: self.pid_in('/run/sshd.pid'), 60, f'{self.name}: sshd')

    def stop_sshd(self):
        """No new connections; those that stand live on."""
        pid = self.pid_in('/run/sshd.pid')
        if pid:
            self.run(['kill', str(pid)], user='root')
            wait_until(lambda: not self.pid_in('/run/sshd.pid'), 30, f'{self.name}: end of sshd')

    def launch_dockerd(self, env=None, options=()):
        """Start dockerd without waiting for it."""
        check_storage(self.folder)
        data = self.folder / 'docker'
        data.mkdir(exist_ok=True)
        bridge = 'docker0' if self.cluster.docker0 else 'none'
        argv = ['/usr/sbin/dockerd', '-H', 'unix:///run/docker.sock', '--data-root', data,
                '--exec-root', '/run/docker', '--pidfile', '/run/docker.pid', '--config-file',
                self.cluster.folder / 'docker.json', '--cgroup-parent', self.cluster.cgroup,
                f'--bridge={bridge}', '--iptables=false', '--ip6tables=false', '--ip-masq=false',
                '--userland-proxy=false', '--storage-driver', 'overlay2', *options]
        with open(self.folder / 'dockerd.log', 'ab') as log:
            self.dockerd = self.popen(argv, user='root', env=env or self.dockerd_env,
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_dockerd(self):
        def up():
            if self.dockerd.poll() is not None:
                raise BedError(f'{self.name}: dockerd ended:\n{self.tail("dockerd.log")}')
            return self.path('/run/docker.sock').exists() and self.run(
                ['/usr/bin/docker', 'version'], user='root').returncode == 0
        try:
            wait_until(up, DOCKERD_TIMEOUT, f'{self.name}: dockerd')
        except BedError as error:
            raise BedError(f'{error}\n{self.tail("dockerd.log")}') from None

    def start_dockerd(self, env=None, options=()):
        self.launch_dockerd(env, options)
        self.wait_dockerd()

    def stop_dockerd(self, sig=signal.SIGTERM):
        """End dockerd; by default in order, with SIGKILL as in a crash (containers live on)."""
        if self.dockerd:
            self.dockerd.send_signal(sig)
            try:
                self.dockerd.wait(30)
            except subprocess.TimeoutExpired:
                self.dockerd.kill_all()
                self.dockerd.wait(10)
            self.dockerd = None
        if sig == signal.SIGKILL:
            self.path('/run/docker.pid').unlink(missing_ok=True)

    def end_shims(self):
        """What a dockerd that was killed may leave: its containerd forgets the shim of a container
        that ends while the next dockerd starts."""
        shims = [str(pid) for pid, line in self.processes().items() if 'containerd-shim' in line]
        if shims:
            self.run(['kill', '-KILL', *shims], user='root')

    def tail(self, log, lines=20):
        return '\n'.join(read_or(self.folder / log, '').splitlines()[-lines:])

    # ------------------------------------------------------------ what can happen to it

    def kill(self):
        """Power loss: every process gone at once, the network card silent."""
        self.end_init()
        self.wait_end()

    def cut(self):
        """Cut the node off the network; its own interface sees nothing of it."""
        self.cluster.switch(self, 'nomaster')

    def join(self):
        """Connect it again."""
        self.cluster.switch(self, 'master')

    def block(self, port, way='DROP'):
        """Let nobody reach a TCP port of the node; way='REJECT' refuses instead of keeping
        silent. Loopback stays open."""
        self.iptables('-I', port, way)

    def unblock(self, port, way='DROP'):
        self.iptables('-D', port, way)

    def iptables(self, action, port, way):
        how = ['--reject-with', 'tcp-reset'] if way == 'REJECT' else []
        self.run(['iptables', action, 'INPUT', '!', '-i', 'lo', '-p', 'tcp', '--dport', str(port),
                  '-j', way, *how], user='root', check=True)


def check_storage(folder):
    """dockerd's overlay2 cannot lie on an overlay, as the root of a container is one."""
    kind = subprocess.run(['stat', '-f', '-c', '%T', str(folder)], capture_output=True,
                          text=True, check=False).stdout.strip()
    if kind == 'overlayfs':
        raise BedError(f'{folder} lies on an overlay, where dockerd cannot keep images; set '
                       'REIGEN_BED_DIR to a folder on a disk')


def finish(child):
    try:
        return child.communicate(timeout=5)
    except subprocess.TimeoutExpired as late:
        # Something outside its process group still holds the pipes.
        child.stdout.close()
        child.stderr.close()
        return late.stdout, late.stderr


def read_or(path, otherwise):
    try:
        return path.read_text(errors='replace')
    except OSError:
        return otherwise
