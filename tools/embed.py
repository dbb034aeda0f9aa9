# SPDX-License-Identifier: Apache-2.0
"""Make C of text files while reigen is built.

usage: tools/embed.py NAME FILE...

Prints a table NAME of struct rg_render_file (src/render/formats.h): each file's name and text.
Comments that are for readers of our sources only, the line with the licence, are left out.
"""
import sys
from pathlib import Path


def main() -> None:
    print(f'#include "render/formats.h"\n\nconst struct rg_render_file {sys.argv[1]}[] = {{')
    for path in map(Path, sys.argv[2:]):
        lines = path.read_text(encoding='utf-8').splitlines()
        print(f'    {{ "{path.name}",')
        for line in lines:
            if not line.startswith('# SPDX'):
                text = line.replace('\\', '\\\\').replace('"', '\\"')
                print(f'      "{text}\\n"')
        print('    },')
    print('    { (const char *) 0, (const char *) 0 },\n};')


if __name__ == '__main__':
    main()
