# SPDX-License-Identifier: Apache-2.0
"""Who uses whom among the folders of src/: by includes, and by the functions and tables that one
file names and another one defines. Run as a program it prints the figures of the structure."""
import functools
import re
import sys
from collections import defaultdict
from typing import NamedTuple

import repo

LIST = repo.ROOT / 'tests' / 'lint' / 'folders.txt'
INCLUDE = re.compile(r'^#include "([a-z]+/[^"]+)"', re.M)
DEFINED = re.compile(r'^(?!static\b|typedef\b|extern\b|return\b|struct \w+ \{)'
                     r'[a-z][\w \t*()]*?\b([a-z]\w*)(?:\[[^\]]*\])?(?:\(| = |;)', re.M)
WORD = re.compile(r'(?<!struct )\b[a-z]\w*_\w+\b')


def folder_of(path):
    return '/'.join(path.split('/')[:-1])


@functools.lru_cache(maxsize=None)
def sources():
    """{path below src/: its text without comments and strings}."""
    found = {}
    for path in repo.with_suffix('.c', '.h', '.inc', under='src/'):
        text = repo.COMMENT.sub(' ', repo.read(path))
        found[repo.name(path)[4:]] = text
    return found


#: It defines functions of libsodium's for the agent, which others use as libsodium's.
STAND_IN = 'programs/agent/codecs.c'


@functools.lru_cache(maxsize=None)
def definitions():
    """{name: the one .c file that defines it}; names that several define are left out."""
    where = defaultdict(set)
    for path, text in sources().items():
        if not path.endswith('.c') or path == STAND_IN:
            continue
        text = repo.STRING.sub('""', text)
        for match in DEFINED.finditer(text):
            line = text[match.start():match.start() + 400]
            body = line.find('{'), line.find(';')
            if match.group(0).endswith('(') and (body[0] < 0 or 0 <= body[1] < body[0]):
                continue                # a declaration
            where[match.group(1)].add(path)
    return {name: paths.pop() for name, paths in where.items() if len(paths) == 1}


@functools.lru_cache(maxsize=None)
def arrows():
    """{(file, file): why}, from who uses to who is used, over all of src/."""
    found = {}
    for path, text in sources().items():
        for target in INCLUDE.findall(text):
            if target in sources():
                found.setdefault((path, target), 'includes it')
        if path.endswith('.h'):
            continue
        for word in sorted(set(WORD.findall(repo.STRING.sub('""', text)))):
            target = definitions().get(word)
            if target and target != path:
                found.setdefault((path, target), f'uses {word}')
    return found


def folder_edges():
    """{(folder, folder): [(file, file, why)]}."""
    found = defaultdict(list)
    for (user, used), why in arrows().items():
        if folder_of(user) != folder_of(used):
            found[folder_of(user), folder_of(used)].append((user, used, why))
    return found


def matches(pattern, folder):
    return re.fullmatch(pattern.replace('*', '[^/]+'), folder)


@functools.lru_cache(maxsize=None)
def allowed():
    """What folders.txt says: ({folder: its headers}, {folder: the folders it may use})."""
    headers, uses, patterns = {}, {}, {}
    for line in LIST.read_text().splitlines():
        line = line.split('#')[0].strip()
        if not line:
            continue
        name, rest = line.split(':')
        mine, _, others = rest.partition('|')
        where = patterns if '*' in name else uses
        where[name.strip()] = others.split()
        headers[name.strip()] = mine.split()
    for folder in {folder_of(path) for path in sources()} - set(uses):
        for pattern in [p for p in patterns if matches(p, folder)]:
            name = folder.split('/')[pattern.split('/').index('*')]
            headers[folder] = headers[pattern]
            uses[folder] = [other.replace('*', name) for other in patterns[pattern]]
    return headers, {folder: [name for other in others for name in
                              ([f for f in uses if matches(other, f)] if '*' in other else [other])]
                     for folder, others in uses.items()}


def cycles(edges):
    """The circles of a graph, each as the set of its places (Tarjan 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(place):
        index[place] = low[place] = len(index)
        stack.append(place)
        for other in edges.get(place, ()):
            if other not in index:
                visit(other)
            if other in stack:
                low[place] = min(low[place], low[other])
        if low[place] == index[place]:
            circle = set()
            while place not in circle:
                circle.add(stack.pop())
            if len(circle) > 1:
                found.append(circle)

    sys.setrecursionlimit(10000)
    for place in list(edges):
        if place not in index:
            visit(place)
    return found


def rooms():
    """The graph of modules, a .c with its .h: {module: modules that it uses}."""
    found = defaultdict(set)
    for user, used in arrows():
        a, b = user.rsplit('.', 1)[0], used.rsplit('.', 1)[0]
        if a != b:
            found[a].add(b)
    return found


def upward(layer):
    """Arrows among a layer's files that run upward: those that close a circle when the files are
    walked depth first."""
    edges = {a: {b for b in bs if b.startswith(layer)} for a, bs in rooms().items()
             if a.startswith(layer)}
    state, back = {}, []

    def visit(place):
        state[place] = 1
        for other in sorted(edges.get(place, ())):
            if state.get(other) == 1:
                back.append((place, other))
            elif other not in state:
                visit(other)
        state[place] = 2

    sys.setrecursionlimit(10000)
    for place in sorted(edges):
        if place not in state:
            visit(place)
    return back


FILES_MAX = 22      # in a folder
FIELDS_MAX = 30     # of a struct, but for those of MANY_FIELDS
#: Arrows among files that run upward, and files that stand in circles: all of src, and those layers
#: that have none. What is less today is the limit tomorrow.
UPWARD_MAX, CIRCLES_MAX = 0, 0
CLEAN = ('base/', 'wire/', 'container/', 'job/', 'launch/', 'platform/', 'head/', 'agent/', 'cmd/',
         'coll/', 'render/', 'model/', 'traced/', 'simulate/', 'programs/')
LAYERS = ('base/', 'wire/', 'container/', 'job/', 'launch/', 'platform/', 'head/', 'agent/', 'cmd/',
          'coll/', '')
PAGE = repo.ROOT / 'docs/architecture.md'
MARKS = '<!-- figures -->\n', '<!-- end of figures -->\n'
# What the user asked for has as many fields as there are options: it is a record, not a state.
MANY_FIELDS = {'rg_job', 'rg_request', 'rg_msg_setup'}


def fields():
    """[(file, struct, number of its fields)], nested ones included."""
    found = []
    for path, text in sources().items():
        for match in re.finditer(r'^struct (\w+) \{\n(.*?)^\}', text, re.S | re.M):
            body = re.sub(r'\([^()]*\)', '', re.sub(r'\([^()]*\)', '', match.group(2)))
            body = re.sub(r'\[[^\]]*\]', '', re.sub(r'\([^()]*\)', '', body))
            found.append((path, match.group(1),
                          sum(part.count(',') + 1 for part in body.split(';')
                              if part.strip(' \n}'))))
    return found


def problems():
    """Everything that is not as folders.txt and the limits say, one sentence each."""
    headers, uses = allowed()
    found = []
    for (a, b), why in sorted(folder_edges().items()):
        if b not in uses.get(a, []):
            found += [f'{user}: {reason} ({used}), but {a} may not use {b}'
                      for user, used, reason in sorted(why)]
    for (user, used), why in sorted(arrows().items()):
        mine = headers.get(folder_of(used), [])
        if (folder_of(user) != folder_of(used) and why == 'includes it' and '*' not in mine and
                used.split('/')[-1] not in mine):
            found.append(f'{user}: includes {used}, which is private to its folder')
    folders = [folder_of(path) for path in sources()]
    for folder in sorted(set(folders)):
        if folder not in headers:
            found.append(f'{folder}: is not in folders.txt')
        if folders.count(folder) > FILES_MAX:
            found.append(f'{folder}: {folders.count(folder)} files, more than {FILES_MAX}')
    for circle in cycles(uses):
        found.append(f'folders.txt: a circle: {" ".join(sorted(circle))}')
    for path, name, count in fields():
        if count > FIELDS_MAX and name not in MANY_FIELDS:
            found.append(f'{path}: struct {name} has more than {FIELDS_MAX} fields')
    for layer in CLEAN:
        found += [f'{layer[:-1]}: {user} -> {used} runs upward: take what both need out of one'
                  for user, used in upward(layer)]
    figures = figures_of('')
    if figures.upward > UPWARD_MAX:
        found.append(f'src: {figures.upward} arrows among its files run upward, not {UPWARD_MAX}')
    if figures.in_circles > CIRCLES_MAX:
        found.append(f'src: {figures.in_circles} files stand in circles, not {CIRCLES_MAX}')
    return found


class Figures(NamedTuple):
    files: int
    arrows: int
    upward: int
    in_circles: int


def figures_of(layer):
    graph = {a: {b for b in bs if b.startswith(layer)} for a, bs in rooms().items()
             if a.startswith(layer)}
    return Figures(sum(path.startswith(layer) for path in sources()),
                   sum(len(b) for b in graph.values()), len(upward(layer)),
                   sum(len(circle) for circle in cycles(graph)))


def table():
    """The figures as docs/architecture.md has them."""
    lines = ['| | files | arrows | upward | files in circles |', '|---|---|---|---|---|']
    for layer in LAYERS:
        lines.append(f'| {layer[:-1] or "all of src"} | ' +
                     ' | '.join(str(n) for n in figures_of(layer)) + ' |')
    return '\n'.join(lines) + '\n'


def written():
    """The page with today's table in it."""
    page = repo.read(PAGE)
    begin, end = (page.index(mark) for mark in MARKS)
    return page[:begin] + MARKS[0] + table() + page[end:]


def main():
    if sys.argv[1:] == ['--write']:
        PAGE.write_text(written())
    print(table(), end='')
    graph = defaultdict(set)
    for a, b in folder_edges():
        graph[a].add(b)
    print('circles among folders:', [sorted(c) for c in cycles(graph)] or 'none')
    print('\n'.join(f'up: {a} -> {b}' for a, b in upward('')))


if __name__ == '__main__':
    main()
