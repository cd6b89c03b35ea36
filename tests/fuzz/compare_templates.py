#!/usr/bin/env python3
"""Compares our interpreter of chat templates with Jinja under the settings of transformers.

  tests/fuzz/compare_templates.py PROGRAM FILE.jinja...        these templates, with conversations of many kinds
  tests/fuzz/compare_templates.py PROGRAM --random COUNT [SEED]   random expressions and blocks

PROGRAM is build/tests/fuzz/render_templates. Needs `pip install transformers`; not part of the suite. Templates that
Jinja refuses may be refused or not. Templates that Jinja renders must give the same, or be refused with a reason, which is
counted and listed.
"""
import collections
import copy
import datetime
import json
import random
import subprocess
import sys
from pathlib import Path

import transformers.utils.chat_template_utils as utils

NOW = 1700000000
# Variables that transformers gives every template.
ALWAYS = {"messages": None, "tools": None, "documents": None, "add_generation_prompt": False}
# Variables of random templates.
VARIABLES = {"s": "abc", "t": " a b\nab ", "u": "ÄÖ é世界🎉", "n": 3, "f": 2.5, "l": [1, "a", None, 2.0, [3]], "d": {"b": 1, "a": "x", "C": None},
             "b": True, "z": None, "m": [{"a": 1, "b": {"c": 2}}, {"a": 2}], "deep": {"b": {"c": [1, {"d": "e"}]}}}


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(NOW)


utils.datetime = Clock


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def render(self, template, variables):
        self.process.stdin.write(json.dumps({"template": template, "variables": variables, "now": NOW}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the program ended on\n{template}\n{json.dumps(variables)}")
        return json.loads(line)


def theirs(template, variables):
    try:
        compiled = utils._compile_jinja_template(template)
        text, marks = utils._render_with_assistant_indices(compiled, **{**ALWAYS, **copy.deepcopy(variables)})
        text.encode()
        return {"text": text, "generations": [[len(text[:a].encode()), len(text[:b].encode())] for a, b in marks]}
    except Exception as error:  # any exception of Python for an invalid template
        return {"error": f"{type(error).__name__}: {error}"}


def conversations():
    tool = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
        "type": "object", "properties": {"a": {"type": "number", "description": "one"}, "b": {"type": ["number", "null"]},
                                         "how": {"type": "string", "enum": ["fast", "slow"]}}, "required": ["a"]}}}
    call = {"id": "call12345", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2.5, "text": "x\n\"y\" <é>"}}}
    user, answer = {"role": "user", "content": "Hi  "}, {"role": "assistant", "content": " Hello 世界 \n"}
    thought = {"role": "assistant", "content": "<think>\nWell.\n</think>\n\nFine."}
    system = {"role": "system", "content": "Be brief."}
    yield {"messages": [user]}
    yield {"messages": [system, user]}
    yield {"messages": [user, answer, user]}
    yield {"messages": [system, user, answer, user, thought]}
    yield {"messages": [user, thought, user, thought, {"role": "user", "content": "<tool_response>x</tool_response>"}]}
    yield {"messages": [user, {"role": "assistant", "content": "Yes", "reasoning_content": "hm"}, user]}
    yield {"messages": [user], "tools": [tool]}
    yield {"messages": [system, user], "tools": [tool, tool]}
    yield {"messages": [user, {"role": "assistant", "content": None, "tool_calls": [call]}], "tools": [tool]}
    yield {"messages": [user, {"role": "assistant", "content": "", "tool_calls": [call, call]},
                        {"role": "tool", "name": "add", "tool_call_id": "call12345", "content": "3.5"},
                        {"role": "tool", "name": "add", "tool_call_id": "call12345", "content": {"x": [1, None, True]}}, answer, user], "tools": [tool]}
    yield {"messages": [{"role": "user", "content": [{"type": "text", "text": "part one "}, {"type": "text", "text": "two"}]}]}
    yield {"messages": [user, user]}
    yield {"messages": [answer, user]}
    yield {"messages": []}
    yield {"messages": [system]}
    yield {"messages": [user, answer], "enable_thinking": False}
    yield {"messages": [user, answer, user], "enable_thinking": True, "date_string": "1 Jan 2020"}
    yield {"messages": [{"role": "developer", "content": "Dev."}, user]}


def compare(ours, template, variables, tally, name):
    variables = {**ALWAYS, **variables}
    expected, got = theirs(template, variables), ours.render(template, variables)
    if "error" in expected:
        tally["both refuse" if "error" in got else "only Jinja refuses"] += 1
        return "error" in got
    if expected == got:
        tally["equal"] += 1
        return True
    tally["only we refuse" if "error" in got else "DIFFERENT"] += 1
    print(f"--- {name}\n{json.dumps(variables)[:600]}\nJinja: {json.dumps(expected)}\nours:  {json.dumps(got)}")
    return False


def published(ours, files, tally):
    for file in files:
        for conversation in conversations():
            for prompt in (True, False):
                variables = {"bos_token": "<s>", "eos_token": "</s>", **conversation, "add_generation_prompt": prompt}
                compare(ours, Path(file).read_text(), variables, tally, file)


class Expressions:
    """Makes random expressions over values of all kinds. Jinja defines their meaning."""
    NAMES = ["s", "t", "u", "n", "f", "l", "d", "b", "z", "m", "missing", "deep"]
    FILTERS = ["abs", "capitalize", "default('x')", "default('x', true)", "d(1)", "dictsort", "dictsort(by='value')", "first", "float", "indent", "indent(2, true)",
               "int", "items", "join", "join(', ')", "last", "length", "list", "lower", "map('upper')", "map(attribute='a')", "max", "min", "reject('none')",
               "rejectattr('a')", "replace('a', 'bb')", "replace('', '-')", "replace('a','b',1)", "reverse", "round", "round(2)", "select", "select('string')", "select('gt', 1)", "selectattr('a', 'equalto', 1)", "selectattr('a','defined')", "sort", "sort(reverse=true)",
               "sort(attribute='a')", "string", "sum", "title", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(separators=(',', ':'))", "tojson(sort_keys=true)", "trim", "trim('ab ')", "unique", "upper", "safe", "escape"]
    TESTS = ["boolean", "callable", "defined", "divisibleby 2", "eq 1", "equalto 'a'", "even", "false", "float", "ge 1", "gt 1", "in l", "in 'abc'", "integer", "iterable",
             "le 2", "lower", "lt 2", "mapping", "ne 1", "none", "number", "odd", "sameas none", "sequence", "string", "true", "undefined", "upper"]
    METHODS = ["strip()", "strip('a ')", "lstrip()", "rstrip('b')", "split()", "split('a')", "split(' ', 1)", "rsplit('b', 1)", "startswith('a')", "endswith(('b', 'c'))", "upper()", "lower()",
               "title()", "capitalize()", "replace('a', 'x')", "replace('', '.')", "find('b')", "rfind('a')", "count('a')", "isdigit()", "isalpha()", "isspace()", "islower()", "isupper()", "items()|list", "keys()|list",
               "values()|list", "get('a')", "get('zz', 5)", "index(1)", "splitlines()", "join(['x', 'y'])", "partition('a')", "removeprefix('a')", "removesuffix('b')", "format(1, a=2)", "a", "b.c", "zz"]
    LITERALS = ["0", "1", "-1", "2", "7", "1.5", "0.1", "1e3", "1e20", "2.0", "''", "'a'", "'abc'", "\"it's\"", "'\\n'", "' a b '", "'é世'", "[]", "[1, 2]", "['b', 'a', 'C']", "(1, 'x')", "(1,)", "()", "{}", "{'a': 1, 'b': [2]}",
                "true", "false", "none", "[{'a': 1}, {'a': 2, 'b': 3}, {}]", "'<&>'", "'a\\tb'", "'\\u00e9'"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, items):
        return self.random.choice(items)

    def make(self, depth):
        if depth <= 0 or self.random.random() < 0.12:
            return self.pick(self.NAMES) if self.random.random() < 0.5 else self.pick(self.LITERALS)
        e = lambda: self.make(depth - self.random.randint(1, 2))
        kind = self.random.randrange(15)
        if kind == 0: return f"({e()} {self.pick(['+', '-', '*', '/', '//', '%', '~'])} {e()})"
        if kind == 1: return f"{e()} {self.pick(['+', '-', '*', '~', '%'])} {e()}"
        if kind == 2: return f"({e()} {self.pick(['==', '!=', '<', '>', '<=', '>=', 'in', 'not in'])} {e()})"
        if kind == 3: return f"({e()} {self.pick(['and', 'or'])} {e()})"
        if kind == 4: return f"(not {e()})"
        if kind == 5: return f"({e()} if {e()}" + (f" else {e()})" if self.random.random() < .8 else ")")
        if kind in (6, 7): return f"{self.wrapped(e())}|{self.pick(self.FILTERS)}"
        if kind == 8: return f"({self.wrapped(e())} is {'not ' if self.random.random() < .3 else ''}{self.pick(self.TESTS)})"
        if kind in (9, 10): return f"{self.wrapped(e())}.{self.pick(self.METHODS)}"
        if kind == 11: return f"{self.wrapped(e())}[{e()}]"
        if kind == 12: return f"{self.wrapped(e())}[{self.pick(['', '0', '1', '-1', '-2', 'n', '5', '-9'])}:{self.pick(['', '0', '1', '-1', '3', '-9', '9'])}{self.pick(['', ':', ':-1', ':2', ':-2'])}]"
        if kind == 13: return f"[{e()}, {e()}]"
        return f"{{'a': {e()}, 'k': {e()}}}"

    def wrapped(self, text):
        return f"({text})"

    def block(self, depth):
        """Returns the text of a random template with statements."""
        parts = []
        for _ in range(self.random.randint(1, 3)):
            parts.append(self.statement(depth))
            parts.append(self.pick(["", " ", "\n", "  \n", "text", " a\n  ", "\n\n", "\t"]))
        return "".join(parts)

    def tag(self, text):
        return f"{{%{self.pick(['', '', '', '-', '+'])} {text} {self.pick(['', '', '', '-', '+'])}%}}"

    def statement(self, depth):
        e = lambda: self.make(2)
        kind = self.random.randrange(14) if depth > 0 else self.random.randrange(3)
        body = lambda: self.block(depth - 1)
        name = self.pick(["v", "w", "s", "n"])
        if kind == 0: return f"{{{{{self.pick(['', '-'])} {e()} {self.pick(['', '-'])}}}}}"
        if kind == 1: return f"{{#{self.pick(['', '-'])} note {self.pick(['', '-'])}#}}"
        if kind == 2: return self.tag(f"set {name} = {e()}")
        if kind == 3: return self.tag(f"if {e()}") + body() + self.tag("endif")
        if kind == 4: return self.tag(f"if {e()}") + body() + self.tag(f"elif {e()}") + body() + self.tag("else") + body() + self.tag("endif")
        if kind == 5: return self.tag(f"for x in {self.pick(['l', 'd', 's', 'm', 'range(3)', e()])}") + "{{ x }}{{ loop.index }}{{ loop.last }}" + body() + self.tag("endfor")
        if kind == 6: return self.tag(f"for k, x in {self.pick(['d.items()', 'd|items', 'd|dictsort'])}") + "{{ k }}={{ x }}" + body() + self.tag("else") + body() + self.tag("endfor")
        if kind == 7: return self.tag(f"for x in l if {e()}") + "{{ loop.index0 }}/{{ loop.length }}{{ loop.revindex }}" + self.tag(f"if {e()}") + self.tag(self.pick(["break", "continue"])) + self.tag("endif") + body() + self.tag("endfor")
        if kind == 8: return self.tag("set ns = namespace(a=1, b='')") + self.tag("for x in l") + self.tag("set ns.b = ns.b ~ x") + body() + self.tag("endfor") + "{{ ns.b }}"
        if kind == 9: return self.tag(f"set {name}") + body() + self.tag("endset") + "{{ " + name + " }}"
        if kind == 10: return self.tag(f"macro f(p, q={e()})") + "{{ p }}{{ q }}" + body() + self.tag("endmacro") + f"{{{{ f({e()}) }}}}{{{{ f(1, q={e()}) }}}}"
        if kind == 11: return self.tag(f"filter {self.pick(['upper', 'trim', 'replace(1, 2)', 'indent(2)'])}") + body() + self.tag("endfilter")
        if kind == 12: return self.tag(f"with {name} = {e()}") + body() + self.tag("endwith")
        return self.tag("raw") + " {{ x }} {% y %} " + self.tag("endraw")


def main(program, *rest):
    ours, tally = Ours(program), collections.Counter()
    if rest[0] == "--random":
        expressions = Expressions(int(rest[2]) if len(rest) > 2 else 0)
        for i in range(int(rest[1])):
            template = "{{ " + expressions.make(4) + " }}" if i % 2 else expressions.block(2)
            compare(ours, template, VARIABLES, tally, template)
    else:
        published(ours, rest, tally)
    print(dict(tally))


if __name__ == "__main__":
    main(*sys.argv[1:])
