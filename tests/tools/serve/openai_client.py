#!/usr/bin/env python3
"""Drives a server of genesis-run with OpenAI's own client: openai_client.py PORT_OF_TEXTS PORT_OF_VECTORS."""
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
    schema = {'type': 'object', 'properties': {'a': {'type': 'boolean'}}, 'required': ['a'], 'additionalProperties': False}
    formed = client.chat.completions.create(model='tiny', messages=asked['messages'],
                                            response_format={'type': 'json_schema', 'json_schema': {'name': 'x', 'schema': schema}})
    assert formed.choices[0].message.content.startswith('{'), formed
    tool = {'type': 'function', 'function': {'name': 'f', 'parameters': schema}}
    called = client.chat.completions.create(model='tiny', messages=asked['messages'], tools=[tool], tool_choice='required')
    assert called.choices[0].message.tool_calls[0].function.name == 'f', called


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
    chunks = list(client.completions.create(model='tiny', prompt='In', max_tokens=3, stream=True))
    assert chunks[-1].choices[0].finish_reason
    said = client.responses.create(model='tiny', input='In the', max_output_tokens=4, store=False, extra_body={'seed': 3})
    events = list(client.responses.create(model='tiny', input='In the', max_output_tokens=4, stream=True, extra_body={'seed': 3}))
    assert events[-1].response.output_text == said.output_text
    check_errors(client, port)


def check_vectors(port):
    client = client_of(port)
    vectors = client.embeddings.create(model='bert', input=['a cat', 'a dog'])  # base64, which the client decodes
    floats = client.embeddings.create(model='bert', input='a dog', encoding_format='float')
    assert len(vectors.data) == 2 and vectors.usage.prompt_tokens > 0
    assert max(abs(a - b) for a, b in zip(vectors.data[1].embedding, floats.data[0].embedding)) < 1e-5
    refused(openai.BadRequestError, lambda: client.chat.completions.create(model='bert', messages=[]))


check_texts(sys.argv[1])
check_vectors(sys.argv[2])
print('ok')
