#!/usr/bin/env python3
"""Drives servers of genesis-run with OpenAI's own client: openai_client.py PORT_OF_TEXTS PORT_OF_VECTORS PORT_OF_RANKS."""
import json
import sys

import openai


def client_of(port, key='sk-test'):
    return openai.OpenAI(base_url=f'http://127.0.0.1:{port}/v1', api_key=key, max_retries=0, timeout=60)


def refused(error, call):
    try:
        call()
    except error as known:
        return known
    raise AssertionError(f'expected {error.__name__}')


def check_chat(client):
    asked = {'model': 'tiny', 'messages': [{'role': 'user', 'content': 'In the'}], 'max_tokens': 6, 'seed': 3,
             'extra_body': {'ignore_eos': True}}
    whole = client.chat.completions.create(**asked, n=2, logprobs=True, top_logprobs=2)
    assert whole.usage.completion_tokens == 12 and len(whole.choices) == 2
    assert len(whole.choices[0].logprobs.content) == 6
    text = ''
    for chunk in client.chat.completions.create(**asked, stream=True, stream_options={'include_usage': True}):
        text += chunk.choices[0].delta.content or '' if chunk.choices else ''
    assert text == whole.choices[0].message.content and chunk.usage.completion_tokens == 6
    check_formats(client, asked['messages'])
    check_settings(client, asked, whole)


SCHEMA = {'type': 'object', 'properties': {'a': {'type': 'boolean'}}, 'required': ['a'], 'additionalProperties': False}


def check_formats(client, messages):
    formed = client.chat.completions.create(model='tiny', messages=messages,
                                            response_format={'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': SCHEMA}})
    assert type(json.loads(formed.choices[0].message.content)['a']) is bool, formed
    free = client.chat.completions.create(model='tiny', messages=messages, max_tokens=40, response_format={'type': 'json_object'})
    assert free.choices[0].message.content.startswith('{'), free
    for constraint, text in (({'choice': ['yes', 'no']}, ('yes', 'no')), ({'regex': 'ab{2}c'}, ('abbc',))):
        made = client.chat.completions.create(model='tiny', messages=messages, extra_body={'structured_outputs': constraint})
        assert made.choices[0].message.content in text, made
    tool = {'type': 'function', 'function': {'name': 'f', 'parameters': SCHEMA}}
    asked = {'model': 'tiny', 'messages': messages, 'tools': [tool], 'tool_choice': 'required', 'seed': 5}
    called = client.chat.completions.create(**asked).choices[0]
    assert called.message.tool_calls[0].function.name == 'f' and called.finish_reason == 'tool_calls', called
    name = arguments = ''
    for chunk in client.chat.completions.create(**asked, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            name += call.function.name or ''
            arguments += call.function.arguments or ''
    assert name == 'f' and arguments == called.message.tool_calls[0].function.arguments, (name, arguments)
    assert type(json.loads(arguments)['a']) is bool


def check_settings(client, asked, whole):
    content = lambda **more: client.chat.completions.create(**{**asked, **more}).choices[0].message.content
    text = whole.choices[0].message.content
    assert content() == text and content(seed=4) == whole.choices[1].message.content, text  # the second text has the next seed
    assert content(stop=text[2:4]) == text[:text.index(text[2:4])]
    made = client.chat.completions.create(**asked, logit_bias={'7': 100}, temperature=0, presence_penalty=0, frequency_penalty=0, logprobs=True)
    assert len({one.token for one in made.choices[0].logprobs.content}) == 1, made
    varied = client.chat.completions.create(**{**asked, 'max_tokens': 3}, logit_bias={'7': 100, '8': 99.5}, temperature=0,
                                            presence_penalty=1.0, frequency_penalty=1.0, logprobs=True)
    assert len({one.token for one in varied.choices[0].logprobs.content}) > 1, varied
    assert content(top_p=0.001, temperature=1.5) == content(temperature=0)
    assert content(extra_body={'top_k': 1, 'min_p': 0.1, 'ignore_eos': True}) == content(temperature=0)


def check_errors(client, port):
    asked = {'model': 'tiny', 'messages': [{'role': 'user', 'content': 'x'}]}
    refused(openai.AuthenticationError, lambda: client_of(port, 'sk-no').models.list())
    refused(openai.NotFoundError, lambda: client.chat.completions.create(**{**asked, 'model': 'gpt'}))
    error = refused(openai.BadRequestError, lambda: client.chat.completions.create(**asked, max_tokens=100000))
    assert error.code == 'context_length_exceeded' and error.param == 'max_tokens'


def check_texts(port):
    client = client_of(port)
    assert [model.id for model in client.models.list()] == ['tiny'] and client.models.retrieve('tiny').id == 'tiny'
    check_chat(client)
    made = client.completions.create(model='tiny', prompt=['In', 'the'], max_tokens=3, extra_body={'ignore_eos': True})
    assert len(made.choices) == 2 and made.usage.completion_tokens == 6
    chunks = list(client.completions.create(model='tiny', prompt='In', max_tokens=3, stream=True, stream_options={'include_usage': True}))
    assert chunks[-2].choices[0].finish_reason and chunks[-1].usage.prompt_tokens > 0
    likely = client.completions.create(model='tiny', prompt=[5, 6], max_tokens=2, n=2, logprobs=1, echo=False, seed=1, extra_body={'ignore_eos': True})
    assert all(len(choice.logprobs.token_logprobs) == 2 for choice in likely.choices), likely
    said = client.responses.create(model='tiny', input='In the', max_output_tokens=4, store=False, extra_body={'seed': 3})
    events = list(client.responses.create(model='tiny', input='In the', max_output_tokens=4, stream=True, extra_body={'seed': 3}))
    assert events[-1].response.output_text == said.output_text
    assert ''.join(event.delta for event in events if event.type == 'response.output_text.delta') == said.output_text
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    check_errors(client, port)


def check_vectors(port):
    client = client_of(port)
    vectors = client.embeddings.create(model='bert', input=['a cat', 'a dog'])  # base64, which the client decodes
    floats = client.embeddings.create(model='bert', input='a dog', encoding_format='float')
    assert len(vectors.data) == 2 and vectors.usage.prompt_tokens > 0
    assert max(abs(a - b) for a, b in zip(vectors.data[1].embedding, floats.data[0].embedding)) < 1e-5
    refused(openai.BadRequestError, lambda: client.chat.completions.create(model='bert', messages=[]))


def check_ranks(port):  # OpenAI has no such route: its client sends what it is told
    client = client_of(port)
    asked = {'model': 'ranks', 'query': 'what do cats eat', 'documents': ['mice', 'the sea is wide'], 'top_n': 2, 'return_documents': True}
    ranked = client.post('/rerank', body=asked, cast_to=object)
    scores = [one['relevance_score'] for one in ranked['results']]
    assert scores == sorted(scores, reverse=True) and sorted(one['index'] for one in ranked['results']) == [0, 1], ranked
    assert ranked['results'][0]['document']['text'] in asked['documents'] and ranked['usage']['prompt_tokens'] > 0
    refused(openai.BadRequestError, lambda: client.post('/rerank', body={**asked, 'documents': []}, cast_to=object))


check_texts(sys.argv[1])
check_vectors(sys.argv[2])
check_ranks(sys.argv[3])
print('ok')
