#!/usr/bin/env python3
"""Measures a server with OpenAI's API: how long its clients wait, and how many tokens it writes.

  bench/serve/load.py --port 8080 --clients 8 --requests 32 --rate 2 --input 100 --output 64
  bench/serve/load.py --port 8080 --clients 256 --requests 256 --input 100:1024 --output 100:1024 --vocabulary 151936 --whole

Clients ask for texts of --input tokens (words without --vocabulary) and --output tokens, a number or a range LEAST:MOST, or of the pairs of
a file --lengths with a line "INPUT OUTPUT" each. They come with a rate in requests per second (Poisson arrivals; 0: each client asks again
at once). The definitions are those of vllm's benchmark: TTFT, the time to the first token; TPOT, the time per token behind it; ITL, the time
between two events; goodput, the requests per second whose TTFT and TPOT are within --within. With --whole answers are not streamed, and
only tokens per second are known. Works with other servers that have /v1/completions, such as llama-server.
"""
import argparse
import http.client
import json
import multiprocessing
import random
import threading
import time


def length_of(text, chance):
    least, _, most = text.partition(':')
    return chance.randint(int(least), int(most or least))


def requests_of(options):
    """Returns the bodies of all requests; the same for the same options."""
    chance = random.Random(options.seed)
    pairs = [line.split() for line in open(options.lengths)] if options.lengths else []
    bodies = []
    for number in range(options.requests):
        size, tokens = map(int, pairs[number % len(pairs)]) if pairs else (length_of(options.input, chance), length_of(options.output, chance))
        if options.vocabulary:
            prompt = [chance.randrange(options.vocabulary) for _ in range(size)]
        else:
            prompt = f'{number} ' + ' '.join(chance.choices(['the', 'sea', 'is', 'blue', 'and', 'wide', 'as', 'sky'], k=size))
        bodies.append({'prompt': prompt, 'max_tokens': tokens, 'stream': not options.whole, 'temperature': 0, 'ignore_eos': True})
    return bodies


def ask(options, body, due):
    """Asks for one text; returns its size, the time when it was due, and the times of its events."""
    time.sleep(max(0, due - time.time()))
    begin = time.time() if due == 0 else due
    connection = http.client.HTTPConnection(options.host, options.port, timeout=3600)
    connection.request('POST', '/v1/completions', json.dumps(body), {'content-type': 'application/json'})
    answer = connection.getresponse()
    if answer.status != 200:
        raise SystemExit(f'status {answer.status}: {answer.read().decode()}')
    times = []
    if options.whole:
        answer.read()
        times.append(time.time())
    else:
        for line in answer:
            if line.startswith(b'data: {') and b'"choices":[{' in line:
                times.append(time.time())
    connection.close()
    return body['max_tokens'], begin, times


def clients(options, bodies, dues, threads, out):
    """One process: its threads take the requests in turn."""
    numbers, results, lock = iter(range(len(bodies))), [], threading.Lock()

    def client():
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            result = ask(options, bodies[number], dues[number])
            with lock:
                results.append(result)

    running = [threading.Thread(target=client) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    out.put(results)


def run(options):
    bodies, chance = requests_of(options), random.Random(1)
    dues, due = [], time.time()
    for _ in bodies:
        due += chance.expovariate(options.rate) if options.rate > 0 else 0
        dues.append(due if options.rate > 0 else 0)
    out, count = multiprocessing.Queue(), options.processes
    each = -(-options.clients // count)
    running = [multiprocessing.Process(target=clients, args=(options, bodies[i::count], dues[i::count], each, out)) for i in range(count)]
    for process in running:
        process.start()
    results = [result for _ in running for result in out.get()]
    for process in running:
        process.join()
    return results


def at(values, share):
    return sorted(values)[min(int(share * len(values)), len(values) - 1)] if values else 0


def report(options, results):
    tokens = sum(size for size, _, _ in results)
    span = max(times[-1] for _, _, times in results) - min(begin for _, begin, _ in results)
    found = {'clients': options.clients, 'requests': len(results), 'seconds': round(span, 3), 'tokens_per_s': round(tokens / span, 1),
             'requests_per_s': round(len(results) / span, 2)}
    if options.whole:
        return found
    first = [times[0] - begin for _, begin, times in results]
    each = [(times[-1] - times[0]) / max(size - 1, 1) for size, _, times in results]
    waits = [b - a for _, _, times in results for a, b in zip(times, times[1:])]
    for name, values in (('ttft', first), ('tpot', each), ('itl', waits)):
        found.update({f'{name}_p{int(100 * share)}_ms': round(1000 * at(values, share), 3) for share in (0.5, 0.99)})
    if options.within:
        limits = [float(limit) / 1000 for limit in options.within.split(',')]
        good = sum(a <= limits[0] and b <= limits[1] for a, b in zip(first, each))
        found['goodput_per_s'] = round(good / span, 2)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--host', default='127.0.0.1')
    for name, default in (('port', 8080), ('clients', 8), ('requests', 32), ('processes', 1), ('vocabulary', 0), ('seed', 0)):
        parser.add_argument('--' + name, type=int, default=default)
    for name, default in (('input', '100'), ('output', '64'), ('lengths', ''), ('within', '')):
        parser.add_argument('--' + name, default=default, help={'within': 'TTFT,TPOT in ms'}.get(name))
    parser.add_argument('--rate', type=float, default=0)
    parser.add_argument('--whole', action='store_true')
    options = parser.parse_args()
    print(json.dumps(report(options, run(options))))


if __name__ == '__main__':
    main()
