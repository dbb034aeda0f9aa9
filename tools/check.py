# SPDX-License-Identifier: Apache-2.0
"""Run the parts of `make check`, `make check-all` or `make soak`, and say what each took.

usage: tools/check.py check|check-all [PART...]
       tools/check.py soak [TIME] [--since=COMMIT] [PART...]    TIME: 90s, 30m, 8h; default 1h

Several parts run at once, since most of a test's time is waiting: for a limit, a daemon, a network.
Each says how many cores it keeps busy and how long it took, and the longest ones begin, as long as
they keep no more cores busy than there are. Those that measure time have the machine for
themselves, at the end. build/check has each part's output in PART.log, of which what failed is
shown here as well, and in cores.txt what each test took of the processors. The last line is "N
passed, N failed", with ", N skipped" where tests were skipped. A skip prints its reason, and is a
failure when CI=true.

Where no more than SECOND_LOOKS_MAX tests of a part fail, each is run once more by itself. One that
passes then is named as unstable, with what it failed of, beside the table: a defect of the test or
of the program, to be repaired, but no reason to refuse a change that has not touched it.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
import xml.etree.ElementTree as ElementTree
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Callable, NamedTuple

import soak
from machine import lacking

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / 'build/check'
CI = os.environ.get('CI', '').lower() in ('1', 'true', 'yes')
SHOWN_LINES = 120
SECOND_LOOKS_MAX = 10
#: Failures of a part that are named once more at the end, and characters of each.
NAMED_FAILURES, NAMED_CHARS = 12, 160
#: Tests of a part that run at the same time; those of behaviour wait for most of their time: six
#: of them keep not two cores busy, and four left one idle when the C tests were over.
WORKERS, BEHAVIOUR_WORKERS = 3, 6
#: C tests under ASan take what those of behaviour leave.
ASAN_WORKERS = 2
#: Parts may keep so many more cores busy together than there are: no part does so all the time.
SPARE_CORES = 0.5
#: Between looks at a command that runs.
LOOK_S = 0.1
#: A part that takes longer than this hangs; one that is only slow, on a busy machine, does not.
#: What each test may take is its own affair (tests/took.py).
PART_LIMIT_S = 3600
#: What the tests in an empty Debian, and the variants that CI does without, take; a shorter soak is
#: without them.
LONG_SOAK_S = 1500
GROUP = r'@\w+$'
SBIN = ('/usr/local/sbin', '/usr/sbin', '/sbin')
SANITIZERS = {'asan': 'address,undefined', 'tsan': 'thread'}
SANITIZER_ENV = {
    'ASAN_OPTIONS': 'detect_stack_use_after_return=1:strict_string_checks=1:exitcode=66',
    'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1:exitcode=66',
    'TSAN_OPTIONS': f'exitcode=66:second_deadlock_stack=1:suppressions={ROOT}/tests/tsan.supp',
}


class Result:
    """What one part came to. `failures`, `unstable` and `skips` hold one line each; `texts` has
    the whole of what such a line of failures or unstable is of, where that is known. `oks` has the
    C tests, and their cases, that passed, as `failures` would name them."""

    def __init__(self):
        self.passed = 0
        self.failures = []
        self.unstable = []
        self.skips = []
        self.texts = {}
        self.oks = set()
        self.runs = []  # each run of each test, for the page of make soak
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    def second_look(self, second, count):
        """Take over what another run of all `count` tests that failed came to."""
        if second.passed + len(second.failures) != count:
            return
        names = {failure.partition(': ')[0] for failure in second.failures}
        self.unstable += [f for f in self.failures if f.partition(': ')[0] not in names]
        self.failures = [f for f in self.failures if f.partition(': ')[0] in names]
        self.passed += second.passed


def run(part, argv, env=None):
    """Run a command with its output in the part's log. Its exit status, 124 when out of time."""
    log = LOGS / f'{part}.log'
    if STOPPING:
        raise InterruptedError('the run was ended')
    with open(log, 'ab') as out:
        out.write(f'$ {" ".join(map(str, argv))}\n'.encode())
        out.flush()
        child = subprocess.Popen([str(a) for a in argv], cwd=ROOT, stdout=out,
                                 stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 env={**os.environ, **(env or {})}, start_new_session=True)
        CHILDREN.add(child.pid)
        try:
            limit = PART_LIMIT_S + 2 * float(os.environ.get('REIGEN_SWEEP_SECONDS', 0))
            return wait_for(child, part, limit)
        finally:
            # The command's own leftovers too: it leads a process group of its own.
            kill_group(child.pid)
            child.wait()
            CHILDREN.discard(child.pid)


def wait_for(child, part, limit):
    """The exit status; 124: it runs for longer. What it and all that it has waited for have taken
    of the processors goes to the part's account."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            CPU_SECONDS[part] = CPU_SECONDS.get(part, 0) + usage.ru_utime + usage.ru_stime
            return child.returncode
        time.sleep(LOOK_S)
    return 124


#: The parts that this run has, and what each has taken of the processors.
ASKED = set()
CPU_SECONDS = {}
#: What each test in Python has taken of them, and its part and name.
TEST_CORES = []
#: Not empty: nothing is started any more.
STOPPING = []
#: The commands that run, each the leader of its process group.
CHILDREN = set()


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def show_tail(text):
    lines = text.splitlines()
    print('\n'.join(f'    {line}' for line in lines[-SHOWN_LINES:]), flush=True)


# ---------------------------------------------------------------------------- pytest

def pytest(part, paths, *options, env=None):
    """Run pytest, and count what its XML report says, with a second look at what failed."""
    paths = [p for p in paths if (ROOT / p).is_file() or any((ROOT / p).rglob('test_*.py'))]
    if not paths:
        return Result()
    result = pytest_once(part, paths, *options, env=env)
    # One that fails, and then leaves something behind, is there twice.
    again = list(dict.fromkeys(node_id(failure) for failure in result.failures))
    if 0 < len(again) <= SECOND_LOOKS_MAX and all(again):
        shutil.copy(LOGS / f'{part}.xml', LOGS / f'{part}-first.xml')
        second = pytest_once(part, again, env=env)
        result.second_look(second, len(again))
    return result


def node_id(failure):
    """What pytest calls the test of a line of `failures`; None when the line names no test."""
    match = re.match(r'((?:\w+\.)*test_\w+)\.(test_\w+(?:\[.*?\])?): ', failure)
    return f'tests/{match[1].replace(".", "/")}.py::{match[2]}' if match else None


def pytest_once(part, paths, *options, env=None):
    result = Result()
    xml = LOGS / f'{part}.xml'
    xml.unlink(missing_ok=True)
    status = run(part, [sys.executable, '-m', 'pytest', '-q', '--tb=short', f'--junitxml={xml}',
                        '-c', 'tests/pytest.ini', '--rootdir=tests', *map(str, options), *paths],
                 env=env)
    count_junit(xml, result)
    # 5: no test was selected.
    if status not in (0, 1, 5) or (status == 1 and not result.failures):
        result.failures.append(f'{part}: pytest ended with status {status}')
    return result


def count_junit(xml, result):
    if not xml.exists():
        return
    for case in ElementTree.parse(xml).getroot().iter('testcase'):
        # xdist writes a test's group behind its name, as "test_a@group".
        name = f'{case.get("classname")}.{re.sub(GROUP, "", case.get("name"))}'
        bad = case.find('failure') if case.find('failure') is not None else case.find('error')
        skip = case.find('skipped')
        TEST_CORES.extend((float(p.get('value')), f'{xml.stem} {name}')
                          for p in case.iter('property') if p.get('name') == 'core_s')
        if skip is None:
            notes = {p.get('name'): int(p.get('value')) for p in case.iter('property')
                     if p.get('value').isdigit()}
            result.runs.append(soak.Run(name, bad is None, float(case.get('time') or 0), notes))
        if bad is not None:
            result.failures.append(f'{name}: {first_line(bad)}')
            result.texts[result.failures[-1]] = bad.text or bad.get('message') or ''
        elif skip is not None:
            result.skips.append(f'{name}: {skip.get("message")}')
        else:
            result.passed += 1


def first_line(node):
    lines = f'{node.get("message") or ""}\n{node.text or ""}'.strip().splitlines()
    return lines[0].strip() if lines else 'failed'


# ---------------------------------------------------------------------------- meson

def unit(part, build, *which, wrapper=()):
    """Run meson's tests, with a second look at the programs in which few cases failed."""
    result = unit_once(part, build, which, wrapper)
    # Only what failed is run again: else another test's bad luck would count there.
    again = list(dict.fromkeys(program_of(failure) for failure in result.failures))
    if 0 < len(result.failures) <= SECOND_LOOKS_MAX and all(again):
        second = unit_once(part, build, ['--no-rebuild', *again], wrapper)
        result.unstable = [f for f in result.failures if has_passed(f, second)]
        result.failures = [f for f in result.failures if not has_passed(f, second)]
        result.passed += len(result.unstable)
    return result


def has_passed(failure, second):
    """Did that case pass the second time? Or the whole program, where no case was named? One that
    did not run has not passed."""
    program, _, rest = failure.rpartition(': ')
    return failure in second.oks or (', status ' in rest and program in second.oks)


def program_of(failure):
    """What meson calls the test of a line of `failures`; None when the line names no test."""
    match = re.match(r'[\w.-]+(?::[\w+-]+)? / ([\w/-]+): ', failure)
    return match and match[1]


def unit_once(part, build, which, wrapper):
    """Run meson's tests once, and count cmocka's cases inside each."""
    result = Result()
    # With a wrapper the log has the wrapper's name in its own.
    logs = build / 'meson-logs'
    for old in logs.glob('testlog*.json'):
        old.unlink()
    listed = subprocess.run(['meson', 'introspect', str(build), '--tests'], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0 and json.loads(listed.stdout or '[]') == []:
        return result
    # Limits are the wrapper's affair, which knows what each test took before.
    limited = [sys.executable, ROOT / 'tests/limited.py', *wrapper]
    workers = ASAN_WORKERS if part == 'asan' else WORKERS
    argv = ['meson', 'test', '-C', build, '--num-processes', str(workers), '--timeout-multiplier',
            '0', '--print-errorlogs', '--wrapper', ' '.join(map(str, limited)), *which]
    status = run(part, argv, env=SANITIZER_ENV)
    for log in logs.glob('testlog*.json'):
        for line in log.read_text().splitlines():
            count_cmocka(json.loads(line), result)
    if status and not result.failures:
        result.failures.append(f'{part}: meson test ended with status {status}')
    return result


def count_cmocka(test, result):
    text = (test.get('stdout') or '') + (test.get('stderr') or '')
    cases = re.findall(r'^\[ *(OK|FAILED|SKIPPED) *\] (\w+)\s*$', text, re.M)
    seen = {}
    for verdict, case in cases:
        seen[case] = verdict
    for case, verdict in seen.items():
        if verdict == 'OK':
            result.passed += 1
            result.oks.add(f'{test["name"]}: {case}')
        elif verdict == 'FAILED':
            result.failures.append(f'{test["name"]}: {case}')
        else:
            result.skips.append(f'{test["name"]}: {case}')
    failed = test.get('result') in ('FAIL', 'TIMEOUT', 'ERROR', 'INTERRUPT')
    result.runs.append(soak.Run(test['name'], not failed, test.get('duration') or 0))
    if failed and 'FAILED' not in seen.values():
        result.failures.append(f'{test["name"]}: {test.get("result")}, '
                               f'status {test.get("returncode")}')
    elif not seen:
        result.passed += 1
    if not failed:
        result.oks.add(test['name'])


def sanitizer_build(part, kind):
    """Configure build-KIND where that has not been done, and build everything in it."""
    build = ROOT / f'build-{kind}'
    stamp = build / '.configured'
    setup = f'{ROOT} {shutil.which("ccache")}'  # Meson looks for it when it configures a folder
    if not stamp.exists() or stamp.read_text() != setup:
        shutil.rmtree(build, ignore_errors=True)
        status = run(part, ['meson', 'setup', build, '.', f'-Db_sanitize={SANITIZERS[kind]}',
                            '-Doptimization=1', '-Dc_args=-g1', '-Dtests=enabled'])
        if status:
            return None
        stamp.write_text(setup)
    # What there is to make may have changed since this folder was configured.
    status = run(part, ['ninja', '-C', build, 'build.ninja'])
    if not status:
        status = run(part, ['nice', 'ninja', '-C', build, *sanitized_targets(build, kind)])
    return None if status else build


def introspect(build, what):
    done = subprocess.run(['meson', 'introspect', build, f'--{what}'], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    return json.loads(done.stdout or '[]')


def sanitized_targets(build, kind):
    """What ninja is to make: all that is tested, or for ThreadSanitizer what has threads."""
    threaded = {test['cmd'][0] for test in introspect(build, 'tests')
                if any(suite.endswith('threads') for suite in test['suite'])}
    return [str(Path(target['filename'][0]).relative_to(build))
            for target in introspect(build, 'targets') if is_wanted(target, kind, threaded)]


def is_wanted(target, kind, threaded):
    name, where = target['name'], target['defined_in']
    if kind == 'tsan':
        return target['filename'][0] in threaded or where.endswith(('src/coll/meson.build',
                                                                    'tests/programs/meson.build'))
    return not name.startswith('test_alone_') and (target['build_by_default'] or
                                                   name.startswith(('test_', 'fuzz_')))


def without_aslr():
    """ThreadSanitizer of gcc 12 cannot live with the address ranges of some kernels."""
    works = subprocess.run(['setarch', '-R', 'true'], capture_output=True, check=False)
    return ['setarch', '-R'] if works.returncode == 0 else []


# ---------------------------------------------------------------------------- parts

def part_lint(part):
    return pytest(part, ['tests/lint'])


def part_unit(part):
    """All; beside `asan`, which runs the same tests, only those that it does not build."""
    which = ['--suite', 'alone'] if 'asan' in ASKED else []
    return unit(part, ROOT / 'build', *which)


def behaviour(part, mark, files):
    return pytest(part, files, '-n', BEHAVIOUR_WORKERS, '-m', f'{mark} and not soak and not serial')


def naming(word, *folders):
    """The files of tests there that have this word: each worker would read all of them first."""
    return [str(path.relative_to(ROOT)) for folder in folders
            for path in sorted((ROOT / folder).glob('test_*.py')) if word in path.read_text()]


def merge(result, other):
    result.passed += other.passed
    result.failures += other.failures
    result.unstable += other.unstable
    result.texts.update(other.texts)
    result.runs += other.runs
    result.skips += other.skips


def part_behaviour(part):
    if CI:  # compile the tests once for all workers
        run(part, [sys.executable, '-m', 'pytest', '-qqq', '-c', 'tests/pytest.ini',
                   '--rootdir=tests', '--collect-only', 'tests/python', 'tests/behaviour'])
    # Those of tests/python take longest, so they begin.
    return behaviour(part, 'not slow', ['tests/python', 'tests/behaviour'])


def part_install(part):
    return pytest(part, ['tests/install'], '-m', 'not slow and not serial')


def no_build(part, kind):
    result = Result()
    result.failures.append(f'{part}: the build with -fsanitize={SANITIZERS[kind]} failed')
    return result


def sanitized_units(part, kind, *which, wrapper=()):
    """The C tests with a sanitizer."""
    build = sanitizer_build(part, kind)
    return unit(part, build, '--no-rebuild', *which, wrapper=wrapper) if build \
        else no_build(part, kind)


def sanitized_ranks(part, kind, files):
    """The behaviour tests with a sanitizer: of those files, what is marked so."""
    build = sanitizer_build(part, kind)
    env = {**SANITIZER_ENV, 'REIGEN_TEST_BUILD': str(build), 'REIGEN_TEST_SANITIZER': kind}
    marks = 'sanitize and not slow and not soak'
    return pytest(part, files, '-n', WORKERS, '-m', marks, env=env) if build \
        else no_build(part, kind)


def part_asan_build(part):
    """Compiling has no waits: so it goes on beside `behaviour`, which waits most of its time."""
    build = sanitizer_build(part, 'asan')
    result = Result()
    result.passed = 1
    return result if build else no_build(part, 'asan')


def part_asan(part):
    """All but what `unit` builds once more without observers: these are the same objects."""
    return sanitized_units(part, 'asan', '--no-suite', 'alone')


def part_asan_ranks(part):
    return sanitized_ranks(part, 'asan', naming('sanitize', 'tests/behaviour'))


def part_tsan(part):
    """What shares something among threads. Launcher, agent and parsers have one; srun_docker.sh has
    the watcher of its srun (cmd/compat/srundocker_watch.c), which no sanitized test starts."""
    return sanitized_units(part, 'tsan', '--suite', 'threads', wrapper=without_aslr())


def part_tsan_ranks(part):
    """Whole jobs take minutes under ThreadSanitizer, for which only a long soak has the time."""
    kinds = ('boot', 'collectives', 'failure', 'sets', 'timeline')
    files = [str(f.relative_to(ROOT)) for kind in kinds
             for f in sorted((ROOT / 'tests/behaviour').glob(f'test_{kind}*.py'))
             if f.stem != 'test_collectives_adasum']  # other arithmetic, the same threads
    return in_a_long_soak(part, sanitized_ranks, 'tsan', files)


def part_serial(part):
    return pytest(part, naming('serial', 'tests/behaviour', 'tests/python', 'tests/install'),
                  '-m', 'not slow and serial')


def part_slow(part):
    return behaviour(part, 'slow', naming('slow', 'tests/python', 'tests/behaviour'))


def part_random(part):
    """Once only: what failed says how to run the same again."""
    return pytest_once(part, ['tests/behaviour', 'tests/hosts/test_cuts.py'], '-n', WORKERS, '-m',
                       'soak')


#: Of tests that are not about going on for long.
USUAL_TIMES = {'REIGEN_SWEEP_SECONDS': '24', 'REIGEN_FUZZ_SECONDS': '2'}


def numbered(result, number):
    """The result of one round of several, whose failures say which round it was."""
    for run_ in result.runs:
        run_.number = number
    for i, failure in enumerate(result.failures):
        name, colon, rest = failure.partition(': ')
        line = f'{name}: round {number} of {soak.TIMES}{colon}{rest}'
        result.texts[line] = result.texts.pop(failure, '')
        result.failures[i] = line
    return result


def part_changed(part):
    """The tests that are new or changed, again and again while every core is busy, as far as the
    time goes. No second look: what fails once in twenty times is what is looked for."""
    ids, sources = soak.changed(SOAK.base)
    build = sanitizer_build(part, 'asan') if sources else None
    if sources and not build:
        return no_build(part, 'asan')
    programs = soak.programs_of(introspect(build, 'tests'), introspect(build, 'targets'),
                                sources) if build else []
    result, end = Result(), time.monotonic() + SOAK.seconds
    if not ids and not programs:
        result.skips.append(f'{part}: no test is new or changed since {SOAK.base[:12]}')
        return result
    with soak.load():
        for number in range(1, soak.TIMES + 1):
            if programs:
                merge(result, numbered(unit_once(part, build, ['--no-rebuild', *programs], ()),
                                       number))
            if ids:
                merge(result, numbered(pytest_once(
                    part, ids, '-n', '2', '--dist', 'loadfile', '--max-worker-restart', '4', '-m',
                    'not soak and not serial', env=USUAL_TIMES), number))
            if time.monotonic() >= end:
                break
    result.skips = list(dict.fromkeys(result.skips))
    return result


def part_folder(part):
    return pytest(part, [f'tests/{part}'], '-m', 'not soak')


def part_schedulers(part):
    """Its files wait for Spark's and Ray's processes, each for its own."""
    return pytest(part, ['tests/schedulers'], '-n', 2, '--dist', 'loadfile', '-m', 'not soak')


def part_variants(part):
    """Other versions, launchers and numbers of ranks of what CI tries (tests/variants.py)."""
    paths = {folder: [f'tests/{folder}'] for folder in ('python', 'torch2', 'tensorflow',
                                                        'kubernetes', 'slurm', 'install')}
    paths['hosts'], result = naming('rest(', 'tests/hosts'), Result()
    for folder, of_it in paths.items():
        merge(result, in_a_long_soak(f'{part}-{folder}', pytest_once, of_it, '-m', 'soak'))
    return result


def part_fuzz(part):
    """Once only: what was found is found, whether a second try finds it or not."""
    return pytest_once(part, ['tests/fuzz'], '-n', '2')


def simulated(part, dist, *words):
    """Tests that mostly wait: for containers, for a cluster, for limits. Those of a file or a group
    share simulated hosts, so a test that is out of time is interrupted by a signal: its worker goes
    on, and takes down what it has made. By default pytest ends the worker, and xdist then does not
    come to an end, or begins with the same test again."""
    return pytest(part, [f'tests/{part}'], '-n', '2', '--dist', dist, '--max-worker-restart', '0',
                  '-o', 'timeout_method=signal', *words)


def part_bed(part):
    return simulated(part, 'loadfile', '-m', 'not serial and not soak')


def begin_fetching(names):
    """Fetch Helm, some seconds, beside the parts that begin before `behaviour` comes to it; None
    where it does not, or is the only part."""
    if 'behaviour' not in names or len(names) == 1:
        return None
    with open(LOGS / 'fetch.log', 'wb') as log:
        child = subprocess.Popen(['nice', sys.executable, 'tests/bed/kube_build.py', 'tools'],
                                 cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)
    CHILDREN.add(child.pid)
    return child


def prepared(part, *words):
    result = Result()
    # Only root can start a Kubernetes, which the tests say.
    if os.geteuid() == 0 and (status := run(part, [sys.executable, 'tests/kubernetes/prepare.py',
                                                   *words])):
        result.failures.append(f'{part}: prepare.py ended with status {status}')
    else:
        result.passed = 1
    return result


def part_prepare(part):
    """A Kubernetes that no cache has takes some minutes of two cores, with the images for its
    clusters: so it is made while other parts wait, and `kubernetes` begins after it."""
    return prepared(part)


def part_operator(part):
    return prepared(part, 'operator')


def part_kubernetes(part):
    # Each of the two clusters takes a third of a core.
    return simulated(part, 'loadgroup', '-m', 'not soak')


def part_packages(part):
    return pytest(part, ['tests/install'], '-m', 'slow and not serial and not soak')


def part_fresh_tests(part):
    return in_a_long_soak(part, pytest_once, ['tests/fresh'], '-m', 'soak')


def in_a_long_soak(part, tests, *words):
    """What these tests come to, where there is time for them."""
    if SOAK.seconds >= LONG_SOAK_S:
        return tests(part, *words)
    result = Result()
    result.skips.append(f'{part}: begins where soak has {LONG_SOAK_S} s')
    return result


def slow_and_serial(part, *folders):
    folders = folders or ('behaviour', 'python', 'install')
    return pytest(part, naming('serial', *(f'tests/{folder}' for folder in folders)),
                  '-m', 'slow and serial')


def part_hosts_serial(part):
    return in_a_long_soak(part, slow_and_serial, 'hosts')


def part_demo(part):
    return in_a_long_soak(part, pytest_once, ['tests/demo'], '-m', 'soak')


class Part(NamedTuple):
    """How many cores it keeps busy, on the average, and for how long, where two cores have all that
    is kept between runs: the table at the end of a run says both. They were busy with other work,
    too, when the figures of check-all were taken."""
    name: str
    run: Callable
    cores: float
    seconds: float
    after: str = ''  # another part of the stage, which is to be over when this one begins


#: By stage: the parts, and those that run alone afterwards.
PARTS = {
    'check': [Part('lint', part_lint, 1.0, 10), Part('asan-build', part_asan_build, 1.1, 100),
              Part('asan', part_asan, 1.1, 200, after='asan-build'),
              Part('behaviour', part_behaviour, 1.4, 340), Part('unit', part_unit, 1.0, 5)],
    'check-all': [Part('prepare', part_prepare, 1.3, 900),
                  Part('kubernetes', part_kubernetes, 0.8, 970, after='prepare'),
                  Part('operator', part_operator, 1.0, 15, after='prepare'),
                  Part('hosts', part_bed, 0.5, 1040), Part('slurm', part_bed, 0.4, 690),
                  Part('torch2', part_folder, 1.0, 600),
                  Part('tensorflow', part_folder, 1.1, 490),
                  Part('tsan', part_tsan, 1.0, 340), Part('packages', part_packages, 0.9, 165),
                  Part('fresh', part_folder, 0.6, 200), Part('jax', part_folder, 0.8, 145),
                  Part('schedulers', part_schedulers, 0.7, 580),
                  Part('install', part_install, 0.6, 120), Part('slow', part_slow, 1.2, 130),
                  Part('asan-ranks', part_asan_ranks, 1.6, 125)],
    'soak': [Part('random', part_random, 1.0, 3), Part('fuzz', part_fuzz, 1.0, 2),
             Part('changed', part_changed, 0.5, 1), Part('fresh', part_fresh_tests, 1.0, 1),
             Part('variants', part_variants, 1.0, 1),
             Part('tsan-ranks', part_tsan_ranks, 1.0, 1)],
}
ALONE = {'check': [Part('serial', part_serial, 1.0, 5)],
         'check-all': [Part('slow-serial', slow_and_serial, 1.5, 60)],
         'soak': [Part('hosts-serial', part_hosts_serial, 1.0, 1),
                  Part('demo', part_demo, 1.0, 1)]}


def run_part(name, function):
    missing = lacking(name)
    if not missing:
        return function(name)
    result = Result()
    result.failures.append(missing)
    return result


def report_part(name, result):
    verdict = 'ok' if not result.failures else 'FAILED'
    print(f'{name:<12} {verdict:<7} {result.passed} passed, {len(result.failures)} failed, '
          f'{len(result.skips)} skipped, {result.seconds:.1f} s', flush=True)
    for skip in result.skips:
        print(f'    skipped: {skip}', flush=True)
    for line in result.unstable:
        print(f'    unstable, passed when run again by itself: {line}', flush=True)
        show_tail(result.texts.get(line, ''))
    if result.failures:
        show_tail((LOGS / f'{name}.log').read_text(errors='replace'))
        for failure in result.failures:
            print(f'    failed: {failure}', flush=True)


def report_all(results, seconds):
    (LOGS / 'cores.txt').write_text(''.join(f'{spent:8.2f} {name}\n'
                                            for spent, name in sorted(TEST_CORES, reverse=True)))
    print(f'\n{"part":<12} {"passed":>7} {"failed":>7} {"skipped":>8} {"time":>9} {"cores":>6}')
    for name, r in results:
        print(f'{name:<12} {r.passed:>7} {len(r.failures):>7} {len(r.skips):>8} '
              f'{r.seconds:>7.1f} s {r.cpu_seconds / max(r.seconds, 0.1):>6.1f}')
    cores = sum(r.cpu_seconds for _, r in results) / max(seconds, 0.1)
    print(f'{"together":<12} {"":>24} {seconds:>7.1f} s {cores:>6.1f}\n')
    for name, r in results:
        for line in r.unstable:
            print(f'unstable: {name}: {line}')
        # Last, and short: of a long log people see the end, and some see nothing else.
        for line in r.failures[:NAMED_FAILURES]:
            print(f'failed: {name}: {line[:NAMED_CHARS]}')
    if (LOGS / 'left-behind').exists():
        print((LOGS / 'left-behind').read_text(), end='')
    passed = sum(r.passed for _, r in results)
    failed = sum(len(r.failures) for _, r in results)
    skipped = sum(len(r.skips) for _, r in results)
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''),
          flush=True)
    return failed


#: The page of make soak; None in other stages.
SOAK = None


def whole_part(part):
    """Run one part, and say what it came to."""
    for old in glob.glob(str(LOGS / f'{part.name}*')):
        os.unlink(old)
    (LOGS / f'{part.name}.log').touch()
    start = time.monotonic()
    try:
        result = run_part(part.name, part.run)
    except Exception:  # pylint: disable=broad-except  # the other parts go on, and are reported
        result = Result()
        result.failures.append(f'{part.name}: {traceback.format_exc()}')
    result.seconds = time.monotonic() - start
    result.cpu_seconds = CPU_SECONDS.get(part.name, 0)
    if not result.passed and not result.failures and not result.skips:
        result.failures.append(f'{part.name}: no test ran')
    if CI:
        result.failures += [f'skipped, which CI forbids: {s}' for s in result.skips]
        result.skips = []
    return result


def next_part(waiting, running, cores):
    """The part that begins now, or None: the longest one of those that find enough cores idle
    beside the running ones (Graham 1969, "longest processing time first")."""
    idle = cores - sum(part.cores for part in running) + 0.01  # sums of tenths are not exact
    left = {part.name for part in (*waiting, *running)}
    fit = [part for part in waiting if (part.cores <= idle or not running) and
           part.after not in left]
    return max(fit, key=lambda part: part.seconds, default=None)


def run_parts(parts, cores):
    """Run parts, as many at a time as keep so many cores busy; each is reported when it ends."""
    waiting, running, results = list(parts), {}, []
    pool = ThreadPoolExecutor(max(1, len(waiting)))
    try:
        while waiting or running:
            while part := next_part(waiting, running.values(), cores):
                waiting.remove(part)
                running[pool.submit(whole_part, part)] = part
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                results.append((running.pop(done).name, done.result()))
                report_part(*results[-1])
                if SOAK:
                    SOAK.add(*results[-1])
    except BaseException:
        STOPPING.append(True)
        pool.shutdown(wait=False, cancel_futures=True)
        for pid in list(CHILDREN):
            kill_group(pid)
        raise
    return results


def main(argv):
    stage = argv[1] if len(argv) > 1 else ''
    together, alone = PARTS.get(stage, []), ALONE.get(stage, [])
    known = [part.name for part in together + alone]
    words = argv[2:]
    since = next((word.partition('=')[2] for word in words if word.startswith('--since=')), None)
    words = [word for word in words if not (stage == 'soak' and word.startswith('--since='))]
    asked = words.pop(0) if stage == 'soak' and words and words[0][:1].isdigit() else '1h'
    names = words or known
    ASKED.update(names)
    if not known or any(n not in known for n in names):
        for other, parts in PARTS.items():
            strays = [p.name for p in parts + ALONE.get(other, []) if p.name in names]
            if other != stage and strays:
                print(f'{", ".join(strays)}: belongs to make {other}', file=sys.stderr)
        print('usage: check.py check|check-all [PART...] | soak [TIME] [--since=COMMIT] [PART...]; '
              f'parts: {", ".join(known)}', file=sys.stderr)
        return 2
    # What nohup, or a shell in the background, makes this ignore, all that the tests start would
    # ignore as well; of a handler of ours they know nothing.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    # Where a person's PATH has no daemons and no tools of administrators.
    os.environ['PATH'] += os.pathsep + os.pathsep.join(SBIN)
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / 'left-behind').unlink(missing_ok=True)
    if stage == 'soak':
        global SOAK  # pylint: disable=global-statement
        SOAK = soak.begin(asked, since)
    start = time.monotonic()
    early = begin_fetching(names)
    cores = len(os.sched_getaffinity(0)) + SPARE_CORES
    try:
        results = run_parts([part for part in together if part.name in names], cores)
        for part in alone:
            results += run_parts([part] if part.name in names else [], cores)
    finally:
        if early:
            kill_group(early.pid)
            early.wait()
    return 1 if report_all(results, time.monotonic() - start) else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv))
