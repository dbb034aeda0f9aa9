# SPDX-License-Identifier: Apache-2.0
"""A job on a machine that has too much to do, or too little memory, is slow, and loses nothing.
Such jobs are pauses (trials.py) in which nobody stands still:

    python3 tests/behaviour/burdens.py load|swap SEED [COUNT [FILE]]

load: 60 processes compute beside the job, in its cgroup of CPUs, which counts as one process for
all others of the machine: so it is the job that feels them.

swap: the job's cgroup of memory has less room than the job wants. What the kernel can take away it
takes, and reads it again from the disk: the pages of the programs, of which this job has copies of
its own, and those of a file that each rank goes through. Without a swap space that is all it can
take.
"""
import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from built import PROGRAMS
from trials import AFTER_S, Pause, main
from wait import until

CGROUPS = Path('/sys/fs/cgroup')
#: So many processes compute beside the job, and for so long.
BUSY, BUSY_S = 60, 20
#: How long memory is short; what there is beyond that which cannot be taken away; and the file.
SHORT_S, ROOM_NBYTES, FILE_NBYTES = 20, 12 << 20, 64 << 20
#: Pages that were read again, without which memory was not short.
FAULTS_MIN = 500
#: What bounds a cgroup of each kind, and what lifts that: of version 1, and of version 2.
BOUNDS = {'cpu': {'cpu.shares': '', 'cpu.weight': ''},
          'memory': {'memory.limit_in_bytes': '-1', 'memory.high': 'max'}}
#: How much memory it uses, that of the kernel for it included.
USED = ['memory.usage_in_bytes', 'memory.current']


@contextlib.contextmanager
def cgroup(kind, name):
    """A cgroup of this machine's, or None where it has none that this process may make."""
    folder = (CGROUPS / kind if (CGROUPS / kind).is_dir() else CGROUPS) / name
    try:
        folder.mkdir()
    except OSError:
        yield None
        return
    try:
        yield folder if any((folder / file).exists() for file in BOUNDS[kind]) else None
    finally:
        until(lambda: removed(folder), f'an empty cgroup {folder}', seen=lambda: (
            folder / 'cgroup.procs').read_text())


def removed(folder):
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def permits(kind):
    """Whether this machine lets this process make such cgroups."""
    with cgroup(kind, f'reigen-probe-{os.getpid()}') as folder:
        return bool(folder)


class Burden(Pause):
    """A job in a cgroup, which is free while it begins and ends."""

    program, kind, injury = 'tests/behaviour/burdens.py load', 'cpu', 'busy machine'
    seconds = BUSY_S

    def __init__(self, seed, **said):
        super().__init__(seed, **{'injury': self.injury, **said})
        self.again_by, self.group, self.seen = '', None, {}

    def prefix(self):
        return ['sh', '-c', 'echo $$ > "$0" && exec "$@"', self.group / 'cgroup.procs']

    def strikes(self):
        return []

    def go(self):
        with cgroup(self.kind, self.folder.name) as self.group:
            try:
                self.begin()
                self.see(r'step 20 size', 'twenty steps', 40)
                with self.burden():
                    self.bear()
                self.finish({0})
                self.nothing_left('stop')
            except BaseException:
                self.close()
                raise
        alarms = re.findall(r'reigen: (?:.*set aside|restart|epoch [2-9]).*', self.text())
        assert not alarms, alarms
        return self.seen

    def bear(self):
        """Steps go on for as long as it takes, and until the burden was felt."""
        end = time.monotonic() + self.seconds

        def over():
            assert self.child.poll() is None, f'the job is over: {self.child.returncode}'
            self.progress()
            return time.monotonic() > end and self.is_felt()
        before = self.steps()
        until(over, 'a burden that is felt', self.seconds + AFTER_S, seen=lambda: self.seen)
        self.seen['steps'] = self.steps() - before

    def steps(self):
        return len(re.findall(r'\] step \d+ size', self.text()))

    def is_felt(self):
        raise NotImplementedError


class Load(Burden):
    """Each of the busy ones is in a session of its own, so that they are not one to the kernel, and
    ends by itself when this process has ended."""

    def __init__(self, seed, **said):
        super().__init__(seed, **said)
        self.busy = []

    @contextlib.contextmanager
    def burden(self):
        loop = 'while kill -0 "$0" 2>/dev/null; do :; done'
        try:
            for _ in range(BUSY):
                self.busy.append(subprocess.Popen(
                    [*self.prefix(), 'sh', '-c', loop, str(os.getpid())], start_new_session=True,
                    stdin=subprocess.DEVNULL))
            yield
        finally:
            for child in self.busy:
                child.kill()
            for child in self.busy:
                child.wait()

    def is_felt(self):
        within = (self.group / 'cgroup.procs').read_text().split()
        self.seen['busy'] = sum(child.poll() is None and str(child.pid) in within
                                for child in self.busy)
        return self.seen['busy'] == BUSY


class Swap(Burden):
    """The job's own copies of programs and packages are in its cgroup, as it made them."""

    program, kind, injury = 'tests/behaviour/burdens.py swap', 'memory', 'short memory'
    seconds, before = SHORT_S, 0

    def variables(self):
        copies = self.folder / 'copies'
        return {'REIGEN_LIBRARY': copies / 'libreigen.so', 'PYTHONPATH': copies,
                'PYTHONHOME': PROGRAMS.python.resolve().parents[1], 'TRIAL_PAGES': copies / 'pages'}

    def python(self):
        return self.folder / 'copies/python'

    def begin(self):
        copies = self.folder / 'copies'
        copies.mkdir()
        packages = next((PROGRAMS.python.parents[1] / 'lib').glob('python*/site-packages'))
        library = PROGRAMS.library.resolve()
        commands = [f'cp -rL {packages}/reigen {packages}/horovod {copies}',
                    f'cp {library} {copies}/libreigen.so',
                    f'cp {PROGRAMS.python.resolve()} {copies}/python',
                    f'head -c {FILE_NBYTES} /dev/urandom > {copies}/pages', f'sync -f {copies}']
        subprocess.run([*map(str, self.prefix()), 'sh', '-ec', '\n'.join(commands)], check=True,
                       timeout=60)
        super().begin()

    def stat(self, *names):
        """The first of these that the cgroup has."""
        text = (self.group / 'memory.stat').read_text()
        return int(re.search(rf'^({"|".join(names)}) (\d+)$', text, re.M)[2])

    @contextlib.contextmanager
    def burden(self):
        (limit, none), = [(self.group / file, none) for file, none in BOUNDS[self.kind].items()
                          if (self.group / file).exists()]
        self.before, used = self.stat('pgmajfault'), [self.group / file for file in USED]
        nbytes = next(int(file.read_text()) for file in used if file.exists())
        kept = nbytes - self.stat('cache', 'file') + self.stat('shmem')
        limit.write_text(str(kept + ROOM_NBYTES))
        try:
            yield
        finally:
            limit.write_text(none)

    def is_felt(self):
        self.seen['faults'] = self.stat('pgmajfault') - self.before
        return self.seen['faults'] >= FAULTS_MIN


BURDENS = {'load': Load, 'swap': Swap}

if __name__ == '__main__':
    sys.exit(main(*sys.argv[2:5], make=BURDENS[sys.argv[1]]))
