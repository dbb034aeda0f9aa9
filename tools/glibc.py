# SPDX-License-Identifier: Apache-2.0
"""Make what the libraries that travel are linked with in the place of this computer's glibc.

usage: tools/glibc.py VERSION FOLDER NEWER.A CC...

Into FOLDER go libraries without content by the names of glibc's own (libc.so.6, libm.so.6, ...),
which say of each function the newest version up to VERSION, and linker scripts libc.so, libm.so,
..., so that -LFOLDER is all that a linker needs to be told. A function is found in the library
where glibc 2.28 had it. What NEWER.A defines comes from there. A function that VERSION has by no
name keeps its oldest version: then the result needs a newer glibc, which its versions say
(`readelf -V`), and which tests/lint refuses; a build on a newer system is not to fail for it.

Prints nothing. Ends with 1, and says why, where this is no glibc.
"""
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Set, Tuple

Version = Tuple[int, ...]
#: glibc's libraries that programs are linked with. Since 2.34 libc.so.6 has the content of all but
#: libm.so.6.
LIBRARIES = ('libc.so.6', 'libm.so.6', 'libpthread.so.0', 'libdl.so.2', 'librt.so.1')
#: Where those lay that have moved.
OLD_HOMES = ((re.compile(r'(pthread|sem)_'), 'libpthread.so.0'),
             (re.compile(r'dl(addr1?|close|error|info|mopen|open|v?sym)$'), 'libdl.so.2'),
             (re.compile(r'(aio|lio|mq|shm|timer)_'), 'librt.so.1'))


def output(*argv: str) -> str:
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout


def exported(library: str) -> Dict[str, Set[Version]]:
    """The versions of each function and variable of this file."""
    found: Dict[str, Set[Version]] = {}
    for line in output('readelf', '-W', '--dyn-syms', library).splitlines():
        words = line.split()
        match = re.fullmatch(r'(\w+)@@?GLIBC_([\d.]+)', words[7]) if len(words) > 7 else None
        if match and words[6] != 'UND':
            found.setdefault(match[1], set()).add(tuple(map(int, match[2].split('.'))))
    return found


def place(symbols: Dict[str, Dict[str, Set[Version]]], most: Version
          ) -> Dict[str, Dict[str, Version]]:
    """{library: {symbol: version}}"""
    placed: Dict[str, Dict[str, Version]] = {library: {} for library in symbols}
    for library, names in symbols.items():
        for name, versions in names.items():
            old = [version for version in versions if version <= most]
            home = library
            if library == 'libc.so.6' and old and max(versions) > most:
                home = next((home for names, home in OLD_HOMES if names.match(name)), library)
            placed[home][name] = max(old) if old else min(versions)
    return placed


def write_library(folder: Path, name: str, symbols: Dict[str, Version], cc: List[str]) -> None:
    source = folder / f'{name}.s'
    script = folder / f'{name}.map'
    source.write_text('.section .note.GNU-stack,"",%progbits\n.text\n' + ''.join(
        f'.globl {symbol}\n.type {symbol}, %function\n{symbol}:\n' for symbol in sorted(symbols)))
    nodes: Dict[Version, List[str]] = {}
    for symbol, version in sorted(symbols.items()):
        nodes.setdefault(version, []).append(symbol)
    script.write_text(''.join(
        f'GLIBC_{".".join(map(str, version))} {{ global: {"; ".join(names)}; }};\n'
        for version, names in sorted(nodes.items())))
    subprocess.run([*cc, '-shared', '-nostdlib', f'-Wl,-soname,{name}', '-Wl,--build-id=none',
                    f'-Wl,--version-script={script}', '-o', str(folder / name), str(source)],
                   check=True)


def quoted(path: object) -> str:
    """As a linker's script has a name, which may have blanks in it."""
    return f'"{path}"'


def main() -> None:
    most, folder = tuple(map(int, sys.argv[1].split('.'))), Path(sys.argv[2]).resolve()
    newer, cc = Path(sys.argv[3]).resolve(), sys.argv[4:]

    def path_of(name: str) -> str:
        return output(*cc, f'-print-file-name={name}').strip()

    folder.mkdir(parents=True, exist_ok=True)
    loader = re.search(r'NEEDED.*\[(ld-linux.*)\]', output('readelf', '-dW', path_of('libc.so.6')))
    if not loader:
        sys.exit(f'glibc: {path_of("libc.so.6")} is not glibc')
    symbols = {name: exported(path_of(name)) for name in (*LIBRARIES, loader[1])}
    for name in re.findall(r' T (\w+)$', output('nm', '--defined-only', str(newer)), re.M):
        for names in symbols.values():
            names.pop(name, None)
    placed = place(symbols, most)
    for name, names in placed.items():
        write_library(folder, name, names, cc)
    for name in LIBRARIES[1:]:
        (folder / f'{name.split(".")[0]}.so').write_text(f'INPUT({quoted(folder / name)})\n')
    moved = ' '.join(quoted(folder / name) for name in (*LIBRARIES[2:], loader[1]))
    (folder / 'libc.so').write_text(
        f'GROUP({quoted(newer)} {quoted(folder / LIBRARIES[0])} '
        f'{quoted(path_of("libc_nonshared.a"))} AS_NEEDED({moved}))\n')


if __name__ == '__main__':
    main()
