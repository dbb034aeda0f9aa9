# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs at which strikes fall at random: ranks and agents are killed or stopped, hosts come
and go, and the script that lists them breaks, in all phases of a job. A seed gives the same strikes
again, at about the same moments:

    python3 tests/behaviour/chaos.py SEED [calm|long]

Each trial is a job of tests/programs/elastic_sums.py, on hosts that are homes on this computer. It
must go on whenever hosts are left, count each step once, and end well with nothing left behind.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from built import PROGRAMS, ROOT, environment  # noqa: E402 (needs the path above)
from processes import assert_gone, state, with_word  # noqa: E402
from wait import until  # noqa: E402

PROGRAM = ROOT / 'tests/programs/elastic_sums.py'
#: Called as ssh is; each host's agent has that host's home in its command line.
SSH = '''#!/bin/sh
while [ "$1" != -- ]; do shift; done
export HOME={folder}/home/$2 LOGIN=$2
unset XDG_RUNTIME_DIR
mkdir -p "$HOME"
cd "$HOME" || exit
exec sh -c "$3"
'''
#: What the script does when it does not list hosts.
BROKEN = {'fails': 'exit 7', 'hangs': 'while :; do sleep 1; done', 'floods': 'yes a:1',
          'raves': 'echo "a:b:c d"; echo "::"; printf "\\377\\n"', 'is silent': ':'}
#: What a strike may be, the likelier ones more often.
KINDS = ['kill rank'] * 4 + ['kill agent', 'stop rank', 'stop agent', 'hosts', 'hosts', 'script']
#: Seconds of a quiet machine: without a step while hosts are there; for the end after the last one.
#: An agent that is silent for 8 s is lost, and a machine comes back after 2 s.
IDLE_S, END_S = 20, 30
#: A job that fails says who or what is to blame.
CAUSE = re.compile(r'reigen: .*(rank \d+|host \w+|hosts)')
#: Where the next strike is to fall: when a line like this comes, or at any time.
MOMENTS = {'import': r'place \d+ pid', 'sync': 'sync epoch', 'step': r'train \d+ of',
           'epoch': 'reigen: epoch', 'aside': 'is set aside', 'any': None}


class Trial:
    """One job, its hosts, and what befalls it."""

    longest_s = 3.0  # for which anything stops

    def __init__(self, seed, strikes=None):
        self.seed, self.random = seed, random.Random(seed)
        self.nstrikes = self.random.randint(2, 7) if strikes is None else strikes
        self.folder = Path(tempfile.mkdtemp(prefix='reigen-chaos-'))
        self.hosts = {name: self.random.randint(1, 2)
                      for name in 'abcde'[:self.random.randint(3, 5)]}
        self.np = str(self.random.randint(1, 3))
        self.stopped = {}  # pid: until when
        self.log = []
        self.began = time.monotonic()
        self.child = None

    # ------------------------------------------------------------------------ the job

    def begin(self):
        self.write('fake-ssh', SSH.format(folder=self.folder))
        self.write('discover', f'#!/bin/sh\nexec sh {self.folder}/say {self.folder}\n')
        self.list(self.hosts)
        argv = [PROGRAMS.reigen, 'run', '-np', self.np, '--min-np', '1', '--elastic-timeout', '60',
                '--blacklist-cooldown-range', '1:2',
                '--host-discovery-script', self.folder / 'discover',
                '--', PROGRAMS.python, PROGRAM, self.folder / 'stop']
        with (self.folder / 'out').open('w') as file:
            self.child = subprocess.Popen(
                [str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=True, env=environment(
                    REIGEN_SSH=self.folder / 'fake-ssh', HOME=self.folder,
                    XDG_STATE_HOME=self.folder / 'state', REIGEN_DISCOVERY_MS=100))

    def write(self, name, text):
        new = self.folder / f'{name}.new'
        new.write_text(text)
        new.chmod(0o755)
        new.rename(self.folder / name)

    def list(self, hosts):
        self.write('say', ''.join(f'echo {name}:{slots}\n' for name, slots in hosts.items()))

    def text(self):
        return (self.folder / 'out').read_text(errors='replace')

    def note(self, *words):
        self.log.append(f'{time.monotonic() - self.began:7.2f} ' + ' '.join(map(str, words)))

    # ------------------------------------------------------------------------ moments

    def resume(self, everything=False):
        for pid, when in list(self.stopped.items()):
            if everything or time.monotonic() >= when:
                del self.stopped[pid]
                self.send(pid, signal.SIGCONT)

    def send(self, pid, signo):
        try:
            os.kill(pid, signo)
        except ProcessLookupError:
            pass

    def pause(self, seconds, over=lambda: False):
        """Let time pass, in which those that are stopped go on when theirs is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not over() and self.child.poll() is None:
            self.resume()
            time.sleep(0.003)  # patient: a strike falls at its own moment

    def moment(self):
        """Wait for the next one."""
        name = self.random.choice(list(MOMENTS))
        pattern, delay = MOMENTS[name], self.random.choice([0, 0.01, 0.05, 0.3])
        if pattern:
            before = len(re.findall(pattern, self.text()))
            self.pause(1, lambda: len(re.findall(pattern, self.text())) > before)
        self.pause(self.random.random() * (delay if pattern else 1.2))
        return name

    # ------------------------------------------------------------------------ strikes

    def ranks(self):
        return [pid for pid in with_word(f'{self.folder}/stop') if is_python(pid)]

    def agents(self):
        return [pid for pid in with_word(f'{self.folder}/home/') if is_agent(pid)]

    def strike(self):
        kind = self.random.choice(KINDS)
        when = self.moment()
        if kind == 'hosts':
            some = self.random.sample(list(self.hosts), self.random.randint(1, len(self.hosts)))
            self.note(when, 'hosts', *some)
            self.list({name: self.random.randint(1, self.hosts[name]) for name in some})
        elif kind == 'script':
            how = self.random.choice(list(BROKEN))
            self.note(when, 'script', how)
            self.write('say', BROKEN[how] + '\n')
        else:
            verb, whom = kind.split()
            self.hit(when, verb, whom)
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 2, 4])):
            self.pause(self.random.random() * self.random.choice([0, 0.01, 0.1]))
            self.hit('and', *self.random.choice([k for k in KINDS if ' ' in k]).split())

    def hit(self, when, verb, whom):
        found = sorted(self.ranks() if whom == 'rank' else self.agents())
        if not found:
            self.note(when, verb, whom, 'none is there')
            return
        pid = self.random.choice(found)
        if verb == 'kill':
            self.note(when, 'kill', whom, pid)
            self.send(pid, signal.SIGKILL)
        else:
            seconds = self.random.random() * self.longest_s
            self.note(when, 'stop', whom, pid, f'{seconds:.2f} s')
            self.stopped[pid] = time.monotonic() + seconds
            self.send(pid, signal.SIGSTOP)

    # ------------------------------------------------------------------------ what must hold

    def steps(self):
        return [tuple(map(int, found)) for found in
                re.findall(r'step (\d+) size (\d+) epoch (\d+) pid (\d+)', self.text())]

    def progress(self, seconds=IDLE_S):
        """Until some more steps are done."""
        before = len(self.steps())

        def more():
            self.resume()
            return len(self.steps()) >= before + 3 or self.child.poll() is not None
        until(more, 'further steps', seconds)
        assert self.child.poll() is None, f'the job is over: {self.child.returncode}'

    def run(self):
        """Everything; AssertionError says how to have it again."""
        try:
            self.begin()
            self.go()
        except BaseException as error:
            name = next(name for name, kind in NAMES.items() if type(self) is kind)
            note = '\n'.join([f'chaos: {type(error).__name__}: {str(error)[:600]}',
                              f'chaos: again: python3 tests/behaviour/chaos.py {self.seed} {name}',
                              *self.log, self.short()])
            raise AssertionError(note) from error
        finally:
            self.close()

    def short(self):
        """The output without the many lines that only say that it goes on."""
        lines, kept = self.text().splitlines(), []
        for i, line in enumerate(lines):
            if ' step ' not in line or any(' step ' not in near for near in lines[i - 1:i + 2]):
                kept.append(line)
        return '\n'.join(kept[-150:])

    def go(self):
        for _ in range(self.nstrikes):
            self.strike()
            if self.random.random() < 0.3:
                self.list(self.hosts)
                self.progress(IDLE_S)
        self.list(self.hosts)
        self.progress()
        self.note('stop')
        (self.folder / 'stop').touch()
        late = self.random.random() < 0.3
        if late:
            self.pause(self.random.random() * 0.1)
            self.hit('end', self.random.choice(['kill', 'stop']),
                     self.random.choice(['rank', 'agent']))
        self.end(late)

    def end(self, late):
        def over():
            self.resume()
            return self.child.poll() is not None
        until(over, 'the end', END_S)
        assert self.child.returncode == 0 or late and CAUSE.search(self.text()), \
            f'exit code {self.child.returncode}'
        self.resume(everything=True)
        assert_gone(str(self.folder))
        self.check()

    def check(self):
        text = self.text()
        assert 'WRONG' not in text and 'Traceback' not in text, 'a rank says so'
        trains = [tuple(map(int, found)) for found in
                  re.findall(r'train (\d+) of (\d+) at (\d+) epoch (\d+) pid (\d+)', text)]
        sizes, seats = {}, {}
        for rank, size, _, epoch, pid in trains:
            assert sizes.setdefault(epoch, size) == size, f'epoch {epoch} has two sizes'
            assert seats.setdefault((epoch, rank), pid) == pid, f'two are rank {rank} of {epoch}'
        for _, size, epoch, pid in self.steps():
            assert sizes[epoch] == size and seats[epoch, 0] == pid, f'epoch {epoch}'
        self.check_once(trains)

    def check_once(self, trains):
        """No step twice; but nobody knows what all who knew it have taken with them."""
        def forgotten(at):
            return not {t[4] for t in trains if t[3] < at} & {t[4] for t in trains if t[3] >= at}
        last, before = 0, 0
        for number, _, epoch, _ in sorted(self.steps(), key=lambda step: step[2]):
            if epoch == before:
                assert number == last + 1, f'step {number} after {last}'
            elif number <= last:
                assert any(forgotten(at) for at in range(before + 1, epoch + 1)), \
                    f'step {number} of epoch {epoch} again'
            last, before = number, epoch

    def close(self):
        self.resume(everything=True)
        for pid in with_word(str(self.folder)):
            self.send(pid, signal.SIGKILL)
        if self.child:
            self.send(self.child.pid, signal.SIGKILL)
            self.child.wait()
        if not os.environ.get('REIGEN_CHAOS_KEEP'):
            shutil.rmtree(self.folder, ignore_errors=True)


class Long(Trial):
    """What stops may stop for so long that it is lost."""
    longest_s = 12.0


class Calm(Trial):
    """Single ranks stop for seconds. That is no reason for anything."""
    STOP_S = 3.0

    def go(self):
        self.progress()
        until(lambda: self.steps()[-1][1] == sum(self.hosts.values()), 'all ranks', IDLE_S)
        for _ in range(self.nstrikes):
            pid = self.random.choice(sorted(self.ranks()))
            self.pause(self.random.random() * 0.1)
            self.note('stop rank', pid)
            self.send(pid, signal.SIGSTOP)
            self.stopped[pid] = time.monotonic() + self.STOP_S
            self.progress()
        (self.folder / 'stop').touch()
        self.end(False)
        assert 'set aside' not in self.text() and len({s[3] for s in self.steps()}) == 1


def is_python(pid):
    return state(pid) not in 'ZX' and words(pid)[:2] == [str(PROGRAMS.python), str(PROGRAM)]


def is_agent(pid):
    return state(pid) not in 'ZX' and words(pid)[0].endswith('reigen-agent')


def words(pid):
    try:
        return Path(f'/proc/{pid}/cmdline').read_bytes().decode(errors='replace').split('\0')
    except OSError:
        return ['']


NAMES = {'': Trial, 'long': Long, 'calm': Calm}

if __name__ == '__main__':
    trial = NAMES[' '.join(sys.argv[2:])](int(sys.argv[1]))
    trial.run()
    print('\n'.join(trial.log), '\nchaos: passed')
