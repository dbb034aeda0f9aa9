# SPDX-License-Identifier: Apache-2.0
"""Images for the nodes' dockerds, made without a registry and kept in build/bed/images.

The library is one dockerd data root. Each image in it carries the tag bed/NAME:KEY, where KEY tells
from what it was made, so that a change makes a new one. dockerd runs on the library only while an
image is being made; a node gets hard links to the layers it needs, which takes milliseconds.
"""
import contextlib
import fcntl
import hashlib
import io
import json
import os
import platform
import shutil
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path

from . import cluster as clusters
from .node import BedError, Node

HERE = Path(__file__).parent
EXAMPLES = clusters.ROOT / 'examples'
TRAIN = HERE / 'train.py'
SUITE = 'bookworm'
BUILD_TIMEOUT = 900
SLIM = ''.join(f'path-exclude=/usr/share/{d}/*\n' for d in ('doc', 'man', 'locale', 'info'))
APT = ('apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y '
       '--no-install-recommends {} && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin')
# Debian's PyTorch, with a BLAS that has vector instructions.
TRAINING = 'python3 python-is-python3 python3-torch python3-numpy libopenblas0-serial'
# Each is FROM another of these, or from nothing: then a function below makes its files.
RECIPES = {
    'base': 'FROM {debian}\nRUN ' + APT.format(
        'python3-minimal openssh-server openssh-client openmpi-bin procps iproute2') +
        ' && rm -f /etc/ssh/ssh_host_* && mkdir -p /run/sshd\n',
    'trainer': 'FROM {debian}\nRUN ' + APT.format(TRAINING) +
        '\nCOPY examples/ /examples/\nCOPY train.py /work/\nWORKDIR /work\n',
    # Its first step is trainer's; what srun_docker.sh's examples ask of an image.
    'mnode': 'FROM {debian}\nRUN ' + APT.format(TRAINING) +
        '\nRUN ' + APT.format('openmpi-bin openssh-client pdsh procps') + '\n',
    # Its first step is trainer's; what users of OpenPAI put into theirs. Intel MPI and Reigen come
    # with a volume, and this has the libraries that `reigen` asks for.
    'pai': 'FROM {debian}\nRUN ' + APT.format(TRAINING) +
        '\nRUN ' + APT.format('openssh-server openssh-client procps libfyaml0 libjansson4 '
                              'libsodium23 libcurl4') + '\n',
    'mpich': 'FROM {debian}\nRUN ' + APT.format(
        'python3-minimal openssh-client mpich procps iproute2') + '\n',
    # No shell, no package manager: an interpreter and what it loads.
    'distroless': 'FROM {base} AS full\nRUN mkdir -p /out/usr/lib /out/usr/lib64 /out/usr/bin && '
        'ln -s usr/lib /out/lib && ln -s usr/lib64 /out/lib64 && mkdir -m 1777 /out/tmp && '
        'cp --parents -L $(ldd /usr/bin/python3 | grep -o "/[^ ]*") /usr/bin/python3 /etc/passwd '
        '/out/ && cp --parents -a /usr/lib/python3.11 /out/\n'
        'FROM scratch\nCOPY --from=full /out/ /\nCMD ["/usr/bin/python3"]\n',
    # A musl system as Alpine is one: busybox, musl's loader, and a program linked with it.
    'musl': 'FROM scratch\nADD musl.tar /\nCMD ["/bin/sh"]\n',
    'scratch-static': 'FROM scratch\nCOPY program /program\nCMD ["/program"]\n',
}
# What this machine cannot run: the head of a program of another kind of processor.
OTHER_MACHINES = {'x86_64': ('arm64', 183), 'aarch64': ('amd64', 62)}
NAMES = ['debian', 'foreign', *RECIPES]


def prepare(wanted):
    """Make what of `wanted` is missing. Each is NAME or NAME=TAG: a recipe's name, or the tag of an
    image that build() made; and the tag that the nodes shall see (default: NAME). Returns
    {TAG in the nodes: tag in the library}."""
    tags = {}
    for each in wanted:
        name, _, tag = each.partition('=')
        made = recipe(name) if name in NAMES else full(name)
        tags[full(tag or name)] = made
    return tags


def full(tag):
    return tag if ':' in tag.rpartition('/')[2] else f'{tag}:latest'


def key(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode())
        digest.update(b'\0')
    return digest.hexdigest()[:12]


# ---------------------------------------------------------------------------- the library

def folder():
    path = clusters.BED / 'images'
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextlib.contextmanager
def locked(how):
    with open(folder() / 'lock', 'w', encoding='ascii') as lock:
        fcntl.flock(lock, how)
        yield


class Library(Node):
    """A dockerd on the library's data root, in the caller's network, for as long as a `with`."""

    docker0 = False

    def __init__(self):
        super().__init__(self, 'library', None, folder())
        self.cgroup = f'/reigen-bed-library-{os.getpid()}'

    def __enter__(self):
        (self.folder / 'docker.json').write_text('{}\n')
        keep = [str(clusters.BED), str(clusters.ROOT)]
        steps = ['tmpfs', '755', '/run']
        for path in keep:
            steps += ['bind', path, path] if path.startswith('/run/') else []
        self.start_init([clusters.build_init(), '-n', self.name, *steps])
        try:
            self.wait_init()
            self.start_dockerd()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc):
        if self.dockerd:
            self.stop_dockerd()
        self.end_init()
        self.wait_end()
        for root in self.cgroups():
            clusters.remove_cgroup(root)

    def cgroups(self):
        """Its folders: in the tree, or in each controller's. What is deeper comes and goes."""
        tree = Path('/sys/fs/cgroup')
        places = [tree, *(path for path in tree.iterdir() if path.is_dir())]
        return [path for place in places if (path := place / self.cgroup.strip('/')).is_dir()]

    def build(self, tag, context, *options):
        argv = ['/usr/bin/docker', 'build', '--network=host', '--force-rm', '-t', tag, *options,
                context]
        done = self.run(argv, user='root', timeout=BUILD_TIMEOUT, env={'DOCKER_BUILDKIT': '0'})
        (self.folder / 'build.log').write_text(done.stdout + done.stderr)
        if done.returncode:
            raise BedError(f'docker build of {tag}:\n{(done.stdout + done.stderr)[-6000:]}')
        return done.stdout


def find(tag):
    """The id of a library image, without "sha256:"; None where there is none of that tag."""
    try:
        text = (folder() / 'docker/image/overlay2/repositories.json').read_text()
    except OSError:
        return None
    for tags in json.loads(text)['Repositories'].values():
        if tag in tags:
            return tags[tag].partition(':')[2]
    return None


def build(tag, context, dockerfile='Dockerfile', args=None, key_of=()):
    """`docker build` in the library, unless one of this tag was made from the same context, build
    arguments and `key_of`. `context` is a folder. Returns the tag to give to Cluster(images=...)
    and to prepare()."""
    options = ['-f', str(Path(context) / dockerfile)]
    for name, value in (args or {}).items():
        options += ['--build-arg', f'{name}={value}']
    made_from = key(digest_of(context), *options[2:], *key_of)
    name, _, version = full(tag).rpartition(':')
    made = f'bed/{name}:{version}-{made_from}'
    with locked(fcntl.LOCK_EX):
        if not find(made):
            with Library() as library:
                library.build(made, str(context), *options)
    return made


def digest_of(context):
    digest = hashlib.sha256()
    for path in sorted(Path(context).rglob('*')):
        digest.update(f'{path.relative_to(context)} {path.lstat().st_mode}\0'.encode())
        if path.is_symlink():
            digest.update(os.readlink(path).encode())
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def recipe(name):
    """The library's tag of a recipe's image, made where it is missing."""
    if name == 'debian':
        return make(name, key(SUITE, SLIM, apt_settings()), import_debian)
    if name == 'foreign':
        return make(name, key(platform.machine(), 'loaded'), load_foreign)
    text = RECIPES[name]
    for other in ('debian', 'base'):
        if '{' + other + '}' in text:
            text = text.replace('{' + other + '}', recipe(other))
    return make(name, key(text, *(p.read_bytes() for p in sources(name))),
                lambda library, tag: build_recipe(library, tag, name, text))


def make(name, version, function):
    tag = f'bed/{name}:{version}'
    if not find(tag):
        with locked(fcntl.LOCK_EX):
            if not find(tag):
                with Library() as library:
                    function(library, tag)
    return tag


def archive(name):
    """A file that `podman load -i` and others read, with the image under the tag localhost/NAME."""
    made = prepare([name])[full(name)]
    path = folder() / f'{made.replace("/", "-").replace(":", "-")}.tar'
    with locked(fcntl.LOCK_EX):
        if not path.exists():
            with Library() as library:
                library.docker('tag', made, f'localhost/{name}')
                library.docker('save', '-o', f'{path}.new', f'localhost/{name}', timeout=300)
                library.docker('rmi', f'localhost/{name}')
            os.chmod(f'{path}.new', 0o644)
            os.replace(f'{path}.new', path)
    return path


# ---------------------------------------------------------------------------- making them

def apt_settings():
    """How this machine fetches packages, so that an image's apt-get and pip can do the same."""
    dump = subprocess.run(['apt-config', 'dump', 'Acquire'], capture_output=True, text=True,
                          check=False).stdout
    return ''.join(f'{line}\n' for line in dump.splitlines()
                   if line.startswith('Acquire::') and not line.endswith(' "";'))


def import_debian(library, tag):
    """Debian's minimal base, by debootstrap, with this machine's way to the packages."""
    with tempfile.TemporaryDirectory(dir=folder(), prefix='rootfs-') as temporary:
        root = Path(temporary) / 'root'
        cache = folder() / 'debs'
        cache.mkdir(exist_ok=True)
        with open(folder() / 'debootstrap.log', 'wb') as log:
            done = subprocess.run(
                ['debootstrap', '--variant=minbase', f'--cache-dir={cache.resolve()}', SUITE, root],
                stdout=log, stderr=log, timeout=BUILD_TIMEOUT, check=False)
        if done.returncode:
            raise BedError(f'debootstrap failed:\n{library.tail("debootstrap.log")}')
        settle(root)
        tar = subprocess.Popen(['tar', '-C', root, '--numeric-owner', '--exclude=./dev/*',
                                '--exclude=./proc/*', '--exclude=./sys/*', '-cf', '-', '.'],
                               stdout=subprocess.PIPE)
        library.popen(['/usr/bin/docker', 'import', '--change', 'CMD ["/bin/bash"]', '-', tag],
                      user='root', stdin=tar.stdout, stdout=subprocess.DEVNULL).wait(BUILD_TIMEOUT)
        tar.stdout.close()
        if tar.wait(60) or not find(tag):
            raise BedError('docker import of the Debian base failed')


def load_foreign(library, tag):
    architecture, machine = OTHER_MACHINES[platform.machine()]
    # 64 bits, little endian; an executable for `machine`; its program headers would follow.
    head = b'\x7fELF\x02\x01\x01' + bytes(9) + struct.pack(
        '<HHIQQQIHHHHHH', 2, machine, 1, 0x400000, 64, 0, 0, 64, 56, 0, 64, 0, 0)
    layer = tar_of({'program': head})
    config = json.dumps({
        'architecture': architecture, 'os': 'linux', 'config': {'Cmd': ['/program']},
        'rootfs': {'type': 'layers', 'diff_ids': [f'sha256:{hashlib.sha256(layer).hexdigest()}']}})
    manifest = json.dumps([{'Config': 'config.json', 'RepoTags': [tag], 'Layers': ['layer.tar']}])
    with tempfile.TemporaryDirectory(dir=folder(), prefix='context-') as temporary:
        path = Path(temporary) / 'foreign.tar'
        path.write_bytes(tar_of({'manifest.json': manifest.encode(), 'layer.tar': layer,
                                 'config.json': config.encode()}))
        library.docker('load', '-i', str(path))


def tar_of(files):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode='w') as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o755, len(data)
            archive.addfile(entry, io.BytesIO(data))
    return whole.getvalue()


def settle(root):
    """What makes the bare system small, and able to fetch packages in a build."""
    for name in ('doc', 'man', 'locale', 'info'):
        shutil.rmtree(root / 'usr/share' / name, ignore_errors=True)
    shutil.rmtree(root / 'var/cache/apt/archives', ignore_errors=True)
    (root / 'etc/dpkg/dpkg.cfg.d/slim').write_text(f'force-unsafe-io\n{SLIM}')
    (root / 'etc/apt/apt.conf.d/90machine').write_text(apt_settings())
    (root / 'usr/sbin/policy-rc.d').write_text('#!/bin/sh\nexit 101\n')
    (root / 'usr/sbin/policy-rc.d').chmod(0o755)
    copies = ['etc/apt/sources.list', 'etc/ssl/certs/ca-certificates.crt', 'etc/pip.conf']
    for where in ('etc/apt/sources.list.d', 'usr/local/share/ca-certificates'):
        copies += [f'{where}/{p.name}' for p in Path('/', where).glob('*') if p.is_file()]
    for name in copies:
        if Path('/', name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path('/', name), root / name)
    if any((root / 'etc/apt/sources.list.d').glob('debian.*')) and \
            not Path('/etc/apt/sources.list').is_file():
        (root / 'etc/apt/sources.list').unlink(missing_ok=True)
    (root / 'etc/resolv.conf').unlink(missing_ok=True)


def sources(name):
    """The files of ours that an image is made from."""
    if name == 'trainer':
        files = (p for p in EXAMPLES.rglob('*') if p.is_file() and p.suffix != '.pyc')
        return sorted([TRAIN, *files])
    return [HERE / 'program.c'] if name in ('musl', 'scratch-static') else []


def build_recipe(library, tag, name, text):
    with tempfile.TemporaryDirectory(dir=folder(), prefix='context-') as temporary:
        context = Path(temporary)
        (context / 'Dockerfile').write_text(text)
        if name == 'trainer':
            shutil.copytree(EXAMPLES, context / 'examples',
                            ignore=shutil.ignore_patterns('__pycache__'))
            shutil.copy(TRAIN, context)
        elif name == 'scratch-static':
            compile_musl(context / 'program', '-static')
        elif name == 'musl':
            make_musl(context)
        library.build(tag, str(context))


def compile_musl(program, *options):
    subprocess.run(['musl-gcc', '-O1', '-o', program, HERE / 'program.c', *options], check=True,
                   timeout=120)


def make_musl(context):
    root = context / 'root'
    for name in ('bin', 'lib', 'etc', 'usr/bin', 'dev', 'proc', 'sys'):
        (root / name).mkdir(parents=True)
    (root / 'tmp').mkdir(mode=0o1777)
    (root / 'tmp').chmod(0o1777)
    compile_musl(root / 'bin/program')
    loader = Path('/lib/ld-musl-x86_64.so.1')
    shutil.copy(loader.resolve(), root / 'lib' / loader.name)
    shutil.copy('/bin/busybox', root / 'bin/busybox')
    applets = subprocess.run(['/bin/busybox', '--list'], capture_output=True, text=True,
                             check=True, timeout=30).stdout.split()
    for applet in applets:
        if applet != 'busybox':
            (root / 'bin' / applet).symlink_to('busybox')
    (root / 'etc/passwd').write_text('root:x:0:0:root:/:/bin/sh\n')
    subprocess.run(['tar', '-C', root, '--owner=0', '--group=0', '-cf', context / 'musl.tar', '.'],
                   check=True, timeout=60)
    shutil.rmtree(root)


# ---------------------------------------------------------------------------- to the nodes

def install(prepared, data):
    """Give the data root of a stopped dockerd the images of prepare(), by hard links."""
    with locked(fcntl.LOCK_SH):
        library = folder() / 'docker'
        store, mine = library / 'image/overlay2', data / 'image/overlay2'
        for name in ('imagedb/content/sha256', 'imagedb/metadata/sha256', 'layerdb/sha256'):
            (mine / name).mkdir(parents=True, exist_ok=True)
        repositories = {}
        for tag, made in prepared.items():
            image = find(made)
            if image is None:
                raise BedError(f'no image {made} in the library')
            content = json.loads((store / 'imagedb/content/sha256' / image).read_text())
            shutil.copy(store / 'imagedb/content/sha256' / image, mine / 'imagedb/content/sha256')
            for chain in chains(content['rootfs'].get('diff_ids') or []):
                install_layer(library, data, chain)
            repositories.setdefault(tag.rpartition(':')[0], {})[tag] = f'sha256:{image}'
        path = mine / 'repositories.json'
        old = json.loads(path.read_text())['Repositories'] if path.exists() else {}
        for name, tags in repositories.items():
            old.setdefault(name, {}).update(tags)
        clusters.write_whole(path, json.dumps({'Repositories': old}))


def chains(diff_ids):
    """The names of an image's layers in layerdb: each digests the one below and its own diff."""
    above = None
    for diff in diff_ids:
        above = diff if above is None else \
            'sha256:' + hashlib.sha256(f'{above} {diff}'.encode()).hexdigest()
        yield above.partition(':')[2]


def install_layer(library, data, chain):
    layer = data / 'image/overlay2/layerdb/sha256' / chain
    if layer.exists():
        return
    shutil.copytree(library / 'image/overlay2/layerdb/sha256' / chain, layer)
    cache = (layer / 'cache-id').read_text()
    links = data / 'overlay2/l'
    links.mkdir(parents=True, exist_ok=True)
    subprocess.run(['cp', '-al', library / 'overlay2' / cache, data / 'overlay2' / cache],
                   check=True, timeout=120)
    short = (library / 'overlay2' / cache / 'link').read_text()
    if not (links / short).is_symlink():
        (links / short).symlink_to(f'../{cache}/diff')
