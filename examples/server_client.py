"""Asks a model that `genesis-run serve` serves, and prints the answer as it comes, and why it ended: server_client.py URL TEXT

It uses the standard library only. The package openai works as well: OpenAI(base_url=URL + '/v1', api_key='none').
"""
import json
import sys
import urllib.request

url, text = sys.argv[1:]
request = urllib.request.Request(
    url + '/v1/chat/completions', headers={'Content-Type': 'application/json'},
    data=json.dumps({'messages': [{'role': 'user', 'content': text}], 'stream': True, 'max_tokens': 40, 'temperature': 0}).encode())
reason = ''
with urllib.request.urlopen(request) as answer:
    for line in answer:
        if not line.startswith(b'data: ') or line.strip() == b'data: [DONE]':
            continue
        for choice in json.loads(line[6:])['choices']:
            print(choice['delta'].get('content') or '', end='', flush=True)
            reason = choice.get('finish_reason') or reason
print(f'\n[{reason}]')
