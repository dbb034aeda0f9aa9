# SPDX-License-Identifier: Apache-2.0
"""What of other projects is inside our compiled files: their versions, their notices, and the
wheel's bill of materials.

Formats: CycloneDX 1.5 as JSON, which PEP 770 puts below .dist-info/sboms. It has neither a time nor
a random number, so that two builds give the same bytes.
"""
import json
import re
import subprocess
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

ROOT = Path(__file__).resolve().parents[1]


class Component(NamedTuple):
    name: str
    licence: str  # an SPDX expression
    package: str  # Debian's package, whose notice goes into the wheel
    inside: List[str]  # our files that hold code of it
    why: str


COMPONENTS = [
    Component('libsodium', 'ISC', 'libsodium-dev', ['reigen', 'reigen-agent', 'libreigen.so'],
              'keys and the encrypted link'),
    Component('bearssl', 'MIT', 'libbearssl-dev', ['reigen-agent'],
              'X25519 of the static agent'),
    Component('libfyaml', 'MIT', 'libfyaml-dev', ['reigen'], 'job files'),
    Component('jansson', 'MIT', 'libjansson-dev', ['reigen', 'reigen-bench'], 'events as JSON'),
    Component('uthash', 'BSD-1-Clause', 'uthash-dev', ['libreigen.so'],
              'hash tables and lists, a header'),
    Component('musl', 'MIT', 'musl-dev', ['reigen-agent'], 'the C library of the static agent'),
]


def output(*argv: str) -> str:
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=60)
    except OSError:
        return ''
    return done.stdout.strip()


def header_macros(header: str) -> Dict[str, str]:
    """The macros of a header that the C compiler finds."""
    done = subprocess.run(['cc', '-E', '-dM', '-x', 'c', '-'], input=f'#include <{header}>\n',
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False)
    return dict(re.findall(r'^#define (\w+) (.*)$', done.stdout, re.M))


def version_of(name: str) -> Optional[str]:
    """The version of a component as this machine has it; None where it can't be told."""
    if name in ('libsodium', 'libfyaml', 'jansson'):
        return output('pkg-config', '--modversion', name) or None
    if name == 'uthash':
        return header_macros('uthash.h').get('UTHASH_VERSION')
    if name == 'bearssl':  # nothing of it knows its version
        said = output('dpkg-query', '-W', '-f', '${Version}', 'libbearssl-dev')
        found = re.match(r'[\d.]+', said)
        return found[0] if found else None
    start = output(str(ROOT / 'tools/musl-crt.sh'), 'musl-gcc').split()
    # musl's library is a program too, which says its version where no arguments are given.
    said = output(str(Path(start[0]).parent / 'libc.so')) if start else ''
    found = re.search(r'Version ([\d.]+)', said)
    return found[1] if found else None


def components() -> List[Component]:
    """Those that this machine's build has: without BearSSL the agent takes libsodium's curve."""
    without = not Path(output('cc', '-print-file-name=libbearssl.a')).is_absolute()
    return [c for c in COMPONENTS if not (without and c.name == 'bearssl')]


def notice(component: Component) -> Path:
    """Where Debian puts a component's notice. It may be missing elsewhere."""
    return Path('/usr/share/doc') / component.package / 'copyright'


def entry(component: Component) -> dict:
    version = version_of(component.name)
    found = {'type': 'library', 'bom-ref': component.name, 'name': component.name,
             'description': component.why, 'licenses': [{'expression': component.licence}],
             'properties': [{'name': 'reigen:inside', 'value': name}
                            for name in component.inside]}
    if version:
        found['version'] = version
        found['purl'] = f'pkg:generic/{component.name}@{version}'
    return found


def bill(version: str, linker: str) -> bytes:
    """The bill of materials of a wheel of this version, linked by `linker`."""
    own = {'type': 'application', 'bom-ref': 'reigen', 'name': 'reigen', 'version': version,
           'purl': f'pkg:pypi/reigen@{version}',
           'licenses': [{'license': {'id': 'Apache-2.0'}}]}
    tools = [{'type': 'application', 'name': 'ziglang', 'version': linker}]
    parts = [entry(component) for component in components()]
    text = {'bomFormat': 'CycloneDX', 'specVersion': '1.5', 'version': 1,
            'metadata': {'component': own, 'tools': {'components': tools}}, 'components': parts,
            'dependencies': [{'ref': 'reigen', 'dependsOn': [c.name for c in components()]}]}
    return (json.dumps(text, indent=1, sort_keys=True) + '\n').encode()
