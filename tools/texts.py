# SPDX-License-Identifier: Apache-2.0
"""Make the man pages and the shells' completion while reigen is built.

usage: tools/texts.py TABLES FOLDER PAGE...

TABLES is what src/cmd/tables.c prints. Each PAGE ("reigen-run.1") is written into FOLDER, beside
the completion scripts and texts.c, which puts all of them into reigen (src/cmd/help/texts.h).
"""
import json
import sys
from pathlib import Path
from typing import List, Tuple

import completion
import manual

#: The scripts' names, as their shells look for them.
SHELLS = {'bash': 'reigen.bash', 'zsh': '_reigen', 'fish': 'reigen.fish'}


def quoted(text: str) -> str:
    """As C has it, a line each."""
    text = text.replace('\\', '\\\\').replace('"', '\\"')
    return '\n'.join(f'      "{line}\\n"' for line in text.splitlines()) or '      ""'


def table(name: str, texts: List[Tuple[str, str, str]]) -> str:
    entries = ''.join(f'    {{ "{known}", "{also}",\n{quoted(text)} }},\n'
                      for known, also, text in texts)
    return (f'const struct rg_text {name}[] = {{\n{entries}'
            '    { (const char *) 0, (const char *) 0, (const char *) 0 },\n};\n')


def main() -> None:
    tables = json.loads(Path(sys.argv[1]).read_text(encoding='utf-8'))
    folder = Path(sys.argv[2])
    pages, shells = [], []
    for file in sys.argv[3:]:
        name = file.rpartition('.')[0]
        pages.append((name, manual.also(tables, name) or '', manual.page(tables, name)))
        (folder / file).write_text(pages[-1][2], encoding='utf-8')
    for shell, file in SHELLS.items():
        shells.append((shell, '', completion.script(tables, shell)))
        (folder / file).write_text(shells[-1][2], encoding='utf-8')
    (folder / 'texts.c').write_text('#include "cmd/help/texts.h"\n\n' +
                                    table('rg_manual_pages', pages) +
                                    table('rg_completions', shells), encoding='utf-8')


if __name__ == '__main__':
    main()
