#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make deb [URL=https://...]: build/dist/reigen_VERSION_ARCH.deb, for the release of Debian or of
# Ubuntu that this is. URL is the home of the project, where it has one.
#
# It holds what `make install PREFIX=/usr` installs. dpkg-shlibdeps says which packages it needs.
# Two runs over one commit write the same bytes.
set -eu
cd "$(dirname "$0")/.."
if ! command -v dpkg-deb >/dev/null; then
    echo 'deb: dpkg-deb is missing: this system has no Debian packages; try make install' >&2
    exit 69
fi
# shellcheck source=tools/progress.sh
. tools/progress.sh
tools/deps.sh deb
tools/build.sh --quiet

version=$(sed -n "s/^ *version: '\([0-9.]*\)'.*/\1/p" meson.build | head -n 1)
arch=$(dpkg --print-architecture)
work=$(mktemp -d "${TMPDIR:-/tmp}/reigen-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"

PREFIX=/usr DESTDIR=$root PYTHONDIR=/usr/lib/python3/dist-packages tools/install.sh >/dev/null
# dpkg has a list of its own.
rm -r "$root/usr/share/reigen/installed"
rmdir --ignore-fail-on-non-empty "$root/usr/share/reigen"
find "$root" -name __pycache__ -prune -exec rm -rf {} +
for page in "$root"/usr/share/man/man*/*; do
    if [ -L "$page" ]; then
        ln -s "$(readlink "$page").gz" "$page.gz"
        rm "$page"
    else
        gzip -9n "$page"
    fi
done
doc=$root/usr/share/doc/reigen
mkdir -p "$doc" "$root/DEBIAN"
# What README.md leads to is where it says.
cp README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md "$doc/"
cp -R docs "$doc/docs"
ln -s ../../reigen/examples "$doc/examples"
{
    echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
    printf '\nFiles: *\nCopyright: the authors of Reigen\nLicense: Apache-2.0\n'
    printf ' The text of the license stands in /usr/share/common-licenses/Apache-2.0.\n'
} >"$doc/copyright"

# The agent is linked statically: the notices of what is inside.
mkdir "$doc/licenses"
/usr/bin/python3 -B - "$doc/licenses" <<'END'
import shutil, sys
sys.path.insert(0, 'tools')
import sbom
for component in sbom.components():
    shutil.copy(sbom.notice(component), f'{sys.argv[1]}/{component.name}')
END

# dpkg-shlibdeps reads the source package's description, of which it uses nothing here.
mkdir "$work/debian"
printf 'Source: reigen\n\nPackage: reigen\nArchitecture: any\n' >"$work/debian/control"
needs=$(cd "$work" && dpkg-shlibdeps -O root/usr/bin/reigen root/usr/bin/reigen-bench \
    root/usr/lib/libreigen.so |
    sed -n 's/^shlibs:Depends=//p')
[ -n "$needs" ] || exit 69 # dpkg-shlibdeps has said why
cat >"$root/DEBIAN/control" <<END
Package: reigen
Version: $version
Architecture: $arch
Maintainer: $(git log -1 --format='%an <%ae>' 2>/dev/null || echo 'unknown <root@localhost>')
Installed-Size: $(du -sk --apparent-size "$root/usr" | cut -f 1)
Depends: $needs, python3 (>= 3.8)
Recommends: openssh-client, python3-numpy, python3-cloudpickle
Suggests: docker.io | podman, python3-torch, libcurl4t64 | libcurl4
${REIGEN_PROJECT_URL:+Homepage: $REIGEN_PROJECT_URL
}Section: science
Priority: optional
Description: launcher and collectives for data-parallel training
 One command runs a training script on several processors, of this computer or of
 many: on hosts that ssh reaches, in containers, or under Slurm. Inside the job, the
 Python package offers Horovod's interface without compiling anything.
END
# Python's compiled files are made on the machine, and belong to no package.
cat >"$root/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if [ "$1" = configure ] && command -v py3compile >/dev/null; then
    py3compile -p reigen
fi
END
cat >"$root/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if command -v py3clean >/dev/null; then
    py3clean -p reigen
fi
END
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) \
    >"$root/DEBIAN/md5sums"
chmod -R u+rwX,go+rX,go-w "$root"

mkdir -p build/dist
deb=build/dist/reigen_${version}_$arch.deb
progress 'deb: packing' build/deb.log dpkg-deb --root-owner-group -Zxz --build "$root" "$deb" || {
    cat build/deb.log >&2
    exit 1
}
echo "$deb  $(($(stat -c %s "$deb") / 1024)) KiB; install it with: sudo apt install ./$deb"
