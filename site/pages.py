# SPDX-License-Identifier: Apache-2.0
"""What MkDocs has to be told of the pages: the site is made of the files that stand in docs/ and of
those that the folder above it has, and nothing is written down twice.

README.md is the first page, and docs/README.md the list of all; the order of that list is the
site's. A file outside of docs/ to which a page leads comes along as it is."""
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / 'docs'
#: Pages that do not lie in docs/, and the list: where they stand in the site.
MOVED = {'README.md': 'index.md', 'docs/README.md': 'pages.md', 'CHANGELOG.md': 'CHANGELOG.md',
         'CONTRIBUTING.md': 'CONTRIBUTING.md', 'SECURITY.md': 'SECURITY.md'}
LINK = re.compile(r'(!?\[(?:[^\]]|\n)*?\])\(([^)\s]+)\)')
CODE = re.compile(r'^( *)```.*?^ *```|`[^`\n]+`', re.S | re.M)


def place(path):
    """Where a file of the repository stands in the site; None: it does not."""
    if path in MOVED:
        return MOVED[path]
    if path.startswith('docs/') and (ROOT / path).is_file():
        return path.removeprefix('docs/')
    return f'files/{path}' if (ROOT / path).is_file() else None


def outside(text, folder):
    """The files outside of docs/ to which the links of a page lead."""
    found = {posixpath.normpath(posixpath.join(folder, target.split('#')[0]))
             for _, target in LINK.findall(CODE.sub('', text))
             if not re.match(r'[a-z]+:|#', target)}
    return {path for path in found if (place(path) or '').startswith('files/')}


def moved(text, folder):
    """The text with links as they are to be in the site. A link to a folder becomes plain text."""
    def link(match):
        words, target = match.groups()
        file, _, anchor = target.partition('#')
        if re.match(r'[a-z]+:', target) or not file:
            return match[0]
        to = place(posixpath.normpath(posixpath.join(folder, file)))
        return f'{words}({to}{"#" if anchor else ""}{anchor})' if to else words[1:-1]

    # Links in code are no links; `[`code`](page.md)` is one, so only blocks are left out.
    parts = re.split(r'(^ *```.*?^ *```)', text, flags=re.S | re.M)
    return ''.join(part if part.lstrip().startswith('```') else LINK.sub(link, part)
                   for part in parts)


def dialect(text):
    """What GitHub's Markdown and Python-Markdown read differently."""
    lines, fenced, deep = [], False, False
    for line in text.split('\n'):
        if line.lstrip().startswith('```'):
            fenced = not fenced
            line = re.sub(r'(```\w+) .*', r'\1', line)  # of the words behind it one is taken
        before = lines[-1] if lines else ''
        if not fenced:
            # A bar in a cell's code is one without a backslash, too.
            if line.startswith('|'):
                line = re.sub(r'`[^`]+`', lambda code: code[0].replace(r'\|', '|'), line)
            # Items within a numbered one stand under its number: that takes four blanks.
            deep = deep and line.startswith('   ') or bool(re.match(r'\d+\. ', line))
            if deep and line.startswith('   ') and not line.startswith('    '):
                line = ' ' + line
            # A list needs an empty line before it.
            item = re.match(r' *(?:-|\d+\.) ', line)
            if item and before.strip() and not re.match(r' *(?:-|\d+\.) |   ?\S', before):
                lines.append('')
        lines.append(line)
    return '\n'.join(lines)


def listed():
    """{kind: [{title: page}]} in the order of docs/README.md, each page once. NAME-MORE.md stands
    below NAME.md: {title: [NAME.md, {title: NAME-MORE.md}]}."""
    kinds, seen = {}, set()
    for part in re.split(r'^## ', (DOCS / 'README.md').read_text(), flags=re.M)[1:]:
        kind = part.splitlines()[0]
        pages = kinds.setdefault(kind, {})
        for words, target in LINK.findall(part):
            path = posixpath.normpath(posixpath.join('docs', target.split('#')[0]))
            if path.endswith('.md') and place(path) and path not in seen:
                seen.add(path)
                above = re.sub(r'-.*', '.md', place(path))
                if above in pages:
                    pages[above][1].append({words[1:-1]: place(path)})
                else:
                    pages[place(path)] = words[1:-1], []
    return {kind: [{title: [page, *below] if below else page} for page, (title, below)
                   in pages.items()] for kind, pages in kinds.items()}


def on_config(config):
    config.nav = [{'Reigen': [{'What it is': 'index.md'}, {'All pages': 'pages.md'}]},
                  *({kind: pages} for kind, pages in listed().items())]
    return config


def on_files(files, config):
    for file in [files.get_file_from_path('README.md')]:
        files.remove(file)
    wanted = set()
    for path in [*MOVED, *(f'docs/{p.name}' for p in DOCS.glob('*.md'))]:
        folder = posixpath.dirname(path)
        text = (ROOT / path).read_text()
        wanted |= outside(text, folder)
        if path in MOVED:
            files.append(File.generated(config, MOVED[path],
                                        content=dialect(moved(text, folder))))
    for path in wanted:
        files.append(File.generated(config, place(path), abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, 'site.css',
                                abs_src_path=str(Path(__file__).parent / 'site.css')))
    return files


def on_page_markdown(markdown, page, config, files):
    # Who searches for a word wants to know how, before how fast and since when.
    if page.file.src_uri.startswith(('benchmarks', 'CHANGELOG')):
        page.meta['search'] = {'boost': 0.2}
    if page.file.src_uri in MOVED.values():
        return markdown
    return dialect(moved(markdown, 'docs'))
