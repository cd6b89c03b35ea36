"""Puts data into the built page, as genesis-viz does.

usage: page_with_data.py PAGE.html DATA.json OUT.html
"""
import base64
import pathlib
import sys
import zlib

MARK = '<script id="data" type="application/octet-stream">'


def page_with_data(page: str, data: bytes) -> str:
    if page.count(MARK) != 1:
        raise ValueError("the page has no place for its data")
    return page.replace(MARK, MARK + base64.b64encode(zlib.compress(data, 9)).decode())


if __name__ == "__main__":
    template, data, out = map(pathlib.Path, sys.argv[1:])
    out.write_text(page_with_data(template.read_text(encoding="utf-8"), data.read_bytes()), encoding="utf-8")
