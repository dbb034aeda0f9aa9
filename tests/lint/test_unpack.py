# SPDX-License-Identifier: Apache-2.0
"""The agent unpacks its constants (src/programs/agent/unpack.c) whatever blocks zlib has made."""
import random
import struct
import subprocess
import sys
import zlib

import pytest
import repo

sys.path.insert(0, str(repo.ROOT / 'tools'))
import pack_agent  # noqa: E402  (a program, which is not on the path)

KINDS = {0: 'stored', 1: 'fixed', 2: 'own'}


@pytest.fixture(scope='module', name='unpack')
def compiled(tmp_path_factory):
    """Bytes that zlib has packed -> what the agent makes of them."""
    program = tmp_path_factory.mktemp('unpack') / 'unpack'
    here = repo.ROOT / 'tests/lint/unpack.c'
    subprocess.run(['cc', '-std=gnu11', '-O1', '-g', '-fsanitize=address,undefined',
                    '-fno-sanitize-recover=all', '-o', program, here,
                    repo.ROOT / 'src/programs/agent/unpack.c'], check=True, timeout=120)

    def run(packed, nbytes):
        done = subprocess.run([program, str(nbytes + 8)], capture_output=True, timeout=60,
                              check=False, input=struct.pack('<Q', len(packed)) + packed)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout[:8] == bytes(8)
        return done.stdout[8:]

    return run


def text_of(nbytes, seed):
    """Words that come again, near and far, between bytes that nobody foresees."""
    dice = random.Random(seed)
    words = [dice.randbytes(dice.randint(1, 300)) for _ in range(40)]
    out = bytearray()
    while len(out) < nbytes:
        out += dice.choice(words) if dice.random() < 0.7 else dice.randbytes(dice.randint(1, 50))
    return bytes(out[:nbytes])


RUNS = b''.join(bytes([b % 5]) * (b % 300) for b in range(900))


def deflate(text, level=9, strategy=zlib.Z_DEFAULT_STRATEGY):
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    return packer.compress(text) + packer.flush()


def skewed(count):
    """Numbers of each byte that only the longest codes serve: those of Fibonacci."""
    many, out = [1, 1], b''
    while len(many) < count:
        many.append(many[-1] + many[-2])
    for byte, n in enumerate(many):
        out += bytes([byte * 7 % 256]) * n
    shuffled = list(out)
    random.Random(7).shuffle(shuffled)
    return bytes(shuffled)


@pytest.mark.parametrize('kind, packed, text', [
    (0, deflate(text_of(60000, 1), level=0), text_of(60000, 1)),
    (1, deflate(text_of(60000, 2), strategy=zlib.Z_FIXED), text_of(60000, 2)),
    (1, deflate(b''), b''),
    (2, deflate(text_of(90000, 3)), text_of(90000, 3)),
    (2, deflate(skewed(20), strategy=zlib.Z_HUFFMAN_ONLY), skewed(20)),
    (2, deflate(bytes(900000)), bytes(900000)),
    (2, deflate(RUNS, strategy=zlib.Z_RLE), RUNS),
], ids=['stored', 'fixed', 'nothing', 'own', 'longest-codes', 'zeros', 'runs'])
def test_each_kind_of_block_is_unpacked(unpack, kind, packed, text):
    assert packed[0] >> 1 & 3 == kind, f'zlib made the first block {KINDS[packed[0] >> 1 & 3]}'
    assert len(packed) + 8 <= pack_agent.PACKED_MAX
    assert unpack(packed, len(text)) == text


def test_kinds_of_blocks_follow_each_other(unpack):
    """Also such that end within a byte; Z_FULL_FLUSH puts a stored one between."""
    for seed in range(30):
        dice = random.Random(seed)
        parts = [text_of(dice.choice((0, 1, 3, 200, 5000)), seed * 100 + i) for i in range(6)]
        packed, packer = b'', zlib.compressobj(9, zlib.DEFLATED, -15, 9)
        for part in parts:
            packed += packer.compress(part)
            packed += packer.flush(dice.choice((zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH,
                                                zlib.Z_PARTIAL_FLUSH, zlib.Z_BLOCK)))
        packed += packer.flush()
        assert unpack(packed, sum(map(len, parts))) == b''.join(parts), f'seed {seed}'


def test_what_is_packed_is_what_zlib_unpacks(monkeypatch):
    text = bytes(8) + text_of(5000, 5)
    packed = pack_agent.pack_bytes(text)
    assert zlib.decompress(packed[8:], -15) == text[8:]
    monkeypatch.setattr(pack_agent.zlib, 'decompress', lambda packed, bits: b'another')
    with pytest.raises(SystemExit, match='does not unpack'):
        pack_agent.pack_bytes(text)
