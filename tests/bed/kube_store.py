# SPDX-License-Identifier: Apache-2.0
"""Images for the nodes' containerds: those of bed.images, kept in build/bed/kube.

There is one containerd root for each set of images. containerd runs on it only while it is being
made; a node gets hard links to its files, which takes a second where an import takes a minute. So
does the next root, of what it has in common with one that is there.
"""
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import images, kube_build
from .node import BedError, wait_until

SOCKET = '/run/containerd/containerd.sock'
PAUSE = 'localhost/pause:1'
IMPORT_TIMEOUT = 900
#: Which images a root has: what pods call them, and their tag in the library.
LIST = 'images.json'


def tag(name):
    """What the nodes call an image. It is not :latest, which a kubelet would look for anew."""
    return f'localhost/{name}:1'


def config(root):
    """containerd's configuration, with its files in `root` and its sockets in /run."""
    unused = ('btrfs', 'zfs', 'aufs', 'devmapper')
    return '\n'.join([
        'version = 2',
        f'root = "{root}"',
        'state = "/run/containerd"',
        'disabled_plugins = [' +
        ', '.join(f'"io.containerd.snapshotter.v1.{name}"' for name in unused) + ']',
        f'[grpc]\naddress = "{SOCKET}"',
        '[plugins."io.containerd.grpc.v1.cri"]',
        f'sandbox_image = "{PAUSE}"',
        'disable_apparmor = true',
        # Root in a container may lack CAP_SYS_RESOURCE: no negative scores.
        'restrict_oom_score_adj = true',
        '[plugins."io.containerd.grpc.v1.cri".cni]',
        'bin_dir = "/usr/lib/cni"',
        'conf_dir = "/run/cni"',
        '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]',
        'runtime_type = "io.containerd.runc.v2"', ''])


class Store(images.Library):
    """A containerd on a root that is being made, where Library has a dockerd."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def start_dockerd(self, env=None, options=()):
        path = self.folder / 'containerd.toml'
        path.write_text(config(self.folder / 'root'))
        with open(self.folder / 'containerd.log', 'wb') as log:
            self.dockerd = self.popen(['containerd', '--config', path], user='root',
                                      stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_containerd(self)

    def load(self, archive, names):
        """Import the images of an archive, an open file, which are called `names`."""
        with open(self.folder / 'import.log', 'w+', encoding='utf-8') as said:
            child = self.popen(['ctr', '-n', 'k8s.io', 'images', 'import', '-'], user='root',
                               stdin=archive, stdout=said, stderr=said)
            status = child.wait(IMPORT_TIMEOUT)
            said.seek(0)
            text = said.read()
        found = set(re.findall(r'unpacking (\S+)', text))
        if status or found != names:
            raise BedError(f'ctr import of {", ".join(names)} ended with {status}:\n{text}')


def ctr(node, *words):
    node.run(['ctr', '-n', 'k8s.io', 'images', *words], user='root', timeout=IMPORT_TIMEOUT,
             check=True)


def wait_containerd(node, timeout=120):
    def up():
        return node.path(SOCKET).exists() and \
            node.run(['ctr', '-n', 'k8s.io', 'version'], user='root').returncode == 0
    wait_until(up, timeout, f'{node.name}: containerd')


def prepare(names):
    """A containerd root with the images of these names, made where it is missing; one that has
    others as well will do."""
    wanted = {tag(name.rpartition(':')[0]): made for name, made in images.prepare(names).items()}
    pause = kube_build.programs() / 'pause'
    for root, has in roots().items():
        if wanted.items() <= has.items() and kube_build.held(root):
            return root
    return kube_build.made('images', [pause.read_bytes(), *sorted(wanted.items())],
                           lambda root: make(root, pause, wanted))


def make(root, pause, wanted):
    """`docker save` of all images at once into `ctr import`, beginning with what another root has
    of them, whose files these are then. Who wants the library waits for the first half only."""
    with tempfile.TemporaryDirectory(dir=kube_build.FOLDER, prefix='store-') as temporary:
        folder = Path(temporary)
        have = begin(folder / 'root', wanted)
        missing = {name: image for name, image in wanted.items() if have.get(name) != image}
        archive = folder / 'images.tar'
        if missing:
            with images.locked(fcntl.LOCK_EX), images.Library() as library:
                library.run(['/usr/bin/docker', 'save', '-o', archive, *missing.values()],
                            user='root', timeout=IMPORT_TIMEOUT, check=True)
        with Store(folder) as store:
            (folder / 'pause.tar').write_bytes(single(PAUSE, 'pause', pause.read_bytes()))
            with open(folder / 'pause.tar', 'rb') as whole:
                store.load(whole, {PAUSE})
            if missing:
                with open(archive, 'rb') as whole:
                    store.load(whole, {f'docker.io/{image}' for image in missing.values()})
            for name, image in missing.items():
                ctr(store, 'tag', '--force', f'docker.io/{image}', name)
            remove_others(store, wanted)
        (folder / 'root' / LIST).write_text(json.dumps(wanted))
        os.replace(folder / 'root', root)


def roots():
    """{root: {name: image}} of those that are there; another process may remove one."""
    lists = {}
    for path in kube_build.FOLDER.glob(f'images-*/{LIST}'):
        if not path.parent.suffix:
            with contextlib.suppress(OSError):
                lists[path.parent] = json.loads(path.read_text())
    return lists


def begin(root, wanted):
    """Link the root of others that has most of the images; {name: image} of what it has."""
    lists = roots()
    best = max(lists, key=lambda other: len(lists[other].items() & wanted.items()), default=None)
    if best is None or not kube_build.held(best):
        return {}
    install(best, root)
    (root / LIST).unlink()
    return lists[best]


def remove_others(store, wanted):
    """Remove what the root has beside these images; the names by which CRI knows them stay."""
    said = store.run(['ctr', '-n', 'k8s.io', 'images', 'ls'], user='root', check=True).stdout
    rows = [line.split() for line in said.splitlines()[1:]]
    names = {PAUSE, *wanted, *(f'docker.io/{image}' for image in wanted.values())}
    digests = {row[2] for row in rows if row[0] in names}
    others = [row[0] for row in rows if row[0] not in names and
              not (row[0].startswith('sha256:') and row[2] in digests)]
    if others:
        ctr(store, 'rm', '--sync', *others)


def single(name, program, data):
    """The archive of an image that has one program and nothing else."""
    layer = images.tar_of({program: data})
    about = json.dumps({
        'architecture': 'amd64', 'os': 'linux', 'config': {'Cmd': [f'/{program}']},
        'rootfs': {'type': 'layers', 'diff_ids': [f'sha256:{hashlib.sha256(layer).hexdigest()}']}})
    manifest = json.dumps([{'Config': 'config.json', 'RepoTags': [name], 'Layers': ['layer.tar']}])
    return images.tar_of({'manifest.json': manifest.encode(), 'config.json': about.encode(),
                          'layer.tar': layer})


def install(root, target):
    """Give a node a root of its own: links to the images' files, and copies of the databases."""
    done = subprocess.run(['cp', '-al', root, target], capture_output=True, text=True,
                          timeout=300, check=False)
    if done.returncode:
        raise BedError(f'{target}: {done.stderr.strip()}')
    for path in target.rglob('io.containerd.*/*.db'):
        path.unlink()
        shutil.copy(root / path.relative_to(target), path)
