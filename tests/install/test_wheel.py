# SPDX-License-Identifier: Apache-2.0
"""make wheel, and what pip makes of it."""
import base64
import csv
import hashlib
import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

import travels

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = '/usr/bin/python3'
# Everything here needs the wheels, and they need a build of their own, so that other tests that
# run make are not disturbed.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*argv, timeout=300, **kwargs):
    return subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                          timeout=timeout, check=False, **kwargs)


@pytest.fixture(scope='module')
def wheels(tmp_path_factory):
    """(reigen's, horovod's) as make wheel writes them."""
    out = tmp_path_factory.mktemp('dist')
    done = run('make', 'wheel', f'ARGS=--out {out}', cwd=ROOT)
    assert done.returncode == 0, done.stdout
    return next(out.glob('reigen-*.whl')), next(out.glob('horovod-*.whl'))


@pytest.fixture(scope='module')
def venv(wheels, tmp_path_factory):
    """An environment with the wheels and the system's torch; no compiler was in PATH."""
    where = tmp_path_factory.mktemp('venv') / 'env'
    assert run(DEBIAN, '-m', 'venv', '--system-site-packages', where).returncode == 0
    done = run(where / 'bin/python', '-m', 'pip', 'install', '--no-index', *wheels,
               env={'PATH': str(where / 'nowhere'), 'HOME': str(where)})
    assert done.returncode == 0, done.stdout
    return where


def path_of(venv):
    return {**os.environ, 'PATH': f'{venv}/bin:/usr/bin:/bin', 'PYTHONPATH': ''}


def test_the_same_build_gives_the_same_bytes(wheels, tmp_path):
    done = run('make', 'wheel', f'ARGS=--out {tmp_path}', cwd=ROOT)
    assert done.returncode == 0, done.stdout
    for wheel in wheels:
        assert (tmp_path / wheel.name).read_bytes() == wheel.read_bytes(), wheel.name


def test_the_metadata_links_to_the_project_where_it_has_an_address(wheels, tmp_path):
    def links(wheel):
        with zipfile.ZipFile(wheel) as archive:
            name = next(n for n in archive.namelist() if n.endswith('/METADATA'))
            return re.findall('^Project-URL: (.*)$', archive.read(name).decode(), re.M)

    assert links(wheels[0]) == []
    done = run('make', 'wheel', f'ARGS=--out {tmp_path}', 'URL=https://example.org/r/', cwd=ROOT)
    assert done.returncode == 0, done.stdout
    for wheel in tmp_path.glob('*.whl'):
        found = dict(line.split(', ') for line in links(wheel))
        assert found['Homepage'] == 'https://example.org/r' and len(found) == 5


def test_records_are_right(wheels):
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            record = next(n for n in archive.namelist() if n.endswith('/RECORD'))
            rows = {r[0]: r[1:] for r in csv.reader(archive.read(record).decode().splitlines())}
            assert set(rows) == set(archive.namelist())
            for name, (digest, size) in rows.items():
                if name == record:
                    continue
                content = archive.read(name)
                want = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=')
                assert (digest, size) == ('sha256=' + want.decode(), str(len(content))), name


def test_every_library_of_the_build_is_in_it(wheels):
    built = {p.name for place in ('bindings/*', 'src/coll', 'src/launch')
             for p in (ROOT / 'build').glob(f'{place}/libreigen_*.so')}
    assert {f'libreigen_mpi_{abi}.so' for abi in ('ompi', 'mpich', 'abi')} <= built
    with zipfile.ZipFile(wheels[0]) as archive:
        names = set(archive.namelist())
    assert {f'reigen/{name}' for name in built | {'libreigen.so'}} <= names
    assert {'horovod/__init__.py', 'horovod/torch/__init__.py', 'horovod/runner/launch.py',
            'reigen/py.typed', 'reigen/distributed/_groups.py', '_reigen_torch.py'} <= names
    assert [n for n in names if n.endswith('reigen-0.1.0.dist-info/entry_points.txt')]
    assert not [n for n in names if '__pycache__' in n or n.endswith('.pyc')]


def test_it_puts_no_names_of_slurms_users_into_everybodys_path(wheels):
    with zipfile.ZipFile(wheels[0]) as archive:
        scripts = {n.rpartition('/')[2] for n in archive.namelist() if '.data/scripts/' in n}
    assert {'reigen', 'reigen-agent', 'reigen-bench', 'horovodrun'} <= scripts
    assert not [name for name in scripts if name.endswith('.sh')]


def test_the_tag_is_true_and_no_newer_than_glibc_2_28(wheels, tmp_path):
    tag = re.search(r'-py3-none-manylinux_2_(\d+)_x86_64\.whl', wheels[0].name)
    assert tag and int(tag[1]) <= 28
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(tmp_path)
    known = re.compile(r'(libc|libm|libdl|librt|libpthread|ld-linux-x86-64)\.so\.\d|libreigen\.so|'
                       r'libtensorflow_framework\.so\.2|libstdc\+\+\.so\.6')
    newest, seen = 0, 0
    for path in tmp_path.rglob('*'):
        if not path.is_file() or path.read_bytes()[:4] != b'\x7fELF':
            continue
        seen += 1
        text = run('objdump', '-p', '-T', path).stdout
        newest = max([newest, *map(int, re.findall(r'GLIBC_2\.(\d+)', text))])
        needs = re.findall(r'NEEDED\s+(\S+)', text)
        assert [n for n in needs if not known.fullmatch(n)] == [], path.name
        assert str(ROOT).encode() not in path.read_bytes()
    assert seen >= 3
    assert newest == int(tag[1])


def test_what_it_sends_to_hosts_and_images_needs_glibc_2_28_alone(venv, tmp_path):
    travels.check(travels.unpacked(venv / 'bin/reigen', tmp_path))


def test_its_programs_are_hardened(wheels, tmp_path):
    with zipfile.ZipFile(wheels[0]) as archive:
        archive.extractall(tmp_path)
    seen = set()
    for path in tmp_path.rglob('*'):
        if not path.is_file() or path.read_bytes()[:4] != b'\x7fELF':
            continue
        seen.add(path.name)
        header = run('readelf', '-lWdh', path).stdout
        assert re.search(r'Type:\s+DYN', header), f'{path.name} is not position-independent'
        assert 'GNU_RELRO' in header and 'TEXTREL' not in header, path.name
        assert not re.search(r'GNU_STACK.* RWE ', header), path.name
        # TensorFlow's plug-in may name what only newer versions of it have.
        assert ('BIND_NOW' in header) != (path.name == 'libreigen_tensorflow.so'), path.name
    assert {'reigen', 'reigen-agent', 'reigen-bench', 'libreigen.so',
            'libreigen_tensorflow.so'} <= seen


def test_others_notices_and_the_bill_of_materials_are_in_it(wheels):
    parts = {'libsodium', 'bearssl', 'libfyaml', 'jansson', 'uthash', 'musl'}
    with zipfile.ZipFile(wheels[0]) as archive:
        info = next(n for n in archive.namelist() if n.endswith('/METADATA')).rpartition('/')[0]
        for name in parts:
            assert b'opyright' in archive.read(f'{info}/licenses/{name}'), name
        bill = json.loads(archive.read(f'{info}/sboms/reigen.cdx.json'))
    assert bill['bomFormat'] == 'CycloneDX'
    assert bill['metadata']['component']['version'] == '0.1.0'
    assert {c['name'] for c in bill['components']} == parts
    for component in bill['components']:
        assert re.match(r'\d+\.\d+', component['version']), component


REDUCE = """
import statistics, time, numpy, reigen
reigen.init()
x = numpy.ones(1 << 20, numpy.float16)
took = []
for i in range(25):
    start = time.perf_counter()
    reigen.allreduce(x, name="x", op=reigen.Sum)
    took.append(time.perf_counter() - start)
if reigen.rank() == 0:
    print("kernels", reigen.describe())
    print("seconds", statistics.median(took[5:]))
"""


def test_it_reduces_as_fast_as_the_build(venv, tmp_path):
    """zig's own library knows no processor; float16 by scalar code took ten times as long."""
    script = tmp_path / 'reduce.py'
    script.write_text(REDUCE)

    def measured(where):
        done = run(where / 'bin/reigen', 'run', '-np', '2', '--', where / 'bin/python', script,
                   cwd=tmp_path, env={'PATH': '/usr/bin:/bin', 'HOME': str(tmp_path)})
        assert done.returncode == 0, done.stdout
        kernels = re.search(r'\b(scalar|avx2|avx512)\b', done.stdout)
        return kernels[1], float(re.search(r'seconds (\S+)', done.stdout)[1])

    built = [measured(ROOT / '.venv') for _ in range(3)]
    wheel = [measured(venv) for _ in range(3)]
    assert {name for name, _ in wheel} == {name for name, _ in built}
    flags = re.search(r'^flags.*$', Path('/proc/cpuinfo').read_text(), re.M)
    if flags and 'avx2' in flags[0].split() and 'f16c' in flags[0].split():
        assert wheel[0][0] != 'scalar'
    assert min(s for _, s in wheel) < 3 * min(s for _, s in built)


def stand_in(folder, name):
    """A wheel of that name without a file, as there is no index here."""
    info = f'{name}-1.0.dist-info'
    with zipfile.ZipFile(folder / f'{name}-1.0-py3-none-any.whl', 'w') as archive:
        archive.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n')
        archive.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\n'
                         'Tag: py3-none-any\n')
        archive.writestr(f'{info}/RECORD', '')


def test_pip_installs_checks_and_uninstalls_it(wheels, tmp_path):
    env = tmp_path / 'env'
    assert run(DEBIAN, '-m', 'venv', env).returncode == 0
    pip = [env / 'bin/python', '-m', 'pip', '--disable-pip-version-check']
    before = {p for p in env.rglob('*') if '__pycache__' not in p.parts}
    done = run(*pip, 'install', '--no-index', *wheels)
    assert done.returncode and 'cloudpickle' in done.stdout, done.stdout
    stand_in(tmp_path, 'cloudpickle')
    done = run(*pip, 'install', '--no-index', '--find-links', tmp_path, *wheels)
    assert done.returncode == 0, done.stdout
    done = run(*pip, 'check')
    assert done.returncode == 0, done.stdout
    done = run(env / 'bin/python', '-c', 'import importlib.metadata as m, reigen, horovod\n'
               'print(m.version("horovod"), horovod.__version__, reigen._core.version())')
    assert done.stdout == '0.28.1+reigen 0.28.1 0.1.0\n'
    done = run(*pip, 'uninstall', '-y', 'reigen', 'horovod', 'cloudpickle')
    assert done.returncode == 0, done.stdout
    left = {p for p in env.rglob('*') if '__pycache__' not in p.parts and p.is_file()} - before
    assert left == set()


def test_horovodrun_trains_the_example(venv):
    done = run('horovodrun', '-np', '2', 'python', ROOT / 'examples/pytorch_mnist.py', '--epochs',
               '1', cwd=venv, env=path_of(venv))
    assert done.returncode == 0, done.stdout
    assert 'parameters: identical to the bit on all 2 ranks' in done.stdout
    accuracy = re.findall(r'accuracy (0\.\d+)', done.stdout)
    assert accuracy and float(accuracy[-1]) > 0.8, done.stdout


def test_run_and_the_launcher_find_each_other(venv, tmp_path):
    (tmp_path / 'mine.py').write_text('def rank():\n    import reigen\n    reigen.init()\n'
                                      '    return reigen.rank(), reigen.size()\n')
    done = run(venv / 'bin/python', '-c', 'import horovod, mine\n'
               'print(horovod.run(mine.rank, np=3))', cwd=tmp_path,
               env={'PATH': '/usr/bin:/bin', 'HOME': str(tmp_path)})
    assert '[(0, 3), (1, 3), (2, 3)]' in done.stdout, done.stdout
    done = run('horovodrun', '--check-build', env=path_of(venv))
    assert f'Frameworks and NCCL as found by {venv}/bin/python' in done.stdout
    assert '[X] PyTorch' in done.stdout
