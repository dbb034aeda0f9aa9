#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `make site` does: docs/ as a site in build/site/html, by MkDocs Material, which it fetches
# from PyPI once into build/site/env (0.2 GB, 20 MB to load). Prints where the site begins.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=tools/progress.sh
. tools/progress.sh
env=build/site/env
if [ "${1-}" = --make ]; then
    rm -rf "$env"
    /usr/bin/python3 -m venv "$env"
    "$env/bin/pip" --disable-pip-version-check --no-cache-dir install --progress-bar off \
        -r site/requirements.txt
    exit
fi
mkdir -p build/site
exec 9>build/site/lock
flock 9
asked=$(cksum <site/requirements.txt)
if [ "$(cat build/site/ready 2>/dev/null)" != "$asked" ]; then
    progress 'MkDocs Material: fetching it from PyPI, once' build/site/env.log \
        tools/site.sh --make 9>&- >&2 || {
        cat build/site/env.log >&2
        exit 1
    }
    echo "$asked" >build/site/ready
fi
NO_MKDOCS_2_WARNING=1 "$env/bin/mkdocs" build --strict --quiet --clean -f site/mkdocs.yml
echo build/site/html/index.html
