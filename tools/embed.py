# SPDX-License-Identifier: Apache-2.0
"""Make C of text files while reigen is built.

usage: tools/embed.py NAME FILE...
       tools/embed.py --text HEADER NAME FILE

Prints a table NAME of struct rg_render_file (src/render/formats.h): each file's name and text; or
one file's text as the array of characters NAME, which HEADER declares. Comments that are for
readers of our sources only, the line with the licence, are left out.
"""
import sys
from pathlib import Path


def put_lines(path: Path) -> None:
    for line in path.read_text(encoding='utf-8').splitlines():
        if not line.startswith('# SPDX'):
            text = line.replace('\\', '\\\\').replace('"', '\\"')
            print(f'      "{text}\\n"')


def main() -> None:
    if sys.argv[1] == '--text':
        header, name, path = sys.argv[2:]
        print(f'#include "{header}"\n\nconst char {name}[] =')
        put_lines(Path(path))
        print('      ;')
        return
    print(f'#include "render/formats.h"\n\nconst struct rg_render_file {sys.argv[1]}[] = {{')
    for path in map(Path, sys.argv[2:]):
        print(f'    {{ "{path.name}",')
        put_lines(path)
        print('    },')
    print('    { (const char *) 0, (const char *) 0 },\n};')


if __name__ == '__main__':
    main()
