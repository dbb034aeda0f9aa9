# SPDX-License-Identifier: Apache-2.0
"""`make site`: all pages, whole, with their links; nothing is asked of another server."""
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MOVED = {'docs/README.md': 'pages', 'README.md': 'index'}


class Page(HTMLParser):
    """What a page shows as headings, and what a browser would fetch for it by itself."""

    def __init__(self, text):
        super().__init__()
        self.headings, self.fetched = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        has = dict(attrs)
        if re.fullmatch(r'h[1-6]', tag) and 'id' in has:
            self.headings.append(has['id'])
        if tag in ('script', 'img', 'iframe', 'source'):
            self.fetched.append(has.get('src') or '')
        if tag == 'link' and has.get('rel') not in ('next', 'prev', 'canonical'):
            self.fetched.append(has['href'])


@pytest.fixture(scope='module')
def site():
    done = subprocess.run(['make', 'site'], cwd=ROOT, capture_output=True, text=True, timeout=500,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # MkDocs's --strict finds broken links
    index = ROOT / done.stdout.split()[-1]
    return {path.stem: Page(path.read_text()) for path in index.parent.glob('*.html')}


def sources():
    for path in [*ROOT.glob('*.md'), *ROOT.glob('docs/*.md')]:
        name = str(path.relative_to(ROOT))
        text = re.sub(r'^( *)```.*?^ *```$', '', path.read_text(), flags=re.S | re.M)
        yield MOVED.get(name, path.stem), len(re.findall(r'^#{1,6} ', text, re.M))


def test_every_page_has_all_of_its_headings(site):
    assert {name: len(site[name].headings) for name, _ in sources()} == dict(sources())


def test_nothing_comes_from_another_server(site):
    assert len(site) > 40
    fetched = {(name, url) for name, page in site.items() for url in page.fetched}
    assert [f for f in fetched if re.match(r'(?:[a-z]+:)?//', f[1])] == []


def test_the_four_kinds_lead_to_every_page(site):
    index = (ROOT / 'build/site/html/index.html').read_text()
    found = set(re.findall(r'href="(\w[\w-]*)\.html"', index))
    assert {name for name, _ in sources()} <= found | {'index'}


def test_a_bar_in_a_cell_has_no_backslash(site):
    text = (ROOT / 'build/site/html/containers.html').read_text()
    assert '<code>--pull missing|always|never</code>' in text
    assert [name for name in site if re.search(r'<td>[^\n]*<code>[^<]*\\\|', (
        ROOT / f'build/site/html/{name}.html').read_text())] == []
