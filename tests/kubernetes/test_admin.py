# SPDX-License-Identifier: Apache-2.0
"""What docs/kubernetes-admin.md tells administrators, held against a real cluster."""
import json
import re

from built import PROGRAMS, ROOT

PAGE = (ROOT / 'docs/kubernetes-admin.md').read_text()
USERS = (ROOT / 'docs/kubernetes.md').read_text()
LEVELS = ('privileged', 'baseline', 'restricted')
LIMIT = 120
IMAGE = 'localhost/base:1'


def objects(page):
    """The texts of a page's blocks that are objects."""
    return [text for text in re.findall(r'```yaml\n(.*?)```', page, re.S) if 'apiVersion' in text]


def test_objects_of_the_pages_are_taken(kube):
    made = [*objects(PAGE), *objects(USERS)]
    said = kube.kubectl('apply', '--server-side', '--dry-run=server', '--validate=strict', '-f',
                        '-', input='---\n'.join(made))
    assert said.count('serverside-applied') == sum(text.count('apiVersion') for text in made)
    assert 'networkpolicy' in said and 'rolebinding' in said, said


def test_the_role_of_the_page_is_all_that_a_user_needs(kube):
    """carol is of the group in the page's RoleBinding, and of nothing else."""
    cluster = kube.cluster
    role = next(text for text in objects(USERS) if 'kind: Role\n' in text)
    binding = next(text for text in objects(PAGE) if 'kind: RoleBinding\n' in text)
    kube.kubectl('apply', '--server-side', '-f', '-', input=f'{role}---\n{binding}')
    cluster.certify('carol', '/O=data-science/CN=carol')
    config = cluster.laptop.write('.kube/carol', cluster.kubeconfig('carol', kube.name), mode=0o600)

    def reigen(*words):
        return cluster.run([PROGRAMS.reigen, *words], env={'KUBECONFIG': config}, timeout=LIMIT)
    command = ('-np', '2', '--no-inject-runtime', '--image', IMAGE, '--', 'echo', 'ran')
    done = reigen('run', '--on', 'kubernetes', *command)
    assert done.returncode == 0 and done.stdout.count('ran') == 2, done
    done = reigen('run', '--submit', '--on', 'kubernetes', '--name', 'carols', *command)
    assert done.returncode == 0, done
    assert reigen('logs', '-f', 'carols').stdout.count('ran') == 2
    assert 'ended with exit code 0' in reigen('status', 'carols').stdout
    assert reigen('stop', 'carols').stdout == 'stopped carols\n'


def rows():
    """[(options, what the page says of each level)] of its table of pod security."""
    table = re.search(r'^\| what users say \|.*?\n\|[-|]+\n(.*?)\n\n', PAGE, re.M | re.S)[1]
    found = []
    for line in table.splitlines():
        text, *cells = (cell.strip() for cell in line.strip('|').split('|'))
        options = [word.split() for word in re.findall(r'`([^`]*)`', text)]
        words = [] if text.startswith('nothing') else sum(options, [])
        found.append((words, [cell.split(':')[0] == 'yes' for cell in cells]))
    return found


def pod_of(kube, number, words):
    """The pod that a job with these options would have."""
    dry = kube.run([PROGRAMS.reigen, 'run', '--on', 'kubernetes', '--name', 'dry', '-np', '1',
                    '--no-inject-runtime', '--image', IMAGE, '--dry-run', *words, '--', 'true'])
    assert dry.returncode == 0, (words, dry)
    made = kube.kubectl('create', '--dry-run=client', '-o', 'json', '-f', '-', input=dry.stdout)
    decoder, items = json.JSONDecoder(), []
    while made.strip():
        value, end = decoder.raw_decode(made.strip())
        made = made.strip()[end:]
        items += value.get('items', [value])
    job, = (item for item in items if item['kind'] == 'Job')
    template = job['spec']['template']
    return {'apiVersion': 'v1', 'kind': 'Pod', 'spec': template['spec'],
            'metadata': {'name': f'row-{number}', 'labels': template['metadata']['labels']}}


def test_options_need_the_pod_security_that_the_page_says(kube):
    table = rows()
    assert len(table) == 9 and all(len(allowed) == 3 for _, allowed in table), table
    pods = [pod_of(kube, number, words) for number, (words, _) in enumerate(table)]
    whole = json.dumps({'apiVersion': 'v1', 'kind': 'List', 'items': pods})
    for column, level in enumerate(LEVELS):
        kube.label(**{'pod-security.kubernetes.io/enforce': level})
        done = kube.run(['kubectl', 'create', '--dry-run=server', '-f', '-'], input=whole)
        taken = {int(n) for n in re.findall(r'^pod/row-(\d+) created', done.stdout, re.M)}
        refused = re.findall(r'pods "row-(\d+)" is forbidden: violates PodSecurity', done.stderr)
        assert len(taken) + len(refused) == len(table), done
        meant = {n for n, (_, allowed) in enumerate(table) if allowed[column]}
        assert taken == meant, (level, done)
