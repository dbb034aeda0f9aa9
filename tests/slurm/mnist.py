# SPDX-License-Identifier: Apache-2.0
"""Little data for the examples."""
import gzip
import struct

from built import ROOT


def shorten(folder):
    """The first images of the part of MNIST that comes with the examples."""
    folder.mkdir()
    for kind, count in (('train', 1500), ('t10k', 300)):
        for what, head, size in (('images-idx3-ubyte', 16, 28 * 28), ('labels-idx1-ubyte', 8, 1)):
            name = f'{kind}-{what}.gz'
            data = gzip.decompress((ROOT / 'examples/data' / name).read_bytes())
            part = data[:4] + struct.pack('>I', count) + data[8:head + count * size]
            (folder / name).write_bytes(gzip.compress(part, 1))
