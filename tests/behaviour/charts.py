# SPDX-License-Identifier: Apache-2.0
"""Helm, and what it makes of deploy/chart."""
import functools
import json
import os
import subprocess
import sys

import pytest
import yaml
from built import ROOT

sys.path.insert(0, str(ROOT / 'tests'))
from bed import kube_build  # noqa: E402 (needs the path above)

CHART = ROOT / 'deploy/chart'


HELMS = ('helm', 'helm4')  # 3 and 4


@functools.cache
def program(name):
    """The path of one of HELMS, fetched where the cluster's tests have not done so."""
    try:
        return kube_build.tools() / name
    except (kube_build.BuildError, OSError) as error:
        pytest.skip(f'Helm cannot be fetched: {error}')


def helm(program, *words, values=None, timeout=60, **options):
    """`values` is a dict that is given as a file of values. Without most of its garbage collection
    Helm takes three quarters of the time."""
    stdin = None if values is None else json.dumps(values)  # which is YAML, too
    words = [*words, *([] if values is None else ['-f', '-'])]
    return subprocess.run([program, *map(str, words)], input=stdin, capture_output=True, text=True,
                          timeout=timeout, check=False,
                          **{'env': {**os.environ, 'GOGC': '400'}, **options})


def render(program, *words, release='mnist', values=None, chart=CHART):
    """{(kind, name): object} of what Helm would apply; hooks are {(kind, name, 'hook'): object}."""
    done = helm(program, 'template', release, chart, *words, values=values)
    assert done.returncode == 0, done.stderr
    objects = {}
    for one in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader):
        if one:
            key = (one['kind'], one['metadata']['name'])
            if 'helm.sh/hook' in one['metadata'].get('annotations', {}):
                key += ('hook',)
            assert key not in objects, key
            objects[key] = one
    return objects


def pod(objects, kind, name):
    return objects[kind, name]['spec']['template']['spec']


def env(container):
    return {each['name']: each.get('value') for each in container['env']}
