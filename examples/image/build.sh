#!/bin/sh
# Builds the image of a small web server into an OCI layout, without a network: build.sh FOLDER
#
#   examples/image/build.sh /tmp/web
#   skopeo copy --dest-tls-verify=false oci:/tmp/web:1.0 docker://127.0.0.1:5000/web:1.0
#
# It needs umoci and busybox-static of Debian.
set -eu
layout=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir -p "$work/root/bin" "$work/root/etc" "$work/root/www" "$work/root/tmp"
cp /bin/busybox "$work/root/bin/busybox"
for name in sh httpd cat echo sleep id ls true; do ln -s busybox "$work/root/bin/$name"; done
echo 'web:x:1000:1000::/www:/bin/sh' > "$work/root/etc/passwd"
echo 'web:x:1000:' > "$work/root/etc/group"
echo '<h1>It runs from an image.</h1>' > "$work/root/www/index.html"

umoci init --layout "$layout"
umoci new --image "$layout:1.0"
umoci insert --rootless --image "$layout:1.0" "$work/root" /
umoci config --image "$layout:1.0" --config.user web --config.workingdir /www --config.env PATH=/bin \
    --config.cmd sh --config.cmd -c --config.cmd 'exec httpd -f -p "${PACELINE_PORT_HTTP:-8080}" -h /www'
umoci gc --layout "$layout"
