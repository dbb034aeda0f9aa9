# SPDX-License-Identifier: Apache-2.0
"""Write the wheels: reigen, and horovod, which only says that reigen is one.

usage: tools/pack.py [--out DIR] [--build DIR] [--url URL]

The libraries are those of the ordinary build, which links them against GLIBC (src/glibc). The
objects of the programs are linked once more by zig, which knows the symbols and the start files of
every glibc; what they need of libsodium, libfyaml and jansson goes in from the static
libraries, so that the wheel needs nothing but glibc. The tag says what the files really need. Two
runs over the same build write the same bytes.

Formats: PEP 427 (wheels), PEP 600 (manylinux tags), PEP 517 (the functions at the end), PEP 770
(the bill of materials).
"""
import argparse
import base64
import hashlib
import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Dict, List, Tuple

import cross
import sbom

ROOT = Path(__file__).resolve().parents[1]
PYTHON = ROOT / 'bindings/python'
GLIBC = '2.28'
#: Libraries that go in as .a; zig has the others.
STATIC = ('ev', 'sodium', 'fyaml', 'jansson')
#: What package indexes link to, below the address of the repository.
PAGES = {'Homepage': '', 'Documentation': '/tree/HEAD/docs', 'Source': '', 'Issues': '/issues',
         'Changelog': '/blob/HEAD/CHANGELOG.md'}
Files = Dict[str, Tuple[bytes, int]]


def say_and_exit(text: str) -> None:
    print(f'wheel: {text}', file=sys.stderr)
    sys.exit(69)


def versions() -> Tuple[str, str]:
    """(reigen's, horovod's)"""
    own = re.search(r"version: '([\d.]+)'", (ROOT / 'meson.build').read_text())
    theirs = re.search(r"__version__ = '(.+)'", (PYTHON / 'horovod/__init__.py').read_text())
    assert own and theirs
    return own[1], f'{theirs[1]}+reigen'


# ---------------------------------------------------------------------------- linking

def zig(work: Path) -> Tuple[List[str], Dict[str, str]]:
    """The compiler driver's command and environment."""
    return ([sys.executable, '-m', 'ziglang', 'cc', '-target',
             f'{platform.machine()}-linux-gnu.{GLIBC}'],
            cross.cached(work.parent / 'zig-cache'))


def static_library(name: str) -> str:
    done = subprocess.run(['cc', f'-print-file-name=lib{name}.a'], capture_output=True, text=True,
                          check=True)
    path = done.stdout.strip()
    if not os.path.isabs(path):
        say_and_exit(f'lib{name}.a is missing; tools/deps.sh build installs it')
    return path


def link_line(build: Path, target: str) -> List[str]:
    """How ninja links the target."""
    done = subprocess.run(['ninja', '-C', str(build), '-t', 'commands', '-s', target],
                          capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if f'-o {target} ' in line]
    if not lines:
        say_and_exit(f'{build}/build.ninja does not say how {target} is linked: '
                     f'{done.stderr.strip()}')
    return shlex.split(lines[-1])


def relink(build: Path, work: Path, target: str) -> Path:
    """Link a program of the build again, into work. Its path."""
    name = os.path.basename(target)
    words: List[str] = []
    for word in link_line(build, target)[1:]:
        library = re.fullmatch(r'-l(\w+)|/.*/lib(\w+)\.(?:so|a)[\d.]*', word)
        if library and (library[1] or library[2]) in STATIC:
            words.append(static_library(library[1] or library[2]))
        elif not re.match(r'-Wl,(-rpath|--no-undefined|--as-needed)|-[og]', word):
            words.append(word)
    words = [w for w in words if w != target]
    words += ['-Wl,-z,relro', '-Wl,-z,now', '-Wl,-z,noexecstack', '-Wl,-z,defs', '-pie']
    command, env = zig(work)
    print(f'[linking] {name}', file=sys.stderr, flush=True)
    done = subprocess.run([*command, '-s', '-Wl,--build-id=none', *words, '-lm', '-o',
                           str(work / name)], cwd=build, env=env, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        say_and_exit(f'{target} cannot be linked against glibc {GLIBC}:\n{done.stderr[-4000:]}')
    return work / name


def libraries(build: Path, work: Path) -> List[Path]:
    """The libraries as they are installed, stripped."""
    stage = work / 'stage'
    subprocess.run(['meson', 'install', '-C', str(build), '--no-rebuild', '--quiet', '--strip',
                    '--destdir', str(stage)], check=True, stdout=sys.stderr)
    # Those beside the Python package are copies of what meson has linked, which it does not strip.
    found = {path.name: path for path in sorted(stage.rglob('libreigen*.so'),
                                                key=lambda path: path.parent.name != 'reigen')}
    return [found[name] for name in sorted(found)]


def needed_glibc(paths: List[Path]) -> Tuple[int, int]:
    """The oldest glibc that has every symbol of these files."""
    least = (2, 17)
    for path in paths:
        done = subprocess.run(['readelf', '-WV', str(path)], capture_output=True, text=True,
                              check=True)
        for major, minor in re.findall(r'GLIBC_(\d+)\.(\d+)', done.stdout):
            least = max(least, (int(major), int(minor)))
    return least


# ---------------------------------------------------------------------------- contents

def python_files() -> Files:
    """The packages, without what python left there."""
    files: Files = {}
    for package in ('reigen', 'horovod', 'sparkdl'):
        for path in sorted((PYTHON / package).rglob('*')):
            if path.is_file() and '__pycache__' not in path.parts and path.suffix != '.so':
                files[str(path.relative_to(PYTHON))] = (path.read_bytes(), 0o644)
    files['_reigen_torch.py'] = ((PYTHON / '_reigen_torch.py').read_bytes(), 0o644)
    return files


def data_files(build: Path, data: str) -> Files:
    """Manual pages and completion, which pip puts below share/."""
    files: Files = {}
    for path in sorted((build / 'src/cmd').glob('*.[1-8]')):
        files[f'{data}/data/share/man/man{path.suffix[1:]}/{path.name}'] = (path.read_bytes(),
                                                                           0o644)
    for name, places in (
            ('reigen.bash', ('bash-completion/completions/reigen.bash',
                             'bash-completion/completions/horovodrun')),
            ('_reigen', ('zsh/site-functions/_reigen',)),
            ('reigen.fish', ('fish/vendor_completions.d/reigen.fish',
                             'fish/vendor_completions.d/horovodrun.fish'))):
        for place in places:
            files[f'{data}/data/share/{place}'] = ((build / 'src/cmd' / name).read_bytes(), 0o644)
    return files


# What a wheel has in the place of links to reigen. The names of srun_docker.sh's users are not
# among them, as they would be in everybody's PATH: `reigen install-scripts DIR` makes those.
LINKS = {'horovodrun': 'horovodrun'}
LINK = '''#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
exec "$(dirname "$(readlink -f "$0")")/reigen" {} "$@"
'''


def programs(build: Path, work: Path, data: str) -> Tuple[Files, List[Path]]:
    """The compiled files by their place in the wheel, and those that need glibc."""
    linked = [relink(build, work, 'src/programs/reigen'),
              relink(build, work, 'src/programs/reigen-bench')]
    files: Files = {f'{data}/scripts/reigen': (linked[0].read_bytes(), 0o755),
                    f'{data}/scripts/reigen-bench': (linked[1].read_bytes(), 0o755),
                    f'{data}/scripts/reigen-agent':
                        ((build / 'src/programs/agent/reigen-agent').read_bytes(), 0o755)}
    for name, command in LINKS.items():
        files[f'{data}/scripts/{name}'] = (LINK.format(command).encode(), 0o755)
    for arch in sorted(set(cross.DEBIAN) - {platform.machine()}):
        agent = work.parent / 'agents' / f'reigen-agent-{arch}'
        cross.build(arch, agent)
        files[f'{data}/scripts/{agent.name}'] = (agent.read_bytes(), 0o755)
    for path in libraries(build, work):
        linked.append(path)
        files[f'reigen/{path.name}'] = (path.read_bytes(), 0o755)
    return files, linked


def others(info: str, own: str) -> Files:
    """What has to be said of other projects' code: their notices, and the bill of materials."""
    files: Files = {f'{info}/sboms/reigen.cdx.json':
                    (sbom.bill(own, importlib.metadata.version('ziglang')), 0o644)}
    for component in sbom.components():
        path = sbom.notice(component)
        if path.exists():
            files[f'{info}/licenses/{component.name}'] = (path.read_bytes(), 0o644)
        else:
            print(f'wheel: {component.name} is inside, but its notice is missing here ({path}): '
                  'do not pass this wheel on to others', file=sys.stderr)
    return files


def metadata(name: str, own: str, theirs: str, url: str) -> bytes:
    """The template, and links into the project's repository, where url names one."""
    text = (PYTHON / 'metadata' / name).read_text().rstrip('\n') + '\n'
    text = text.replace('@VERSION@', own).replace('@HOROVOD_VERSION@', theirs)
    for label, path in PAGES.items() if url else ():
        text += f'Project-URL: {label}, {url.rstrip("/")}{path}\n'
    return text.encode()


def write_wheel(out: Path, name: str, version: str, tag: str, files: Files) -> Path:
    """A wheel of these files, with WHEEL and RECORD."""
    info = f'{name}-{version}.dist-info'
    pure = 'true' if tag.endswith('-any') else 'false'
    files[f'{info}/WHEEL'] = (f'Wheel-Version: 1.0\nGenerator: reigen\nRoot-Is-Purelib: {pure}\n'
                              f'Tag: {tag}\n'.encode(), 0o644)
    record = ''
    for path, (content, _) in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()
        record += f'{path},sha256={digest},{len(content)}\n'
    record += f'{info}/RECORD,,\n'
    target = out / f'{name}-{version}-{tag}.whl'
    with zipfile.ZipFile(target, 'w', zipfile.ZIP_DEFLATED) as archive:
        for path, (content, mode) in [*sorted(files.items()),
                                      (f'{info}/RECORD', (record.encode(), 0o644))]:
            entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.create_system = 3
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return target


# ---------------------------------------------------------------------------- the wheels

def write_horovod(out: Path, url: str) -> Path:
    """The distribution horovod: no files of its own, only the need for reigen."""
    own, theirs = versions()
    info = f'horovod-{theirs}.dist-info'
    return write_wheel(out, 'horovod', theirs, 'py3-none-any',
                       {f'{info}/METADATA': (metadata('horovod', own, theirs, url),
                                              0o644)})


def write_reigen(out: Path, build: Path, url: str) -> Path:
    own, theirs = versions()
    data, info = f'reigen-{own}.data', f'reigen-{own}.dist-info'
    # A directory of its own, as two may be at it; zig's cache is shared.
    with tempfile.TemporaryDirectory(prefix='wheel-', dir=build) as work:
        compiled, linked = programs(build, Path(work), data)
        major, minor = needed_glibc(linked)
    files = {**python_files(), **compiled, **data_files(build, data)}
    files[f'{info}/METADATA'] = (metadata('reigen', own, theirs, url), 0o644)
    files[f'{info}/entry_points.txt'] = ((PYTHON / 'metadata/entry_points.txt').read_bytes(), 0o644)
    files[f'{info}/LICENSE'] = ((ROOT / 'LICENSE').read_bytes(), 0o644)
    files.update(others(info, own))
    tag = f'py3-none-manylinux_{major}_{minor}_{platform.machine()}'
    return write_wheel(out, 'reigen', own, tag, files)


def main() -> None:
    parser = argparse.ArgumentParser(description='Write the wheels of reigen and horovod.')
    parser.add_argument('--out', type=Path, default=ROOT / 'build/dist')
    parser.add_argument('--build', type=Path, default=ROOT / 'build')
    parser.add_argument('--url', default=os.environ.get('REIGEN_PROJECT_URL', ''),
                        help="the address of the project's repository, for the metadata")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for old in [*args.out.glob('reigen-*.whl'), *args.out.glob('horovod-*.whl')]:
        old.unlink()
    for path in (write_reigen(args.out, args.build.resolve(), args.url),
                 write_horovod(args.out, args.url)):
        print(f'{os.path.relpath(path)}  {path.stat().st_size / 1024:.0f} KiB')


# ---------------------------------------------------------------------------- for pip

def build_wheel(wheel_directory: str, config_settings=None, metadata_directory=None) -> str:
    """`pip install .` calls this: a build of its own, then the wheel."""
    build = ROOT / 'build-wheel'
    if not (build / 'build.ninja').exists():
        subprocess.run(['meson', 'setup', str(build), str(ROOT), '-Dtests=disabled'], check=True)
    subprocess.run(['ninja', '-C', str(build), '--quiet'], check=True)
    made = write_reigen(build, build, os.environ.get('REIGEN_PROJECT_URL', ''))
    target = Path(wheel_directory) / made.name
    shutil.move(str(made), str(target))
    return target.name


if __name__ == '__main__':
    main()
