#!/usr/bin/env python3
"""Writes newer_tables.h: python3 models/tokenizer/unicode/newer_tables.py > models/tokenizer/unicode/newer_tables.h

Classes of characters determine how text is split. They must be those of `tokenizers`, but PCRE2 and utf8proc provide them
here, each with the Unicode version that it was built with. The tables therefore list every character whose class is newer
than 14.0, the oldest of these versions, and every character whose normalization is newer than the NFC of `tokenizers`.

`tokenizers` takes punctuation and lower case from other libraries with Unicode versions of their own. The tables list all
punctuation, and the lower cases that are newer than 14.0.

The data come from three sources: classes and NFC from `tokenizers` itself (0.23.3, which has classes of Unicode 16.0 and the
NFC of 9.0), older characters from a Python with Unicode 14.0 (3.11), and newer ones from the newest Unicode at hand, that of
Node.js (17.0). Run this again when one of them changes.
"""
import json
import subprocess
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co").split()
CODES = [code for code in range(0x110000) if not 0xd800 <= code < 0xe000]
NEWEST = r"""
const newest = {version: process.versions.unicode, assigned: [], moves: [], composed: [], compatible: []};
for (let code = 0; code < 0x110000; ++code) {
  if (code >= 0xd800 && code < 0xe000) continue;
  const text = String.fromCodePoint(code), parts = text.normalize("NFD");
  if (!/\p{Cn}/u.test(text)) newest.assigned.push(code);
  if (parts !== text) newest.composed.push([code, parts]);
  if (text.normalize("NFKD") !== parts) newest.compatible.push(code);
  if ((text + "\u0334").normalize("NFD") !== parts + "\u0334" || ("\u0345" + text).normalize("NFD") !== "\u0345" + parts)
    newest.moves.push(code);
}
console.log(JSON.stringify(newest));
"""


def members(category, block=4096):
    """Yields the characters that `tokenizers` puts into this category."""
    split = pre_tokenizers.Split(Regex(rf"\p{{{category}}}+"), "removed")
    for at in range(0, len(CODES), block):
        codes = CODES[at:at + block]
        others = {i for _, (begin, end) in split.pre_tokenize_str("".join(map(chr, codes))) for i in range(begin, end)}
        yield from (code for i, code in enumerate(codes) if i not in others)


def stand_in(category, like):
    """Returns an old character of this category that has the same number of bytes as `like`, and no case variants."""
    for code in CODES if category != "Cn" else (0xffff, 0x1ffff):  # these two code points will never be assigned
        text = chr(code)
        if (unicodedata.category(text) == category and len(text.encode()) == len(chr(like).encode())
                and text.lower() == text.upper() == text.casefold()):
            return code
    raise ValueError(f"no character of {category} with the bytes of U+{like:04X}")


def ranges(marked):
    """Joins consecutive characters with equal marks to rows [first, last, mark]. `marked` has sorted pairs (code, mark)."""
    rows = []
    for code, mark in marked:
        if rows and rows[-1][1] == code - 1 and rows[-1][2] == mark:
            rows[-1][1] = code
        else:
            rows.append([code, code, mark])
    return rows


def newer_classes(newest):
    """Returns the characters that are not in Unicode 14, or have another category there, with their stand-ins."""
    category = {code: name for name in CATEGORIES for code in members(name)}
    known = {code: unicodedata.category(chr(code)) for code in CODES}
    assigned = set(newest["assigned"])
    newer = [code for code in CODES if category.get(code, "Cn") != known[code] or (known[code] == "Cn" and code in assigned)]
    names = {}
    for code in newer:
        names.setdefault((category.get(code, "Cn"), len(chr(code).encode())), code)
    old = {key: stand_in(key[0], code) for key, code in names.items()}
    return ranges((code, old[category.get(code, "Cn"), len(chr(code).encode())]) for code in newer)


def newer_forms(newest):
    """Returns the characters that NFC moves or composes in the newest Unicode, but not in `tokenizers`."""
    decomposed = normalizers.NFD().normalize_str
    moves = {code for code in CODES if decomposed(chr(code) + "\u0334") != decomposed(chr(code)) + "\u0334"
             or decomposed("\u0345" + chr(code)) != "\u0345" + decomposed(chr(code))}
    newer = set(newest["moves"]) - moves
    for code, parts in newest["composed"]:
        if decomposed(chr(code)) == chr(code):
            newer |= {code, *map(ord, parts)} - moves
    return ranges((code, None) for code in sorted(newer))


def newer_compatible(newest):
    """Returns the characters whose compatibility decomposition in the newest Unicode is unknown to `tokenizers`."""
    canonical, compatible = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
    return ranges((code, None) for code in newest["compatible"] if compatible(chr(code)) == canonical(chr(code)))


def punctuation():
    split = pre_tokenizers.Punctuation("removed")
    found = []
    for code in CODES:
        if not split.pre_tokenize_str(chr(code)):
            found.append((code, None))
    return ranges(found)


def newer_lower():
    """Returns rows [first, last, lower case of the first] of the characters whose lower case in `tokenizers` is new."""
    lower = normalizers.Lowercase().normalize_str
    newer = [(code, ord(lower(chr(code)))) for code in CODES if lower(chr(code)) not in (chr(code), chr(code).lower())]
    return [[first, last, first + shift] for first, last, shift in ranges((code, to - code) for code, to in newer)]


def write(row_type, name, rows):
    print(f"inline constexpr {row_type} {name}[] = {{\n    // clang-format off")
    rows = ["{" + ", ".join(f"{code:#x}" for code in row) + "}" for row in rows]
    for at in range(0, len(rows), 5):
        print("    " + ", ".join(rows[at:at + 5]) + ",")
    print("    // clang-format on\n};\n")


def main():
    assert unicodedata.unidata_version == "14.0.0", "a Python of Unicode 14 is needed: 3.11"
    newest = json.loads(subprocess.run(["node", "-e", NEWEST], check=True, capture_output=True, text=True).stdout)
    assert float(newest["version"]) >= 17, "a Node.js of Unicode 17 or newer is needed"
    print("// Made by newer_tables.py. Classes of Unicode 16.0 and normalization of Unicode 9.0, as `tokenizers` 0.23.3 has them,")
    print(f"// where characters up to Unicode {newest['version']} differ from Unicode 14.0. Used by newer_characters.cpp.\n#pragma once\n")
    print('#include "models/tokenizer/unicode/character_range.h"\n')
    print("namespace genesis::text {\n")
    print("// Characters that are newer, or have moved to another class since: first, last, and the character that replaces them, which is an")
    print("// older one of the same class and length; U+FFFF or U+1FFFF if they have no class yet.")
    write("StandIn", "kStandIns", newer_classes(newest))
    print("// Characters that normalization must leave alone, because they move or compose only since Unicode 10: first and last.")
    write("CharacterRange", "kNewerForms", [row[:2] for row in newer_forms(newest)])
    print("// Characters that have no compatibility decomposition in `tokenizers` yet: first and last.")
    write("CharacterRange", "kNewerCompatible", [row[:2] for row in newer_compatible(newest)])
    print("// Punctuation, including all symbols of ASCII: first and last.")
    write("CharacterRange", "kPunctuation", [row[:2] for row in punctuation()])
    print("// Upper case since Unicode 15: first, last, and the lower case of the first; the others follow in order.")
    write("StandIn", "kNewerLower", newer_lower())
    print("}  // namespace genesis::text")


if __name__ == "__main__":
    main()
