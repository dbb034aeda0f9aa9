# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md begins with a picture of what the records in docs/ have, drawn to scale."""
import json
import re
import sys
import xml.etree.ElementTree as ElementTree

import repo

sys.path.insert(0, str(repo.ROOT / 'bench'))
import picture  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402

SVG = '{http://www.w3.org/2000/svg}'
DOCS = repo.ROOT / 'docs'


def bars_of(text):
    """{x of a column: [(width, ms that stand behind it)]}"""
    found, last = {}, None
    for element in ElementTree.fromstring(text):
        if element.tag == SVG + 'rect' and element.get('class') in ('ours', 'peer'):
            last = float(element.get('x')), float(element.get('width'))
        elif element.tag == SVG + 'text' and last and element.text.endswith(' ms'):
            found.setdefault(last[0], []).append((last[1], float(element.text.split()[0])))
            last = None
    return found


def records(tmp_path, scale=1.0, names=('reigen-py', 'hvd-mpi')):
    times = [[2, name, 'out', size, scale * (i + 1) * size / 1000, 0.0]
             for i, name in enumerate(names) for size in picture.SIZES]
    (tmp_path / picture.RECORD).write_text(json.dumps(
        {'when': '2030-01-02 03:04', 'rounds': 3, 'times': times}))
    return tmp_path


def test_it_shows_what_the_records_have():
    assert picture.draw(picture.groups_of(DOCS)) == (DOCS / picture.PICTURE).read_text(), \
        'run bench/picture.py'
    assert len(picture.groups_of(DOCS)) == 2


def test_the_page_begins_with_a_sentence_and_it():
    for page in ((DOCS / 'benchmarks.md').read_text(), report.INTRO):
        heading, sentence, image = page.split('\n\n')[:3]
        assert heading == '# Benchmarks' and sentence.endswith(':')
        assert re.fullmatch(r'!\[[^]]+\]\(benchmarks\.svg\)', image)


def test_its_record_is_that_of_the_page():
    record = json.loads((DOCS / picture.RECORD).read_text())
    page = (DOCS / 'benchmarks.md').read_text()
    assert f'Measured {record["when"]} UTC' in page
    part = page.partition('## Allreduce, 2 ranks')[2].partition('## Allreduce, 4 ranks')[0]
    shown = plot.shown(record['sizes'])
    assert len(shown) == len(plot.SHOWN) < len(record['sizes'])
    for np, name, series, size, median, _ in record['times']:
        if (np, series) == (2, 'out') and size in shown and name in report.TABLED:
            cell = re.escape(f'| {report.us(median)} |')
            assert re.search(rf'^\| {report.size_name(size)} .*{cell}', part, re.M), name


def test_bars_of_a_column_are_as_long_as_their_times():
    columns = bars_of((DOCS / picture.PICTURE).read_text())
    assert len(columns) == len(picture.SIZES)
    for bars in columns.values():
        assert len(bars) == len(picture.ONE_HOST) + len(picture.BETWEEN)
        longest, most = max(bars)
        for width, ms in bars:
            assert abs(width - longest * ms / most) < 1 + 0.06 * width, bars


def test_it_stays_within_its_frame_and_knows_any_time(tmp_path):
    for scale in (1e-5, 1, 1e5):
        groups = picture.groups_of(records(tmp_path, scale))
        text = picture.draw(groups)
        assert len(bars_of(text)) == len(picture.SIZES) and 'in 3 rounds' in text
        for rect in ElementTree.fromstring(text).iter(SVG + 'rect'):
            assert float(rect.get('x')) + float(rect.get('width')) <= picture.WIDTH


def test_who_was_not_measured_is_left_out(tmp_path):
    text = picture.draw(picture.groups_of(records(tmp_path, names=('reigen-py',))))
    assert 'Horovod' not in text and 'Between hosts' not in text
    assert 'Reigen' in text and 'nan' not in text
    (tmp_path / picture.RECORD).unlink()
    picture.write(tmp_path)
    assert not (tmp_path / picture.PICTURE).exists()
