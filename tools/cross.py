# SPDX-License-Identifier: Apache-2.0
"""Build reigen-agent for hosts of another architecture.

usage: tools/cross.py ARCH [--out DIR]      ARCH: aarch64 or x86_64, as `uname -m` says it

The sources and options are those of the ordinary build, read from its ninja file; zig compiles and
links them against its own musl, with libsodium.a and libbearssl.a of Debian's packages
for that architecture. The packages are fetched and their signatures checked by apt, in a state
directory of its own: the architectures of this machine stay as they are. Writes
DIR/reigen-agent-ARCH (DIR: build/agents), stripped. A second run does nothing while the first one's
result is newer than all that goes into it.
"""
import argparse
import fcntl
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pack_agent

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / 'build'
DEBIAN = {'aarch64': 'arm64', 'x86_64': 'amd64'}
PACKAGES = ('libsodium-dev', 'libbearssl-dev')
ARCHIVES = ('libsodium.a', 'libbearssl.a')
FULL = 'src/programs/agent/reigen-agent.full'
SCRIPT = ROOT / 'src/programs/agent/unwind.ld'
#: Options of the ordinary build that hold for every architecture.
KEPT = ('-D', '-O', '-std=', '-f', '-W')
#: Those among them that are for this machine's compiler and linker alone.
LEFT_OUT = ('-flto-partition', '-fno-fat-lto-objects', '-fno-tree-', '-fipa-',
            '-fno-thread-jumps')


def say_and_exit(text: str) -> None:
    print(f'cross: {text}', file=sys.stderr)
    sys.exit(69)


def run(argv: List[str], both: bool = False, **options) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, **options)
    if done.returncode:
        say_and_exit(f'{shlex.join(argv[:6])} ...: {done.stderr.strip()[-2000:]}')
    return done.stdout + done.stderr if both else done.stdout


def cached(folder: Path) -> Dict[str, str]:
    """The environment of a zig that keeps there what it makes. Its libraries of C, a minute of a
    processor, lie where ZIG_GLOBAL_CACHE_DIR says, if it does."""
    return {'ZIG_GLOBAL_CACHE_DIR': str(folder), **os.environ, 'ZIG_LOCAL_CACHE_DIR': str(folder)}


def fetch(arch: str, work: Path) -> Path:
    """The unpacked packages of that architecture."""
    root = work / 'root'
    ready = root / 'ready'  # it names the packages, which change with the sources
    if ready.exists() and ready.read_text() == str(PACKAGES):
        return root
    shutil.rmtree(root, ignore_errors=True)
    for directory in ('lists/partial', 'cache/archives/partial', 'root'):
        (work / directory).mkdir(parents=True, exist_ok=True)
    (work / 'status').touch()
    apt = ['apt-get', '-q', '-o', f'APT::Architecture={DEBIAN[arch]}',
           '-o', f'APT::Architectures::={DEBIAN[arch]}', '-o', f'Dir::State::lists={work}/lists',
           '-o', f'Dir::Cache={work}/cache', '-o', f'Dir::State::status={work}/status',
           '-o', 'APT::Sandbox::User=', '-o', 'Acquire::Retries=3']
    run([*apt, 'update'])
    run([*apt, 'download', *PACKAGES], cwd=work)
    for package in PACKAGES:
        for file in work.glob(f'{package}_*.deb'):
            run(['dpkg-deb', '-x', str(file), str(root)])
    ready.write_text(str(PACKAGES))
    return root


def includes(root: Path, work: Path) -> Path:
    """libsodium's, BearSSL's and uthash's headers, and no other library's."""
    to = work / 'include'
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    for name in ('sodium.h', 'sodium', 'bearssl.h', 'bearssl'):
        found = (root / 'usr/include').rglob(name)
        (to / name).symlink_to(min(found, key=lambda path: len(path.parts)))
    for name in ('uthash.h', 'utlist.h'):
        (to / name).symlink_to(Path('/usr/include') / name)
    return to


def compile_lines() -> List[List[str]]:
    """How the ordinary build compiles each source of the agent."""
    text = run(['ninja', '-C', str(BUILD), '-t', 'commands', FULL])
    lines = [shlex.split(line) for line in text.splitlines()]
    found = [line for line in lines if '-c' in line and line[line.index('-c') + 1].endswith('.c')]
    if not found:
        say_and_exit('the ordinary build has no static agent; install musl-tools and run make')
    return found


def newest_source(lines: List[List[str]]) -> float:
    sources = [BUILD / line[line.index('-c') + 1] for line in lines]
    headers = [p for p in (ROOT / 'src').rglob('*.h')]
    return max(p.stat().st_mtime for p in [*sources, *headers, SCRIPT, Path(__file__),
                                           Path(pack_agent.__file__)])


def build(arch: str, out: Path) -> None:
    """Several may ask at once: who comes while one builds it waits for that one."""
    work = BUILD / 'cross' / arch
    work.mkdir(parents=True, exist_ok=True)
    with open(work / 'lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_alone(arch, out, work)


def build_alone(arch: str, out: Path, work: Path) -> None:
    lines = compile_lines()
    if out.exists() and out.stat().st_mtime > newest_source(lines):
        return
    print(f'[0/{len(lines)}] the agent for {arch}: packages', file=sys.stderr, flush=True)
    root = fetch(arch, work)
    python = run([str(ROOT / 'tools/frameworks.sh'), 'zig']).strip()
    zig = [python, '-m', 'ziglang', 'cc', '-target', f'{arch}-linux-musl']
    env = cached(BUILD / 'zig-cache')
    options = ['-isystem', str(includes(root, work)), '-I', str(ROOT / 'src'),
               '-I', str(ROOT / 'include')]
    objects = []
    for number, line in enumerate(lines, 1):
        source = line[line.index('-c') + 1]
        print(f'[{number}/{len(lines)}] the agent for {arch}: {os.path.basename(source)}',
              file=sys.stderr, flush=True)
        target = work / (line[line.index('-o') + 1].replace('/', '_'))
        kept = [word for word in line[1:]
                if word.startswith(KEPT) and not word.startswith(LEFT_OUT)]
        run([*zig, *kept, *options, '-c', source, '-o', str(target)], cwd=BUILD, env=env)
        objects.append(str(target))
    archives = [str(next(root.rglob(name))) for name in ARCHIVES]
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_suffix('.new')
    # The first time zig builds its musl here.
    print(f'[{len(lines)}/{len(lines)}] the agent for {arch}: linking', file=sys.stderr, flush=True)
    # Against musl zig links statically by itself; -static-pie it takes without making a PIE.
    # -Os: zig's musl is made small as well.
    said = run([*zig, '-pie', '-s', '-Os', '-o', str(temporary), *objects, *archives,
                '-Wl,-e,rg_begin,--gc-sections,-z,relro,-z,now,-z,noexecstack',
                f'-Wl,-T,{SCRIPT}'], cwd=BUILD, both=True, env={**env, 'ZIG_VERBOSE_LINK': '1'})
    # Packed relocations, 27 KB less, are an option of its linker's that zig does not pass on. So is
    # to have the instructions once that several functions share, 25 KB less. What it tells of its
    # linker cannot be taken apart where a path has a blank.
    linker = [line.split(' ') for line in said.splitlines() if line.startswith('ld.lld ')]
    if linker and ' ' not in f'{BUILD}{temporary}':
        run([*zig[:3], 'ld.lld', '--pack-dyn-relocs=relr', '-mllvm',
             '-enable-machine-outliner=always', *linker[-1][1:]], cwd=BUILD, env=env)
    else:
        print(f'the agent for {arch}: it has 52 KB more than it need have: '
              + ('the path of the build has a blank' if linker else
                 'zig has not said how it calls its linker'), file=sys.stderr, flush=True)
    temporary.write_bytes(pack_agent.pack(temporary.read_bytes()))
    os.replace(temporary, out)


def main() -> None:
    parser = argparse.ArgumentParser(usage='tools/cross.py ARCH [--out DIR]')
    parser.add_argument('arch', choices=sorted(DEBIAN))
    parser.add_argument('--out', type=Path, default=BUILD / 'agents')
    wanted = parser.parse_args()
    out = wanted.out.resolve() / f'reigen-agent-{wanted.arch}'
    build(wanted.arch, out)
    print(out)


if __name__ == '__main__':
    main()
