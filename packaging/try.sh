#!/usr/bin/env bash
# Tries a package or an archive in a bare system of a distribution, which it makes for that and removes again. Needs root and mmdebstrap.
#   packaging/try.sh SUITE FILE [MODEL]
# SUITE is such as bookworm, trixie or noble; FILE is genesis_*.deb or genesis-*.tar.zst. MODEL, a GGUF file, has to continue a text. Prints
# the seconds from the bare system to the text.
set -euo pipefail
usage="usage: packaging/try.sh SUITE FILE [MODEL]"
suite=${1:?$usage} file=$(realpath "${2:?$usage}") model=${3:-}
. "$(dirname "$(readlink -f "$0")")/system.sh"
require mmdebstrap mmdebstrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
commands=$work/commands.sh
case $file in
  *.deb) install="apt-get update -qq; apt-get install -y -qq --no-install-recommends /tmp/$(basename "$file") >/dev/null; run=" ;;
  *) install="tar -C /opt -xf /tmp/$(basename "$file"); run=/opt/$(basename "$file" .tar.zst)/bin/" ;;
esac
cat >"$commands" <<END
set -e
begin=\$(date +%s)
$install
\${run}genesis-run --version
if [ -n "${model:+given}" ]; then \${run}genesis-build /tmp/model.gguf -o /tmp/model.genesis
else \${run}genesis-build qwen2 --set hidden_size=64 --set num_hidden_layers=1 -o /tmp/model.genesis
fi
\${run}genesis-run generate /tmp/model.genesis --prompt "The capital of France is" --max-tokens 8 --temperature 0
echo "== \$((\$(date +%s) - begin)) seconds"
END
copies=()
[ -z "$model" ] || copies=(--customize-hook="copy-in $model /tmp" --customize-hook="mv \"\$1\"/tmp/$(basename "$model") \"\$1\"/tmp/model.gguf")
# A null file system as the result: the system is only there for the hooks.
bootstrap "$suite" /dev/null --include=zstd --format=null --customize-hook="copy-in $file $commands /tmp" "${copies[@]}" \
  --customize-hook='chroot "$1" bash /tmp/commands.sh'
