#!/usr/bin/env bash
# Makes an image for containers from a Debian package, without Docker and without a registry. Needs root and mmdebstrap.
#   packaging/image.sh DEB [OUT.tar] [SUITE]      `docker load -i OUT.tar` or `podman load -i OUT.tar` then knows genesis:VERSION
# SUITE is the distribution that the package was made for (default: bookworm). The image is that of docker/cpu.Dockerfile: it runs as a
# user without rights and answers a health check.
set -euo pipefail
usage="usage: packaging/image.sh DEB [OUT.tar] [SUITE]"
package=$(realpath "${1:?$usage}")
out=$(realpath -m "${2:-genesis.tar}") suite=${3:-bookworm}
for program in mmdebstrap dpkg-deb sha256sum; do
  command -v $program >/dev/null || { echo "image.sh: there is no $program: install mmdebstrap, dpkg and coreutils" >&2; exit 1; }
done
version=$(dpkg-deb --field "$package" Version) architecture=$(dpkg-deb --field "$package" Architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The commands run in the new system before it is packed, and try the package.
mmdebstrap --quiet --variant=apt --include=ca-certificates,curl "$suite" "$work/layer.tar" \
  --customize-hook="copy-in $package /tmp" \
  --customize-hook='chroot "$1" sh -c "apt-get install -y -qq --no-install-recommends /tmp/*.deb >/dev/null && rm /tmp/*.deb"' \
  --customize-hook='chroot "$1" useradd --create-home genesis' \
  --customize-hook='chroot "$1" su genesis -c "genesis-build mlp -o /tmp/m.genesis && genesis-run infer /tmp/m.genesis --size batch=1 && rm /tmp/m.genesis" >&2'
digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
cat >"$work/config.json" <<END
{"architecture": "$architecture", "os": "linux", "created": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
 "config": {"User": "genesis", "WorkingDir": "/home/genesis", "Entrypoint": ["genesis-run"], "ExposedPorts": {"8080/tcp": {}},
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Healthcheck": {"Test": ["CMD-SHELL", "curl -fs http://localhost:8080/health || exit 1"], "StartPeriod": 60000000000}},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]},
 "history": [{"created_by": "packaging/image.sh"}]}
END
printf '[{"Config": "config.json", "RepoTags": ["genesis:%s"], "Layers": ["layer.tar"]}]\n' "$version" >"$work/manifest.json"
tar -C "$work" --owner=0 --group=0 -cf "$out" manifest.json config.json layer.tar
echo "$out"
