# SPDX-License-Identifier: Apache-2.0
"""What `make soak` has beside parts: which tests are new or changed, the load under which they run,
and the page that says what came of all.

A test is new or changed when git shows a difference against a commit in it, or in what it names of
its file. Helpers in files of their own count for nothing: else a word in one would be all tests.
"""
import ast
import contextlib
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / 'build/soak/report.md'
#: How often a test that is new or changed runs, where the time suffices.
TIMES = 20
#: Without a landing to compare with: so many commits.
COMMITS = 20
UNITS_S = {'s': 1, 'm': 60, 'h': 3600}


# ---------------------------------------------------------------------------- what has changed

def git(*words, root=ROOT):
    done = subprocess.run(['git', *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ''


def base_of(asked=None, root=ROOT):
    """The commit to compare with: the one that is asked for, else the main line's, else what was
    there before the last merge or after it, else some commits ago."""
    def commit(name):
        return git('rev-parse', '--verify', '--quiet', f'{name}^{{commit}}', root=root).strip()
    if asked:
        return commit(asked) or sys.exit(f'soak --since {asked}: git knows no such commit')
    head = commit('HEAD')
    main = git('merge-base', 'HEAD', 'origin/main', root=root).strip()
    merge = git('log', '--merges', '-1', '--format=%H', root=root).strip()
    for found in (main, commit('HEAD^1') if merge == head else merge, commit(f'HEAD~{COMMITS}')):
        if found and found != head:
            return found
    return git('rev-list', '--max-parents=0', 'HEAD', root=root).split()[-1]


def changed_files(base, root=ROOT):
    """The files of tests that differ from that commit, also those that git does not know yet."""
    names = git('diff', '--name-only', '--diff-filter=d', base, '--', 'tests', root=root)
    new = git('ls-files', '--others', '--exclude-standard', '--', 'tests', root=root)
    return sorted({*names.splitlines(), *new.splitlines()})


def changed_lines(base, name, root=ROOT):
    """The numbers of a file's lines that differ; None: all, as the file is new."""
    if not git('ls-tree', base, '--', name, root=root):
        return None
    found = set()
    for line in git('diff', '-U0', base, '--', name, root=root).splitlines():
        match = re.match(r'@@ -\S+ \+(\d+)(?:,(\d+))? @@', line)
        if match:
            # Where lines were only taken out, the one before them stands for them.
            count = int(match[2] or 1)
            found |= set(range(int(match[1]), int(match[1]) + max(1, count)))
    return found


def tests_of(text, lines):
    """The tests of a Python file that have one of these lines, or name a helper that has one."""
    def differs(node):
        first = min([node.lineno, *(d.lineno for d in getattr(node, 'decorator_list', ()))])
        return lines is None or any(first <= n <= node.end_lineno for n in lines)

    def makes(node):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return {node.name}
        return {n.id for n in ast.walk(node)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}

    def names(node):
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | \
            {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
    parts = ast.parse(text).body
    other, before = {name for n in parts if differs(n) for name in makes(n)}, None
    while other != before:
        before = set(other)
        other |= {name for n in parts if names(n) & before for name in makes(n)}
    return [n.name for n in parts if isinstance(n, ast.FunctionDef) and
            n.name.startswith('test_') and n.name in other]


def changed(base, root=ROOT):
    """(what pytest calls the tests in Python, the files of tests in C)."""
    ids, sources = [], []
    for name in changed_files(base, root):
        path = root / name
        if path.name.startswith('test_') and path.suffix == '.py':
            ids += [f'{name}::{test}' for test in
                    tests_of(path.read_text(encoding='utf-8'), changed_lines(base, name, root))]
        elif path.name.startswith('test_') and path.suffix == '.c':
            sources.append(name)
    return ids, sources


def programs_of(tests, targets, sources, root=ROOT):
    """What meson calls the tests whose programs are made of these files."""
    wanted = {str(root / name) for name in sources}
    files = {file for target in targets for group in target['target_sources']
             if wanted & set(group.get('sources', ())) for file in target['filename']}
    return sorted({test['name'] for test in tests if test['cmd'][0] in files})


# ---------------------------------------------------------------------------- the load

@contextlib.contextmanager
def load():
    """Every core is busy with something else meanwhile."""
    busy = [subprocess.Popen([sys.executable, '-c', 'while True: pass'],
                             preexec_fn=ends_with_parent)
            for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for child in busy:
            child.kill()
            child.wait()


def ends_with_parent():
    import ctypes  # pylint: disable=import-outside-toplevel
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


# ---------------------------------------------------------------------------- the page

class Run:
    """One run of one test; what it noted is for the page, such as how many inputs were tried."""

    def __init__(self, name, good, seconds, notes=None, number=None):
        self.name, self.good, self.seconds = name, good, seconds
        self.notes, self.number = notes or {}, number


def rows_of(runs):
    """One row for each test: runs, failures with their numbers, seconds, notes added up."""
    tests = {}
    for run in runs:
        row = tests.setdefault(run.name, {'runs': 0, 'failed': [], 'seconds': 0.0, 'notes': {}})
        row['runs'] += 1
        row['seconds'] += run.seconds
        if not run.good:
            row['failed'].append(run.number or row['runs'])
        for key, value in run.notes.items():
            row['notes'][key] = row['notes'].get(key, 0) + value
    return tests


class Page:
    """build/soak/report.md, written anew whenever a part has ended."""

    def __init__(self, seconds, seed, base, path=PAGE):
        self.path, self.seconds, self.seed, self.base = path, seconds, seed, base
        self.began, self.parts = time.time(), []
        self.write()

    def add(self, name, result):
        self.parts.append((name, result))
        self.write()

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text('\n'.join(self.lines()) + '\n', encoding='utf-8')

    def lines(self):
        stamp = time.strftime('%Y-%m-%d %H:%M', time.localtime(self.began))
        base = git('log', '-1', '--format=%h %s', self.base).strip()
        yield from (f'# make soak of {stamp}', '',
                    f'- commit {git("describe", "--always", "--dirty").strip() or "unknown"}; new '
                    f'and changed tests are those since {base}',
                    f'- asked for: {self.seconds} s; so far {time.time() - self.began:.0f} s',
                    f'- seed {self.seed}: `REIGEN_SWEEP_SEED={self.seed} make soak '
                    f'ARGS={self.seconds}s` has the same operations and inputs again',
                    f'- machine: {platform.machine()}, {len(os.sched_getaffinity(0))} cores, '
                    f'Linux {platform.release()}', '',
                    '| part | passed | failed | skipped | seconds | cores |',
                    '|---|--:|--:|--:|--:|--:|')
        for name, r in self.parts:
            cores = r.cpu_seconds / max(r.seconds, 0.1)
            yield (f'| {name} | {r.passed} | {len(r.failures)} | {len(r.skips)} | {r.seconds:.0f} '
                   f'| {cores:.1f} |')
        yield from self.failures()
        for name, result in self.parts:
            yield from ('', f'## {name}', '')
            yield from self.table(result)

    def failures(self):
        yield from ('', '## Failures', '')
        failed = [(name, line, r.texts.get(line, '')) for name, r in self.parts
                  for line in r.failures]
        if not failed:
            yield 'None.'
        for name, line, text in failed:
            yield f'- {name}: {line} (the whole output is in build/check/{name}.log)'
            if text:
                yield from ('', *(f'      {row}' for row in text.splitlines()[-40:]), '')

    @staticmethod
    def table(result):
        yield from ('| test | runs | failed runs | seconds | tried |', '|---|--:|---|--:|---|')
        for name, row in sorted(rows_of(result.runs).items()):
            notes = ', '.join(f'{value} {key}' for key, value in row['notes'].items())
            failed = ', '.join(map(str, row['failed'])) or 'none'
            yield (f'| {name.replace("|", "/")} | {row["runs"]} | {failed} | '
                   f'{row["seconds"]:.1f} | {notes} |')
        yield from (f'\nskipped: {skip}' for skip in result.skips)


def begin(words, since):
    """Let the tests that can go on for as long as one likes go on for so long, from a seed that no
    run had before; which one is said, so that it can be had again. The page."""
    match = re.fullmatch(r'(\d+)([smh])', words)
    if not match:
        sys.exit(f'soak for "{words}"? Write 90s, 30m or 8h')
    seconds = int(match[1]) * UNITS_S[match[2]]
    seed = os.environ.setdefault('REIGEN_SWEEP_SEED', str(random.randrange(1 << 30)))
    # Two fuzz targets at a time.
    ntargets = len(list((ROOT / 'tests/fuzz').glob('fuzz_*.c')))
    os.environ['REIGEN_SWEEP_SECONDS'] = str(seconds)
    os.environ['REIGEN_FUZZ_SECONDS'] = str(max(5, 2 * seconds // ntargets))
    print(f'soak: {seconds} s; REIGEN_SWEEP_SEED={seed} has the same operations again', flush=True)
    page = Page(seconds, seed, base_of(since))
    print(f'soak: new and changed tests are those since {page.base[:12]}; the page is '
          f'{page.path.relative_to(ROOT)}', flush=True)
    return page
