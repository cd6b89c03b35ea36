#!/usr/bin/env python3
"""Measures a server with OpenAI's API: how long its clients wait, and how many tokens it writes.

  bench/serve/load.py --port 8080 --clients 8 --requests 32 --rate 2 --prompt-words 100 --tokens 64

Clients ask for streams, with a rate in requests per second (Poisson arrivals; 0: each client asks again at once). Prints the time to
the first token (TTFT), the time per token behind it (TPOT), the longest wait between two tokens (ITL), and tokens per second over all.
Works with other servers that have /v1/completions, such as llama-server.
"""
import argparse
import http.client
import json
import random
import statistics
import threading
import time


def stream(options, number):
    """Asks for one text; returns the times of its beginning and of its pieces."""
    words = random.Random(number).choices(['the', 'sea', 'is', 'blue', 'and', 'wide', 'as', 'sky'], k=options.prompt_words)
    body = {'prompt': f'{number} ' + ' '.join(words), 'max_tokens': options.tokens, 'stream': True, 'temperature': 0, 'ignore_eos': True}
    connection = http.client.HTTPConnection(options.host, options.port, timeout=600)
    begin = time.perf_counter()
    connection.request('POST', '/v1/completions', json.dumps(body), {'content-type': 'application/json'})
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f'status {answer.status}: {answer.read().decode()}')
    times = []
    for line in answer:
        if line.startswith(b'data: {') and json.loads(line[6:])['choices'][0].get('text'):
            times.append(time.perf_counter())
    connection.close()
    return begin, times


def run(options):
    """Runs all requests; returns what stream() returned for each."""
    numbers, results, lock = iter(range(options.requests)), [], threading.Lock()
    chance = random.Random(1)

    def client():
        while True:
            with lock:
                number = next(numbers, None)
                wait = chance.expovariate(options.rate) if options.rate > 0 else 0
                time.sleep(wait)  # the arrivals of all clients follow one another
            if number is None:
                return
            result = stream(options, number)
            with lock:
                results.append(result)

    threads = [threading.Thread(target=client) for _ in range(options.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--host', default='127.0.0.1')
    parser.add_argument('--port', type=int, default=8080)
    for name, default in (('clients', 8), ('requests', 32), ('prompt-words', 100), ('tokens', 64)):
        parser.add_argument('--' + name, type=int, default=default)
    parser.add_argument('--rate', type=float, default=0)
    options = parser.parse_args()
    results = run(options)
    first = [times[0] - begin for begin, times in results]
    each = [(times[-1] - times[0]) / max(len(times) - 1, 1) for _, times in results]
    longest = [max(b - a for a, b in zip(times, times[1:])) for _, times in results if len(times) > 1]
    span = max(times[-1] for _, times in results) - min(begin for begin, _ in results)
    print(json.dumps({'clients': options.clients, 'requests': len(results),
                      'ttft_median_s': round(statistics.median(first), 4), 'ttft_max_s': round(max(first), 4),
                      'tpot_median_s': round(statistics.median(each), 5), 'itl_max_s': round(max(longest, default=0), 4),
                      'tokens_per_s': round(options.tokens * len(results) / span, 1)}))


if __name__ == '__main__':
    main()
