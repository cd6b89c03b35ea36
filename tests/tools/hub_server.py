"""A hub for tests, on this machine: hub_server.py FOLDER PORT_FILE LOG_FILE

Serves the files of FOLDER as the model acme/tiny by the routes of Hugging Face's Hub. Other names have a flaw, which a real hub or
its network may have: acme/gated, acme/broken (breaks off in the middle of a large file, once), acme/corrupt, acme/once (the first answer is corrupt, and comes when two
clients have asked), acme/away (redirects to another host), acme/pickle, acme/escape (a name that leads out of the folder). The model
acme/gguf has the GGUF files of FOLDER only. Writes its port to a file, and a line for each request.
"""
import hashlib
import http.server
import json
import pathlib
import sys
import time
import urllib.parse

FOLDER, PORT_FILE, LOG_FILE = map(pathlib.Path, sys.argv[1:])
COMMIT = 'c0ffee' + '0' * 34
LARGE = '.safetensors'
broken = set()
asked = []  # the models of the large files that clients have asked for


def digest_of(name, data):
    if name.endswith(LARGE):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b'blob %d\0' % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *arguments):
        with LOG_FILE.open('a') as log:
            log.write(f"{self.command} {self.path} range={self.headers.get('Range')} token={self.headers.get('Authorization')}\n")

    def answer(self, status, body=b'', **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Length', headers.pop('length', len(body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def list_files(self, model):
        if model == 'acme/gated':
            return self.answer(401, b'{"error": "gated"}')
        if model == 'acme/none':
            return self.answer(404)
        names = [path.relative_to(FOLDER).as_posix() for path in sorted(FOLDER.rglob('*')) if path.is_file()]
        if model == 'acme/pickle':
            names = ['config.json', 'pytorch_model.bin']
        if model == 'acme/gguf':
            names = [name for name in names if name.endswith('.gguf')]
        if model == 'acme/escape':
            names.append('../../outside.json')
        return self.answer(200, json.dumps({'sha': COMMIT, 'siblings': [{'rfilename': name} for name in names]}).encode())

    def send_bytes(self, model, data):
        begin = int((self.headers.get('Range') or 'bytes=0-')[6:].split('-')[0])
        if model == 'acme/once' and model not in broken:
            broken.add(model)
            end = time.time() + 5
            while asked.count(model) < 2 and time.time() < end:
                time.sleep(0.01)
            time.sleep(0.3)  # the second client waits for the first one's lock
            return self.answer(200, bytes(len(data)))
        if model == 'acme/corrupt':
            data = data[:-1] + bytes([data[-1] ^ 1])
        rest = data[begin:]
        if model == 'acme/broken' and model not in broken:
            broken.add(model)
            self.send_response(200)
            self.send_header('Content-Length', len(rest))
            self.end_headers()
            self.wfile.write(rest[:len(rest) // 2])
            self.close_connection = True
            return
        if begin:
            return self.answer(206, rest, Content_Range=f'bytes {begin}-{len(data) - 1}/{len(data)}')
        self.answer(200, rest)

    def do_GET(self):
        path = urllib.parse.unquote(self.path)
        parts = path.strip('/').split('/')
        if parts[0] == 'api':
            return self.list_files('/'.join(parts[2:4]))
        if parts[0] == 'cdn':
            return self.send_bytes('/'.join(parts[1:3]), (FOLDER / '/'.join(parts[3:])).read_bytes())
        model, name = '/'.join(parts[:2]), '/'.join(parts[4:])
        data = (FOLDER / name).read_bytes()
        etag = '"' + digest_of(name, data) + '"'
        if not name.endswith(LARGE):
            return self.answer(200, data, X_Repo_Commit=COMMIT, ETag=etag)
        if self.command == 'HEAD':
            asked.append(model)
        host = 'http://127.0.0.2:9' if model == 'acme/away' else f'http://127.0.0.1:{self.server.server_port}'
        self.answer(302, Location=f'{host}/cdn/{model}/{name}', X_Repo_Commit=COMMIT, X_Linked_Etag=etag,
                    X_Linked_Size=str(len(data)))

    do_HEAD = do_GET


server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
PORT_FILE.with_suffix('.new').write_text(str(server.server_port))
PORT_FILE.with_suffix('.new').rename(PORT_FILE)
server.serve_forever()
