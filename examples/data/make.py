# SPDX-License-Identifier: Apache-2.0
"""Cut the first images of a full MNIST set for this folder.

usage: python3 make.py FULL_SET_DIR [TRAINING_IMAGES]

Reads and writes the IDX format: a 32-bit magic number whose last byte is the number of dimensions,
that many 32-bit big-endian sizes, then the bytes. Equal input gives equal output, to the bit.
"""
import gzip
import os
import struct
import sys

COUNTS = {'train-images-idx3-ubyte.gz': 20000, 'train-labels-idx1-ubyte.gz': 20000,
          't10k-images-idx3-ubyte.gz': 10000, 't10k-labels-idx1-ubyte.gz': 10000}


def cut(source, target, count):
    with gzip.open(source, 'rb') as file:
        magic, = struct.unpack('>I', file.read(4))
        ndim = magic & 0xff
        sizes = list(struct.unpack(f'>{ndim}I', file.read(4 * ndim)))
        nbytes = 1
        for size in sizes[1:]:
            nbytes *= size
        sizes[0] = min(sizes[0], count)
        data = file.read(sizes[0] * nbytes)
    with open(target, 'wb') as raw, gzip.GzipFile('', 'wb', 9, raw, mtime=0) as file:
        file.write(struct.pack(f'>I{ndim}I', magic, *sizes) + data)
    print(f'{target}: {sizes[0]}, {os.path.getsize(target)} bytes')


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    here = os.path.dirname(os.path.abspath(__file__))
    for name, count in COUNTS.items():
        if name.startswith('train') and len(sys.argv) == 3:
            count = int(sys.argv[2])
        cut(os.path.join(sys.argv[1], name), os.path.join(here, name), count)


if __name__ == '__main__':
    main()
