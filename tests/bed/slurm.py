# SPDX-License-Identifier: Apache-2.0
"""Slurm on simulated hosts: a login node with slurmctld, and a slurmd on every node."""
import secrets
from pathlib import Path

from .cluster import Cluster
from .node import PATHS, BedError, wait_until

HEAD = 'head'
UP_TIMEOUT = 120
# Jobs of two clusters have different numbers: with proctrack/cgroup all clusters of this machine
# share one tree of cgroups, and its names are made of the node's name and the job's number.
FIRST_JOB_MAX = 50_000_000
GPU = '/run/gpu'


class SlurmCluster(Cluster):
    """A Cluster that Slurm runs: nodes node1, node2, ... in the partition p, and `head`, the
    login node. alice has one home directory on all of them.

    gpus       made-up GPUs of each node, in Slurm's eyes only: /run/gpu0, /run/gpu1, ... Docker has
               a driver for them, which does no more than to name them in NVIDIA_VISIBLE_DEVICES
    gres       False: Slurm does not count these GPUs. They are what nvidia-smi lists that is in
               the folder `tools`, for a PATH
    cpus       cores of each node, in Slurm's eyes only
    proctrack  how Slurm knows a job's processes: linuxproc, pgid or cgroup
    task       none, affinity or cgroup
    kill_wait  seconds between SIGTERM and SIGKILL at a job's end
    munge      False: Slurm believes everybody who they say they are, and no munged runs
    settings   more of slurm.conf, or something else than what is there: {'SlurmdTimeout': 10}
    Whatever else Cluster takes; there is no sshd unless sshd=True.
    """

    def __init__(self, nodes=2, gpus=2, cpus=4, proctrack='linuxproc', task='none', kill_wait=5,
                 munge=True, settings=None, gres=True, **options):
        self.gpus = gpus
        self.gres = gres
        self.cpus = cpus
        self.munge = munge
        self.settings = {'ProctrackType': f'proctrack/{proctrack}', 'TaskPlugin': f'task/{task}',
                         'KillWait': kill_wait, **(settings or {})}
        super().__init__(nodes, others=(HEAD,), **{'sshd': False, 'shared_home': True, **options})

    def boot(self, sshd):
        super().boot(sshd)
        if self.gpus:
            self.make_gpu_driver()
        self.head = self[HEAD]
        for node in self.hosts if self.munge else ():
            self.start_munged(node)
        self.start_slurmctld()
        self.start_slurmds(self.nodes)
        self.wait_idle(timeout=UP_TIMEOUT)

    # ------------------------------------------------------------ files

    def write_etc(self):
        super().write_etc()
        folder = self.folder / 'etc/slurm'
        folder.mkdir()
        key = self.folder / 'munge.key'
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o400)
        (self.folder / 'log').mkdir()
        (folder / 'slurm.conf').write_text(self.slurm_conf())
        (folder / 'gres.conf').write_text(''.join(f'Name=gpu File={GPU}{i}\n'
                                                  for i in range(self.gpus * self.gres)))
        version = 'v1' if Path('/sys/fs/cgroup/freezer').is_dir() else 'v2'
        (folder / 'cgroup.conf').write_text(
            f'CgroupPlugin=cgroup/{version}\nCgroupMountpoint=/sys/fs/cgroup\n'
            'CgroupAutomount=no\nConstrainCores=no\nConstrainDevices=no\nConstrainRAMSpace=no\n')

    def slurm_conf(self):
        log = self.folder / 'log'
        settings = {
            'ClusterName': 'bed', 'SlurmctldHost': HEAD, 'SlurmUser': 'root',
            'AuthType': 'auth/munge' if self.munge else 'auth/none',
            'CredType': 'cred/munge' if self.munge else 'cred/none', 'MpiDefault': 'none',
            'SelectType': 'select/cons_tres', 'SelectTypeParameters': 'CR_Core',
            'SwitchType': 'switch/none', 'JobAcctGatherType': 'jobacct_gather/none',
            'AccountingStorageType': 'accounting_storage/none',
            'SlurmctldPidFile': '/run/slurmctld.pid', 'SlurmdPidFile': '/run/slurmd.pid',
            'StateSaveLocation': '/run/slurmctld', 'SlurmdSpoolDir': '/run/slurmd',
            'SlurmctldLogFile': log / 'slurmctld.log', 'SlurmdLogFile': log / '%n.log',
            # What a node says it has is taken for true, so that two cores can pass for four.
            'SlurmdParameters': 'config_overrides', 'ReturnToService': 2,
            'SlurmctldTimeout': 120, 'SlurmdTimeout': 120, 'MessageTimeout': 30,
            'UnkillableStepTimeout': 60, 'InactiveLimit': 0, 'SrunPortRange': '61000-62900',
            'FirstJobId': 1 + secrets.randbelow(FIRST_JOB_MAX), 'SchedulerType': 'sched/backfill',
            'SchedulerParameters': 'batch_sched_delay=0,sched_min_interval=0,sched_interval=2,'
                                   'bf_interval=1',
        }
        settings.update(self.settings)
        gres = ''
        if self.gpus and self.gres:
            settings['GresTypes'] = 'gpu'
            gres = f' Gres=gpu:{self.gpus}'
        names = f'node[1-{len(self.nodes)}]'
        lines = [f'{k}={v}' for k, v in settings.items() if v is not None]
        lines += [f'NodeName={names} Sockets=1 CoresPerSocket={self.cpus} ThreadsPerCore=1 '
                  f'RealMemory=4000{gres} State=UNKNOWN',
                  f'PartitionName=p Nodes={names} Default=YES MaxTime=INFINITE State=UP']
        return '\n'.join(lines) + '\n'

    def make_gpu_driver(self):
        """dockerd has `--gpus` where it finds a program of this name when it starts."""
        folder = self.folder / 'fakes'
        folder.mkdir()
        hook = folder / 'nvidia-container-runtime-hook'
        hook.write_text('#!/bin/sh\nexit 0\n')
        hook.chmod(0o755)
        for node in self.nodes:
            node.dockerd_env = {'PATH': f'{folder}:{PATHS["root"]}'}
        self.tools = self.folder / 'tools'
        self.tools.mkdir()
        smi = self.tools / 'nvidia-smi'
        smi.write_text('#!/bin/sh\n' + ''.join(f'echo "GPU {i}: none (UUID: GPU-{i})"\n'
                                               for i in range(self.gpus)))
        smi.chmod(0o755)

    # ------------------------------------------------------------ daemons

    def start_munged(self, node):
        folder = node.path('/run/munge')
        folder.mkdir()
        folder.chmod(0o755)
        node.run(['munged', f'--key-file={self.folder}/munge.key', '--pid-file=/run/munged.pid',
                  f'--log-file={node.folder}/munged.log', '--seed-file=/run/munged.seed',
                  '--num-threads=2', '--force'], user='root', check=True)

    def start_slurmctld(self):
        self.head.path('/run/slurmctld').mkdir(exist_ok=True)
        with open(self.head.folder / 'slurmctld.out', 'wb') as out:
            self.head.popen(['slurmctld'], user='root', stdin=out, stdout=out,
                            stderr=out).wait(60)

    def start_slurmds(self, nodes):
        """Start slurmd on nodes that have none, and do not wait until Slurm takes them for up."""
        started = []
        for node in nodes:
            node.path('/run/slurmd').mkdir(exist_ok=True)
            script = ''.join(f'test -e {GPU}{i} || mknod -m 666 {GPU}{i} c 1 3\n'
                             for i in range(self.gpus)) + 'exec slurmd'
            with open(node.folder / 'slurmd.out', 'wb') as out:
                started.append(node.popen(['sh', '-c', script], user='root', stdin=out, stdout=out,
                                          stderr=out))
        for process in started:
            process.wait(UP_TIMEOUT)

    # ------------------------------------------------------------ what Slurm says

    def sinfo(self):
        """{node: state} as Slurm has it, states in lower case: idle, mixed, allocated, down*."""
        text = self.ask('sinfo', '-h', '-N', '-o', '%N %T')
        return dict(line.split() for line in text.splitlines())

    def squeue(self):
        """{job number: state} of the jobs that are not over: PENDING, RUNNING, COMPLETING."""
        text = self.ask('squeue', '-h', '-o', '%A %T')
        return {int(job): state for job, state in (line.split() for line in text.splitlines())}

    def steps(self):
        """The steps that run: ['17.0', '17.batch']."""
        return self.ask('squeue', '-h', '-s', '-o', '%i').split()

    def ask(self, *argv, timeout=30):
        """What a command of Slurm that must work prints, as root on the head node."""
        return self.head.run(argv, user='root', timeout=timeout, check=True).stdout

    def wait_idle(self, nodes=None, timeout=60):
        """Wait until no job is left, and Slurm takes these nodes (default: all) for idle."""
        names = [node.name for node in nodes or self.nodes]

        def idle():
            done = self.head.run(['sinfo', '-h', '-N', '-o', '%N %T'], user='root')
            if done.returncode:
                return False
            states = dict(line.split() for line in done.stdout.splitlines())
            return all(states.get(name) == 'idle' for name in names) and not self.squeue()
        try:
            wait_until(idle, timeout, 'idle nodes')
        except BedError as error:
            raise BedError(f'{error}\n{self.state()}') from None

    def state(self):
        """For a person: nodes, jobs, and the last lines of the logs."""
        found = [self.head.run(argv, user='root').stdout for argv in
                 (['sinfo', '-N', '-l'], ['squeue', '-l'], ['squeue', '-s'])]
        for log in sorted((self.folder / 'log').glob('*.log')):
            lines = log.read_text(errors='replace').splitlines()[-20:]
            found.append('\n'.join([f'{log.name}:', *lines]))
        return '\n'.join(found)

    def cancel_all(self, timeout=60):
        """End all jobs, and wait until the nodes are idle."""
        self.head.run(['scancel', '--user=alice'], user='root')
        self.wait_idle(timeout=timeout)

    # ------------------------------------------------------------ down

    def close(self):
        super().close()
        for node in self.nodes:
            for root in Path('/sys/fs/cgroup').glob(f'*/slurm_{node.name}'):
                remove_empty(root)


def remove_empty(root):
    """Remove a tree of cgroups but for what another cluster still uses."""
    for each in sorted(root.rglob('*'), reverse=True):
        if each.is_dir():
            try:
                each.rmdir()
            except OSError:
                pass
    try:
        root.rmdir()
    except OSError:
        pass
