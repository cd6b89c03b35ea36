#!/usr/bin/env bash
# Makes a signed folder for apt from Debian packages of one distribution.
#   packaging/apt.sh FOLDER --key KEY PACKAGE...    prints what to write on machines that use the folder
# A web server, or a disk, offers FOLDER. KEY is a secret key of gpg on this machine, by its e-mail address or fingerprint. Packages
# that are in FOLDER already stay in it.
set -euo pipefail
usage="usage: packaging/apt.sh FOLDER --key KEY PACKAGE..."
[ $# -ge 4 ] && [ "$2" = --key ] || { echo "$usage" >&2; exit 2; }
folder=$1 key=$3
shift 3
for program in apt-ftparchive gpg gzip; do
  command -v $program >/dev/null || { echo "apt.sh: there is no $program: install apt-utils, gnupg and gzip" >&2; exit 1; }
done
mkdir -p "$folder"
cp "$@" "$folder/"
cd "$folder"
apt-ftparchive packages . >Packages
gzip -9nkf Packages
rm -f Release InRelease
apt-ftparchive -o APT::FTPArchive::Release::Origin=Genesis -o APT::FTPArchive::Release::Label=Genesis release . >Release
gpg --batch --yes --local-user "$key" --clearsign -o InRelease Release
gpg --batch --yes --export "$key" >genesis.gpg
chmod 644 ./*
cat <<END
Copy genesis.gpg to /usr/share/keyrings/ and write this to /etc/apt/sources.list.d/genesis.list, with the address of the folder:
deb [signed-by=/usr/share/keyrings/genesis.gpg] file:$(pwd) ./
END
