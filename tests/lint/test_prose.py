# SPDX-License-Identifier: Apache-2.0
"""Facts travel as fields: nothing takes a sentence apart that this repository has made."""
import re

import repo

PARSES = re.compile(r'\b(sscanf|fscanf|strstr|strcasestr|strn?casecmp|strn?cmp|rg_str_starts)\(')
LITERAL = re.compile(r'"((?:\\.|[^"\\])*)"')
CONVERSION = re.compile(r'%\*?\d*(?:\[\^?\]?[^\]]*\]|l*[a-zA-Z])')
#: A word and a blank behind it: of a sentence.
WORDS = re.compile(r'[A-Za-z]{2,}[:,]? +')
#: Texts that are made for people.
FOR_PEOPLE = re.compile(r'\b\w*(?:note|cause|reason|remark|last_lines)\w*\b|'
                        r'\berr(?:or)?(?:->|\.)text\b')
#: Files that parse what other programs say or write, and whose words those are.
FOREIGN = {
    'src/agent/contain/contain_run.c': "a container's runtime",
    'src/agent/engine/engine.c': 'MPI',
    'src/agent/look/doctor.c': "the kernel's files, and tools",
    'src/cmd/compat/sshconfig_make.c': 'key files',
    'src/coll/observe/stacks.c': "what Python's faulthandler writes",
    'src/coll/observe/stall.c': 'a table that ranks exchange',
    'src/coll/observe/stall_facts.c': 'a table that ranks exchange',
    'src/launch/doctor/doctor_gpus.c': 'nvidia-smi',
    'src/launch/doctor/doctor_mpi.c': 'the versions that MPIs print',
    'src/platform/kubernetes/outside/hopeless.c': 'Kubernetes',
    'src/platform/kubernetes/server/explain.c': 'kubectl and Kubernetes',
    'src/platform/ssh/explain.c': 'ssh',
    'src/launch/jobs/submitted.c': "a job's file, to which its script adds",
    'src/job/slurm.c': 'Slurm',
}
FOREIGN_FOLDERS = ('src/container/', 'src/platform/openpai/server/',
                   'src/platform/slurm/', 'src/platform/common/http/')
#: Single places: what they look for there, and why they may.
PLACES = {
    ('src/agent/start/lines.c', '"guard on"'): 'a line of the protocol',
    ('src/agent/start/lines.c', '"guard report"'): 'a line of the protocol',
    ('src/base/error.c', '"ulimit -n"'): 'a remedy is not told twice',
    ('src/cmd/compat/horovodrun.c', '"python "'): "a script's answer, word by word",
    ('src/cmd/jobs/jobs_print.c', '"exit "'): 'a colour, by the state that the list shows',
    ('src/head/show/verdict.c', 'says'): "Python's error about a module that is missing",
    ('src/coll/mpi/mpi_shim.c', '"Open MPI"'): "an MPI's own name, as it gives it",
    ('src/launch/host/preamble.c', 'mark'): "the guard's last word, among what others wrote",
    ('src/launch/host/preamble.c', '"reigen-agent: "'): "the agent's log",
    ('src/platform/openpai/jobfile/waits.c', '"tail -f /dev/null"'): "a user's command",
    ('src/launch/verdict/failure.c', '"File'): "Python's",
    ('src/launch/verdict/failure.c', ', line "'): "Python's",
    ('src/launch/verdict/tail.c', '"Traceback'): "Python's",
    ('src/launch/verdict/tail.c', '" File'): "Python's",
}


def arguments(text, start):
    """What stands between the bracket that ends before start and the one that closes it."""
    depth, at = 1, start
    while depth and at < len(text):
        literal = LITERAL.match(text, at)
        if literal:
            at = literal.end()
            continue
        depth += {'(': 1, ')': -1}.get(text[at], 0)
        at += 1
    return text[start:at - 1]


def parsed():
    """[(file, line, what)]: where a text for people, or the words of a sentence, are looked for."""
    found = []
    for path in repo.with_suffix('.c', under='src/'):
        text = repo.COMMENT.sub(lambda m: re.sub(r'[^\n]', ' ', m.group()), repo.read(path))
        named = dict(re.findall(r'\bconst char (\w+)\[\] =\s*"((?:\\.|[^"\\])*)"', text))
        for match in PARSES.finditer(text):
            given = arguments(text, match.end())
            literals = LITERAL.findall(given) + [named[word] for word in re.findall(r'\w+', given)
                                                 if word in named]
            words = any(WORDS.search(CONVERSION.sub('', literal)) for literal in literals)
            looks = match[1] != 'strcmp' and FOR_PEOPLE.search(given.split(',')[0])
            if words or looks:
                found.append((repo.name(path), text[:match.start()].count('\n') + 1,
                              match.group() + ' '.join(given.split())[:60] + ')'))
    return found


def places(name, what):
    """The entries of PLACES that permit this."""
    return {(file, words) for file, words in PLACES if file == name and words in what}


def test_no_sentence_of_ours_is_parsed():
    repo.report([f'{name}:{line}: {what}: a fact is to travel as a field' for name, line, what
                 in parsed() if name not in FOREIGN and not name.startswith(FOREIGN_FOLDERS) and
                 not places(name, what)])


def test_whoever_may_parse_does():
    used = {name for name, _, _ in parsed()}
    for name, _, what in parsed():
        used |= places(name, what)
    repo.report([f'{entry}: parses nothing any more: strike it from this list'
                 for entry in [*FOREIGN, *PLACES] if entry not in used])


def test_python_parses_no_description():
    problems = [repo.name(path) for path in repo.with_suffix('.py', under='bindings/python/')
                if re.search(r'\bdescribe\(\)\s*\.\s*\w+|'
                             r'reigen_(describe|planes)\(\)\S*\.(split|part)', repo.read(path))
                and not repo.name(path).endswith('_core.py')]
    repo.report([f'{name}: takes describe() apart: ask a function' for name in problems])
