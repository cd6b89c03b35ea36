#!/usr/bin/env python3
"""Makes the files beside it: our own templates in the styles of real chat templates, and their results by transformers.

    python3 tests/models/chat/make_templates.py      needs transformers, which brings jinja2

templates.json: {"templates": {name: source}, "cases": [{"template": name or source, "variables", "text", "generations"}, or
                {..., "error": true} if Jinja refuses]}. strftime_now writes 2023-11-14 22:13:20 UTC.
masks.json:     ids and assistant masks of apply_chat_template, with the tokenizer tests/models/tokenizer/qwen.json.
"""
import json
import os
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "fuzz"))
os.environ["TZ"] = "UTC"
time.tzset()
import compare_templates as jinja  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

TEMPLATES = {
    # Formats each message alone, with the prompt at the end: GPT-2 and early Qwen2.
    "plain": "{% for message in messages %}{{ message.role ~ ': ' ~ message.content ~ eos_token }}\n{% endfor %}"
             "{% if add_generation_prompt %}assistant: {% endif %}",
    "turns": """{%- if messages[0]['role'] == 'system' -%}
    {%- set intro = messages[0]['content'] -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set intro = 'You help.' -%}
    {%- set rest = messages -%}
{%- endif -%}
{{- '<|im_start|>system\\n' + intro + '<|im_end|>\\n' -}}
{%- for message in rest -%}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}
        {{- raise_exception('user and assistant must take turns') -}}
    {%- endif -%}
    {{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
""",
    # Removes thoughts from earlier answers: Qwen3.
    "thinking": """{#- The last message of a person is where thoughts begin to be kept. #}
{%- set found = namespace(last=messages|length - 1, searching=true) %}
{%- for message in messages[::-1] %}
    {%- set at = messages|length - 1 - loop.index0 %}
    {%- if found.searching and message.role == "user" and message.content is string and not (message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set found.searching = false %}
        {%- set found.last = at %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set text = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if message.reasoning_content is defined and message.reasoning_content is not none %}
            {%- set thought = message.reasoning_content %}
        {%- elif '</think>' in text %}
            {%- set thought = text.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set text = text.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > found.last and (loop.last or thought) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + text.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + text }}
        {%- endif %}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n<call>' ~ {'name': call.function.name, 'arguments': call.function.arguments} | tojson ~ '</call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<result>\\n' ~ text ~ '\\n</result>' }}
        {%- if loop.last or (loop.nextitem and loop.nextitem.role != 'tool') %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + text + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    # Has dates and tools in the header: Llama 3.
    "headers": """{{- bos_token }}
{%- if not date is defined %}
    {%- if strftime_now is defined %}
        {%- set date = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date = "1 Jan 2000" %}
    {%- endif %}
{%- endif %}
{%- if messages and messages[0].role == 'system' %}
    {%- set intro = messages[0].content|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set intro = "" %}
{%- endif %}
{{- "<|start|>system<|end|>\\n\\nToday: " + date + "\\n" }}
{%- if tools is not none %}
    {{- "Tools:\\n" }}
    {%- for tool in tools %}
        {{- tool | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- intro + "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role in ['tool', 'ipython'] or 'tool_calls' in message) %}
        {{- '<|start|>' + message['role'] + '<|end|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("One call at a time!") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start|>assistant<|end|>\\n\\n' }}
        {%- for name, value in call.arguments | items %}
            {{- name + '="' ~ value ~ '"' }}{% if not loop.last %}{{ ", " }}{% endif %}
        {%- endfor %}
        {{- '<|eot|>' }}
    {%- else %}
        {{- '<|start|>' ~ message.role ~ '<|end|>\\n\\n' }}
        {{- message.content | tojson if message.content is mapping or message.content is iterable else message.content }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|end|>\\n\\n' }}
{%- endif %}""",
    "marked": """{% for message in messages %}
{% if message.role == 'assistant' %}
<|im_start|>assistant
{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}

{% else %}
{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{% endfor %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
""",
    "macros": """{%- macro part(item, level=1, mark='-') -%}
{%- if item is string -%}{{ mark * level }} {{ item }}
{% elif item is mapping -%}
{%- for key, value in item|dictsort -%}{{ mark * level }} {{ key|upper }}:
{{ part(value, level + 1, mark=mark) }}{%- endfor -%}
{%- elif item is iterable -%}{%- for one in item -%}{{ part(one, level=level + 1) }}{%- endfor -%}
{%- else -%}{{ mark * level }} {{ item|tojson }}
{% endif -%}
{%- endmacro -%}
{%- for message in messages if message.role != 'system' -%}
{%- if loop.index > 5 %}{% break %}{% endif -%}
[{{ loop.index }}/{{ loop.length }}] {{ message.role|title }}
{{ part(message.content) }}
{%- if message.tool_calls %}{% call wrap() %}{{ message.tool_calls|map(attribute='function.name')|join(', ') }}{% endcall %}{% endif -%}
{%- else -%}
nobody speaks
{%- endfor -%}
""".replace("{% call wrap() %}", "{% set names %}").replace("{% endcall %}", "{% endset %}{{ names|trim|default('none', true) }}"),
}

SMALL = ["{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1e16 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ 1.0 }}", "{{ 1 < 2 < 3 }}{{ 3 > 2 > 2 }}{{ 1 == 1.0 == true }}",
         "{{ 'a' 'b' ~ 1 ~ none ~ [1, 'x', (1,), {'k': none}] }}", "{{ [1,2,3,4][::-1] }}{{ 'h\u00e9llo'[1:-1:2] }}{{ (1,2,3)[-2:] }}", "{{ x.y is defined }}{{ x is undefined }}{{ (x|default('d')) }}{{ x }}",
         "{{ x.y.z }}", "{{ 'a' + 1 }}", "{{ none + 1 }}", "{{ 1 / 0 }}", "{{ [] | first }}|{{ [1] | last }}", "{{ {'a': {'b': [1, 2]}}.a.b[1] }}", "{{ 'x' in 'xyz' }}{{ 1 not in [1] }}{{ 'k' in {'k': 1} }}",
         "a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  {%+ if true +%}\n  b\n  {%- endif -%}\n  c\n", "a {#- c -#} b\n{# x #}\nd", "{{ '{{' }}{% raw %}{{ x }}{% endraw %} {%- raw -%} {% y %} {%- endraw -%} z", "line\r\nend\r",
         "{% set ns = namespace(n=0) %}{% for i in range(5) %}{% if i is odd %}{% continue %}{% endif %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
         "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}", "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
         "{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }},{% endfor %}",
         "{% for i in [] %}x{% else %}none{% endfor %}{% for k in {'a': 1} %}{{ k }}{% endfor %}{% for c in 'h\u00e9' %}{{ c }}.{% endfor %}", "{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m(b=3, a=4) }}",
         "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{% endcall %}", "{% set t %}a{{ 1 }}b{% endset %}{{ t|upper }}{% filter upper %}x{{ t }}{% endfilter %}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
         "{{ {'b': 1, 'a': [1.5, none, true, '\u00e9\\n\"<']} | tojson }}", "{{ {'b': 1, 'a': [1, []], 'c': {}} | tojson(indent=2) }}", "{{ {'b': '\u00e9\U0001f389', 'a': 1} | tojson(ensure_ascii=true, sort_keys=true, separators=(',', ':')) }}",
         "{{ '  x '|trim }}|{{ 'xxaxx'.strip('x') }}|{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a b c'.split(' ', 1) }}|{{ 'a.b.c'.rsplit('.', 1) }}", "{{ 'abc'.replace('b', 'x') }}{{ 'aaa'|replace('a', 'b', 2) }}{{ 'ab'.replace('', '-') }}",
         "{{ 'Hello wOrld'.title() }}{{ \"it's a-b\"|title }}{{ 'heLLo'|capitalize }}{{ '\u00c4\u00d6'.lower() }}{{ '\u00e4'|upper }}", "{{ [3, 1, 2]|sort }}{{ ['b', 'A', 'c']|sort }}{{ [1, 2]|sum }}{{ [3, 1]|max }}{{ ['x', 'y']|join('-') }}{{ [1, 1, 2]|unique|list }}",
         "{{ [{'a': 1}, {'a': 2}]|map(attribute='a')|list }}{{ [1, none, 2]|select|list }}{{ [{'r': 'x', 'v': 1}, {'r': 'y'}]|selectattr('r', 'equalto', 'x')|map(attribute='v')|list }}{{ ['a', 'B']|map('upper')|join }}",
         "{{ 5 is number }}{{ '5' is string }}{{ {} is mapping }}{{ [] is sequence }}{{ 1 is boolean }}{{ none is none }}{{ 4 is divisibleby 2 }}{{ 'a' is in ['a'] }}{{ x is defined and x.y }}", "{{ 'a' if false }}|{{ 'a' if false else 'b' }}|{{ 'x' if 1 else 2 if 0 else 3 }}",
         "{{ 'it\\'s' }}{{ ['it\\'s', '\"', 'a\\\\b', '\\x01\u00a0'] }}{{ '\\u00e9\\101' }}", "{{ 'a'|safe + '<b>' }}{{ '<&>'|e }}{{ ('a'|safe).upper() + '<' }}", "{{ '{} {1}'.format(1) if false else '{} {a}'.format(1, a='z') }}", "{{ dict(a=1).items()|list }}{{ {'a': 1, 'b': 2}.keys()|list }}{{ {'a': 1}.get('b', 'no') }}{{ {'a': 1}.get('b') }}",
         "{{ 3|string + 'x' }}{{ '3'|int + 1 }}{{ 'x'|int }}{{ 2.7|int }}{{ 2.5|round }}{{ 3.14159|round(2) }}{{ '1.5'|float }}{{ -3|abs }}", "{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent(width='>', blank=true) }}",
         "{{ strftime_now('%Y-%m-%d %H:%M') }}", "{{ raise_exception('no: ' ~ 1) }}", "{% for i in range(3) %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in 5 %}{% endfor %}", "{{ 'x' is sequence }}{{ 'abc'|length }}{{ {'a': 1}|length }}{{ '\u00e9\U0001f389'|length }}",
         "{{ [1, 2].append(3) }}", "{{ {}.update({}) }}", "{{ messages.__class__ }}x", "{{ ''.__class__.__mro__ }}", "{% include 'x' %}", "{{ x | nosuchfilter }}", "{% if", "{{ 1 +", "{% endif %}", "{% for x in %}", "{{ 'a }}", "{# never closed", "{{ (1 }}", "{% set 1 = 2 %}", "{{ [1, 2 }}", "{% if true %}", "{{ a b }}",
         "{{ 'a' not in 'abc' and not false or none }}", "{{ not 1 == 2 }}{{ - 1 + 2 * 3 }}{{ 2 + 3 ~ 4 }}{{ -2 ** 2 }}{{ 'a' ~ 1 + 2 }}", "{{ [1, 2, 3,] }}{{ (1,) }}{{ () }}{{ 1, 2 }}", "{{ true and 'x' }}{{ '' or 'y' }}{{ True }}{{ None }}", "{{ 'ab' * 3 }}{{ [0] * 2 }}{{ 3 * 'x' }}",
         "{% if x %}{{ 'a' | nosuchfilter }}{% endif %}ok"]


# Expressions that Jinja evaluates lazily or not at all, or writes with an address, and that Genesis refuses. SMALL
# has these where they matter.
SHY = re.compile(r"select|reject|map\(|unique|reverse|sort\(|splitlines|items| % |callable|\[[-\dn]*:")


def case(template, source, variables):
    variables = {**jinja.ALWAYS, **variables}
    result = jinja.theirs(source, variables)
    result = {"error": True} if "error" in result else result
    return {"template": template, "variables": variables, **result}


def main():
    cases = []
    for name, source in TEMPLATES.items():
        for conversation in jinja.conversations():
            for prompt in (True, False):
                cases.append(case(name, source, {"bos_token": "<s>", "eos_token": "</s>", **conversation, "add_generation_prompt": prompt}))
    cases += [case(source, source, {}) for source in SMALL]
    expressions = jinja.Expressions(7)
    while len(cases) < 480:
        source = expressions.block(1) if len(cases) % 3 == 0 else "{{ " + expressions.make(4) + " }}"
        one = case(source, source, jinja.VARIABLES)
        if "error" not in one and not SHY.search(source):
            one["variables"] = "VARIABLES"
            cases.append(one)
    file = {"templates": TEMPLATES, "VARIABLES": {**jinja.ALWAYS, **jinja.VARIABLES}, "cases": cases}
    (HERE / "templates.json").write_text(json.dumps(file, indent=0) + "\n")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE.parent / "tokenizer/qwen.json"))
    masks = []
    for conversation in [
            [("user", "In the beginning"), ("assistant", "God created the heaven and the earth.")],
            [("system", "Be brief."), ("user", "a"), ("assistant", "b\n\n"), ("user", "c"), ("assistant", "\n\nd \u4e16\u754c e\u0301")],
            [("user", ""), ("assistant", ""), ("user", "x"), ("assistant", "y"), ("user", "open question")]]:
        messages = [{"role": role, "content": content} for role, content in conversation]
        tokens = tokenizer.apply_chat_template(messages, chat_template=TEMPLATES["marked"], tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        masks.append({"messages": messages, "ids": tokens["input_ids"], "mask": [int(x) for x in tokens["assistant_masks"]]})
    (HERE / "masks.json").write_text(json.dumps(masks, indent=0) + "\n")


if __name__ == "__main__":
    main()
