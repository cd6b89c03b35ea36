#!/usr/bin/env python3
"""Checks that texts of a server do not depend on each other: bench/serve/same_bytes.py --port 8080 [--requests 48] [--vocabulary 1000]

Asks for the same texts one by one, all at once, and with Poisson arrivals in another order, and compares tokens and log-probabilities. A
part of the prompts begins alike, so that some are found in the cache.
"""
import argparse
import concurrent.futures
import http.client
import json
import random
import sys
import time


def body_of(number, options):
    chance = random.Random(number % 7)
    shared = [chance.randrange(options.vocabulary) for _ in range(options.shared)] if number % 3 else []
    chance = random.Random(1000 + number)
    prompt = shared + [chance.randrange(options.vocabulary) for _ in range(chance.randint(1, 2 * options.shared))]
    return {'prompt': prompt, 'max_tokens': chance.randint(4, options.tokens), 'seed': number, 'temperature': 0.8 if number % 2 else 0,
            'ignore_eos': True, **({'logprobs': 1} if number % 4 == 0 else {})}


def ask(number, options):
    connection = http.client.HTTPConnection(options.host, options.port, timeout=600)
    connection.request('POST', '/v1/completions', json.dumps(body_of(number, options)), {'content-type': 'application/json'})
    answer = json.loads(connection.getresponse().read())
    if 'choices' not in answer:
        sys.exit(f'request {number}: {answer}')
    return json.dumps(answer['choices'])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--host', default='127.0.0.1')
    for name, default in (('port', 8080), ('requests', 48), ('vocabulary', 1000), ('tokens', 48), ('shared', 300)):
        parser.add_argument('--' + name, type=int, default=default)
    options = parser.parse_args()
    numbers = list(range(options.requests))
    alone = {number: ask(number, options) for number in numbers}
    chance, different = random.Random(5), []
    for name, pause in (('all at once', 0), ('with Poisson arrivals', 0.02)):
        chance.shuffle(numbers)
        with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
            running = {}
            for number in numbers:
                time.sleep(chance.expovariate(1 / pause) if pause else 0)
                running[number] = pool.submit(ask, number, options)
            different += [f'{number} {name}' for number in numbers if running[number].result() != alone[number]]
    print(f'{len(different)} of {2 * len(numbers)} texts differ from those alone' + (': ' + ', '.join(different[:10]) if different else ''))
    sys.exit(bool(different))


if __name__ == '__main__':
    main()
