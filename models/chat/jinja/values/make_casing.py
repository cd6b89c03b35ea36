#!/usr/bin/env python3
"""Writes casing_tables.h, in the same folder: the properties that Python's str uses and utf8proc has no function for.

    python3 models/chat/jinja/values/make_casing.py      any Python 3; its own str is the reference

The tables list characters whose upper or title case has several characters, characters with a case whose category is not
that of a cased letter, characters that str.lower() skips when it looks for the end of a word, and digits and numbers whose
category is not that of a number.
"""
import sys
import unicodedata
from pathlib import Path

CODES = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]


def ranges(chosen):
    result = []
    for code in chosen:
        if result and result[-1][1] == code - 1:
            result[-1][1] = code
        else:
            result.append([code, code])
    return result


def range_table(name, comment, is_in):
    rows = [f"{{{first:#x}, {last:#x}}}" for first, last in ranges(c for c in CODES if is_in(chr(c)))]
    return f"// {comment}\ninline constexpr CodeRange {name}[] = {{\n    " + ",\n    ".join(
        ", ".join(rows[i:i + 5]) for i in range(0, len(rows), 5)) + "};\n"


def codes(text):
    return "{" + ", ".join(f"{ord(c):#x}" for c in text) + "}"


def special_table():
    rows = [f"{{{c:#x}, {codes(chr(c).upper())}, {codes(chr(c).title())}}}" for c in CODES
            if len(chr(c).upper()) > 1 or len(chr(c).title()) > 1]
    return ("// Characters whose upper or title case is several characters. Unused places are 0.\n"
            "inline constexpr SpecialCase kSpecialCases[] = {\n    " + ",\n    ".join(
                ", ".join(rows[i:i + 3]) for i in range(0, len(rows), 3)) + "};\n")


def is_ignorable(c):
    return ("A" + c + "\u03a3").lower().endswith("\u03c2") and not (c.islower() or c.isupper() or c.istitle())


def main():
    category = unicodedata.category
    text = f"""// Characters that utf8proc has no function for, made by make_casing.py from Unicode {unicodedata.unidata_version}.
#pragma once

#include <cstdint>

namespace genesis::jinja {{

struct CodeRange {{
  uint32_t first, last;
}};
struct SpecialCase {{
  uint32_t code;
  uint32_t upper[3], title[3];
}};

// clang-format off
{special_table()}
{range_table("kOtherLower", "Lowercase, but of another category than Ll.", lambda c: c.islower() and category(c) != "Ll")}
{range_table("kOtherUpper", "Uppercase, but of another category than Lu.", lambda c: c.isupper() and category(c) != "Lu")}
{range_table("kOtherIgnorable", "Passed over at the end of a word, but of another category than Mn, Me, Cf, Lm and Sk.",
             lambda c: is_ignorable(c) and category(c) not in ("Mn", "Me", "Cf", "Lm", "Sk"))}
{range_table("kOtherDigits", "Digits that are no decimals.", lambda c: c.isdigit() and not c.isdecimal())}
{range_table("kOtherNumbers", "Numbers of another category than Nd, Nl and No.",
             lambda c: c.isnumeric() and not category(c).startswith("N"))}
// clang-format on

}}  // namespace genesis::jinja
"""
    (Path(__file__).resolve().parent / "casing_tables.h").write_text(text)


if __name__ == "__main__":
    main()
