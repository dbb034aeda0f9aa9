# SPDX-License-Identifier: Apache-2.0
"""Pods without a cluster: each is `reigen-agent pod` as process 1 of a pid name space, in a root of
its own that is read-only, as a user without rights. They share this computer's network."""
import json
import os
import re
import signal
import struct
import subprocess

import pytest

from built import PROGRAMS, ROOT, environment
from processes import children, wait_for

LIMIT = 60
SSH_PORT = 51966  # of no use but to find its place in a plan
IS_ROOT = os.geteuid() == 0
APART = ['unshare', *([] if IS_ROOT else ['--user', '--map-root-user']), '--mount', '--pid',
         '--ipc', '--uts', '--fork', '--kill-child']
# A user without rights and without a name; in a user name space of ours there is no other one.
USER = ['setpriv', '--no-new-privs', '--bounding-set=-all', '--inh-caps=-all',
        *(['--reuid=12345', '--regid=12345', '--clear-groups'] if IS_ROOT else [])]

# root, files (agent, plan, key), the termination message, the build's tree; then the command
SCRIPT = r'''
set -e
root=$1 files=$2 words=$3 tree=$4
shift 4
mount -t tmpfs pod "$root"
cd "$root"
mkdir -p usr proc dev/shm "./$tree" reigen/agent reigen/job reigen/key reigen/run etc
for d in bin sbin lib lib64; do
    [ -L /$d ] && cp -P /$d $d || { mkdir $d; mount --rbind /$d $d; }
done
mount --rbind /usr usr
mount --rbind /etc etc
mount --rbind "$tree" "./$tree"
mount -t proc proc proc
for d in null zero random urandom; do touch dev/$d; mount --bind /dev/$d dev/$d; done
mount -t tmpfs -o mode=1777 shm dev/shm
touch dev/termination-log
mount --bind "$words" dev/termination-log
cp "$files/reigen-agent" reigen/agent/
[ ! -e "$files/plan" ] || cp "$files/plan" reigen/job/
mount -t tmpfs key reigen/key # as a Secret's, it changes
cp "$files/key" reigen/key/
[ ! -e "$files/bundle" ] || cp -r "$files/bundle" reigen/
mount -t tmpfs -o mode=0777 run reigen/run
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
'''


AGENT = ['/reigen/agent/reigen-agent', 'pod']


def literals(data):
    """Bytes as a block of LZ4 that packs nothing."""
    more = len(data) - 15
    return b'\xf0' + b'\xff' * (more // 255) + bytes([more % 255]) + data


class Pod:
    def __init__(self, job, index, env, command=()):
        self.index = index
        self.root = job.folder / f'root-{index}-{len(job.pods)}'
        self.root.mkdir()
        self.words_file = job.folder / f'{self.root.name}.words'
        self.words_file.touch()
        self.words_file.chmod(0o666)
        self.out_file = open(job.folder / f'{self.root.name}.out', 'w+')
        self.child = subprocess.Popen(
            [*APART, 'sh', '-c', SCRIPT, 'sh', self.root, job.folder, self.words_file, ROOT, *USER,
             *(command or AGENT)],
            env=env, stdin=subprocess.DEVNULL, stdout=self.out_file, stderr=subprocess.STDOUT,
            start_new_session=True)

    @property
    def out(self):
        self.out_file.flush()
        with open(self.out_file.name) as file:
            return file.read()

    @property
    def words(self):
        text = self.words_file.read_text()
        return json.loads(text) if text else None

    @property
    def pid(self):
        """Of its process 1."""
        return wait_for(lambda: children(self.child.pid), 'process 1')[0]

    def signal(self, signo):
        os.kill(self.pid, signo)

    def saw(self, pattern):
        wait_for(lambda: re.search(pattern, self.out), f'{pattern} in {self.out}', LIMIT)

    def wait(self):
        return self.child.wait(LIMIT)

    def inside(self, *words, **options):
        """The CompletedProcess of a command in the pod."""
        return subprocess.run(['nsenter', f'--target={self.pid}', *([] if IS_ROOT else ['--user']),
                               '--mount', '--root', *words], timeout=LIMIT, check=False, **options)


def trimmed(data):
    """What the archive has of a file: of a library, what a process loads of it."""
    if data[:5] != b'\x7fELF\x02':
        return data
    header = bytearray(data[:64])
    at, = struct.unpack_from('<Q', header, 32)
    size, count = struct.unpack_from('<HH', header, 54)
    ends = [sum(struct.unpack_from(f'<{pos}xQ', data, at + i * size)[0] for pos in (8, 32))
            for i in range(count)]
    struct.pack_into('<Q', header, 40, 0)
    struct.pack_into('<HH', header, 60, 0, 0)
    return bytes(header) + data[64:max(ends)]


class PodJob:
    """One Job's pods, as many as there are hosts in its plan."""

    def __init__(self, folder, port):
        self.folder, self.port, self.pods = folder, port, []
        if subprocess.run([*APART, 'true'], capture_output=True, check=False).returncode:
            pytest.skip('no name spaces of our own here')
        folder.chmod(0o755)
        (folder / 'reigen-agent').write_bytes(PROGRAMS.agent.read_bytes())
        (folder / 'reigen-agent').chmod(0o755)
        (folder / 'key').write_text('0123456789abcdef' * 4 + '\n')

    def plan(self, npods, *words, metrics=0):
        """A plan whose hosts are job-0, job-1, ..., with one rank each. metrics: the port at which
        the head tells what they do."""
        plan = self.folder / 'plan'
        hosts = ','.join(f'job-{i}:1' for i in range(npods))
        done = subprocess.run([PROGRAMS.reigen, 'run', '--write-plan', plan, '--on', 'ssh', '-H',
                               hosts, '--start-timeout', '60', '--ssh-port', str(SSH_PORT),
                               *map(str, words)], env=environment(),
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr
        data = plan.read_bytes()
        before, _, after = data[16:].rpartition(b'\4\0\0\0ssh')  # a port may be called so, too
        said = before + b'\x0b\0\0\0kubernetes' + after
        neither = struct.pack('<II', 0, SSH_PORT)  # the two stand side by side
        assert said.count(neither) == 1
        said = said.replace(neither, struct.pack('<II', metrics, 0))
        plan.write_bytes(data[:12] + struct.pack('<I', len(said)) + said)
        plan.chmod(0o644)

    def bundle(self, packages):
        """The archive of these packages, packed, in parts as ConfigMaps hold them."""
        archive = b'reigenkit1\n'
        files = [*(packages / 'reigen').rglob('*'), *(packages / 'horovod').rglob('*')]
        for path in sorted(files):
            if path.is_file() and '__pycache__' not in path.parts:
                name = str(path.relative_to(packages)).encode()
                data = trimmed(path.read_bytes())
                archive += struct.pack('<H', len(name)) + name + \
                    struct.pack('<BI', bool(path.stat().st_mode & 0o100), len(data)) + data
        packed = literals(archive)
        (self.folder / 'bundle').mkdir()
        for i, at in enumerate(range(0, len(packed), 1_000_000)):
            (self.folder / 'bundle' / str(i)).write_bytes(packed[at:at + 1_000_000])

    def pod(self, index, *command, **env):
        sanitizer = {k: v for k, v in os.environ.items() if k.endswith('SAN_OPTIONS')}
        env = {**sanitizer, 'PATH': os.environ['PATH'], 'JOB_COMPLETION_INDEX': str(index),
               'REIGEN_POD_SERVICE': 'my-job', 'MY_JOB_SERVICE_HOST': '127.0.0.1',
               'REIGEN_POD_PORT': str(self.port), **env}
        self.pods.append(Pod(self, index, {k: v for k, v in env.items() if v is not None},
                             command))
        return self.pods[-1]

    def waiting(self, name, **env):
        """A pod that is there before its jobs."""
        return self.pod(name, **{'JOB_COMPLETION_INDEX': None, 'REIGEN_POD_NAME': name, **env})

    def master(self, *words, **env):
        """Where `reigen WORDS` runs for pods that wait; its host is called set-master."""
        return self.pod('master', PROGRAMS.reigen, *map(str, words), **{
            'JOB_COMPLETION_INDEX': None, 'REIGEN_POD_HEAD': 'set-master',
            **{k: v for k, v in environment().items() if k.startswith('REIGEN_')}, **env})

    def close(self):
        for pod in self.pods:
            if pod.child.poll() is None:
                os.killpg(pod.child.pid, signal.SIGKILL)
            pod.child.wait()
            pod.out_file.close()
