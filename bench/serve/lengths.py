#!/usr/bin/env python3
"""Writes lengths of conversations for load.py --lengths: bench/serve/lengths.py COUNT [SEED] > lengths.txt

Each line is "INPUT OUTPUT" in tokens. Both are log-normal. The limits are those of vllm's benchmark of ShareGPT (4 to 1024 tokens of a prompt,
2048 in all), and the means are near the 215 and 198 tokens that vllm's documentation reports for 1,000 requests of it.
"""
import random
import sys


def length(chance, median, spread):
    return round(median * 2.718281828 ** (spread * chance.gauss(0, 1)))


def pairs(count, seed):
    chance = random.Random(seed)
    found = []
    while len(found) < count:
        size, tokens = length(chance, 140, 1.4), length(chance, 122, 1.1)
        if 4 <= size <= 1024 and tokens >= 4 and size + tokens <= 2048:
            found.append((size, tokens))
    return found


def main():
    if len(sys.argv) not in (2, 3) or not all(word.isdigit() for word in sys.argv[1:]):
        raise SystemExit(__doc__)
    for size, tokens in pairs(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 0):
        print(size, tokens)


if __name__ == '__main__':
    main()
