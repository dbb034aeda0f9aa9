# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs in the launcher's pod of an MPIJob, played as in test_mpijob: workers whose pods are
deleted and made again under the same names, and the operator's script, which learns of it late."""
import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from processes import parent
from ranks import free_port
from test_elastic import Job
from test_mpijob import NAMES, Pod

# As ssh does it with a pod that is not there any more, and with one that is deleted.
DOWN = '''if [ -e {folder}/down-$LOGIN ]; then
    echo "ssh: Could not resolve hostname $LOGIN: Name or service not known" >&2; exit 255
fi
sh -c "$command"
code=$?
if [ -e {folder}/down-$LOGIN ]; then
    echo "Connection to $LOGIN closed by remote host." >&2; exit 255
fi
exit $code'''
WORKERS = ('pi-worker-0', 'pi-worker-1')


class Launcher:
    """The pod with a job that runs, and what happens to its workers."""

    def __init__(self, start, folder):
        self.start, self.folder, self.file = start, folder, None
        (folder / 'pod').mkdir()
        self.pod = Pod(folder / 'pod')
        self.hosts, self.script = folder / 'hosts', folder / 'discover_hosts.sh'
        self.script.write_text(f'#!/bin/sh\ncat {self.hosts}\n')
        self.script.chmod(0o755)
        self.lists(*WORKERS)

    def lists(self, *workers):
        new = self.folder / 'new'
        new.write_text(''.join(f'{worker}.pi.default.svc\n' for worker in workers))
        new.rename(self.hosts)

    def run(self, options, mpi='OpenMPI', **more):
        env = self.pod(mpi, before=DOWN.format(folder=self.folder))
        if self.file:
            self.pod.path.write_text(self.file)
        self.job = Job(self.start, self.folder, options.split(), **{**env, **more})
        return self.job

    def delete(self, worker, place):
        """Its pod, with all processes of it; the last one is in this place."""
        (self.folder / f'down-{worker}').touch()
        processes, one = [], parent(self.job.pid(place))
        while not re.search('fake-ssh|/kubectl\0', Path(f'/proc/{one}/cmdline').read_text()):
            processes.insert(0, one)
            one = parent(one)
        for one in processes:
            with contextlib.suppress(ProcessLookupError):  # who is left ends by itself, too
                os.kill(one, signal.SIGKILL)

    def make(self, worker):
        (self.folder / f'down-{worker}').unlink()

    def saw(self, epoch, size):
        """Its ranks, the new ones as well, have got the state and taken a step."""
        self.job.wait(rf'epoch {epoch}: {size} rank[^\0]*step \d+ size {size}$')

    def end(self):
        self.job.stop()
        assert self.job.end() == 0, self.job.text()
        numbers = [batch for batch, _ in self.job.steps()]
        assert numbers == sorted(set(numbers)), self.job.text()  # what a pod said last may be lost
        return self.job.text()


@pytest.fixture
def launcher(start, tmp_path):
    return Launcher(start, tmp_path)


@pytest.mark.parametrize('mpi', NAMES)
def test_workers_join_are_lost_and_come_back_under_their_names(launcher, mpi):
    """The script says nothing of slots, and does not always know yet that a worker is gone."""
    slots = 2 if mpi in ('OpenMPI', 'Intel') else 1
    launcher.lists('pi-worker-0')
    it = launcher.run(f'-np {slots} --min-np 1 --max-np {2 * slots} --host-discovery-script '
                      f'{launcher.script}', mpi, command='horovodrun')
    it.wait(f'step .* size {slots}$')
    launcher.lists(*WORKERS)
    it.wait(f'step .* size {2 * slots}$')
    first = it.pid(0)
    launcher.delete('pi-worker-1', slots)
    launcher.saw(3, slots)
    launcher.make('pi-worker-1')
    launcher.saw(4, 2 * slots)
    assert it.pid(0) == first
    launcher.delete('pi-worker-0', 0)
    launcher.lists('pi-worker-1')
    launcher.saw(5, slots)
    launcher.make('pi-worker-0')
    launcher.lists(*WORKERS)
    launcher.saw(6, 2 * slots)
    text = launcher.end()
    assert 'aside' not in text and 'pi-worker-1' in text, text
    lost = re.findall(r'host (pi-worker-\d)\S*: .*; another one of its name is awaited', text)
    assert lost == ['pi-worker-1', 'pi-worker-0'], text
    options, = launcher.pod.ssh_options()
    assert '-o ConnectionAttempts=10' in options
    assert '-oStrictHostKeyChecking=accept-new -oUserKnownHostsFile=/dev/null' in options


def test_the_hosts_of_the_operators_file_return_as_well(launcher):
    it = launcher.run('-np 4 --min-np 1')
    it.wait('step .* size 4$')
    launcher.delete('pi-worker-1', 2)
    it.wait('step .* size 2$')
    launcher.make('pi-worker-1')
    launcher.saw(3, 4)
    assert 'aside' not in launcher.end()


def test_a_rank_that_fails_by_itself_sets_its_worker_aside(launcher):
    it = launcher.run(f'-np 4 --min-np 1 --host-discovery-script {launcher.script}', fail=True)
    it.wait('step .* size 4$')
    (launcher.folder / 'fail-2').touch()
    it.wait('step .* size 2$')
    text = launcher.end()
    assert re.search('host pi-worker-1.* is set aside for the rest of the job: rank 2', text), text


def test_an_agent_that_is_killed_in_a_worker_that_stays_has_failed(launcher):
    it = launcher.run('-np 4 --min-np 1')
    it.wait('step .* size 4$')
    os.kill(parent(it.pid(2)), signal.SIGKILL)
    it.wait('step .* size 2$')
    text = launcher.end()
    assert re.search('host pi-worker-1.* is set aside for the rest of the job', text), text


def test_the_users_files_of_known_hosts_are_heeded(launcher):
    it = launcher.run('-np 4 --min-np 1 --ssh-option UserKnownHostsFile=/etc/mpi/known')
    it.wait('step .* size 4$')
    launcher.end()
    options, = launcher.pod.ssh_options()
    assert 'UserKnownHostsFile=/etc/mpi/known' in options and '/dev/null' not in options


# --- workers without an sshd ----------------------------------------------------------------------

# As operators of the API v1 make it, but for the folder of kubectl.
KUBEXEC = '''#!/bin/sh
set -x
POD_NAME=$1
shift
{folder}/kubectl exec ${{POD_NAME}} --container main -- /bin/sh -c "$*"'''
KUBECTL = '''#!/bin/sh
[ "$1" = exec ] && shift
if [ "$1" = -i ]; then shift; else exec </dev/null; fi
if [ -e {folder}/down-$1 ]; then
    echo "Error from server (NotFound): pods \\"$1\\" not found" >&2; exit 1
fi
pod=$1
export HOME={folder}/home/$1 LOGIN=$1
mkdir -p "$HOME"
cd "$HOME" && shift 4 && "$@"
code=$?
[ ! -e {folder}/down-$pod ] || code=137
[ $code = 0 ] || echo "command terminated with exit code $code" >&2
exit $code
'''


@pytest.fixture
def exec_launcher(launcher):
    """As by an operator of the API v1: its script says how many slots each worker has."""
    for name, text in (('kubexec.sh', KUBEXEC), ('kubectl', KUBECTL)):
        path = launcher.folder / name
        path.write_text(text.format(folder=launcher.folder))
        path.chmod(0o755)
    launcher.hosts.write_text('pi-worker-0:2\npi-worker-1:2\n')
    launcher.file = 'pi-worker-0 slots=2\npi-worker-1 slots=2\n'
    launcher.agent = {'OMPI_MCA_plm_rsh_agent': launcher.folder / 'kubexec.sh',
                      'REIGEN_SSH': '/bin/false'}
    return launcher


def test_workers_are_reached_by_the_operators_script(exec_launcher, reigen):
    env = {**exec_launcher.pod(hosts=()), **exec_launcher.agent}
    exec_launcher.pod.path.write_text(exec_launcher.file)
    done = reigen('run', '--no-tag-output', '--', 'sh', '-c', 'echo $RANK $LOGIN', env=env)
    assert sorted(done.stdout.splitlines()) == [
        '0 pi-worker-0', '1 pi-worker-0', '2 pi-worker-1', '3 pi-worker-1'], done
    assert 'POD_NAME' not in done.stderr, done
    (exec_launcher.folder / 'down-pi-worker-1').touch()
    done = reigen('run', '--start-timeout', '1', '--', 'true', env=env)
    assert done.returncode == 124 and 'the pod is not there' in done.stderr, done


def test_workers_that_it_reaches_are_lost_and_come_back(exec_launcher):
    it = exec_launcher.run(f'-np 2 --min-np 1 --max-np 4 --host-discovery-script '
                           f'{exec_launcher.script}', command='horovodrun', **exec_launcher.agent)
    it.wait('step .* size 4$')
    exec_launcher.delete('pi-worker-1', 2)
    exec_launcher.saw(2, 2)
    exec_launcher.make('pi-worker-1')
    exec_launcher.saw(3, 4)
    text = exec_launcher.end()
    assert 'aside' not in text and 'another one of its name is awaited' in text, text


def test_a_killed_agent_is_no_worker_that_is_cut_off(exec_launcher):
    """kubectl may say 137 of either; but of its agent's end the guard tells, which is small, so the
    kernel does not kill it for want of memory."""
    it = exec_launcher.run(f'-np 4 --min-np 1 --host-discovery-script {exec_launcher.script}',
                           **exec_launcher.agent)
    it.wait('step .* size 4$')
    os.kill(parent(it.pid(2)), signal.SIGKILL)
    it.wait('step .* size 2$')
    text = exec_launcher.end()
    assert 'host pi-worker-1 is set aside for the rest of the job' in text, text
    assert 'is awaited' not in text, text


# --- with a real sshd -----------------------------------------------------------------------------

# As process 1 of a pod, with a key of its own; its user's home is not that of this computer.
SSHD = '''mount -t tmpfs none /run && mkdir /run/sshd && mount --bind {home} /root &&
exec /usr/sbin/sshd -D -e -f /dev/null -h {key} -o ListenAddress=127.0.0.1:{port} -o PidFile=none \\
    -o AuthorizedKeysFile={folder}/id.pub -o StrictModes=no -o UsePAM=no -o PermitRootLogin=yes'''
SSH = '''#!/bin/sh
for word; do [ "$before" = -- ] && host=$word; before=$word; [ "$host" ] && break; done
exec ssh -F /dev/null -i {folder}/id -o HostName=127.0.0.1 \\
    -o Port=$(cat {folder}/port-${{host%%.*}}) "$@"
'''


def make_key(path):
    path.unlink(missing_ok=True)
    subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', path], check=True,
                   timeout=60, stdin=subprocess.DEVNULL)
    return path


class Sshd:
    """A worker's pod, whose sshd is process 1 of it."""

    def __init__(self, start, folder, worker):
        self.start, self.folder, self.worker = start, folder, worker
        self.port, self.home = free_port(), folder / f'root-{worker}'
        (folder / f'port-{worker}').write_text(str(self.port))
        self.home.mkdir()
        self.make()

    def make(self):
        key = make_key(self.folder / f'key-{self.worker}')
        self.child = self.start(
            'unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh', '-c',
            SSHD.format(folder=self.folder, home=self.home, key=key, port=self.port),
            stderr=subprocess.DEVNULL)

    def delete(self):
        self.child.kill()
        self.child.wait(60)


@pytest.mark.skipif(os.getuid() != 0, reason='mounts')
def test_a_pod_of_another_host_key_takes_the_place_of_one_that_is_deleted(launcher, start):
    folder = launcher.folder
    make_key(folder / 'id')
    ssh = folder / 'ssh'
    ssh.write_text(SSH.format(folder=folder))
    ssh.chmod(0o755)
    workers = [Sshd(start, folder, worker) for worker in WORKERS]
    it = launcher.run(f'-np 4 --min-np 1 --host-discovery-script {launcher.script}',
                      REIGEN_SSH=ssh)
    it.wait('step .* size 4$')
    for epoch, worker in ((2, workers[1]), (4, workers[0])):
        worker.delete()
        launcher.saw(epoch, 2)
        worker.make()
        launcher.saw(epoch + 1, 4)
    it.stop()
    assert it.child.wait(120) == 0, it.text()
    for worker in workers:
        worker.delete()
    text = launcher.end()
    assert 'aside' not in text and text.count('another one of its name is awaited') == 2, text
