# SPDX-License-Identifier: Apache-2.0
"""bench/film.py: what a terminal had at a time is what the picture shows then."""
import re
import sys
from xml.etree import ElementTree

from built import ROOT

sys.path.append(str(ROOT / 'bench'))
import film  # noqa: E402  pylint: disable=wrong-import-position

SVG = '{http://www.w3.org/2000/svg}'


def seen_at(picture, at):
    """The texts that the picture has at this share of its time, from top to bottom."""
    tree = ElementTree.fromstring(picture)
    rules = dict(re.findall(r'@keyframes (k\d+)\{(.*?\})\}', tree.find(f'{SVG}style').text))

    def there(group):
        opacity, rule = '1', rules[group.get('class').split()[0]]
        for share, value in re.findall(r'([\d.]+)%\{opacity:(.)\}', rule):
            if float(share) <= 100 * at:
                opacity = value
        return opacity == '1'

    texts = [g.find(f'{SVG}text') for g in tree.iter(f'{SVG}g') if g.get('class') and there(g)]
    return [''.join(t.itertext()) for t in sorted(texts, key=lambda t: float(t.get('y')))]


def test_each_line_stands_as_long_as_on_the_terminal():
    it = film.Film()
    for now, data in ((0, b'one <&>\r\n'), (2, b'\x1b[31mtwo\x1b[0m'), (5, b'\r\x1b[Kthree'),
                      (8, b'\x1b[2Jfour')):
        it.now = now
        it.feed(data)
    picture = film.draw(it.frames, 10)
    assert [seen_at(picture, at / 10) for at in (1, 3, 6, 9)] == [
        ['one <&>'], ['one <&>', 'two'], ['one <&>', 'three'], ['     four']]
    assert f'<tspan fill="{film.COLOURS["red"]}">two</tspan>' in picture


def test_what_changes_at_once_is_one_frame():
    it = film.Film()
    for i in range(10):
        it.now = i * film.STEP_S / 20
        it.feed(b'%d' % i)
    assert len(it.frames) == 1 and it.frames[0][1][0][0][0] == '0123456789'


def test_the_picture_of_the_readme_is_one_of_it():
    picture = film.PICTURE.read_text('utf-8')
    last = seen_at(picture, 0.999)
    assert any('node2 is set aside' in text for text in last), last
    assert seen_at(picture, 0.999)[-1] == '$'
