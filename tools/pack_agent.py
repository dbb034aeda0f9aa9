# SPDX-License-Identifier: Apache-2.0
"""Pack the constants of the static agent, most of which are words for people: 50 KB less.

usage: tools/pack_agent.py FULL OUT

FULL is linked by src/programs/agent/agent.ld, or unwind.ld, so that its constants are a segment of
their own, the last one in the file. OUT is FULL without symbols and lines, in which the segment has
a number of bytes and so many bytes of DEFLATE, and is filled up with zeros by the kernel; the rest
is as it was. src/programs/agent/unpack.c puts the constants in their place.
"""
import struct
import sys
import zlib
from pathlib import Path
from typing import List, NamedTuple

CONSTANTS = b'.rodata'
PACKED_MAX = 64 << 10  # unpack.c has it, too
LOAD, READ, WRITE = 1, 4, 2
NOBITS, STRINGS = 8, 3
ALLOCATED, WRITABLE = 2, 1
HEADER, SEGMENT, SECTION = '<16sHHIQQQIHHHHHH', '<IIQQQQQQ', '<IIQQQQIIQQ'


class Section(NamedTuple):
    name: bytes
    kind: int
    flags: int
    address: int
    offset: int
    nbytes: int
    link: int
    info: int
    align: int
    each: int


def read_sections(elf: bytes, offset: int, count: int, names_at: int) -> List[Section]:
    raw = [struct.unpack_from(SECTION, elf, offset + i * struct.calcsize(SECTION))
           for i in range(count)]
    names = raw[names_at][4]
    return [Section(elf[names + r[0]:elf.index(b'\0', names + r[0])], *r[1:]) for r in raw]


def pack_bytes(constants: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    packed = packer.compress(constants[8:]) + packer.flush()
    if constants[:8] != bytes(8) or len(packed) + 8 > PACKED_MAX:
        sys.exit('pack_agent: the constants do not begin with a 0, or are too many')
    if zlib.decompress(packed, -15) != constants[8:]:
        sys.exit('pack_agent: zlib does not unpack what it has packed')
    return struct.pack('<Q', len(packed)) + packed


def change_segment(elf: bytearray, first: int, count: int, constants: Section,
                   nbytes: int) -> None:
    """Of the constants: what is in the file, and that it can be written at first."""
    for at in range(first, first + count * struct.calcsize(SEGMENT), struct.calcsize(SEGMENT)):
        kind, flags, offset, address, physical, in_file, in_memory, align = struct.unpack_from(
            SEGMENT, elf, at)
        if kind == LOAD and offset <= constants.offset < offset + in_file:
            if (offset, in_file) != (constants.offset, constants.nbytes):
                sys.exit('pack_agent: the constants are no segment of their own')
            struct.pack_into(SEGMENT, elf, at, kind, READ | WRITE, offset, address, physical,
                             nbytes, in_memory, align)
            return
    sys.exit('pack_agent: the constants are in no segment')


def put_sections(elf: bytearray, sections: List[Section]) -> int:
    """Append them, for programs that look at or strip the file. Where they begin."""
    names = b'\0'.join(s.name for s in sections) + b'\0'
    sections = [*sections[:-1], sections[-1]._replace(offset=len(elf), nbytes=len(names))]
    elf += names + bytes(-(len(elf) + len(names)) % 8)
    begin, name = len(elf), 0
    for section in sections:
        elf += struct.pack(SECTION, name, *section[1:])
        name += len(section.name) + 1
    return begin


def pack(full: bytes) -> bytes:
    header = list(struct.unpack_from(HEADER, full))
    segments, sections_at, nsegments, nsections, names_at = (header[i] for i in (5, 6, 10, 12, 13))
    before = read_sections(full, sections_at, nsections, names_at)
    found = [s for s in before if s.name == CONSTANTS]
    if not found:
        sys.exit('pack_agent: there are no constants')
    constants = found[0]
    kept = [s for s in before if s.flags & ALLOCATED and s is not constants]
    place = {before.index(s): at for at, s in enumerate(kept, 1)}
    if any(s.kind != NOBITS and s.offset > constants.offset for s in kept):
        sys.exit('pack_agent: the constants are not the last in the file')
    packed = pack_bytes(full[constants.offset:constants.offset + constants.nbytes])
    elf = bytearray(full[:constants.offset] + packed)
    change_segment(elf, segments, nsegments, constants, len(packed))
    there = constants._replace(name=b'.packed', flags=ALLOCATED | WRITABLE, nbytes=len(packed))
    room = there._replace(name=CONSTANTS, kind=NOBITS, address=there.address + len(packed),
                          offset=len(elf), nbytes=constants.nbytes - len(packed), align=1)
    sections = [Section(b'', 0, 0, 0, 0, 0, 0, 0, 0, 0),
                *(s._replace(link=place.get(s.link, 0)) for s in kept), there, room,
                Section(b'.shstrtab', STRINGS, 0, 0, 0, 0, 0, 0, 1, 0)]
    header[6] = put_sections(elf, sections)
    header[12:14] = len(sections), len(sections) - 1
    struct.pack_into(HEADER, elf, 0, *header)
    return bytes(elf)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    out = Path(sys.argv[2])
    out.write_bytes(pack(Path(sys.argv[1]).read_bytes()))
    out.chmod(0o755)


if __name__ == '__main__':
    main()
