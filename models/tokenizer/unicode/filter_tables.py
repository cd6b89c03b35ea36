#!/usr/bin/env python3
"""Writes filter_tables.h: python3 models/tokenizer/unicode/filter_tables.py > models/tokenizer/unicode/filter_tables.h

Normalizers remove classes of characters, and Precompiled replaces grapheme clusters. Each class has the Unicode version of one of
the libraries that `tokenizers` is linked with, so all classes are asked of `tokenizers` itself (0.23.3). Clusters come from
utf8proc here; the table has the characters at which the oldest supported version, 2.8, differs.
"""
import ctypes
import sys
from pathlib import Path

from tokenizers import normalizers

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests/models/tokenizer"))
from characters_map import charsmap_bytes  # noqa: E402

CODES = [code for code in range(0x110000) if not 0xd800 <= code < 0xe000]


def ranges(codes):
    rows = []
    for code in codes:
        if rows and rows[-1][1] == code - 1:
            rows[-1][1] = code
        else:
            rows.append([code, code])
    return rows


def removed(normalizer):
    return ranges(code for code in CODES if normalizer.normalize_str("x" + chr(code) + "y") == "xy")


def bert(**settings):
    return normalizers.BertNormalizer(**dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False) | settings)


def newer_extenders():
    """Returns the characters that extend a preceding letter, although utf8proc 2.8 does not know it."""
    proc = ctypes.CDLL("libutf8proc.so.2")
    proc.utf8proc_grapheme_break.restype = ctypes.c_bool
    joined = normalizers.Precompiled(charsmap_bytes({"A": "B"}))
    return ranges(code for code in CODES[0x80:] if joined.normalize_str("A" + chr(code)) == "B" and proc.utf8proc_grapheme_break(0x41, code))


def write(name, rows):
    print(f"inline constexpr CharacterRange {name}[] = {{\n    // clang-format off")
    rows = ["{" + ", ".join(f"{code:#x}" for code in row) + "}" for row in rows]
    for at in range(0, len(rows), 6):
        print("    " + ", ".join(rows[at:at + 6]) + ",")
    print("    // clang-format on\n};\n")


def main():
    print("// Made by filter_tables.py: the classes of characters that normalizers of `tokenizers` 0.23.3 remove, first and last of each")
    print("// range. Used by character_filters.cpp and characters_map.cpp.\n#pragma once\n")
    print('#include "models/tokenizer/unicode/character_range.h"\n')
    print("namespace genesis::text {\n")
    print("// Control characters and others without a glyph: clean_text of BertNormalizer removes them.")
    write("kControls", removed(bert(clean_text=True)))
    print("// Nonspacing marks: strip_accents of BertNormalizer removes them after NFD.")
    write("kNonspacingMarks", removed(bert(strip_accents=True)))
    print("// Marks of all kinds: StripAccents removes them.")
    write("kMarks", removed(normalizers.StripAccents()))
    print("// Characters that extend a grapheme cluster, although utf8proc 2.8 does not know it.")
    write("kNewerExtenders", newer_extenders())
    print("}  // namespace genesis::text")


if __name__ == "__main__":
    main()
