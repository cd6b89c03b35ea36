#!/usr/bin/env python3
"""Makes tests/models/generation/sampling.json: the tokens that transformers' logits processors keep, and the effect of penalties
on logits.

Needs transformers; the suite does not: it reads the numbers. Logits are a formula that sampling_test.cpp repeats.
The processors and their order are those that a model's generate() uses. Usage: python3 tests/models/generation/make_sampling.py
"""
import json
import math
import os

import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

MODEL = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=37, n_positions=8))


def logits_of(vocab, seed, masked):
    """Returns distinct numbers in [-4.9, 4.9], exact in f32; with `masked`, some are -inf."""
    i = torch.arange(vocab, dtype=torch.int64)
    x = (((i * 7919 + seed * 104729) % 10007) - 5003).to(torch.float32) / 1024
    if masked:
        x[i % 5 == 3] = -math.inf
    return x


def processed(logits, input_ids, **settings):
    config = GenerationConfig(do_sample=True, **settings)
    MODEL.generation_config = config
    processors = MODEL._get_logits_processor(generation_config=config, input_ids_seq_length=input_ids.shape[1],
                                             device="cpu", logits_processor=[])
    return processors(input_ids, logits.clone()[None])[0]


def sampling_case(vocab, seed, masked=False, **settings):
    scores = processed(logits_of(vocab, seed, masked), torch.tensor([[0]]), **settings)
    kept = [i for i, score in enumerate(scores.tolist()) if score > -math.inf]
    case = dict(vocab=vocab, seed=seed, masked=masked, kept=kept if len(kept) < vocab else "all", **settings)
    if vocab == 37:
        case["probabilities"] = [round(p, 9) for p in torch.softmax(scores.double(), -1)[kept].tolist()]
    return case


def penalty_case(seed, prompt, chosen, repetition, presence, frequency, bias={}):
    ids = torch.tensor([prompt + chosen])
    settings = dict(sequence_bias=[[[token], value] for token, value in bias.items()]) if bias else {}
    scores = processed(logits_of(37, seed, False), ids, repetition_penalty=repetition, top_k=0, **settings)
    count = torch.bincount(torch.tensor(chosen, dtype=torch.int64), minlength=37)
    # From https://platform.openai.com/docs/advanced-usage: mu[j] -> mu[j] - c[j] * alpha_frequency - float(c[j] > 0)
    # * alpha_presence, where c[j] is how often token j was sampled before this position.
    scores = scores - count * frequency - (count > 0).float() * presence
    return dict(seed=seed, prompt=prompt, chosen=chosen, repetition=repetition, presence=presence, bias=list(bias.items()),
                frequency=frequency, logits=[round(x, 7) for x in scores.tolist()])


def bias_case(prompt, chosen, **settings):
    """Returns what the settings add to logits of 0: "bias" by token, null for -infinity."""
    config = GenerationConfig(do_sample=True, top_k=0, eos_token_id=[30, 31], pad_token_id=0, **settings)
    MODEL.generation_config = config
    MODEL._prepare_special_tokens(config, True, device="cpu")
    processors = MODEL._get_logits_processor(generation_config=config, input_ids_seq_length=len(prompt), device="cpu", logits_processor=[])
    added = processors(torch.tensor([prompt + chosen]), torch.zeros(1, 37))[0].tolist()
    return dict(prompt=prompt, chosen=chosen, settings=settings, bias=[None if x == -math.inf else round(x, 6) for x in added])


BIASES = [
    bias_case([1, 2], [3], sequence_bias=[[[7], -2.5], [[2, 3, 9], 4.0], [[3, 9], 1.5], [[4, 9], 8.0], [[5, 1, 2, 3, 8], 3.0]]),
    bias_case([1, 2, 3], [1, 2], no_repeat_ngram_size=3),
    bias_case([1, 2, 3, 1, 5], [1], no_repeat_ngram_size=2),
    bias_case([1, 2], [9], no_repeat_ngram_size=1),
    bias_case([1], [], no_repeat_ngram_size=4),
    bias_case([8, 8], [6, 7], bad_words_ids=[[5], [7, 4], [6, 7, 3], [6, 3], [30]]),
    bias_case([8], [1, 2], suppress_tokens=[0, 36]),
    bias_case([8], [1, 2], min_new_tokens=3),
    bias_case([8], [1, 2, 3], min_new_tokens=3),
    bias_case([4, 5, 4], [], min_new_tokens=1, no_repeat_ngram_size=2, suppress_tokens=[5], sequence_bias=[[[6], 1.0]]),
]


TYPICAL = [sampling_case(vocab, seed, masked, top_k=0, typical_p=p, temperature=temperature)
           for vocab, seed, masked, p, temperature in ((37, 1, False, 0.5, 1.0), (37, 2, True, 0.9, 1.0), (37, 3, False, 0.2, 0.5), (37, 4, False, 0.95, 1.6),
                                                       (37, 5, True, 0.01, 1.0), (37, 6, False, 0.999, 1.0), (1009, 7, False, 0.7, 0.8))]


def main():
    cases = []
    settings = [dict(top_k=0), dict(top_k=5), dict(top_k=0, temperature=0.6), dict(top_k=0, top_p=0.5),
                dict(top_k=0, min_p=0.1), dict(top_k=0, temperature=1.7, min_p=0.3),
                dict(top_k=30, top_p=0.8, temperature=0.8), dict(top_k=12, top_p=0.9, min_p=0.2, temperature=1.4),
                dict(top_k=1), dict(top_k=0, min_p=1.0), dict(top_k=0, top_p=0.01), dict(top_k=0, top_p=0.95, min_p=0.02)]
    for vocab, seed in ((37, 1), (37, 2), (1009, 3)):
        for number, setting in enumerate(settings):
            cases.append(sampling_case(vocab, seed, masked=number % 2 == 1 and seed == 2, **setting))
    for setting in settings[3:8]:
        cases.append(sampling_case(4999, 4, **setting))
    penalties = [penalty_case(1, [1, 2, 3, 2], [], 1.3, 0.0, 0.0), penalty_case(2, [5, 5], [7, 7, 7, 5, 36], 1.1, 0.5, 0.25),
                 penalty_case(3, [0], [36, 0, 0], 1.0, -0.7, 1.5), penalty_case(4, [9], [9, 10], 0.5, 0.0, 0.1),
                 penalty_case(5, [9, 4], [9, 10], 1.4, 0.2, 0.1, {9: 3.5, 10: -2.0, 11: 1.0})]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sampling.json")
    with open(path, "w") as file:
        lines = ",\n".join("  " + json.dumps(case, separators=(",", ":")) for case in cases)
        more = ",\n".join("  " + json.dumps(case, separators=(",", ":")) for case in penalties)
        biases = ",\n".join("  " + json.dumps(case, separators=(",", ":")) for case in BIASES)
        typical = ",\n".join("  " + json.dumps(case, separators=(",", ":")) for case in TYPICAL)
        file.write('{"sampling": [\n' + lines + '\n], "penalties": [\n' + more + '\n], "biases": [\n' + biases + '\n], "typical": [\n' + typical + "\n]}\n")


main()
