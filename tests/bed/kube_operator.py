# SPDX-License-Identifier: Apache-2.0
"""Kubeflow's mpi-operator, made once and kept in build/bed/kube.

Its own go.mod names newer modules of Kubernetes than tests/bed/kubernetes/go.mod, and a thousand
packages would be compiled for it alone, 250 s of a processor. So it is built with the modules of
`kube`, of which Go's cache has all but some forty packages. What its generated client has of the
newer ones is put back; its controller stays as it is.
"""
import shutil
import tempfile
from pathlib import Path

from .kube_build import (BUILD_TIMEOUT, FOLDER, GO_BUILD, SOURCES, BuildError, go, go_env, made,
                         module, run)

#: The module, its digest as in go.sum.
MODULE = ('github.com/kubeflow/mpi-operator@v0.8.2',
          'h1:7PVtV31iX3LSVW0BqRQ64w/NYNfAgP86Bmua2OEi5lg=')
#: What it needs beside the modules of `kube`; and what these would raise of those, which would then
#: be compiled once more.
MORE = '''
require (
\tsigs.k8s.io/scheduler-plugins v0.32.7
\tvolcano.sh/apis v1.12.1
)

exclude (
\tgithub.com/fsnotify/fsnotify v1.8.0
\tgithub.com/go-openapi/jsonreference v0.21.0
\tgithub.com/spf13/pflag v1.0.6
)
'''
SUMS = '''\
github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2/go.mod \
h1:iKH77koFhYxTK1pcRnkKkqfTogsbg7gZNVY4sRDYZ/4=
sigs.k8s.io/scheduler-plugins v0.32.7 h1:fGr4JKraaTe6it4PIqUlXStfctFKYxJgYkDsiU6699o=
sigs.k8s.io/scheduler-plugins v0.32.7/go.mod h1:Oem5rktj6wgFr2SUqcaInUTIBX8tlY8c4qid5vp2lBw=
volcano.sh/apis v1.12.1 h1:yq5dVj/g21vnWObCIKsJKPhMoThpzDrHDD/GMouYVxk=
volcano.sh/apis v1.12.1/go.mod h1:0XNNnIOevJSYNiXRmwhXUrYCcCcWcBeTY0nxrlkk03A=
'''
#: By file of its generated client: what is there, what stands in its place, and what follows.
OLDER = {
    'pkg/client/applyconfiguration/internal/internal.go':
        ('structured-merge-diff/v6', 'structured-merge-diff/v4', ''),
    'pkg/client/informers/externalversions/kubeflow/v2beta1/mpijob.go':
        ('cache.ToListWatcherWithWatchListSemantics(', 'listWatcher(',
         '\nfunc listWatcher(made *cache.ListWatch, _ any) *cache.ListWatch { return made }\n'),
}
#: Only the project's own generator of documents asks for it.
UNUSED = 'pkg/apis/kubeflow/v2beta1/zz_generated.openapi.go'
BUILD = (*GO_BUILD[:-1], '-s -w')


def program():
    """The program mpi-operator, made where it is missing; as kube_build.programs()."""
    modules = [(SOURCES / name).read_text() for name in ('go.mod', 'go.sum')]
    return made('operator', [MODULE, MORE, SUMS, OLDER, UNUSED, BUILD, *modules],
                build) / 'mpi-operator'


def source():
    """The folder of its files, which are not to be changed."""
    return module(*MODULE)


def build(folder):
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix='source-') as temporary:
        tree = copied(Path(temporary))
        # A digest that SUMS lacks is one that Go's own database has to confirm.
        options = ['-mod=mod' if word == '-mod=readonly' else word for word in BUILD]
        run('operator', [go(), *options, '-o', folder / 'mpi-operator', './cmd/mpi-operator'],
            BUILD_TIMEOUT, cwd=tree, env=go_env())


def copied(tree):
    for name in ('cmd', 'pkg'):
        shutil.copytree(source() / name, tree / name, copy_function=shutil.copyfile,
                        ignore=shutil.ignore_patterns('*_test.go'))
    for path in (tree, *tree.rglob('*/')):
        path.chmod(0o755)
    (tree / UNUSED).unlink()
    for name, (newer, older, more) in OLDER.items():
        text = (tree / name).read_text()
        if newer not in text:
            raise BuildError(f'{name} of {MODULE[0]} has no {newer}')
        (tree / name).write_text(text.replace(newer, older) + more)
    text = (SOURCES / 'go.mod').read_text()
    name = MODULE[0].partition('@')[0]
    (tree / 'go.mod').write_text(text.replace('module bed/kube', f'module {name}') + MORE)
    (tree / 'go.sum').write_text((SOURCES / 'go.sum').read_text() + SUMS)
    return tree
