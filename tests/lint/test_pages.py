# SPDX-License-Identifier: Apache-2.0
"""The pages can be read by people whose language English is not, and found."""
import json
import re
import subprocess

import folders
import repo

#: Words of one sentence; where ; and : stand, a reader can rest.
MAX_WORDS = 35
#: Words of README.md and of all pages in docs/, as `cat README.md docs/*.md | wc -w` counts them.
#: Who has more to say takes away what is said twice, or what nobody looks up.
MAX_WORDS_OF_ALL = 55000
PAGES = [*sorted(repo.ROOT.glob('*.md')), *sorted((repo.ROOT / 'docs').glob('*.md'))]


def prose(text):
    """The paragraphs and items of a page, without tables, headings, code and targets of links."""
    text = re.sub(r'^( *)```.*?^ *```$', '\n', text, flags=re.S | re.M)
    text = re.sub(r'^(?:\||#|    ).*$', '', text, flags=re.M)
    text = re.sub(r'`[^`]*`', 'code', text)
    text = re.sub(r'\]\([^)]*\)', ']', text)
    text = re.sub(r'\([^()]*\)', '', text)
    text = re.sub(r'^ *(?:[-*]|\d\.) ', '\n\n', text, flags=re.M)
    return [' '.join(p.split()) for p in re.split(r'\n\s*\n', text)]


def sentences(text):
    for paragraph in prose(text):
        yield from re.split(r'(?<=[.!?;:])["*]*\s+', paragraph)


def test_sentences_can_be_read_at_once():
    problems = []
    for path in PAGES:
        for sentence in sentences(repo.read(path)):
            count = len(re.findall(r"[\w'/.-]+", sentence))
            if count > MAX_WORDS:
                problems.append(f'{repo.name(path)}: {count} words: {sentence[:100]}')
    repo.report(problems)


def test_all_pages_together_are_short():
    """The bars of tables, dashes of lists and the like are no words."""
    words = {repo.name(path): len(re.findall(r'\S*\w\S*', repo.read(path)))
             for path in PAGES if path.parent.name == 'docs' or path.name == 'README.md'}
    longest = sorted(words, key=words.get, reverse=True)[:5]
    assert len(words) > 60 and sum(words.values()) <= MAX_WORDS_OF_ALL, \
        f'{sum(words.values())} words; the longest: {longest}'


def test_every_page_is_in_the_index():
    index = repo.read(repo.ROOT / 'docs/README.md')
    pages = [p.name for p in PAGES if p.parent.name == 'docs' and p.name != 'README.md']
    assert len(pages) > 20
    repo.report([name for name in pages if f']({name})' not in index])


def test_words_of_the_glossary_stand_once_in_their_order():
    words = re.findall(r'^- ([^:]+): ', repo.read(repo.ROOT / 'docs/glossary.md'), re.M)
    assert len(words) > 30 and words == sorted(set(words), key=str.lower)


def test_every_plane_is_in_the_docs():
    table = repo.read(repo.ROOT / 'src/coll/planes/planes.c')
    planes = re.findall(r'^    line\((\w+)\)', table, re.M)
    row = re.search(r'^- `REIGEN_PLANES` .*(?:\n  .*)*', repo.read(repo.ROOT / 'docs/variables.md'),
                    re.M)
    assert row and len(planes) > 2
    pages = repo.read(repo.ROOT / 'docs/planes.md')
    repo.report([f'variables.md: REIGEN_PLANES has no `{name}`' for name in planes
                 if f'`{name}`' not in row[0]] +
                [f'planes.md: {name} has no section' for name in planes
                 if not re.search(rf'^## {name}: ', pages, re.M)])


def test_every_variable_of_the_runtime_is_in_the_docs():
    source = repo.read(repo.ROOT / 'src/coll/ground/config.c')
    names = set(re.findall(r'"(REIGEN_[A-Z_]+)"', source))
    assert len(names) > 20
    page = repo.read(repo.ROOT / 'docs/variables.md')
    repo.report([f'variables.md: {name} is missing' for name in sorted(names)
                 if f'`{name}`' not in page])


def test_walks_name_functions_that_are_there():
    walks = re.findall(r'^```text walk\n(.*?)^```', repo.read(repo.ROOT / 'docs/architecture.md'),
                       re.S | re.M)
    steps = [line.split()[:2] for walk in walks for line in walk.splitlines()]
    texts = {path: repo.read(found[0]) for path, _ in steps
             if (found := [f for f in (repo.ROOT / 'src' / path,
                                       repo.ROOT / 'bindings/python' / path) if f.is_file()])}
    assert len(walks) > 5 and len(steps) > 80
    repo.report([f'architecture.md: {path} has no {name}' for path, name in steps
                 if not re.search(rf'\b{name}\b', repo.COMMENT.sub(' ', texts.get(path, '')))])


def test_every_key_of_a_job_file_is_in_its_page():
    """The page's list is written by hand; the keys are those of the option table, drivers' too."""
    tables = json.loads(repo.read(repo.BUILD / 'src/cmd/tables.json'))
    keys = [k['name'] for k in tables['keys']] + [o['key'] for o in tables['options'] if o['file']]
    page = repo.read(repo.ROOT / 'docs/jobfile.md').partition('\n## Keys\n')[2]
    rows = re.findall(r'^- ((?:`[^`]+`,? ?)+): \S', page.replace('\n  ', ' '), re.M)
    told = [word for names in rows for word in re.findall(r'`([^`]+)`', names)]
    assert len(keys) > 50 and len(told) == len(set(told))
    repo.report([f'docs/jobfile.md: {key} is missing' for key in keys if key not in told] +
                [f'docs/jobfile.md: {word} is no key' for word in told if word not in keys])


def test_a_new_driver_takes_one_line_in_a_plain_table():
    """What both the agent and the launcher have is one driver. One of the agent's own is what the
    head has of a platform, and is called so."""
    table = repo.COMMENT.sub('', repo.read(repo.ROOT / 'src/platform/table.inc'))
    rows = re.findall(r'^RG_DRIVER\(([a-z]+), (rg_driver_\w+), IN_([A-Z]+)\)$', table, re.M)
    assert len(rows) == len(table.split()) / 3 > 5, 'it has more than comments and drivers'
    assert len({name for _, name, _ in rows}) == len(rows)
    for folder, name, place in rows:
        assert name.startswith(f'rg_driver_{folder}') or folder == 'kubernetes', name
        assert (place == 'AGENT') == name.endswith('_head'), name


def test_the_example_of_a_driver_compiles(tmp_path):
    """That to which docs/drivers.md leads."""
    code = repo.read(repo.ROOT / 'tests/lint/driver_nice.c')
    folder = tmp_path / 'platform/nice'
    folder.mkdir(parents=True)
    (folder / 'nice.c').write_text(code)
    done = subprocess.run(['cc', '-std=gnu11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror',
                           '-Wno-missing-field-initializers', '-fsyntax-only', '-I', tmp_path,
                           '-I', repo.ROOT / 'src', folder / 'nice.c'],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # It needs no line in the folders' list.
    [may_use] = re.findall(r'^platform/\*: door.h \| (.*)$', repo.read(folders.LIST), re.M)
    used = {i.rpartition('/')[0] for i in re.findall(r'^#include "(.+?)"', code, re.M)}
    assert used <= set(may_use.split())
