# Functions for systems of other distributions: aarch64.sh and try.sh read this file. They need root
# and mmdebstrap.

# require PROGRAM PACKAGE ends the script if a program is missing.
require() {
  command -v "$1" >/dev/null || { echo "$(basename "$0"): there is no $1: install $2" >&2; exit 1; }
}

# bootstrap SUITE TARGET [OPTION...] makes a system of Debian or Ubuntu by mmdebstrap. Ubuntu's packages are signed by keys that Debian 12
# does not have.
bootstrap() {
  local suite=$1 target=$2 keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg options=()
  shift 2
  case $suite in
    noble | jammy)
      keys=${GENESIS_UBUNTU_KEYS:-$keys}
      [ -f "$keys" ] || { echo "$(basename "$0"): there is no $keys: it is in the package ubuntu-archive-keyring of Debian 13 and ubuntu-keyring of Ubuntu; GENESIS_UBUNTU_KEYS names another place" >&2; exit 1; }
      options=(--components=main,universe --keyring="$keys") ;;
  esac
  mmdebstrap --quiet --variant=apt "${options[@]}" "$@" "$suite" "$target"
}

# system_in FOLDER SUITE [OPTION...] makes a system in FOLDER unless there is one. It is made beside FOLDER first, so that one that was
# interrupted is not used.
system_in() {
  local folder=$1 suite=$2
  shift 2
  [ ! -d "$folder/usr" ] || return 0
  echo "== making a system of $suite in $folder" >&2
  rm -rf "$folder.part"
  bootstrap "$suite" "$folder.part" "$@"
  mv -T "$folder.part" "$folder"
}

# copy_tree FOLDER copies the tree that the script is in to FOLDER/src. Files keep their times, so ninja sees what has changed.
copy_tree() {
  mkdir -p "$1/src"
  git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -cf - | tar -C "$1/src" -xf -
}

# in_system FOLDER COMMAND... runs a command in the system. It ends with what it has mounted.
in_system() { unshare --mount --fork bash -c 'mount --bind /proc "$0/proc"; mount --bind /dev "$0/dev"; exec chroot "$0" "$@"' "$@"; }
