# SPDX-License-Identifier: Apache-2.0
"""Let PyPI's torch, a CUDA build, be imported on a machine without CUDA or nvidia's packages.

usage: stubs.py TORCH_DIRECTORY

The dynamic loader wants every library that torch's own are linked with, and every version name they
ask of it. For each library that is absent this makes one of that name beside them, in which every
function answers 100, which CUDA's runtime and driver both use for "no device".
"""
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path


def readelf(option, path):
    done = subprocess.run(['readelf', '-W', option, str(path)], capture_output=True, text=True,
                          errors='replace', check=False)
    return done.stdout


def libraries(torch):
    """Every shared library of the package."""
    return sorted({p.resolve() for p in torch.rglob('*.so*') if p.is_file()})


@cache
def system_libraries():
    """{name: path} of what the loader finds by itself."""
    done = subprocess.run(['/sbin/ldconfig', '-p'], capture_output=True, text=True, check=True)
    return dict(re.findall(r'^\s*(\S+) \(.*\) => (\S+)$', done.stdout, re.M))


@cache
def needed(path):
    return set(re.findall(r'\(NEEDED\).*\[(.*)\]', readelf('-d', path)))


def versions_needed(path):
    """{(version, library)} that a library asks for."""
    found, library = set(), None
    for line in readelf('-V', path).splitlines():
        match = re.search(r'File: (\S+)', line)
        if match:
            library = match[1]
        match = re.search(r'Name: (\S+)\s+Flags', line)
        if match and library:
            found.add((match[1], library))
    return found


def symbols(path):
    """({undefined (name, version)}, {defined name}); weak ones that are undefined don't count."""
    undefined, defined = set(), set()
    for line in readelf('--dyn-syms', path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(':').isdigit():
            continue
        name, _, version = fields[7].replace('@@', '@').partition('@')
        if fields[6] != 'UND':
            defined.add(name)
        elif fields[4] == 'GLOBAL':
            undefined.add((name, version))
    return undefined, defined


def survey(torch):
    """{absent library: {version: {symbol}}}; version '' holds those without one."""
    own = libraries(torch)
    present = {p.name for p in own} | set(system_libraries())
    absent = sorted({n for p in own for n in needed(p)} - present)
    stubs = {library: defaultdict(set) for library in absent}
    wanted, defined = set(), set()
    for path in own:
        for version, library in versions_needed(path):
            if library in stubs:
                stubs[library][version].update()
        undefined, more = symbols(path)
        wanted |= undefined
        defined |= more
    for name, path in system_libraries().items():
        if any(name in needed(p) for p in own):
            defined |= symbols(path)[1]
    home = {version: library for library, found in stubs.items() for version in found}
    for name, version in wanted:
        if version in home:
            stubs[home[version]][version].add(name)
        elif not version and name not in defined and absent:
            # Without a version any library of the group may define it.
            stubs[absent[0]][''].add(name)
    return stubs


def build(library, versions, where):
    """Compile one stub into directory `where`."""
    names = sorted({n for group in versions.values() for n in group})
    source = 'int reigen_no_device(void) { return 100; }\n' + ''.join(
        f'int {n}(void) __attribute__((alias("reigen_no_device")));\n' for n in names)
    script = ''.join(f'{v} {{ {" ".join(f"{n};" for n in sorted(group))} }};\n'
                     for v, group in sorted(versions.items()) if v)
    with tempfile.TemporaryDirectory() as scratch:
        c, map_file = Path(scratch) / 'stub.c', Path(scratch) / 'stub.map'
        c.write_text(source)
        map_file.write_text(script)
        argv = ['cc', '-w', '-O1', '-fno-builtin', '-shared', '-fPIC', f'-Wl,-soname,{library}',
                '-o', str(where / library), str(c)]
        if script:
            argv.append(f'-Wl,--version-script={map_file}')
        subprocess.run(argv, check=True)
    return len(names)


def main(torch):
    where = torch / 'lib'
    for library, versions in survey(torch).items():
        count = build(library, versions, where)
        print(f'{library}: {count} functions')


if __name__ == '__main__':
    main(Path(sys.argv[1]))
