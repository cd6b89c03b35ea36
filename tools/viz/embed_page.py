"""Writes the visualizer's page as C++: a compressed array that tools/viz/page_file.cpp includes.

usage: embed_page.py PAGE.html OUT.inc

The page is one file. genesis-viz puts the data into this element:

    <script id="data" type="application/octet-stream"></script>

For a live page, which sends requests to its server, it also changes `connect-src 'none'` in the Content-Security-Policy to
`connect-src 'self'`. Both must occur in the page exactly once.
"""
import sys
import zlib

MARKS = ['<script id="data" type="application/octet-stream"></script>', "connect-src 'none'"]


def main() -> None:
    page, out = sys.argv[1:]
    text = open(page, encoding="utf-8").read()
    for mark in MARKS:
        if text.count(mark) != 1:
            sys.exit(f"{page}: expected {mark} once, found it {text.count(mark)} times")
    packed = zlib.compress(text.encode(), 9)
    with open(out, "w", encoding="utf-8") as file:
        file.write(f"// Made by tools/viz/embed_page.py.\nconstexpr size_t kPageBytes = {len(text.encode())};\n")
        file.write("constexpr unsigned char kPackedPage[] = {\n")
        for i in range(0, len(packed), 32):
            file.write(",".join(str(b) for b in packed[i : i + 32]) + ",\n")
        file.write("};\n")


main()
