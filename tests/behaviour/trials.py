# SPDX-License-Identifier: Apache-2.0
"""No silent wait: one injury in one phase of one job. What has happened is named, and the job goes
on or ends as it must, with nothing left behind. A seed draws all of it:

    python3 tests/behaviour/trials.py SEED [COUNT [FILE [trial|pause|checkpoint]]]

prints the table of COUNT trials, whose JSON goes to FILE. A pause is no loss: nothing may happen.

Jobs are those of tests/programs/phases.py, on this computer or on hosts that are homes on it. What
strikes a rank, the rank does to itself; else it says when it is there, and the strike comes at
once.
"""
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from built import PROGRAMS, ROOT, environment  # noqa: E402 (needs the path above)
from chaos import SSH, is_agent  # noqa: E402
from processes import parent, state  # noqa: E402
from wait import crowd, until  # noqa: E402

PROGRAM = ROOT / 'tests/programs/phases.py'
#: Seconds of a quiet machine: until the cause is named, which is promised; until the end or further
#: steps; until all processes are gone.
NAMED_S, AFTER_S, GONE_S = 10, 20, 8
#: How long a frozen launcher stands still, and the lease where it stands still for longer.
SHORT_S, LEASE_S = 2, 3
KINDS = ['fixed', 'fixed', 'elastic', 'elastic', 'elastic', 'restart', 'alone']
PHASES = {'fixed': ['start', 'meeting', 'step', 'commit', 'end'],
          'elastic': ['start', 'meeting', 'sync', 'step', 'commit', 'reforming', 'end'],
          'restart': ['start', 'meeting', 'step', 'commit'], 'alone': ['start', 'step', 'end']}
INJURIES = ['kill rank', 'kill rank', 'exit rank', 'stop rank', 'stop rank', 'kill agent',
            'stop agent', 'freeze host', 'kill launcher', 'stop launcher', 'lose launcher']
#: The hosts' names as they stand in the list of a job: how many, and with how many slots.
HOSTS = [('a:2',), ('a:1', 'b:1'), ('a:2', 'b:1'), ('a:2', 'b:2'), ('a:1', 'b:1', 'c:1'),
         ('a:1', 'b:2', 'c:1')]


class Draw:
    """What a trial is about, by its seed, but for what is said."""

    def __init__(self, seed, **said):
        self.seed, dice = seed, random.Random(seed)
        while True:
            self.draw(dice)
            self.__dict__.update(said)
            self.settle(dice)
            if self.possible():
                return

    def draw(self, dice):
        self.kind, self.injury = dice.choice(KINDS), dice.choice(INJURIES)
        self.phase = dice.choice(PHASES[self.kind])
        self.hosts, self.planes = dice.choice(HOSTS), dice.choice(['shm,tcp', 'tcp'])
        self.place = None

    def settle(self, dice):
        """What depends on the rest."""
        self.local = self.kind == 'fixed' and len(self.hosts) == 1
        self.host_of = [name for host in self.hosts
                        for name in host[0] * int(host.partition(':')[2])]
        place, self.first = (dice.randrange(len(self.host_of)) for _ in range(2))
        self.place = place if self.place is None else self.place
        self.count = dice.randint(1, 12) if self.phase in ('step', 'commit') else 1

    def possible(self):
        verb, whom = self.injury.split()
        # A program that waits for nobody may stand still: nobody waits for it either.
        waits = self.kind != 'alone' or verb != 'stop' or whom != 'rank'
        # Some host loses a rank first, another one is hit, and a third one goes on.
        reform = self.phase != 'reforming' or (
            len(self.hosts) == 3 and self.host_of[self.place] != self.host_of[self.first])
        return waits and reform

    @property
    def host(self):
        return 'localhost' if self.local else self.host_of[self.place]

    def __str__(self):
        return (f'{self.kind} on {",".join(self.hosts)} by {self.planes}: {self.injury} '
                f'(place {self.place}) in {self.phase} {self.count}')


class Trial:
    """One job and its injury. run() returns what was seen and how long it took."""

    program, again_by = 'tests/behaviour/trials.py', ''  # before and behind the seed
    draws = Draw

    def __init__(self, seed, **said):
        self.draw = self.draws(seed, **said)
        self.folder = Path(tempfile.mkdtemp(prefix='reigen-trial-'))
        self.lines, self.child, self.reader, self.env = [], None, None, None
        self.struck_at, self.rank, self.stopped = None, None, []
        self.late = False  # the job was over before anything could be struck
        self.crowd = 1  # the most that wait.crowd() said

    # ------------------------------------------------------------------------ the job

    def options(self):
        draw, elastic = self.draw, self.draw.kind in ('elastic', 'restart')
        lease = ['--lease', str(LEASE_S)] if draw.injury == 'lose launcher' else []
        if draw.local:
            return ['-np', str(len(draw.host_of)), *lease]
        np = ['-np', '1', '--min-np', '1', '--elastic-timeout', '60'] if elastic else []
        return ['-H', ','.join(draw.hosts), *np, *lease]

    def strikes(self):
        draw = self.draw
        verb, whom = draw.injury.split()
        how = verb if whom == 'rank' else 'now'
        before = [f'{draw.first}:step:5:kill'] if draw.phase == 'reforming' else []
        return [*before, f'{draw.place}:{draw.phase}:{draw.count}:{how}']

    def prefix(self):
        """In front of the command."""
        return []

    def variables(self):
        """More of them for the job."""
        return {}

    def python(self):
        return PROGRAMS.python

    def begin(self):
        for name in ('tmp', 'run', 'state'):
            (self.folder / name).mkdir()
        ssh = self.folder / 'fake-ssh'
        ssh.write_text(SSH.format(folder=self.folder))
        ssh.chmod(0o755)
        kind = {'fixed': 'plain', 'restart': 'plain'}.get(self.draw.kind, self.draw.kind)
        argv = [*self.prefix(), PROGRAMS.reigen, 'run', *self.options(), '--', self.python(),
                PROGRAM, self.folder, kind, *self.strikes()]
        self.env = environment(
            REIGEN_SSH=ssh, HOME=self.folder, TMPDIR=self.folder / 'tmp',
            XDG_RUNTIME_DIR=self.folder / 'run', XDG_STATE_HOME=self.folder / 'state',
            REIGEN_PLANES=self.draw.planes, TRIAL=self.folder, OMP_NUM_THREADS=1,
            **self.variables())
        self.child = subprocess.Popen(
            [str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, env=self.env)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        """When each line came, by the same clock as the ranks'."""
        for line in self.child.stdout:
            self.lines.append((time.monotonic(), line.decode(errors='replace').rstrip('\n')))

    def text(self):
        return '\n'.join(line for _, line in list(self.lines))

    def tail(self):
        kept = [line for _, line in list(self.lines) if ' step ' not in line or 'struck' in line]
        return '\n'.join(kept[-40:])

    def see(self, pattern, what, seconds, since=0.0):
        """(when it came, the match) of the first such line since then."""
        def find():
            over = self.child.poll() is not None and not self.reader.is_alive()
            for when, line in list(self.lines):
                found = when >= since and re.search(pattern, line)
                if found:
                    return when, found
            assert not over, f'{what}: the job is over: {self.child.returncode}'
            return None
        return until(find, what, seconds, seen=self.tail)

    def promised(self, when, since, seconds, what):
        """The seconds from then until `what` came, which are no more than promised. On a machine
        with other work they may be as many times more as programs want each of its cores."""
        took, self.crowd = when - since, max(self.crowd, crowd())
        assert took <= seconds * self.crowd, \
            f'{what} after {took:.2f} s, and within {seconds} s it is promised ' \
            f'(times {self.crowd:.2f}, as the machine has other work)'
        return round(took, 3)

    def mine(self):
        """The processes of the job: their environment or arguments have its folder."""
        word, found = str(self.folder).encode(), []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                text = b''.join(Path(f'/proc/{pid}/{name}').read_bytes()
                                for name in ('environ', 'cmdline'))
            except OSError:
                continue
            if word in text and state(int(pid)) not in 'ZX':
                found.append(int(pid))
        return [pid for pid in found if pid != os.getpid()]

    # ------------------------------------------------------------------------ the injury

    def agent(self, pid):
        """The agent of that rank; ProcessLookupError: it is over."""
        while not is_agent(pid) and name_of(pid) != 'rg-agent':
            pid = parent_of(pid)
        return pid

    def of_host(self, pid):
        """The agent of that rank, and all that is below it."""
        found, below = [], [self.agent(pid)]
        while below:
            found += below
            below = [p for p in self.mine() if p not in found and parent(p) in found]
        return found

    def strike(self):
        phase, place = self.draw.phase, self.draw.place
        line = self.see(rf'struck {phase} place {place} rank (\d+) pid (\d+) at ([\d.]+)',
                        f'place {place} in {phase}', 40)[1]
        self.rank, pid, self.struck_at = int(line[1]), int(line[2]), float(line[3])
        self.crowd = crowd()
        verb, whom = self.draw.injury.split()
        if whom == 'rank':
            self.stopped = [pid] if verb == 'stop' else []
            return
        try:
            pids = {'agent': lambda: [self.agent(pid)], 'host': lambda: self.of_host(pid),
                    'launcher': lambda: [self.child.pid]}[whom]()
        except ProcessLookupError:
            self.late = True
            return
        self.struck_at = time.monotonic()
        if verb != 'kill':
            self.stopped = pids
        for one in pids:
            send(one, signal.SIGKILL if verb == 'kill' else signal.SIGSTOP)

    def resume(self):
        for pid in self.stopped:
            send(pid, signal.SIGCONT)
        self.stopped = []

    # ------------------------------------------------------------------------ what must follow

    def cause(self):
        """A line that names who is to blame, for what."""
        draw = self.draw
        verb, whom = draw.injury.split()
        host = re.escape(draw.host)
        if whom == 'rank' and verb != 'stop':
            how = 'signal 9' if verb == 'kill' else 'exit code 7'
            return rf'reigen: .*rank( \d+)? on {host}( failed first)?: {how}'
        if whom == 'rank':
            return rf'reigen: .*rank {self.rank} on {host} has not.*|' \
                   rf'^ +Ranks? .*\b{self.rank}\b.* ' \
                   r'(has not called|has said nothing|does not go on).*'
        if whom == 'agent' and verb == 'kill':
            return rf'reigen: .*{host}.*its agent .*ended: signal 9'
        if whom == 'launcher':
            return r'reigen.*(heard|silent|lease)'
        return rf'reigen: .*host {host}\b.*|reigen: .*on {host}\b.*silent'

    def expected_code(self):
        verb, whom = self.draw.injury.split()
        return {'rank': {'kill': 137, 'exit': 7}.get(verb)}.get(whom, 76)

    def progress(self):
        """Until further steps are done, if the injured phase was not the last one."""
        if self.draw.phase == 'end' or self.child.poll() is not None:
            return None
        now = time.monotonic()
        for count in range(3):
            when, _ = self.see(r'\] step \d+ size|^step \d+ size', f'step {count} after the injury',
                               AFTER_S, now)
            now = when + 1e-9
            first = when if count == 0 else first
        return first

    def finish(self, codes):
        (self.folder / 'stop').touch()
        until(lambda: self.child.poll() is not None, 'the end of the job', AFTER_S, seen=self.tail)
        self.reader.join(GONE_S)
        assert self.child.returncode in codes, \
            f'exit code {self.child.returncode} and none of {sorted(codes)}'

    def go(self):
        self.begin()
        if self.draw.phase == 'end':
            self.see(r'step 3 size', 'steps', 40)
            (self.folder / 'stop').touch()
        self.strike()
        verb, whom = self.draw.injury.split()
        seen = {}
        if self.late:
            self.finish({0})
        elif whom == 'launcher':
            seen = self.after_launcher(verb)
        else:
            seen = self.named(verb)
        self.nothing_left(verb)
        return seen

    def named(self, verb):
        try:
            when, found = self.see(self.cause(), 'the cause', NAMED_S, self.struck_at)
        except AssertionError:
            # The rank has said that it is at its end, and then was quicker than the strike.
            if self.draw.phase != 'end' or 'rank' in self.draw.injury or self.child.poll():
                raise
            return {}
        seen = {'named_s': self.promised(when, self.struck_at, NAMED_S, 'named'),
                'cause': found[0][:160]}
        self.after(verb, seen)
        return seen

    def after_launcher(self, verb):
        """Who has stood still says why the job ends when it goes on."""
        if verb == 'kill':
            self.child.wait()
            return {}
        seconds = SHORT_S if verb == 'stop' else 2 * LEASE_S
        end = time.monotonic() + seconds
        until(lambda: time.monotonic() > end, 'a launcher that stands still', seconds + 1)
        self.resume()
        resumed_at = time.monotonic()
        if verb == 'stop':
            self.progress()
            self.finish({0})
            return {}
        self.finish({76, 69, 0} if self.draw.phase == 'end' else {76, 69})
        if self.child.returncode == 0:
            return {}  # the ranks were at their end before the lease was
        told = [(when, line) for when, line in self.lines if re.search(self.cause(), line)]
        assert told, 'nobody says why'
        return {'named_s': self.promised(told[0][0], resumed_at, NAMED_S, 'named'),
                'cause': told[0][1][:160]}

    def after(self, verb, seen):
        """The job goes on where it can; else it ends."""
        draw, code = self.draw, self.expected_code()
        elastic = draw.kind in ('elastic', 'restart')
        others = {name for name in draw.host_of if name != draw.host}
        if draw.phase == 'reforming':
            others -= {draw.host_of[draw.first]}
        short = verb == 'stop' and (draw.injury == 'stop rank' or not elastic)
        if short or verb == 'freeze' and not elastic:
            self.resume()
            self.progress()
            self.finish({0})
        elif elastic and others:
            seen['again_s'] = self.again()
            self.resume()
            self.finish({0, code} if draw.phase == 'end' else {0})
        else:
            # Where there is one host, the others go on there, if there are any and they have begun.
            alone = len(set(draw.host_of)) == 1 and draw.injury.endswith(' rank')
            self.resume()
            self.finish({code, *((69,) if elastic else ()), *((0,) if elastic and alone else ())})

    def again(self):
        when = self.progress()
        return round(when - self.struck_at, 3) if when else None

    def nothing_left(self, verb):
        until(lambda: not self.mine(), 'the end of all processes', GONE_S, seen=lambda: [
            (pid, Path(f'/proc/{pid}/cmdline').read_bytes()[:200]) for pid in self.mine()])
        if verb == 'kill' and 'rank' not in self.draw.injury:
            # An agent that was killed leaves the folder of its job to the next one.
            subprocess.run([PROGRAMS.reigen, 'run', '-np', '1', '--', 'true'], env=self.env,
                           stdin=subprocess.DEVNULL, check=True, timeout=60)
        left = [str(path) for name in ('tmp', 'run') for path in (self.folder / name).rglob('*')]
        assert not left, left

    def run(self):
        """What was seen; AssertionError says how to have it again."""
        try:
            return {'seed': self.draw.seed, 'what': str(self.draw), **self.go()}
        except BaseException as error:
            raise AssertionError('\n'.join([
                f'trial: {self.draw}', f'trial: {type(error).__name__}: {str(error)[:3000]}',
                f'trial: again: python3 {self.program} {self.draw.seed}{self.again_by}',
                self.tail()])) from error
        finally:
            self.close()

    def close(self):
        self.resume()
        for pid in self.mine():
            send(pid, signal.SIGKILL)
        if self.child:
            self.child.kill()
            self.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def parent_of(pid):
    found = parent(pid) if state(pid) not in 'ZX' else 0
    if found <= 1:
        raise ProcessLookupError(pid)
    return found


class Pause(Trial):
    """What stands still for a while is no loss: a rank, an agent, a host, the launcher, or a rank
    that is busy with a checkpoint."""
    STOP_S, CHECKPOINT_S = 6, 60

    def __init__(self, seed, **said):
        dice = random.Random(seed)
        kind = dice.choice(['elastic', 'elastic', 'fixed', 'restart'])
        super().__init__(seed, **{'kind': kind, 'phase': dice.choice(['step', 'commit']), **said})
        self.again_by = f' 1 again.json {"checkpoint" if self.is_busy() else "pause"}'

    def is_busy(self):
        return self.draw.injury == 'busy rank'

    def strikes(self):
        draw = self.draw
        how = str(self.CHECKPOINT_S) if self.is_busy() else 'now'
        return [f'{draw.place}:{draw.phase}:{draw.count}:{how}']

    def go(self):
        self.begin()
        self.strike()
        seconds = self.CHECKPOINT_S if self.is_busy() else self.STOP_S
        end = self.struck_at + seconds
        until(lambda: time.monotonic() > end, 'the end of the pause', seconds + 1)
        self.resume()
        self.progress()
        self.finish({0})
        self.nothing_left('stop')
        alarms = re.findall(r'reigen: (?:.*set aside|restart|epoch [2-9]).*', self.text())
        assert not alarms, alarms
        return {}

    def strike(self):
        verb, whom = self.draw.injury.split()
        if whom == 'rank':
            phase, place = self.draw.phase, self.draw.place
            line = self.see(rf'struck {phase} place {place} rank (\d+) pid (\d+) at ([\d.]+)',
                            f'place {place} in {phase}', 40)[1]
            self.struck_at = time.monotonic()
            if verb == 'stop':
                self.stopped = [int(line[2])]
                send(self.stopped[0], signal.SIGSTOP)
        else:
            super().strike()


PAUSES = ['stop rank', 'stop agent', 'freeze host', 'stop launcher']


def name_of(pid):
    try:
        return Path(f'/proc/{pid}/comm').read_text().rstrip()
    except OSError:
        return ''


def send(pid, signo):
    try:
        os.kill(pid, signo)
    except ProcessLookupError:
        pass


def seeds(first, count):
    return range(first, first + count)


def pause(seed):
    """A Pause without the longest one, which soak has."""
    return Pause(seed, injury=PAUSES[seed % len(PAUSES)])


def checkpoint(seed):
    return Pause(seed, injury='busy rank')


def try_all(numbers, workers=4, make=Trial):
    """([what was seen], [what failed]) of these trials, some at a time: they mostly wait."""
    def one(seed):
        try:
            return make(seed).run(), None
        except AssertionError as error:
            return None, str(error)
    with ThreadPoolExecutor(workers) as pool:
        done = list(pool.map(one, numbers))
    return [seen for seen, _ in done if seen], [error for _, error in done if error]


def table(seen):
    """For each injury: trials, and the seconds until it was named and until steps went on."""
    rows = {}
    for one in seen:
        rows.setdefault(re.search(r': (\w+ \w+) \(', one['what'])[1], []).append(one)
    yield '| injury | trials | named: median, worst | next step: median, worst |'
    yield '|---|--:|---|---|'
    for injury, ones in sorted(rows.items()):
        cells = []
        for key in ('named_s', 'again_s'):
            values = [one[key] for one in ones if one.get(key) is not None]
            cells.append(f'{statistics.median(values):.2f} s, {max(values):.2f} s' if values
                         else '')
        yield f'| {injury} | {len(ones)} | {cells[0]} | {cells[1]} |'


KINDS_OF_TRIALS = {'trial': Trial, 'pause': pause, 'checkpoint': checkpoint}


def main(first, count=1, file=None, kind='trial', make=None):
    seen, failed = try_all(seeds(int(first), int(count)), make=make or KINDS_OF_TRIALS[kind])
    print('\n'.join(table(seen)))
    print('\n\n'.join(failed))
    print(f'{len(seen)} good, {len(failed)} failed, from seed {first} on')
    if file:
        Path(file).write_text('\n'.join(map(json.dumps, seen)) + '\n')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
