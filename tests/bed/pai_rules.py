# SPDX-License-Identifier: Apache-2.0
"""What OpenPAI's REST server takes for a job, and its words for what it refuses.

Version 0.14 judges a job's JSON with Joi, which stops at the first error; protocol v2 is judged by
a JSON schema with ajv, which tells all. Both end in a list of roles, with the commands as the
server hands them to the containers.
"""
import copy
import json
import re
from dataclasses import dataclass, field

import yaml


class Refused(Exception):
    """The answer to a request that the server refuses: status, its own code, and its message."""

    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass
class Role:
    name: str        # as the job's file has it
    count: int
    command: str     # templates are filled in, lines are joined
    image: str
    cpu: int
    gpu: int
    memory: int      # in MiB, as shm
    shm: int
    ports: dict = field(default_factory=dict)    # label -> (first one or 0, how many)
    min_failed: int | None = 1
    min_succeeded: int | None = None
    infiniband: bool = False
    retries: int = 0   # of each task, by protocol v2 on Kubernetes


def invalid(message):
    return Refused(400, 'InvalidParametersError', message)


# ---------------------------------------------------------------------------- API v1: Joi

NAME_V1, WORD, LABEL = r'^[A-Za-z0-9\-._]+$', r'^[A-Za-z0-9._]+$', r'^[A-Za-z0-9._~]+$'
GONE = object()
DEFAULT_SHM, DEFAULT_MEMORY = 64, 100


class Joi:
    """One value's rule. check(name, value) returns the value to use, or raises Words."""

    class Words(Exception):
        pass

    def __init__(self, kind, required=False, default=GONE, least=None, pattern=None, items=None,
                 keys=None, some_keys=None, null=False, empty=False, at_least=0):
        # pylint: disable=too-many-arguments,too-many-positional-arguments
        self.kind, self.required, self.default, self.null = kind, required, default, null
        self.least, self.pattern, self.items, self.keys = least, pattern, items, keys
        self.some_keys, self.empty, self.at_least = some_keys, empty, at_least

    def check(self, name, value):
        if value is GONE:
            if self.required:
                raise self.Words(f'"{name}" is required')
            return self.default if self.default is GONE else copy.copy(self.default)
        if value is None and self.null:
            return None
        return getattr(self, self.kind)(name, value)

    def string(self, name, value):
        if not isinstance(value, str):
            raise self.Words(f'"{name}" must be a string')
        if not value and not self.empty:
            raise self.Words(f'"{name}" is not allowed to be empty')
        if self.pattern and not re.search(self.pattern, value):
            raise self.Words(f'"{name}" with value "{value}" fails to match the required pattern: '
                             f'/{self.pattern}/')
        return value

    def integer(self, name, value):
        if isinstance(value, str) and re.fullmatch(r'\s*[+-]?\d+(\.\d+)?\s*', value):
            value = float(value) if '.' in value else int(value)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.Words(f'"{name}" must be a number')
        if value != int(value):
            raise self.Words(f'"{name}" must be an integer')
        if self.least is not None and value < self.least:
            raise self.Words(f'"{name}" must be larger than or equal to {self.least}')
        return int(value)

    def array(self, name, value):
        if not isinstance(value, list):
            raise self.Words(f'"{name}" must be an array')
        made = []
        for i, each in enumerate(value):
            try:
                made.append(self.items.check(str(i), each))
            except self.Words as words:
                raise self.Words(f'"{name}" at position {i} fails because [{words}]') from None
        if len(value) < self.at_least:
            raise self.Words(f'"{name}" must contain at least {self.at_least} items')
        return made

    def object(self, name, value):
        if not isinstance(value, dict):
            raise self.Words(f'"{name}" must be an object')
        if self.keys is None:
            for key in value:
                if not re.search(self.some_keys, key):
                    raise self.Words(f'"{key}" is not allowed')
            return value
        made = {}
        for key, rule in self.keys.items():
            try:
                found = rule.check(key, value.get(key, GONE))
            except self.Words as words:
                raise self.Words(f'child "{key}" fails because [{words}]') from None
            if found is not GONE:
                made[key] = found
        for key in value:
            if key not in self.keys:
                raise self.Words(f'"{key}" is not allowed')
        return made


def path():
    return Joi('string', default='', empty=True)


def count(default, **more):
    return Joi('integer', default=default, **more)


PORT = Joi('object', keys={
    'label': Joi('string', required=True, pattern=LABEL),
    'beginAt': count(0), 'portNumber': count(1)})
ROLE = Joi('object', keys={
    'name': Joi('string', required=True, pattern=LABEL),
    'taskNumber': count(1), 'cpuNumber': count(1), 'memoryMB': count(DEFAULT_MEMORY),
    'shmMB': count(DEFAULT_SHM), 'gpuNumber': count(0),
    'portList': Joi('array', default=[], items=PORT),
    'command': Joi('string', required=True),
    'minFailedTaskCount': count(1, least=1, null=True),
    'minSucceededTaskCount': count(None, least=1, null=True)})
JOB = Joi('object', keys={
    'jobName': Joi('string', required=True, pattern=NAME_V1),
    'image': Joi('string', required=True),
    'authFile': path(), 'dataDir': path(), 'outputDir': path(), 'codeDir': path(),
    'virtualCluster': Joi('string', default='default', empty=True),
    'gpuType': path(),
    'taskRoles': Joi('array', required=True, items=ROLE, at_least=1),
    'retryCount': count(0, least=-2),
    'killAllOnCompletedTaskNumber': Joi('integer'),
    'jobEnvs': Joi('object', some_keys=r'\w'),
    'extras': Joi('object', some_keys=WORD)})


def read_v1(body):
    """The job with its defaults, and its roles; Refused where the server refuses it."""
    try:
        job = JOB.check('value', body)
        for i, role in enumerate(job['taskRoles']):
            if role['shmMB'] > role['memoryMB']:
                raise Joi.Words('child "taskRoles" fails because ["taskRoles" at position '
                                f'{i} fails because [child "shmMB" fails because ["shmMB" must be '
                                'less than or equal to ref:memoryMB]]]')
    except Joi.Words as words:
        raise invalid(str(words)) from None
    for role in job['taskRoles']:
        if max(role['minFailedTaskCount'] or 0, role['minSucceededTaskCount'] or 0) > \
                role['taskNumber']:
            raise invalid('minFailedTaskCount or minSucceededTaskCount should not be greater than '
                          'tasks number.')
    return job, [role_v1(job, role) for role in job['taskRoles']]


def role_v1(job, role):
    ports = {p['label']: (p['beginAt'], p['portNumber']) for p in role['portList']}
    # A text "true" is no true: the server compares with the boolean.
    rdma = (job.get('jobEnvs') or {}).get('paiAzRDMA') is True
    return Role(role['name'], role['taskNumber'], role['command'], job['image'], role['cpuNumber'],
                role['gpuNumber'], role['memoryMB'], role['shmMB'], ports,
                role['minFailedTaskCount'], role['minSucceededTaskCount'], rdma)


# ---------------------------------------------------------------------------- protocol v2: ajv

NUMBER, TEXT, ANY = {'type': 'integer'}, {'type': 'string'}, {}
TEXTS = {'type': 'array', 'items': TEXT, 'minItems': 1}
VERSION = {'enum': [2, '2']}
MAYBE = {'type': ['integer', 'null']}
ROLE_NAME = r'^[a-zA-Z_][a-zA-Z0-9_]*$'


def closed(properties, required=()):
    return {'type': 'object', 'properties': properties, 'required': list(required),
            'additionalProperties': False}


def prerequisite(version):
    """v1.8 lets plug-ins say where files are, so that uri is not asked for."""
    image = closed({
        'protocolVersion': VERSION, 'name': TEXT, 'type': {'enum': ['dockerimage']},
        'version': {'type': ['string', 'number']}, 'contributor': TEXT, 'description': TEXT,
        'uri': TEXT, 'auth': closed({'username': TEXT, 'password': TEXT, 'registryuri': TEXT})},
        ['name', 'type', 'uri'])
    files = closed({
        'protocolVersion': VERSION, 'name': TEXT, 'type': {'enum': ['script', 'output', 'data']},
        'version': {'type': ['string', 'number']}, 'contributor': TEXT, 'description': TEXT,
        'uri': {'type': ['string', 'array']}}, ['name', 'type', 'uri'])
    if version == 'v1.8':
        files = closed({**files['properties'], 'plugin': TEXT, 'require': {'type': 'array'}},
                       ['name', 'type'])
        files['additionalProperties'] = True
    return image, files


def protocol(version):
    role = closed({
        'protocolVersion': VERSION, 'instances': {'type': 'integer', 'minimum': 1},
        'completion': closed({'minFailedInstances': MAYBE, 'minSucceededInstances': MAYBE}),
        'taskRetryCount': {'type': 'integer', 'minimum': 0},
        'dockerImage': TEXT, 'data': TEXT, 'output': TEXT, 'script': TEXT,
        'extraContainerOptions': {'type': 'object', 'properties': {
            'shmMB': NUMBER, 'infiniband': {'type': 'boolean'}}},
        'resourcePerInstance': closed({
            'cpu': NUMBER, 'memoryMB': NUMBER, 'gpu': NUMBER,
            'ports': {'type': 'object', 'minProperties': 1, 'names': ROLE_NAME,
                      'values': NUMBER}},
            ['cpu', 'memoryMB', 'gpu']),
        'commands': TEXTS}, ['dockerImage', 'resourcePerInstance', 'commands'])
    if version == 'v0.14':
        role['properties']['completion']['properties'].update(
            minFailedTaskCount=ANY, minSucceededTaskCount=ANY)
    if version == 'v1.8':
        role['properties']['prerequisites'] = {'type': 'array', 'items': TEXT}
    hooks = {'type': 'object', 'values': closed({'preCommands': TEXTS, 'postCommands': TEXTS})}
    return closed({
        'protocolVersion': VERSION,
        'name': {'type': 'string', 'pattern': '^[a-zA-Z0-9_-]+$', 'maxLength': 255},
        'type': {'enum': ['job']}, 'version': {'type': ['string', 'number']}, 'contributor': TEXT,
        'description': TEXT, 'prerequisites': {'type': 'array'},
        'parameters': {'type': 'object'}, 'secrets': {'type': 'object'},
        'jobRetryCount': {'type': 'integer', 'minimum': 0},
        'taskRoles': {'type': 'object', 'minProperties': 1, 'names': ROLE_NAME, 'values': role},
        'deployments': {'type': 'array', 'minItems': 1,
                        'items': closed({'name': TEXT, 'taskRoles': hooks}, ['name', 'taskRoles'])},
        'defaults': {'type': 'object', 'properties': {'virtualCluster': TEXT, 'deployment': TEXT}},
        'extras': {'type': 'object'}}, ['protocolVersion', 'name', 'type', 'taskRoles'])


def is_a(kind, value):
    whole = isinstance(value, (int, float)) and not isinstance(value, bool)
    return {'object': isinstance(value, dict), 'array': isinstance(value, list),
            'string': isinstance(value, str), 'boolean': isinstance(value, bool),
            'null': value is None, 'number': whole,
            'integer': whole and value == int(value)}[kind]


def below(at, key):
    if isinstance(key, int):
        return f'{at}[{key}]'
    return f'{at}.{key}' if re.fullmatch(r'[a-zA-Z_$][\w$]*', key) else f"{at}['{key}']"


def judge(schema, value, at=''):
    """All errors, as ajv writes them. `values` and `names` are of all members of an object."""
    errors = []

    def wrong(keyword, message, **params):
        errors.append({'keyword': keyword, 'dataPath': at, 'schemaPath': f'#/{keyword}',
                       'params': params, 'message': message})

    kinds = schema.get('type')
    if kinds:
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if not any(is_a(kind, value) for kind in kinds):
            wrong('type', f'should be {",".join(kinds)}', type=','.join(kinds))
            return errors
    if 'enum' in schema and value not in schema['enum']:
        wrong('enum', 'should be equal to one of the allowed values', allowedValues=schema['enum'])
    if is_a('number', value) and value < schema.get('minimum', value):
        wrong('minimum', f'should be >= {schema["minimum"]}', limit=schema['minimum'])
    if isinstance(value, str):
        if 'pattern' in schema and not re.search(schema['pattern'], value):
            wrong('pattern', f'should match pattern "{schema["pattern"]}"',
                  pattern=schema['pattern'])
        if len(value) > schema.get('maxLength', len(value)):
            wrong('maxLength', f'should NOT be longer than {schema["maxLength"]} characters')
    if isinstance(value, list):
        if len(value) < schema.get('minItems', 0):
            wrong('minItems', f'should NOT have fewer than {schema["minItems"]} items')
        for i, each in enumerate(value):
            errors += judge(schema.get('items', ANY), each, below(at, i))
    if isinstance(value, dict):
        errors += judge_object(schema, value, at, wrong)
    return errors


def judge_object(schema, value, at, wrong):
    errors = []
    for key in schema.get('required', ()):
        if key not in value:
            wrong('required', f"should have required property '{key}'", missingProperty=key)
    if len(value) < schema.get('minProperties', 0):
        wrong('minProperties', f'should NOT have fewer than {schema["minProperties"]} properties')
    for key, each in value.items():
        known = schema.get('properties', {})
        if not isinstance(key, str):
            key = str(key)
        if 'names' in schema and not re.search(schema['names'], key) or \
                schema.get('additionalProperties') is False and key not in known:
            wrong('additionalProperties', 'should NOT have additional properties',
                  additionalProperty=key)
            continue
        errors += judge(known.get(key, schema.get('values', ANY)), each, below(at, key))
    return errors


def bad_protocol(message):
    text = message if isinstance(message, str) else json.dumps(message)
    return Refused(400, 'InvalidProtocolError', text)


def read_v2(text, version):
    """The job of a request's body, and its roles. A body that is no text was JSON, or of a type
    that the server has no parser for, and is then an empty object."""
    if not isinstance(text, str):
        raise bad_protocol([{'keyword': 'type', 'dataPath': '', 'schemaPath': '#/type', 'params': {
            'type': 'object'}, 'message': 'should be object'}])
    try:
        job = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Refused(500, None, str(error)) from None
    errors = judge(protocol(version), job)
    image, files = prerequisite(version)
    if not errors:
        for i, each in enumerate(job.get('prerequisites', ())):
            kind = each.get('type') if isinstance(each, dict) else None
            errors += judge(image if kind == 'dockerimage' else files, each, f'.prerequisites[{i}]')
    if errors:
        raise bad_protocol(errors)
    known = {}
    for each in job.get('prerequisites', ()):
        if (each['type'], each['name']) in known:
            raise bad_protocol(f'Duplicate {each["type"]} prerequisites {each["name"]}.')
        known[each['type'], each['name']] = each
    deployments = deployments_of(job)
    for role in job['taskRoles'].values():
        for kind in ('script', 'output', 'data', 'dockerImage'):
            if kind in role and (kind.lower(), role[kind]) not in known:
                raise bad_protocol(f'Prerequisite {role[kind]} does not exist.')
    chosen = (job.get('defaults') or {}).get('deployment')
    if chosen is not None and chosen not in deployments:
        raise bad_protocol(f'Default deployment {chosen} does not exist.')
    hooks = deployments.get(chosen, {}).get('taskRoles', {})
    return job, [role_v2(job, known, name, hooks.get(name, {}), version)
                 for name in job['taskRoles']]


def deployments_of(job):
    found = {}
    for each in job.get('deployments', ()):
        if each['name'] in found:
            raise bad_protocol(f'Duplicate deployments {each["name"]}.')
        found[each['name']] = each
    return found


def role_v2(job, known, name, hooks, version):
    role = job['taskRoles'][name]
    lines = hooks.get('preCommands', []) + role['commands'] + hooks.get('postCommands', [])
    values = {'$parameters': job.get('parameters'), '$secrets': job.get('secrets')}
    for kind in ('script', 'output', 'data'):
        values[f'${kind}'] = known.get((kind, role.get(kind)))
    joint = '\n' if version == 'v1.8' else ' && '
    command = fill(joint.join(line.strip() for line in lines), values, version)
    done = role.get('completion') or {}
    options = role.get('extraContainerOptions') or {}
    resources = role['resourcePerInstance']
    count_of = role.get('instances', 1)
    old = version == 'v0.14'
    return Role(
        name, count_of, command, known['dockerimage', role['dockerImage']]['uri'],
        resources['cpu'], resources['gpu'], resources['memoryMB'],
        options.get('shmMB') or (DEFAULT_SHM if old else 512),
        {label: (0, number) for label, number in resources.get('ports', {}).items()},
        done.get('minFailedInstances', 1) if old else done.get('minFailedInstances') or 1,
        done.get('minSucceededInstances') or (None if old else count_of),
        options.get('infiniband') is True, 0 if old else role.get('taskRetryCount', 0))


def fill(text, values, version):
    """Put values in the place of templates. What names nothing stays in v1.8, and is nothing in
    v0.14."""
    def value(match):
        found = values
        for step in re.sub(r'\[(\d+)\]', r'.\1', match[1]).split('.'):
            if isinstance(found, dict):
                found = found.get(step)
            elif isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                found = None
        if found is None:
            return match[0] if version == 'v1.8' else ''
        return str(found)
    return re.sub(r'<%\s*(\S+?)\s*%>', value, text).strip()
