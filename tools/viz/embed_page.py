"""Writes the visualizer's page as C++: a compressed array that tools/viz/page_file.cpp includes.

usage: embed_page.py PAGE.html OUT.inc

The page is one file. genesis-viz puts data where it says

    <script id="data" type="application/octet-stream"></script>

and a page that is served live may ask its server, for which `connect-src 'none'` in its Content-Security-Policy becomes
`connect-src 'self'`. Both must stand in the page once.
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
