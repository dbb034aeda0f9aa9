# SPDX-License-Identifier: Apache-2.0
"""What is promised about the size and the needs of the programs that are built."""
import json
import platform
import re
import subprocess
from pathlib import Path

import pytest
import repo

AGENT = repo.BUILD / 'src/programs/agent/reigen-agent'
LIBRARY = repo.BUILD / 'src/coll/libreigen.so'
PROGRAM = repo.BUILD / 'src/programs/reigen'
TENSORFLOW = repo.BUILD / 'bindings/tensorflow/libreigen_tensorflow.so'
JAX = repo.BUILD / 'bindings/jax/libreigen_jax.so'
SHIMS = [LIBRARY.parent / f'libreigen_mpi_{abi}.so' for abi in ('ompi', 'mpich', 'abi')]
AGENT_NBYTES = 512 * 1024
LIBRARY_NBYTES = 1024 * 1024


def run(*argv, **kwargs):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=30,
                          check=False, **kwargs)


def stripped_nbytes(path, tmp_path):
    out = tmp_path / path.name
    assert run('strip', '-s', '-o', out, path).returncode == 0
    return out.stat().st_size


def test_agent_is_at_most_512_kib():
    nbytes = AGENT.stat().st_size
    assert nbytes <= AGENT_NBYTES, (
        f'reigen-agent has {nbytes - AGENT_NBYTES} bytes too many. What has grown is in '
        f'nm --size-sort {AGENT}.full of this tree and of the one before. Parts that its head does '
        'not need belong in the launcher (rg_launch_sources, RG_LAUNCHER_ONLY); libbearssl-dev '
        'saves 90 KB (docs/dependencies.md).')


def test_agent_needs_no_library_and_no_loader():
    header = run('readelf', '-lWd', AGENT).stdout
    assert 'LOAD' in header
    assert 'INTERP' not in header
    assert 'NEEDED' not in header


def test_agent_is_hardened():
    header = run('readelf', '-lWdh', AGENT).stdout
    assert re.search(r'Type:\s+DYN', header), 'not position-independent'
    assert 'GNU_RELRO' in header and 'TEXTREL' not in header
    assert re.search(r'GNU_STACK.* RW ', header), 'executable stack'


def test_agents_constants_are_packed_and_cannot_be_written_once_they_are_not(tmp_path):
    """Also where somebody has stripped it once more. What unpacks them can have none."""
    unpacks = run('readelf', '-SW', AGENT.with_name('programs_agent_unpack_c.o')).stdout
    assert ' .text' in unpacks and '.rodata' not in unpacks
    assert run('strip', '-o', tmp_path / 'agent', AGENT).returncode == 0
    for agent in (AGENT, tmp_path / 'agent'):
        at, = re.findall(r' \.rodata +NOBITS +([0-9a-f]+) ', run('readelf', '-SW', agent).stdout)
        with subprocess.Popen([agent, 'ask', 'nobody'], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as child:
            child.stdin.write(f'{0:099}\n')
            child.stdin.flush()
            assert child.stdout.readline() == '{"error":"Connection refused"}\n'
            maps = re.findall(r'^(\w+)-(\w+) (\S+)',
                              Path(f'/proc/{child.pid}/maps').read_text(), re.M)
            child.stdin.close()
            assert child.stdout.read() == '', 'one line has had several answers'
        where = int(maps[0][0], 16) + int(at, 16)
        kinds = [kind for begin, end, kind in maps if int(begin, 16) <= where < int(end, 16)]
        assert kinds == ['r--p'], maps


#: What each compiler is asked for, by machine; what one of them does not have meson leaves out.
HARDENING = {'-fstack-protector-strong', '-fstack-clash-protection'}
JUMPS = {'x86_64': '-fcf-protection=full', 'aarch64': '-mbranch-protection=standard'}


def test_every_file_is_compiled_with_the_same_protection():
    commands = [entry['command'] for entry in
                json.loads((repo.BUILD / 'compile_commands.json').read_text())
                if '/tests/' not in entry['output'] and not entry['output'].startswith('tests/')]
    wanted = HARDENING | {JUMPS[platform.machine()], '-D_FORTIFY_SOURCE=3'}
    assert len(commands) > 300
    assert {command for command in commands if not wanted <= set(command.split())} == set()
    # The agent's are commands of our own. Marks of jumps' targets would not fit into it, and nobody
    # asks for them in a program whose C library has none.
    done = run('ninja', '-C', repo.BUILD, '-t', 'commands', AGENT.relative_to(repo.BUILD))
    agents = [line for line in done.stdout.splitlines() if ' -c ' in line]
    assert len(agents) > 100
    assert {line for line in agents if not HARDENING <= set(line.split())} == set()


def functions_of(path):
    """{name: its first instruction} of the functions that a library or program exports."""
    said = run('objdump', '-d', '--no-show-raw-insn', path).stdout
    exported = set(re.findall(r' FUNC +GLOBAL +DEFAULT +\d+ (\w+)$',
                              run('readelf', '-W', '--dyn-syms', path).stdout, re.M))
    first = dict(re.findall(r'^\w+ <(\w+)>:\n +\w+:\t(\S+)', said, re.M))
    return {name: first[name] for name in exported & set(first)}


@pytest.mark.parametrize('path', [LIBRARY, TENSORFLOW, JAX], ids=lambda path: path.name)
def test_indirect_jumps_find_their_marks(path):
    """Debian's own start files have none, so that the linker does not mark the whole."""
    marks = {'x86_64': {'endbr64'}, 'aarch64': {'bti', 'paciasp', 'hint'}}[platform.machine()]
    found = functions_of(path)
    assert found
    assert {name: first for name, first in found.items() if first not in marks} == {}


@pytest.mark.parametrize('path', [PROGRAM, LIBRARY, TENSORFLOW, JAX, *SHIMS],
                         ids=lambda path: path.name)
def test_programs_and_libraries_are_hardened(path):
    header = run('readelf', '-lWdhs', path).stdout
    assert re.search(r'Type:\s+DYN', header), 'not position-independent'
    assert 'GNU_RELRO' in header and 'TEXTREL' not in header
    assert re.search(r'GNU_STACK.* RW ', header), 'executable stack'
    assert '__stack_chk_fail' in header, 'no stack protector'
    # What TensorFlow's plug-in names may be missing in an older TensorFlow, until it is called.
    assert ('BIND_NOW' in header) == (path != TENSORFLOW), 'relocations'


@pytest.mark.parametrize('path', [PROGRAM, LIBRARY], ids=lambda path: path.name)
def test_checked_copies_are_used(path):
    """_FORTIFY_SOURCE was set where it counts: while compiling with optimization."""
    assert re.search(r'__\w+_chk@', run('readelf', '-Ws', '--dyn-syms', path).stdout)


def test_agent_starts_in_an_empty_root(tmp_path):
    (tmp_path / 'reigen-agent').write_bytes(AGENT.read_bytes())
    (tmp_path / 'reigen-agent').chmod(0o755)
    if run('unshare', '-r', 'true').returncode == 0:
        done = run('unshare', '-r', 'chroot', tmp_path, '/reigen-agent', 'version')
    elif run('chroot', '/', '/bin/true').returncode == 0:
        done = run('chroot', tmp_path, '/reigen-agent', 'version')
    else:
        pytest.skip('neither user namespaces nor chroot are permitted here')
    assert done.returncode == 0, done.stderr
    assert re.search(r'\d+\.\d+\.\d+', done.stdout), done.stdout


def test_libreigen_is_at_most_1_mib(tmp_path):
    assert stripped_nbytes(LIBRARY, tmp_path) <= LIBRARY_NBYTES


def test_libreigen_exports_its_own_names_only():
    names = [line.split()[-1].split('@')[0]
             for line in run('nm', '-D', '--defined-only', LIBRARY).stdout.splitlines()]
    assert names
    assert [n for n in names if not n.startswith('reigen_')] == []


def test_libreigen_exports_every_function_of_its_header():
    header = repo.COMMENT.sub('', (repo.ROOT / 'include/reigen/reigen.h').read_text())
    declared = set(re.findall(r'\b(reigen_\w+)\s*\(', header))
    exported = {line.split()[-1].split('@')[0]
                for line in run('nm', '-D', '--defined-only', LIBRARY).stdout.splitlines()}
    assert declared
    assert declared - exported == set()


@pytest.mark.parametrize('path', [LIBRARY, TENSORFLOW, JAX, *SHIMS], ids=lambda path: path.name)
def test_what_travels_needs_glibc_2_28_and_no_other_library(path):
    """They are mounted into images and sent to hosts (src/glibc). tests/install looks at what each
    way of installing really sends."""
    needed = re.findall(r'NEEDED.*\[(.*)\]', run('readelf', '-dW', path).stdout)
    known = re.compile(r'(libc|libm|libdl|librt|libpthread|ld-linux-.*)\.so\.\d+')
    beside = {LIBRARY: set(), JAX: {'libreigen.so'},
              TENSORFLOW: {'libreigen.so', 'libtensorflow_framework.so.2', 'libstdc++.so.6'}}
    assert needed
    assert {n for n in needed if not known.fullmatch(n)} <= beside.get(path, set())
    versions = {tuple(map(int, version.split('.'))) for version in
                re.findall(r'Name: GLIBC_([\d.]+)', run('readelf', '-VW', path).stdout)}
    assert versions and max(versions) <= (2, 28), (
        f'{path.name} has a function of a newer glibc. readelf -W --dyn-syms says which; '
        'src/glibc/newer.c has those that can be made of older ones.')
