# SPDX-License-Identifier: Apache-2.0
"""libFuzzer on every fuzz target, starting from its corpus, in make soak: for REIGEN_FUZZ_SECONDS,
and for longer where a busy machine did little in them. make check replays the corpora."""
import fcntl
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / 'build-fuzz'
#: The same seed tries the same inputs, one after the other; 0: any.
SEED = int(os.environ.get('REIGEN_SWEEP_SEED', '0'))
SECONDS = int(os.environ.get('REIGEN_FUZZ_SECONDS', '2'))


def run(*argv, timeout, **kwargs):
    done = subprocess.run([str(a) for a in argv], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors='replace', timeout=timeout,
                          check=False, **kwargs)
    return done.returncode, done.stdout


def targets():
    """The names of the fuzz targets, as the ordinary build knows them."""
    done = subprocess.run(['meson', 'introspect', ROOT / 'build', '--targets'],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return []
    return sorted(t['name'] for t in json.loads(done.stdout) if t['name'].startswith('fuzz_'))


def corpus_of(name):
    """tests/fuzz/corpus/wire-codec for fuzz_wire_codec."""
    wanted = name.replace('fuzz_', '', 1)
    found = [d for d in (ROOT / 'tests/fuzz/corpus').glob('*')
             if d.name.replace('-', '_').replace('.', '_') == wanted]
    return found[0] if found else None


@pytest.fixture(scope='module')
def build():
    """The build for fuzzing, made by the first of those that ask for it at the same time."""
    with open(ROOT / 'build/fuzz.lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_build()
    return BUILD


def make_build():
    stamp = BUILD / '.configured'
    if not stamp.exists():
        shutil.rmtree(BUILD, ignore_errors=True)
        status, output = run('meson', 'setup', BUILD, '.', '-Dfuzz=true', '-Dtests=enabled',
                             '-Db_sanitize=address,undefined', '-Db_lundef=false', timeout=120,
                             env={**os.environ, 'CC': 'clang'})
        assert status == 0, output
        stamp.touch()
    names = [f'tests/{n}' for n in targets()]
    status, output = run('nice', 'ninja', '-C', BUILD, *names, timeout=400)
    assert status == 0, output


def test_there_are_fuzz_targets():
    assert targets()


def fuzz(target, folder, corpus, seconds):
    """Fuzz for so long; how many inputs were tried. Fails with what was found."""
    found = folder / 'found'
    found.mkdir(exist_ok=True)
    env = {**os.environ, 'UBSAN_OPTIONS': 'halt_on_error=1:print_stacktrace=1'}
    status, output = run(target, f'-max_total_time={seconds}', f'-seed={SEED}',
                         '-timeout=60', '-rss_limit_mb=2048',
                         '-print_final_stats=1', '-verbosity=0', f'-artifact_prefix={folder}/',
                         found, corpus, timeout=seconds + 120, env=env)
    crash = [f'{p.name}: {p.read_bytes()[:256].hex()}' for p in folder.glob('*-*') if p.is_file()]
    assert status == 0, f'{output[-4000:]}\n{crash}'
    executed = re.search(r'number_of_executed_units:\s*(\d+)', output)
    assert executed, output[-2000:]
    return int(executed[1])


@pytest.mark.timeout(12 * SECONDS + 500)
@pytest.mark.parametrize('name', targets())
def test_fuzzing_finds_nothing(build, tmp_path, name, record_property):
    corpus = corpus_of(name)
    assert corpus and any(corpus.iterdir()), f'{name} has no corpus in tests/fuzz/corpus'
    ntried = 0
    for times in (1, 3, 8):
        ntried += fuzz(build / 'tests' / name, tmp_path, corpus, times * SECONDS)
        if ntried > 1000:
            break
    record_property('inputs', ntried)
    assert ntried > 1000
