"""Makes pages for the tests: the built page with samples, each made once in a temporary folder."""
import json
import os
import pathlib
import subprocess
import tempfile

from page_with_data import page_with_data

HERE = pathlib.Path(__file__).resolve().parent
BUILDER = HERE.parent.parent / "tools/viz/page/build_page.py"


class Pages:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.template = pathlib.Path(os.environ.get("GENESIS_PAGE") or self._built())
        self.made = {}

    def _built(self) -> pathlib.Path:
        out = pathlib.Path(self.folder.name) / "page.html"
        subprocess.run([BUILDER, out] if os.access(BUILDER, os.X_OK) else ["python3", BUILDER, out], check=True)
        return out

    def sample(self, name: str, size: int | None = None) -> pathlib.Path:
        """Returns a page with a sample of samples.mjs."""
        key = f"{name}{size or ''}"
        if key not in self.made:
            data = pathlib.Path(self.folder.name) / f"{key}.json"
            subprocess.run(["node", HERE / "samples.mjs", name, data, *([str(size)] if size else [])], check=True)
            self.made[key] = self.of(data.read_bytes(), key)
        return self.made[key]

    def of(self, data, name: str) -> pathlib.Path:
        """Returns a page with this data: bytes of JSON, or an object to convert to JSON."""
        out = pathlib.Path(self.folder.name) / f"{name}.html"
        content = data if isinstance(data, bytes) else json.dumps(data).encode()
        out.write_text(page_with_data(self.template.read_text(encoding="utf-8"), content), encoding="utf-8")
        return out
