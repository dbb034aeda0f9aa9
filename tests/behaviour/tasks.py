# SPDX-License-Identifier: Apache-2.0
"""Tasks of an OpenPAI job without a cluster: local processes with the variables that the platform
sets, of API v1, of protocol v2, or the older names alone. They share this computer's network."""
import base64
import os
import re
import signal
import struct
import subprocess

from built import PROGRAMS, environment
from processes import wait_for
from ranks import SLOWER, free_port

LIMIT = 60
KEY = '0123456789abcdef' * 4
JOB = 'ann~horovod'


def variables(roles, role, index, generation, ports):
    """What a task has: roles are {name: (tasks, gpus)}, ports {(role, index): port}."""
    env = {'PAI_JOB_NAME': JOB, 'PAI_USER_NAME': 'ann'}
    names = ','.join(roles)
    if generation == 'old':
        env |= {'PAI_TASK_ROLE_NAME': role, 'PAI_TASK_ROLE_INDEX': index,
                'PAI_JOB_TASK_ROLE_LIST': names, 'PAI_TASK_GPU_NUM': roles[role][1]}
    else:
        env |= {'PAI_CURRENT_TASK_ROLE_NAME': role,
                'PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX': index, 'PAI_TASK_ROLE_LIST': names}
    if generation == 'v1':
        env['PAI_RESOURCE'] = f'{roles[role][1]},2,1024,64'
    for name, (ntasks, ngpus) in roles.items():
        if generation != 'old':
            env[f'PAI_TASK_ROLE_TASK_COUNT_{name}'] = ntasks
        if generation == 'v2':
            env[f'PAI_RESOURCE_{name}'] = f'{ngpus},2,1024,64'
        hosts = []
        for i in range(ntasks):
            port = ports[name, i]
            hosts.append(f'127.0.0.1:{port}')
            if generation != 'old':
                env[f'PAI_HOST_IP_{name}_{i}'] = '127.0.0.1'
                label = 'reigen' if generation == 'v2' else 'http'
                env[f'PAI_PORT_LIST_{name}_{i}_{label}'] = f'{port},{port + 1}'
                env[f'PAI_PORT_LIST_{name}_{i}_ssh'] = 22
            else:
                env[f'PAI_{name}_{i}_http_PORT'] = port
        env[f'PAI_TASK_ROLE_{name}_HOST_LIST'] = ','.join(hosts)
    return {k: str(v) for k, v in env.items()}


class Task:
    def __init__(self, folder, name, argv, env):
        self.name = name
        self.file = open(folder / f'{name}-{os.urandom(4).hex()}.out', 'w+')
        self.child = subprocess.Popen([str(a) for a in argv], env=env, stdin=subprocess.DEVNULL,
                                      stdout=self.file, stderr=subprocess.STDOUT,
                                      start_new_session=True)
        self.pid = self.child.pid

    @property
    def out(self):
        with open(self.file.name) as file:
            return file.read()

    def saw(self, pattern):
        wait_for(lambda: re.search(pattern, self.out), f'{pattern} in {self.out}', LIMIT)

    def signal(self, signo):
        os.kill(self.pid, signo)

    def wait(self, seconds=LIMIT):
        return self.child.wait(seconds * SLOWER)


class PaiJob:
    """One job's tasks, of the roles of `roles`."""

    def __init__(self, folder):
        self.folder, self.tasks, self.key = folder, [], KEY
        self.generation = 'v2'
        self.use({'master': (1, 0), 'worker': (1, 0)})

    def use(self, roles, generation=None):
        self.roles, self.generation = roles, generation or self.generation
        self.ports = {(role, i): free_port() for role, (n, _) in roles.items() for i in range(n)}

    def environment(self, name, **more):
        role, _, index = name.rpartition('-')
        env = environment(**variables(self.roles, role, index, self.generation, self.ports))
        home = self.folder / f'home-{name}'
        home.mkdir(exist_ok=True)
        env |= {'HOME': str(home), 'REIGEN_KEY': self.key, 'XDG_STATE_HOME': str(home / 'state')}
        if self.generation == 'v1' and 'REIGEN_KEY' not in more:
            del env['REIGEN_KEY']  # it is derived from what the platform puts there
            (home / '.ssh').mkdir(exist_ok=True)
            (home / '.ssh' / JOB).write_text('a private key of this job')
        env |= more
        return {k: str(v) for k, v in env.items() if v is not None}

    def start(self, name, *argv, **env):
        self.tasks.append(Task(self.folder, name, argv, self.environment(name, **env)))
        return self.tasks[-1]

    def pod(self, name, **env):
        return self.start(name, PROGRAMS.agent, 'pod', **env)

    def run(self, *words, **env):
        """`reigen run` on the master."""
        return self.start('master-0', PROGRAMS.reigen, 'run', *words, **env)

    def wait_workers(self, name, *words, **env):
        return self.start(name, PROGRAMS.reigen, 'wait-workers', *words, **env)

    def plan(self, *words):
        """As reigen run --on openpai hands it to tasks: in base64, for the variable."""
        path = self.folder / 'plan'
        hosts = ','.join(f'{role}-{i}:1' for role, i in self.ports)
        done = subprocess.run([PROGRAMS.reigen, 'run', '--write-plan', path, '--on', 'ssh', '-H',
                               hosts, '--no-inject-runtime', *map(str, words)],
                              env=environment(), capture_output=True, text=True, timeout=LIMIT,
                              check=False)
        assert done.returncode == 0, done.stderr
        data = path.read_bytes()
        said = data[16:].replace(b'\4\0\0\0ssh', b'\x08\0\0\0openpai', 1)
        return base64.b64encode(data[:12] + struct.pack('<I', len(said)) + said).decode()

    def close(self):
        for task in self.tasks:
            if task.child.poll() is None:
                os.killpg(task.pid, signal.SIGKILL)
            task.child.wait()
            task.file.close()
