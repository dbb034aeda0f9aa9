# SPDX-License-Identifier: Apache-2.0
"""What a change of its hosts costs an elastic job, and what it costs to be one.

usage: bench/elastic.py [--rounds N] [--only changes,meeting,many,spares,cost,watch,horovod]
                        [--write]

Hosts are homes on this computer, behind a program in the place of ssh. --write puts the table into
docs/benchmarks-elastic.md; rows of parts that were not asked for stay as they are there.
"""
import argparse
import contextlib
import datetime
import json
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
#: Ranks in C, of which many have room.
SMALL = ROOT / 'build/bench/elastic_rank'
TORCH = ROOT / 'build/envs/torch2/bin/python'
PARTS = ('changes', 'meeting', 'many', 'spares', 'cost', 'watch', 'horovod')
STEPS, WARM = 300, 50
#: The watch looks once in a second.
WATCH_STEPS = 600
#: What switches the watch for stalls off, and the reading of stacks for its reports.
UNWATCHED = {'HOROVOD_STALL_CHECK_DISABLE': '1', 'REIGEN_STACK_SIGNAL': '0'}
#: Jobs of each kind beside Horovod, which loses half a minute in each.
HOROVOD_ROUNDS = 3
PEER, DEBIANS = ROOT / 'build/peers/horovod', '/usr/bin/python3'


class Job(ElasticJob):
    """A job of elastic_rank.py, or of elastic_rank.c where the ranks are small."""

    def __init__(self, folder, options, steps=0, commit=10, modules=(), small=False, **env):
        python = TORCH if modules else ROOT / '.venv/bin/python'
        site = next((ROOT / '.venv/lib').glob('python*/site-packages'))
        command = [SMALL, folder] if small else \
            [python, RANK, folder, str(steps), str(commit), *modules]
        super().__init__(folder, options, command, PYTHONPATH=str(site),
                         REIGEN_DISCOVERY_MS='1000', **env)

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

    def asked(self, *words):
        """What a command of reigen says of this job, as JSON."""
        done = subprocess.run([ROOT / '.venv/bin/reigen', *words, '--json'], capture_output=True,
                              timeout=60, check=True, env={**os.environ, 'HOME': str(self.folder)})
        return json.loads(done.stdout)

    def spare(self, host):
        """Wait until a spare rank of that host waits."""
        def waits():
            assert self.child.poll() is None, self.out.read_text()[-2000:]
            return any(one['host'] == host and one['waiting'] for job in self.asked('jobs')
                       if f':{self.child.pid}:' in job['launcher']
                       for one in self.asked('status', job['id'])['elastic']['hosts'])
        until(waits, f'the spare on {host}', 60, seen=lambda: self.out.read_text()[-2000:])

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

def changing(rounds, kept, slots, found, **how):
    """A host is lost and another one comes, again and again, beside `kept` other hosts."""
    with tempfile.TemporaryDirectory() as folder:
        hosts = [f'k{i}:{slots[0]}' for i in range(kept)]
        script = Script(Path(folder), *hosts, f'h0:{slots[1]}')
        stay, size = kept * slots[0], kept * slots[0] + slots[1]
        job = Job(Path(folder), ['-np', str(size), '--min-np', '1', '--host-discovery-script',
                                 script.path], **how)
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
          'ten steps', 60)
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


def build_small():
    SMALL.parent.mkdir(parents=True, exist_ok=True)
    library = ROOT / 'build/src/coll'
    subprocess.run(['cc', '-O2', '-Wall', f'-I{ROOT}/include', f'-L{library}',
                    f'-Wl,-rpath,{library}', '-o', SMALL, ROOT / 'bench/elastic_rank.c',
                    '-lreigen'], check=True, timeout=120)


# ---------------------------------------------------------------------------- spares

def spared(rounds, found):
    """A rank is lost, and a spare one takes its place; another spare comes then."""
    with tempfile.TemporaryDirectory() as folder:
        script = Script(Path(folder), 'k:3', 'h0:1')
        job = Job(Path(folder), ['-np', '4', '--min-np', '1', '--spares', '1',
                                 '--host-discovery-script', script.path],
                  modules=['torch', 'horovod.torch'])
        try:
            job.at(0, 'step', size=4)  # so that the next host is the spare's
            for number in range(rounds):
                script.tell('k:3', f'h{number}:1', f'h{number + 1}:1')
                job.spare(f'h{number + 1}')
                found.setdefault('again', []).append(old_size_again(job, f'h{number}'))
            job.stop()
        finally:
            job.kill()


def old_size_again(job, host):
    """From the kill of this host's rank to the first step of all three others by four ranks."""
    steps = sum(event == 'step' for event, _, _ in job.events(0))
    until(lambda: sum(e[0] == 'step' for e in job.events(0)) > steps + 10, 'ten steps', 60)
    resets = [len(resets_of(job, place)) for place in range(3)]
    killed = time.monotonic()
    os.kill(min(job.places(host).values()), signal.SIGKILL)

    def first_step(place):
        rest, events = resets[place], job.events(place)
        for event, when, size in events:
            rest -= event == 'reset'
            if event == 'step' and size == 4 and rest < 0:
                return when
        return None
    return max(until(lambda: first_step(place), f'a step of place {place}', 60)  # noqa: B023
               for place in range(3)) - killed


# ---------------------------------------------------------------------------- cost

def watched(rounds, found):
    """Steps of the same fixed job with the watch for stalls and without it, in turns: in every
    other round the watched one comes first. It has its moments, so all steps count alike."""
    for number in range(rounds):
        times = {}
        for name in ('on', 'off') if number % 2 else ('off', 'on'):
            env = UNWATCHED if name == 'off' else {}
            with running(['-np', '2'], steps=WATCH_STEPS, **env) as job:
                job.end()
                at = steps_of(job)
                times[name] = at[-1] - at[0]
        found.setdefault('on', []).append(times['on'] / times['off'] - 1)


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
    at = steps_of(job)[::10]
    return statistics.quantiles([b - a for a, b in zip(at, at[1:])])[0]


def steps_of(job):
    """When each ended, but for the first ones."""
    return [t for event, t, _ in job.events(0) if event == 'step'][WARM:]


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
    ('changes', 'loss', 'from SIGKILL of one of 4 ranks on 2 hosts to the next step of the rest',
     1.0, 's'),
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
    ('many', 'reset', '64 ranks in C on 4 hosts, after a loss: shutdown and init, the slowest rank',
     0.5, 's'),
    ('many', 'loss', 'the same: from SIGKILL of the 65th rank to the next step of all', None, 's'),
    ('spares', 'again', 'from SIGKILL of one of 4 ranks to the next step of 4 ranks, with a spare '
     'one', 1.0, 's'),
    ('watch', 'on', 'steps of 5 ms, the watch for stalls against none', 0.01, '%'),
    ('cost', 'elastic', 'steps of 5 ms, elastic against fixed, a commit each 10 steps', 0.01, '%'),
    ('cost', 'each', 'the same with a commit in each step', None, '%'),
    ('horovod', 'ours', 'the kill of the first row, 4 ranks by local names: Reigen', None, 's'),
    ('horovod', 'theirs', 'the same script and kill: Horovod 0.28.1 with gloo', None, 's'),
    ('horovod', 'ratio', "Reigen's time as a part of Horovod's", 0.2, ''),
    ('horovod', 'hasty', 'Horovod with `--gloo-timeout-seconds 3`', None, 's'),
    ('horovod', 'hasty ratio', "Reigen's time as a part of that", 0.2, ''),
]


HOROVOD = [
    "Most of Horovod's time is that of `--gloo-timeout-seconds`, 30 s by default: one of the",
    'survivors hears of the death only then.', '']
PICTURE = [
    'Four ranks of examples/pytorch_mnist_elastic.py lose a host and gain two, beside the same',
    'training without a change:', '',
    '![two curves of losses, which stay together](elastic.svg)', '']


def shown(value, unit):
    return f'{100 * value:.2f} %' if unit == '%' else f'{value:.3f} {unit}'.rstrip()


def before():
    """({(part, what): line}, [[parts, when, where, load, how long]]) of the page as it is."""
    rows, runs = {}, []
    for line in PAGE.read_text(encoding='utf-8').splitlines() if PAGE.exists() else []:
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if len(cells) == 7 and cells[0] in PARTS:
            rows[cells[0], cells[1]] = line
        elif len(cells) == 5 and cells[0].split(', ')[0] in PARTS:
            runs.append(cells)
    return rows, runs


def table(found, old):
    lines = ['| part | what | at most | median | worst | rounds | |',
             '|---|---|---|---|---|---|---|']
    for part, key, what, limit, unit in ROWS:
        values = found.get(part, {}).get(key)
        if values:
            middle = statistics.median(values)
            verdict = '' if limit is None else 'pass' if middle <= limit else 'MISSED'
            lines.append(f'| {part} | {what} | {shown(limit, unit) if limit else ""} | '
                         f'{shown(middle, unit)} | {shown(max(values), unit)} | {len(values)} | '
                         f'{verdict} |')
        elif (part, what) in old:
            lines.append(old[part, what])
    return lines


def times(found, old, load, seconds):
    """When what was measured: this run, and those that measured what it has not."""
    now = [part for part in PARTS if found.get(part)]
    stamp = datetime.datetime.now(datetime.timezone.utc).strftime('%Y-%m-%d %H:%M UTC')
    model = re.search(r'^model name\s*: (.*)$', Path('/proc/cpuinfo').read_text(), re.M)
    where = f'{os.cpu_count()} cores' + (f', {model[1]}' if model else '')
    runs = [[', '.join(p for p in parts.split(', ') if p not in now), *more]
            for parts, *more in old]
    runs.append([', '.join(now), stamp, where, f'{load:.1f}', f'{seconds:.0f} s'])
    return ['| parts | measured | on | load at the start | in |', '|---|---|---|---|---|',
            *(f'| {" | ".join(run)} |' for run in runs if run[0])]


def page(found, load, seconds):
    rows, runs = before()
    return '\n'.join([
        '# Benchmarks: elastic jobs', '',
        '`bench/elastic.py --write` measures this page, `--only PART,...` some parts. All hosts',
        'are homes on one computer, without a network, and share its cores.', '',
        *table(found, rows), '',
        'Ranks of `changes`, `spares` and `horovod` are Python with PyTorch, those of `many` in C,',
        'and the others Python without PyTorch. The script is asked once in a second. `cost` and',
        '`watch` compare jobs of 2 ranks that take turns; the unwatched one has',
        f'{" and ".join(f"`{k}={v}`" for k, v in UNWATCHED.items())}.', '',
        *HOROVOD, *PICTURE, *times(found, runs, load, seconds), ''])


#: How each part is measured: (rounds, {key: [values]}).
MEASURES = {
    'changes': lambda n, found: changing(n, 1, (2, 2), found, modules=['torch', 'horovod.torch']),
    'meeting': lambda n, found: changing(n, 4, (4, 1), found),
    'many': lambda n, found: changing(n, 4, (16, 1), found, small=True),
    'spares': spared, 'cost': cost, 'watch': watched, 'horovod': beside_horovod,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--only', default=','.join(PARTS))
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    load, began, found = os.getloadavg()[0], time.monotonic(), {}
    build_small()
    with first():
        for part in args.only.split(','):
            MEASURES[part](args.rounds, found.setdefault(part, {}))
    text = page(found, load, time.monotonic() - began)
    print(text, end='')
    if args.write:
        PAGE.write_text(text, encoding='utf-8')


if __name__ == '__main__':
    main()
