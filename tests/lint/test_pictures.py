# SPDX-License-Identifier: Apache-2.0
"""Pictures in the docs can be read on light pages and dark ones, or have a ground of their own."""
import re
import sys
import xml.etree.ElementTree as ElementTree

import repo

sys.path.insert(0, str(repo.ROOT / 'bench'))
import plot  # noqa: E402


def test_every_picture_knows_dark_pages():
    pictures = repo.with_suffix('.svg', under='docs/')
    assert len(pictures) >= 3
    for path in pictures:
        ElementTree.fromstring(repo.read(path))
        assert re.search('prefers-color-scheme: ?dark|<rect width="100%" height="100%"',
                         repo.read(path)), repo.name(path)


def test_labels_of_sizes_do_not_collide():
    sizes = [4, *(256 << i for i in range(0, 20))]
    for count in range(2, len(sizes) + 1):
        picture = plot.curves('title', {'Reigen': [(s, 1.0 + s) for s in sizes[:count]]})
        places = sorted(float(x) for x in re.findall(
            r'<text x="([\d.]+)"[^>]*text-anchor="middle"[^>]*>\d+ (?:B|KiB|MiB)<', picture))
        assert len(places) >= 2
        assert all(b - a >= plot.LABEL_WIDTH for a, b in zip(places, places[1:])), places
