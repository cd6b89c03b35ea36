#!/usr/bin/env bash
# Makes man pages and completions for bash and zsh from the tools' --help output.
#   packaging/pages.sh BIN_DIR SHARE_DIR     writes SHARE_DIR/man/man1, bash-completion/completions, zsh/vendor-completions
set -euo pipefail
bin=${1:?usage: packaging/pages.sh BIN_DIR SHARE_DIR}
share=${2:?usage: packaging/pages.sh BIN_DIR SHARE_DIR}
man=$share/man/man1 bash=$share/bash-completion/completions zsh=$share/zsh/vendor-completions
mkdir -p "$man" "$bash" "$zsh"

help_of() { "$bin/$1" "${@:2}" --help; }
# Prints the words in the first column below the heading $1 of a help text: commands, or options in all their spellings.
words_below() {
  awk -v heading="$1" '/^[^ ].*:$/ { inside = $0 == heading ":"; next } inside && /^  [^ ]/ { print $1 }' | tr ',' '\n' | sed 's/{.*//' | sort -u
}
options_of() { help_of "$@" | words_below Options | tr '\n' ' '; }
commands_of() { help_of "$1" | words_below Subcommands; }

# Converts a help text to a man page: headings become sections, and the rest keeps its layout.
man_page() {
  local name=$1 version
  version=$("$bin/${name%% *}" --version)
  printf '.TH "%s" 1 "" "Genesis %s" "User Commands"\n.SH NAME\n%s \\- ' "${name^^}" "$version" "${name// /-}"
  # shellcheck disable=SC2086  # a command and its subcommand
  help_of $name | sed 's/\\/\\\\/g; s/-/\\-/g' | awk '
    NR == 1 { print; next }
    /^Usage: / { print ".SH SYNOPSIS"; sub(/^Usage: /, ""); print; next }
    /^[^ ].*:$/ { if (open) print ".fi"; sub(/:$/, ""); print ".SH " toupper($0); print ".nf"; open = 1; next }
    { sub(/^\./, "\\\\\\&."); print }
    END { if (open) print ".fi" }'
}

for tool in genesis-build genesis-opt genesis-run genesis-viz; do
  man_page "$tool" | gzip -9n >"$man/$tool.1.gz"
  commands=$(commands_of "$tool")
  for command in $commands; do man_page "$tool $command" | gzip -9n >"$man/$tool-$command.1.gz"; done
  cases=""
  for command in $commands; do cases+="    $command) words='$(options_of "$tool" "$command")' ;;"$'\n'; done
  cases+="    *) words='$(echo $commands) $(options_of "$tool")' ;;"
  function=_${tool//-/_}
  cat >"$bash/$tool" <<END
# bash completion of $tool, made from its --help
$function() {
  local current=\${COMP_WORDS[COMP_CWORD]} words
  case "\${COMP_WORDS[1]}" in
$cases
  esac
  mapfile -t COMPREPLY < <(compgen -W "\$words" -- "\$current"; [[ \$current == -* ]] || compgen -f -- "\$current")
}
complete -o filenames -F $function $tool
END
  cat >"$zsh/_$tool" <<END
#compdef $tool
# zsh completion, made from its --help
local known
case "\${words[2]}" in
${cases//words=/known=}
esac
compadd -- \${=known}
_files
END
done
