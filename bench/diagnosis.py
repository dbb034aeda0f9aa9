#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs in which one thing is wrong, or nothing: what reigen top says of each.

usage: bench/diagnosis.py [--each N] [--healthy N] [--seed S] [--only CAUSE,...] [--keep FILE]
                          [--check] [--write]

Each job makes steps of 10 to 60 ms on this computer, and is asked about some seconds after its
first ones; rank, lengths and sizes are drawn by the seed. A cause that needs what this computer
does not give (cgroups that can be written, root for simulated hosts) is left out, and named. A
healthy job beside which other processes compute may be told of its neighbours.

--keep: append each job to FILE, and tell of all that are there: so several runs, each with a seed
of its own, make one table. --check: fail where a word is wrong, or fewer than 95 of 100 are right.
--write: put the table into docs/top.md, with how busy the computer was otherwise. A table tells
something only of seeds by which no rule was tuned: take new ones after each change of a rule.
"""
import argparse
import collections
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REIGEN = ROOT / '.venv/bin/reigen'
PROGRAM = ROOT / 'build/tests/programs/hindered'
PAGE = ROOT / 'docs/top.md'
CGROUPS = Path('/sys/fs/cgroup')
SECONDS = 7
STARTS_S = 60
NONE = 'nothing'
QUIET_LOAD = 3  # a core; a job with a neighbour has 2 by itself

sys.path.insert(0, str(ROOT / 'tests'))


class Left(Exception):
    """This computer cannot have the cause."""


class Job:
    """How one is started, and what is beside it."""

    def __init__(self, rng, folder):
        self.rng, self.folder = rng, folder
        cores = len(os.sched_getaffinity(0))
        self.ranks = min(rng.choice([2, 2, 3]), max(cores, 2))
        self.culprit = rng.randrange(self.ranks)
        self.cause, self.extra = 'none', 0
        self.work = rng.randint(10000, 60000)
        self.nbytes = rng.choice([4, 4096, 65536])
        self.more, self.wrap = [], ''
        self.stack = contextlib.ExitStack()

    def words(self):
        """The culprit's shell may do something before it becomes the program."""
        command = ' '.join(map(str, [PROGRAM, self.cause, self.culprit, self.work, self.extra,
                                     self.nbytes, *self.more]))
        script = f'[ $RANK != {self.culprit} ] || {{ {self.wrap or ":"}; }}; exec {command}'
        return ['-np', self.ranks, '--', 'sh', '-c', script]

    def group(self, controller, **files):
        """Make a cgroup that the culprit enters; it goes with the job."""
        version1 = CGROUPS / controller
        parent = version1 if version1.is_dir() else CGROUPS
        own = parent / f'reigen-diagnosis-{os.getpid()}-{self.rng.randrange(1 << 30)}'
        try:
            own.mkdir()
        except OSError as error:
            raise Left(f'no cgroup can be made: {error}') from None
        self.stack.callback(remove, own)
        for name, value in files.items():
            path = own / name.replace('__', '.')
            if path.exists():
                path.write_text(str(value))
        self.wrap = f'echo $$ >{own}/cgroup.procs'


def remove(group):
    for _ in range(100):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.05)


def slow_rank(job):
    job.cause, job.extra = 'compute', round(job.work * job.rng.uniform(0.7, 3))


def slow_input(job):
    job.cause, job.extra = 'input', round(job.work * job.rng.uniform(1, 4))


def imbalance(job):
    job.cause, job.extra = 'bytes', round(job.work * job.rng.uniform(1, 3))
    job.nbytes = 4
    if job.rng.random() < 0.5:
        job.cause, job.culprit = 'turns', job.rng.randrange(job.ranks)


def throttled(job):
    """By less than other work leaves to the culprit anyway: else the limit would limit nothing."""
    quota = job.rng.randint(8, 16) * 1000
    job.group('cpu', cpu__cfs_period_us=100000, cpu__cfs_quota_us=quota,
              cpu__max=f'{quota} 100000')


def swapping(job):
    """A mapped file that the culprit reads again and again, for which it has too little memory."""
    nbytes = job.rng.randint(24, 40) << 20
    pages = job.folder / f'pages-{job.rng.randrange(1 << 30)}'
    with open(pages, 'wb') as file:
        file.write(os.urandom(1 << 20) * (nbytes >> 20))
        os.fsync(file.fileno())
    job.stack.callback(pages.unlink)
    limit = nbytes * 2 // 3
    job.group('memory', memory__limit_in_bytes=limit, memory__max=limit)
    job.cause, job.extra, job.more = 'pages', job.rng.randint(500, 2000), [pages]


def others():
    """How many processes compute now, each of a usual priority: one of nice 10 is a tenth."""
    weight = 0
    for entry in Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError, IndexError):
            state, *fields = (entry / 'stat').read_text().rpartition(')')[2].split()
            weight += 1.25 ** -int(fields[15]) if state == 'R' else 0
    return weight


def neighbour(job):
    """Several processes have the culprit's core, and no other one. The kernel moves all others to
    the other cores: there have to be more than these, or all ranks are hindered alike."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Left('there is one core')
    job.ranks, job.culprit = 2, job.rng.randrange(2)
    job.wrap = f'taskset -cp {cpus[job.culprit]} $$ >/dev/null'
    for _ in range(job.rng.randint(2, 3) + min(round(others()), 10)):
        hog = subprocess.Popen(['taskset', '-c', str(cpus[job.culprit]), sys.executable, '-c',
                                'while True: pass'])
        job.stack.callback(hog.wait)
        job.stack.callback(hog.kill)


def healthy(job):
    del job


LOCAL = {'slow-rank': slow_rank, 'slow-input': slow_input, 'imbalance': imbalance,
         'throttled': throttled, 'swapping': swapping, 'neighbour': neighbour, NONE: healthy}


def read(run):
    """What is said now; None: nobody is waited for in particular, or there is no reading."""
    done = run([REIGEN, 'top', '--json'])
    if done.returncode != 0:
        return None
    return json.loads(done.stdout.splitlines()[0]).get('diagnosis')


def has_begun(run):
    done = run([REIGEN, 'top', '--json'])
    return done.returncode == 0 and bool(json.loads(done.stdout.splitlines()[0]).get('steps'))


def judge(job, run, start):
    """Run it; the word some seconds after its first steps, and whom it is said of."""
    child = start([str(word) for word in [REIGEN, 'run', *job.words()]])
    try:
        until = time.monotonic() + STARTS_S
        while not has_begun(run):
            assert child.poll() is None and time.monotonic() < until, 'the job makes no steps'
            time.sleep(0.2)
        time.sleep(SECONDS)
        found = read(run)
        assert child.poll() is None, 'the job has ended by itself'
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)
    return found


def here(job):
    env = {**os.environ, 'XDG_STATE_HOME': str(job.folder / 'state'), 'HOME': str(job.folder)}
    quiet = {'stdin': subprocess.DEVNULL, 'stdout': subprocess.DEVNULL,
             'stderr': subprocess.DEVNULL, 'env': env}
    return judge(job, lambda words: subprocess.run(words, env=env, capture_output=True, text=True,
                                                   check=False),
                 lambda words: subprocess.Popen(words, **quiet))


def told(job, found, cause):
    """The cause that was said, if it is said of the right one."""
    if not found:
        return NONE
    turns = cause == 'imbalance' and job.cause == 'turns'
    right = found['rank'] == (None if turns else job.culprit)
    return found['cause'] if right or found['cause'] != cause else found['cause'] + ' of another'


# ---------------------------------------------------------------------------- between hosts

def links(count, rng, folder, note):
    """Three hosts, of which one sends by a slower cable; or none does."""
    if os.geteuid() != 0:
        raise Left('hosts need root')
    from bed import Network  # noqa: PLC0415 (it needs root)
    with Network(3) as net:
        for number in range(count):
            job = Job(rng, folder)
            job.nbytes, job.work = rng.randint(1, 4) << 20, rng.randint(500, 3000)
            slow = rng.randrange(3) if number % 2 == 0 else None
            net.change('2gbit')
            if slow is not None:
                net.nodes[slow].in_network(['tc', 'qdisc', 'replace', 'dev', 'eth0', 'root', 'tbf',
                                            'rate', f'{rng.randint(50, 200)}mbit', 'burst', '64k',
                                            'limit', '1m'])
            job.words = lambda job=job: ['-H', 'node1:1,node2:1,node3:1', '--', PROGRAM, 'none', 0,
                                         job.work, 0, job.nbytes]
            found = judge(job, lambda words: net.run(1, words), lambda words: net.popen(1, words))
            word = found['cause'] if found else NONE
            if slow is not None and word == 'slow-link' and f'node{slow + 1}' != found['host']:
                word += ' of another'
            note('slow-link' if slow is not None else NONE, job, word, found)


# ---------------------------------------------------------------------------- all of them

class Noted:
    """What was said of each job, here and in the file of earlier runs."""

    def __init__(self, seed, keep):
        self.seed, self.keep, self.all = seed, keep, []
        if keep and keep.exists():
            self.all = [json.loads(line) for line in keep.read_text().splitlines()]

    def __call__(self, cause, job, word, found):
        print(f'{cause:11} {job.ranks} ranks, rank {job.culprit}: {word}'
              f'{"" if word == cause else f"  {found}"}', flush=True)
        one = {'seed': self.seed, 'cause': cause, 'word': word, 'ranks': job.ranks,
               'work': job.work, 'kind': job.cause, 'extra': job.extra,
               'load': round(os.getloadavg()[0], 1), 'found': found}
        self.all.append(one)
        if self.keep:
            with open(self.keep, 'a') as file:
                file.write(json.dumps(one) + '\n')

    def said(self, jobs=None):
        said = collections.defaultdict(collections.Counter)
        for one in self.all if jobs is None else jobs:
            said[one['cause']][one['word']] += 1
        return said

    def by_load(self):
        """The jobs of a quiet computer, and those of a busy one."""
        limit = QUIET_LOAD * len(os.sched_getaffinity(0))
        return ([one for one in self.all if one['load'] <= limit],
                [one for one in self.all if one['load'] > limit])


def cells(words, cause):
    """Of one cause: right of all, without a word, and the other words."""
    wrong = [f'{n} {word}' for word, n in words.items() if word not in (cause, NONE)]
    return [f'{words[cause]} of {sum(words.values())}' if words else '',
            str(words[NONE]) if words and cause != NONE else '',
            ', '.join(wrong) or ('0' if words else '')]


def table(noted):
    quiet, busy = map(noted.said, noted.by_load())
    lines = ['| injected | quiet: right | nothing said | another word '
             '| busy: right | nothing said | another word |', '|---' * 7 + '|']
    for cause in sorted({*quiet, *busy}):
        lines.append('| ' + ' | '.join([cause, *cells(quiet[cause], cause),
                                        *cells(busy[cause], cause)]) + ' |')
    return '\n'.join(lines)


def about(jobs, name):
    """Which seeds and which load a half of the table has."""
    if not jobs:
        return []
    seeds = ', '.join(map(str, dict.fromkeys(one['seed'] for one in jobs)))
    loads = sorted(one['load'] for one in jobs)
    return [f'{name}: seeds {seeds}, a load of {loads[0]:.0f} to {loads[-1]:.0f} (median '
            f'{statistics.median(loads):.0f})']


def write(noted):
    """Behind its mark, up to the next empty line but one."""
    before, mark, after = PAGE.read_text().partition('<!-- diagnosed -->\n')
    rest = after.split('\n\n', 2)[2]
    quiet, busy = noted.by_load()
    halves = '; '.join(about(quiet, 'Quiet') + about(busy, 'busy'))
    PAGE.write_text(f'{before}{mark}{table(noted)}\n\n{halves}.\nThe computer has '
                    f'{len(os.sched_getaffinity(0))} cores; the jobs\' own load is included.\n\n'
                    f'{rest}')


def is_good(said):
    """Of a healthy job its neighbours may be told: others may compute here."""
    bad = sum(n for cause, words in said.items() for word, n in words.items()
              if word not in (cause, NONE, 'neighbour'))
    hindered = [(sum(words.values()), words[cause]) for cause, words in said.items()
                if cause != NONE]
    jobs, right = map(sum, zip(*hindered)) if hindered else (0, 0)
    return bad == 0 and right >= 0.95 * jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--each', type=int, default=29, help='jobs with each cause')
    parser.add_argument('--healthy', type=int, default=200)
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--only', type=lambda text: text.split(','))
    parser.add_argument('--keep', type=Path)
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    if not PROGRAM.exists():
        sys.exit(f'there is no {PROGRAM}: meson configure build -Dtests=enabled; ninja -C build')
    rng = random.Random(args.seed)
    noted = Noted(args.seed, args.keep)
    rounds = [cause for cause in LOCAL if cause != NONE for _ in range(args.each)]
    rounds += [NONE] * args.healthy
    rounds = [cause for cause in rounds if not args.only or cause in args.only]
    rng.shuffle(rounds)
    left = {}
    with tempfile.TemporaryDirectory(dir='/var/tmp') as name:
        folder = Path(name)
        for cause in rounds:
            job = Job(rng, folder)
            with job.stack:
                try:
                    LOCAL[cause](job)
                except Left as why:
                    left[cause] = str(why)
                    continue
                found = here(job)
                noted(cause, job, told(job, found, cause), found)
        if not args.only or 'slow-link' in args.only:
            try:
                links(2 * args.each, rng, folder, noted)
            except Left as why:
                left['slow-link'] = str(why)
    print('\n' + table(noted))
    if args.write:
        write(noted)
    for cause, why in left.items():
        print(f'{cause} was left out: {why}')
    return 0 if not args.check or is_good(noted.said()) else 1


if __name__ == '__main__':
    sys.exit(main())
