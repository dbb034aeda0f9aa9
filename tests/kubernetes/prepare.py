# SPDX-License-Identifier: Apache-2.0
"""What the tests of this folder need and keep from one time to the next: Kubernetes itself, and the
images of their clusters.

    python3 tests/kubernetes/prepare.py             makes what is missing of them
    python3 tests/kubernetes/prepare.py operator    Kubeflow's mpi-operator, for one test alone

`make check-all` runs the first before this folder's tests and the second beside them; a test that
needs something sooner waits for it, or makes it.
"""
import os
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / 'behaviour')]

import originals  # noqa: E402 (needs the path above)
from bed import images, kube_build, kube_operator, kube_store, node  # noqa: E402

#: Those of the cluster kube3.
IMAGES = ('base', 'distroless', 'scratch-static', 'trainer')


def original(folder):
    """The images of the cluster originals3; `folder` is for the build contexts."""
    return [f'{originals.build(folder)}=original', 'distroless']


def main():
    if os.geteuid() != 0:
        sys.exit('prepare: only root can make images')
    try:
        if sys.argv[1:] == ['operator']:
            kube_operator.program()
            return
        kube_build.programs()
        with tempfile.TemporaryDirectory(dir=images.folder(), prefix='context-') as temporary:
            # Both clusters' at once: they have most of their layers in common.
            kube_store.prepare([*IMAGES, *original(Path(temporary))])
    except (kube_build.BuildError, node.BedError) as error:
        sys.exit(f'prepare: {error}')


if __name__ == '__main__':
    main()
