# SPDX-License-Identifier: Apache-2.0
"""What runs the tasks of OpenPAI's jobs: processes of this machine, or containers on bed's nodes.

A task is what the platform makes of it: bash, the variables of its generation, and a home with
the job's ssh key where the image has a service for ssh. In API v1 the command stands in a script,
with a backslash before each character that the shell knows, behind `eval`; so a line break, which
is written as \\n, is lost there. When a task's first process has ended, all others of it are
killed.
"""
import datetime
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from .pai_jobs import user_environment, variables

SHELL_KNOWS = re.compile(r'[ !"#$&\'()*,;<>?\[\\\]^`{|}~]')
FIRST_PORT, LAST_PORT = 20000, 40000
END_S = 5
BARRIER_S = 10
LOGS = ('user.pai.all', 'user.pai.stdout', 'user.pai.stderr')


def in_eval(command):
    """The command as it stands behind eval in v1's script."""
    text = SHELL_KNOWS.sub(r'\\\g<0>', command)
    return text.replace('\n', r'\n').replace('\t', r'\t').replace('\r', r'\r')


def script(job, task):
    if job.generation == 2:
        return task.role.command + '\n'
    return f'''trap 'exit 143' TERM
export PAI_WORK_DIR="$PWD"
run_user_command() {{
    printf '%s\\n\\n' '[INFO] USER COMMAND START'
    eval {in_eval(task.role.command)} || exit $?
    printf '\\n%s\\n\\n' '[INFO] USER COMMAND END'
    exit 0
}}
run_user_command &
wait $!
exit $?
'''


def ssh_config(job, identity_file):
    """The blocks by which `ssh worker-0` finds its task."""
    return ''.join(
        f'Host {task.show()}\n  HostName {task.ip}\n  Port {task.ports["ssh"][0]}\n  User root\n'
        '  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n'
        f'  IdentityFile {identity_file}\n' for task in job.tasks)


def key_pair(folder, name):
    """A fresh RSA pair, as the server of v1 makes one for each job."""
    path = Path(folder) / name
    if not path.exists():
        subprocess.run(['ssh-keygen', '-q', '-t', 'rsa', '-b', '2048', '-m', 'PEM', '-N', '', '-C',
                        name, '-f', path], check=True, timeout=120, stdin=subprocess.DEVNULL)
    return path


def ssh_plugin(job):
    """The parameters of the runtime plugin ssh; None where the job has none."""
    if job.generation == 1:
        return None
    for plugin in (job.config.get('extras') or {}).get('com.microsoft.pai.runtimeplugin', ()):
        if plugin.get('plugin') == 'ssh':
            return plugin.get('parameters') or {}
    return None


def key_name(job):
    """What the job's ssh key is called in a task; None where the platform gives none."""
    if job.generation == 1:
        return job.identity
    plugin = ssh_plugin(job)
    return 'id_rsa' if plugin and plugin.get('jobssh') else None


class Run:
    """A task's first process, and the files of its words."""

    def __init__(self, child, folder):
        self.child, self.folder = child, folder
        self.lock = threading.Lock()
        self.pumps = [threading.Thread(target=self.pump, args=(stream, name), daemon=True)
                      for stream, name in ((child.stdout, 'user.pai.stdout'),
                                           (child.stderr, 'user.pai.stderr'))]
        for name in LOGS:
            (folder / name).touch()
        for pump in self.pumps:
            pump.start()

    def pump(self, stream, name):
        with open(self.folder / name, 'ab') as own, open(self.folder / LOGS[0], 'ab') as every:
            while chunk := os.read(stream.fileno(), 65536):
                with self.lock:
                    for file in (own, every):
                        file.write(chunk)
                        file.flush()

    def poll(self):
        code = self.child.poll()
        return None if code is None else 128 - code if code < 0 else code

    def log(self, name=LOGS[0]):
        return (self.folder / name).read_bytes()

    def finish(self):
        for pump in self.pumps:
            pump.join(END_S)
        for stream in (self.child.stdout, self.child.stderr):
            stream.close()


class Runner:
    """Folders, ports, and words about what the runner itself could not do."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix='reigen-pai-'))
        self.errors = []
        self.taken = set()

    def complain(self, text):
        self.errors.append(text)
        print(f'pai: {text}', file=sys.stderr)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def home_of(self, job, task):
        name = f'{task.show()}.{task.attempt}' if task.attempt else task.show()
        folder = self.folder / f'{job.debug_id}-{job.attempt}' / name
        folder.mkdir(parents=True)
        return folder

    def keys(self, job):
        folder = self.folder / 'keys'
        folder.mkdir(exist_ok=True)
        return key_pair(folder, job.identity)

    def place(self, job):
        """Addresses, ports and keys; http and ssh are there always."""
        if key_name(job):
            self.keys(job)
        for number, task in enumerate(job.tasks):
            task.ip = self.address(number)
            wanted = {'http': (0, 1), 'ssh': (0, 1), **task.role.ports}
            task.ports = {  # at once, as requests look at it meanwhile
                label: [begin + i for i in range(count)] if begin else
                [self.port(task) for _ in range(count)]
                for label, (begin, count) in wanted.items()}

    def port(self, task):
        while True:
            port = random.randrange(FIRST_PORT, LAST_PORT)
            if (task.ip, port) not in self.taken and self.is_free(task.ip, port):
                self.taken.add((task.ip, port))
                return port


class Processes(Runner):
    """Tasks are processes of this machine, each with a home and a working directory of its own.

    path         folders in front of PATH
    env          more variables, which an image would set
    ssh_service  the images have one: in v1, tasks get the job's key in ~/.ssh
    addresses    what tasks get in turn
    """

    def __init__(self, path=(), env=None, ssh_service=True, addresses=('127.0.0.1',)):
        super().__init__()
        self.path, self.env, self.addresses = [str(p) for p in path], env or {}, addresses
        self.ssh_service = ssh_service

    def address(self, number):
        return self.addresses[number % len(self.addresses)]

    @staticmethod
    def is_free(ip, port):
        with socket.socket() as probe:
            try:
                probe.bind((ip, port))
            except OSError:
                return False
        return True

    def start(self, job, task):
        folder = self.home_of(job, task)
        for name in ('home', 'home/.ssh', 'work', 'tmp'):
            (folder / name).mkdir(mode=0o700)
        self.give_keys(job, folder / 'home/.ssh')
        (folder / 'command.sh').write_text(script(job, task))
        base = {'HOME': folder / 'home', 'USER': 'root', 'LANG': 'C.UTF-8',
                'TMPDIR': folder / 'tmp',
                'PATH': ':'.join([*self.path, os.environ.get('PATH', '/usr/bin:/bin')])}
        env = {**base, **self.env, **user_environment(job), **variables(job, task)}
        child = subprocess.Popen(
            ['bash', folder / 'command.sh'], cwd=folder / 'work', start_new_session=True,
            env={k: str(v) for k, v in env.items()}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return ProcessRun(child, folder, f'PAI_CONTAINER_ID={env["PAI_CONTAINER_ID"]}',
                          f'HOME={folder / "home"}')

    def give_keys(self, job, folder):
        name = key_name(job)
        if name is None or job.generation == 1 and not self.ssh_service:
            return
        key = self.keys(job)
        shutil.copy(key, folder / name)
        shutil.copy(f'{key}.pub', folder / f'{name}.pub')
        (folder / name).chmod(0o400)
        (folder / 'config').write_text(ssh_config(job, folder / name))


class ProcessRun(Run):
    def __init__(self, child, folder, *marks):
        super().__init__(child, folder)
        self.marks = {mark.encode() for mark in marks}

    def terminate(self):
        if self.child.poll() is None:
            self.child.terminate()

    def remove(self):
        """Kill all that has the task's variables, as the end of a container does."""
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(END_S)
        deadline = time.monotonic() + END_S
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.005)  # patient: a server, not a test
        self.finish()

    def processes(self):
        found = []
        for entry in Path('/proc').iterdir():
            if entry.name.isdigit():
                try:
                    lines = (entry / 'environ').read_bytes().split(b'\0')
                except OSError:
                    continue
                if self.marks <= set(lines):
                    found.append(int(entry.name))
        return found


# ---------------------------------------------------------------------------- containers

BOOTSTRAP_V1 = '''#!/bin/bash
if service --status-all 2>&1 | grep -q ssh; then
    mkdir -p -m 700 /root/.ssh
    cp /pai/ssh/* /root/.ssh/
    cat "/root/.ssh/$PAI_JOB_NAME.pub" >>/root/.ssh/authorized_keys
    sed -i 's/PermitRootLogin prohibit-password/PermitRootLogin yes/' /etc/ssh/sshd_config
    sed -i "s/[# ]*Port .*/Port $PAI_CONTAINER_SSH_PORT/" /etc/ssh/sshd_config
    service ssh restart >/pai/log/ssh 2>&1
fi
env | grep -E '^PAI|PATH|PREFIX|JAVA|HADOOP|NVIDIA|CUDA' >/etc/environment
exec /bin/bash /pai/bootstrap/command.sh
'''
BOOTSTRAP_V2 = '''#!/bin/bash
if [ -e /pai/ssh/id_rsa ]; then
    [ -x /usr/sbin/sshd ] || { echo 'no sshd in the image' >&2; exit 1; }
    mkdir -p -m 700 /root/.ssh /run/sshd
    cp /pai/ssh/id_rsa /root/.ssh/
    cat /pai/ssh/id_rsa.pub >>/root/.ssh/authorized_keys
    cat /pai/ssh/config >>/etc/ssh/ssh_config
    echo 'PermitUserEnvironment yes' >>/etc/ssh/sshd_config
    env >/root/.ssh/environment
    /usr/sbin/sshd -p "$PAI_CONTAINER_SSH_PORT" >/pai/log/ssh 2>&1
    if [ -e /pai/barrier ]; then
        for host in $(cat /pai/barrier); do
            until ssh -q -o BatchMode=yes "$host" true; do sleep BARRIER_S; done
        done
    fi
fi
exec /bin/bash /pai/bootstrap/command.sh
'''


class Containers(Runner):
    """Tasks are containers on nodes of the bed that run dockerd, one after another.

    docker   more words for `docker create`, as an image's maker would have had them in the image
    """

    def __init__(self, nodes, docker=()):
        super().__init__()
        self.nodes, self.words = list(nodes), [str(word) for word in docker]

    def address(self, number):
        return self.nodes[number % len(self.nodes)].address

    @staticmethod
    def is_free(_ip, _port):
        return True

    def start(self, job, task):
        node = self.nodes[job.tasks.index(task) % len(self.nodes)]
        folder = self.home_of(job, task)
        files = folder / 'pai'
        (files / 'bootstrap').mkdir(parents=True)
        (files / 'log').mkdir()
        (files / 'ssh').mkdir(mode=0o700)
        self.give_keys(job, task, files)
        boot = BOOTSTRAP_V1 if job.generation == 1 else BOOTSTRAP_V2
        (files / 'bootstrap/docker_bootstrap.sh').write_text(
            boot.replace('BARRIER_S', str(BARRIER_S)))
        (files / 'bootstrap/command.sh').write_text(script(job, task))
        name = f'pai-{task.show()}-{task.uid.replace("container_", "")}'
        self.docker(node, 'create', '--name', name, *self.options(job, task), task.role.image,
                    '/bin/bash', '/pai/bootstrap/docker_bootstrap.sh')
        try:
            self.give_files(node, files, name)
        except RuntimeError:
            self.docker(node, 'rm', name)
            raise
        child = node.popen(['/usr/bin/docker', 'start', '-a', name], user='root',
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        return ContainerRun(child, folder, node, name)

    @staticmethod
    def give_files(node, files, name):
        """As an archive, since the node does not see this machine's temporary folders."""
        archive = files.with_suffix('.tar')
        subprocess.run(['tar', '-C', files.parent, '--owner=0', '--group=0', '-cf', archive,
                        files.name], check=True, timeout=60)
        with open(archive, 'rb') as stream:
            child = node.popen(['/usr/bin/docker', 'cp', '-', f'{name}:/'], user='root',
                               stdin=stream, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            _, errors = child.communicate(timeout=120)
        if child.returncode:
            raise RuntimeError(f'docker cp on {node.name}: {errors.decode()}')

    @staticmethod
    def docker(node, *words):
        done = node.run(['/usr/bin/docker', *words], user='root', timeout=120)
        if done.returncode:
            raise RuntimeError(f'docker {words[0]} on {node.name}: {done.stderr}')

    def options(self, job, task):
        role = task.role
        words = ['--network=host', '--privileged=false', '--entrypoint=', '--init=false',
                 f'--cpus={min(role.cpu, os.cpu_count())}', f'--memory={role.memory}m',
                 f'--shm-size={role.shm}m', *self.words]
        if job.generation == 1:
            words += ['--cap-add=SYS_ADMIN', '--cap-add=DAC_READ_SEARCH', '--cap-drop=MKNOD']
        for key, value in {**user_environment(job), **variables(job, task)}.items():
            words += ['--env', f'{key}={value}']
        return words

    def give_keys(self, job, task, files):
        name, plugin = key_name(job), ssh_plugin(job)
        if name is None:
            return
        key = self.keys(job)
        shutil.copy(key, files / 'ssh' / name)
        shutil.copy(f'{key}.pub', files / 'ssh' / f'{name}.pub')
        (files / 'ssh' / name).chmod(0o400)
        (files / 'ssh/config').write_text(ssh_config(job, f'/root/.ssh/{name}'))
        if plugin and plugin.get('sshbarrier'):
            (files / 'barrier').write_text(
                ' '.join(other.show() for other in job.tasks if other is not task))


class ContainerRun(Run):
    def __init__(self, child, folder, node, name):
        super().__init__(child, folder)
        self.node, self.name = node, name
        self.started_at = None          # as docker tells it, once the container has been removed

    def terminate(self):
        self.node.run(['/usr/bin/docker', 'kill', '--signal=TERM', self.name], user='root')

    def remove(self):
        told = self.node.run(['/usr/bin/docker', 'inspect', '-f', '{{.State.StartedAt}}',
                              self.name], user='root').stdout.strip()
        # It has nanoseconds, which Python's dates have not.
        moment = re.fullmatch(r'(.*)(\.\d+)Z', told)
        if moment:
            whole = datetime.datetime.fromisoformat(moment[1] + '+00:00').timestamp()
            self.started_at = whole + float(moment[2])
        self.node.run(['/usr/bin/docker', 'rm', '-f', self.name], user='root', timeout=120)
        try:
            self.child.wait(END_S)
        except subprocess.TimeoutExpired:
            self.child.kill_all()
        self.finish()
