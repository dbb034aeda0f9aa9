# SPDX-License-Identifier: Apache-2.0
"""What a change of its hosts costs an elastic job, and what it costs to be one.

usage: bench/elastic.py [--rounds N] [--only changes,meeting,cost,horovod] [--write]

Hosts are homes on this computer, behind a program in the place of ssh. --write puts the table into
docs/benchmarks-elastic.md.
"""
import argparse
import contextlib
import datetime
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests'))
from bed import first  # noqa: E402
from elastic_job import ElasticJob, Script  # noqa: E402
from wait import until  # noqa: E402

RANK, PAGE = ROOT / 'bench/elastic_rank.py', ROOT / 'docs/benchmarks-elastic.md'
TORCH = ROOT / 'build/envs/torch2/bin/python'
PARTS = ('changes', 'meeting', 'cost', 'horovod')
STEPS, WARM = 300, 50
#: Jobs of each kind beside Horovod, which loses half a minute in each.
HOROVOD_ROUNDS = 3
PEER, DEBIANS = ROOT / 'build/peers/horovod', '/usr/bin/python3'


class Job(ElasticJob):
    """A job of elastic_rank.py."""

    def __init__(self, folder, options, steps=0, commit=10, modules=()):
        python = TORCH if modules else ROOT / '.venv/bin/python'
        site = next((ROOT / '.venv/lib').glob('python*/site-packages'))
        super().__init__(folder, options, [python, RANK, folder, str(steps), str(commit), *modules],
                         PYTHONPATH=str(site), REIGEN_DISCOVERY_MS='1000')

    def events(self, place):
        """[(event, time, ranks)] of whole lines."""
        path = self.folder / f'events-{place}'
        lines = path.read_text().split('\n')[:-1] if path.exists() else []
        return [(w[0], float(w[1]), int(w[2]) if len(w) > 2 else 0)
                for w in (line.split() for line in lines)]

    def at(self, place, event, since=0.0, size=0):
        """When it was first so after `since`, with so many ranks."""
        return until(lambda: next((t for e, t, n in self.events(place)
                                   if e == event and t > since and n == size), None),
                     f'{event} of place {place}', 60, seen=lambda: self.out.read_text()[-2000:])

    def places(self, host):
        """{place: pid} of this host, once its first has begun."""
        self.wait(rf'place \d+ on {host} pid ')
        found = re.findall(rf'place (\d+) on {host} pid (\d+)', self.out.read_text())
        return {int(place): int(pid) for place, pid in found}

    def stop(self):
        (self.folder / 'stop').touch()
        self.end()


@contextlib.contextmanager
def running(*arguments, **more):
    """A job, and its folder's script if it has one."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder), *arguments, **more)
        try:
            yield job
        finally:
            job.kill()


# ---------------------------------------------------------------------------- changes

def changing(rounds, kept, slots, modules, found):
    """A host is lost and another one comes, again and again, beside `kept` other hosts."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = [f'k{i}:{slots[0]}' for i in range(kept)]
        script = Script(Path(folder), *hosts, f'h0:{slots[1]}')
        stay, size = kept * slots[0], kept * slots[0] + slots[1]
        job = Job(Path(folder), ['-np', str(size), '--min-np', '1', '--host-discovery-script',
                                 script.path], modules=modules)
        try:
            job.at(0, 'step', size=size)
            for number in range(rounds):
                one_round(job, number, stay, size, found)
                told = time.monotonic()
                script.tell(*hosts, f'h{number + 1}:{slots[1]}')
                arrive(job, number + 1, told, size, found)
            job.stop()
        finally:
            job.kill()


def one_round(job, number, stay, size, found):
    """A rank of the newest host is killed; places 0 to stay - 1 go on."""
    lost = job.places(f'h{number}')
    until(lambda: len([e for e in job.events(0) if e[0] == 'step' and e[2] == size]) > 10,
          'ten steps')
    resets = [len(resets_of(job, place)) for place in range(stay)]
    killed = time.monotonic()
    os.kill(min(lost.values()), signal.SIGKILL)
    found.setdefault('loss', []).append(
        max(job.at(place, 'step', killed, stay) for place in range(stay)) - killed)
    found.setdefault('reset', []).append(
        max(resets_of(job, place)[resets[place]] for place in range(stay)))


def resets_of(job, place):
    return [t for event, t, _ in job.events(place) if event == 'reset']


def arrive(job, number, told, size, found):
    """What the first step with the new ranks has waited for."""
    done = job.at(0, 'step', told, size)
    places = job.places(f'h{number}')
    began = max(job.at(p, 'began') for p in places)
    imported = max(job.at(p, 'imported') for p in places)
    for name, value in (('gain', done - told), ('started', began - told),
                        ('imports', imported - began), ('joined', done - imported)):
        found.setdefault(name, []).append(value)


# ---------------------------------------------------------------------------- cost

def cost(rounds, found):
    """Steps of the same program in a fixed job and in elastic ones, in turns."""
    kinds = {'fixed': (['-np', '2'], 10), 'elastic': (['-np', '2', '--min-np', '1'], 10),
             'each': (['-np', '2', '--min-np', '1'], 1)}
    for _ in range(rounds):
        times = {}
        for name, (options, commit) in kinds.items():
            with running(options, steps=STEPS, commit=commit) as job:
                job.end()
                times[name] = block_of(job)
        for name in ('elastic', 'each'):
            found.setdefault(name, []).append(times[name] / times['fixed'] - 1)


def block_of(job):
    """What ten steps take: the lower quartile, as what else runs here only adds to them."""
    at = [t for event, t, _ in job.events(0) if event == 'step'][WARM::10]
    return statistics.quantiles([b - a for a, b in zip(at, at[1:])])[0]


# ---------------------------------------------------------------------------- Horovod

class Ours(Job):
    """A job of elastic_hvd.py on two hosts, which are this computer by two of its names."""
    LAUNCHER = ['horovodrun']
    PACKAGES = next((ROOT / '.venv/lib').glob('python*/site-packages'))

    def __init__(self, folder):
        ElasticJob.__init__(  # pylint: disable=non-parent-init-called
            self, folder, ['-np', '4', '--min-np', '2', '-H', 'localhost:2,127.0.0.1:2'],
            [DEBIANS, ROOT / 'bench/elastic_hvd.py', folder], launcher=self.LAUNCHER,
            PYTHONPATH=str(self.PACKAGES))


class Theirs(Ours):
    """The same by Horovod's launcher, with its defaults."""
    LAUNCHER, PACKAGES = [DEBIANS, '-m', 'horovod.runner.launch', '--gloo'], PEER


class Hasty(Theirs):
    """The same, and tuned for it."""
    LAUNCHER = [*Theirs.LAUNCHER, '--gloo-timeout-seconds', '3']


def beside_horovod(rounds, found):
    """The same kill in jobs of both, in turns."""
    built = subprocess.run([ROOT / 'bench/horovod.sh'], check=False).returncode == 0
    for _ in range(min(rounds, HOROVOD_ROUNDS) if built else 0):
        for name, kind in (('ours', Ours), ('theirs', Theirs), ('hasty', Hasty)):
            with tempfile.TemporaryDirectory() as folder:
                job = kind(Path(folder))
                try:
                    found.setdefault(name, []).append(one_kill(job))
                    job.stop()
                finally:
                    job.kill()
        found.setdefault('ratio', []).append(found['ours'][-1] / found['theirs'][-1])
        found.setdefault('hasty ratio', []).append(found['ours'][-1] / found['hasty'][-1])


def one_kill(job):
    """Of the first rank of the second host; places 0 and 1 go on."""
    for place in range(4):
        until(lambda: len(job.events(place)) > 50, 'fifty steps', 60)  # noqa: B023
    killed = time.monotonic()
    os.kill(int(job.events(2)[0][1]), signal.SIGKILL)
    return max(job.at(place, 'step', killed, 2) for place in (0, 1)) - killed


# ---------------------------------------------------------------------------- the table

#: (measurement, key, what it is, at most, unit)
ROWS = [
    ('changes', 'loss', 'from SIGKILL of one of 4 ranks on 2 hosts to the next step of the other '
     'host', 1.0, 's'),
    ('changes', 'gain', "from the script's new answer to the first step with its 2 ranks", None,
     's'),
    ('changes', 'started', "of that: until both programs began (asking the script, ssh, the agent)",
     None, 's'),
    ('changes', 'imports', 'of that: their imports, `torch` and `horovod.torch`', None, 's'),
    ('changes', 'joined', 'of that: from there to the end of the first step', None, 's'),
    ('meeting', 'reset', '16 ranks on 4 hosts, after a loss: shutdown and init, the slowest rank',
     0.2, 's'),
    ('meeting', 'loss', 'the same: from SIGKILL of the 17th rank to the next step of all', None,
     's'),
    ('cost', 'elastic', 'steps of 5 ms, elastic against fixed, a commit each 10 steps', 0.01, '%'),
    ('cost', 'each', 'the same with a commit in each step', None, '%'),
    ('horovod', 'ours', 'the kill of the first row, 4 ranks by local names: Reigen', None, 's'),
    ('horovod', 'theirs', 'the same script and kill: Horovod 0.28.1 with gloo', None, 's'),
    ('horovod', 'ratio', "Reigen's time as a part of Horovod's", 0.2, ''),
    ('horovod', 'hasty', 'Horovod with `--gloo-timeout-seconds 3`', None, 's'),
    ('horovod', 'hasty ratio', "Reigen's time as a part of that", 0.2, ''),
]


HOROVOD = [
    'In the last rows jobs of both take turns: bench/elastic_hvd.py with `horovod.torch`, on the',
    "same Python, PyTorch and hosts, which are two names of this computer. Most of Horovod's time",
    'is that of `--gloo-timeout-seconds`, whose default is 30 s: one of the survivors hears of the',
    'death only then.', '']
PICTURE = [
    'Four ranks of examples/pytorch_mnist_elastic.py lose a host and gain two; beside it the same',
    'training without a change. bench/elastic_picture.py drew it from their reports.', '',
    '![two curves of losses, which stay together](elastic.svg)', '']


def shown(value, unit):
    return f'{100 * value:.2f} %' if unit == '%' else f'{value:.3f} {unit}'.rstrip()


def table(found):
    lines = ['| what | at most | median | worst | rounds | |', '|---|---|---|---|---|---|']
    for part, key, what, limit, unit in ROWS:
        values = found.get(part, {}).get(key)
        if values:
            middle = statistics.median(values)
            verdict = '' if limit is None else 'pass' if middle <= limit else 'MISSED'
            lines.append(f'| {what} | {shown(limit, unit) if limit else ""} | '
                         f'{shown(middle, unit)} | {shown(max(values), unit)} | {len(values)} | '
                         f'{verdict} |')
    return lines


def page(found, load, seconds):
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
    model = re.search(r'^model name\s*: (.*)$', Path('/proc/cpuinfo').read_text(), re.M)
    return '\n'.join([
        '# Benchmarks: elastic jobs', '',
        '`bench/elastic.py --write` measures this page anew. All hosts are homes on one computer,',
        'behind a program in the place of ssh; so all ranks share its cores, and there is no',
        'network. A row is judged by its median.', '', *table(found), '',
        'The script is asked once in a second. In the first five rows and the last five the ranks',
        'are Python with PyTorch; in the others without. The cost compares three jobs of 2 ranks',
        'that take turns, by what ten steps take (the lower quartile in each job). A difference',
        'below zero says that the machine changes more than the jobs differ.', '',
        *HOROVOD, *PICTURE,
        f'Measured {stamp} on {os.cpu_count()} cores ({model[1] if model else "unknown"}), load '
        f'{load:.1f} at the start, in {seconds:.0f} s.', ''])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--only', default=','.join(PARTS))
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    load, began, found = os.getloadavg()[0], time.monotonic(), {part: {} for part in PARTS}
    with first():
        for part in args.only.split(','):
            if part == 'changes':
                changing(args.rounds, 1, (2, 2), ['torch', 'horovod.torch'], found[part])
            elif part == 'meeting':
                changing(args.rounds, 4, (4, 1), [], found[part])
            elif part == 'horovod':
                beside_horovod(args.rounds, found[part])
            else:
                cost(args.rounds, found[part])
    text = page(found, load, time.monotonic() - began)
    print(text, end='')
    if args.write:
        PAGE.write_text(text, encoding='utf-8')


if __name__ == '__main__':
    main()
