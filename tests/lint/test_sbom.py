# SPDX-License-Identifier: Apache-2.0
"""The bill of materials says what is really inside: what the linker took, and what headers gave."""
import re
import subprocess
import sys

import repo

sys.path.insert(0, str(repo.ROOT / 'tools'))

import sbom  # noqa: E402 (needs the path above)

AGENT = repo.BUILD / 'src/programs/agent/reigen-agent.full'
FILES = {'reigen': repo.BUILD / 'src/programs/reigen',
         'reigen-bench': repo.BUILD / 'src/programs/reigen-bench',
         'reigen-agent': AGENT,
         **{path.name: path for folder in ('src/coll', 'bindings/jax', 'bindings/tensorflow')
            for path in (repo.BUILD / folder).glob('libreigen*.so')}}
#: A name that is in a file when code of the component is, or is linked when the wheel is made.
NAMES = {'libsodium': 'sodium_init', 'bearssl': 'br_ec_c25519_m31',
         'libfyaml': r'fy_document_\w+', 'jansson': 'json_(object|array)',
         'musl': '__libc_start_main'}
#: Components that are headers, whose code is in who includes them.
HEADERS = {'uthash': r'/ut(hash|list|array|string)\.h$'}


def output(*argv):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=60,
                          check=True).stdout


def names(path, *options):
    return {line.split()[-1].split('@')[0] for line in output('nm', *options, path).splitlines()}


def includers(pattern):
    """The objects whose sources include such a header."""
    found, now = [], None
    for line in output('ninja', '-C', repo.BUILD, '-t', 'deps').splitlines():
        if not line.startswith(' '):
            now = line.partition(':')[0]
        elif re.search(pattern, line) and not now.startswith('tests/'):
            found.append(now)
    return sorted(set(found))


def holders(objects):
    """The files of ours that have a function of one of these objects."""
    ours = {name: names(path, '--defined-only') for name, path in FILES.items()}
    found = set()
    for each in objects:
        if each.startswith('src/agent/'):
            found.add('reigen-agent')
            continue
        own = set(re.findall(r' T (\w+)$', output('nm', repo.BUILD / each), re.M))
        found |= {name for name, known in ours.items() if own & known}
    return found


def test_every_component_names_the_files_that_it_is_in():
    said = {component.name: set(component.inside) for component in sbom.components()}
    static = {'musl', 'bearssl'}  # no other file has them than what is linked statically
    assert 'libreigen.so' in FILES and set(said) == set(NAMES) | set(HEADERS)
    for component, pattern in NAMES.items():
        files = {'reigen-agent': AGENT} if component in static else FILES
        found = {name for name, path in files.items()
                 if any(re.fullmatch(pattern, each) for each in names(path))}
        assert said[component] == found, component
    for component, pattern in HEADERS.items():
        assert said[component] == holders(includers(pattern)), component


def test_no_file_is_linked_with_what_the_bill_does_not_have():
    known = re.compile(r'lib(ev|sodium|fyaml|jansson|reigen|tensorflow_framework)\.so[.\d]*'
                       r'|lib(stdc\+\+|c|m|dl|rt|pthread)\.so\.\d|ld-linux-.*')
    for path in FILES.values():
        needed = re.findall(r'NEEDED.*\[(.*)\]', output('readelf', '-dW', path))
        assert [name for name in needed if not known.fullmatch(name)] == [], path
