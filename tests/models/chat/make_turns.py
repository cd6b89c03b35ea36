#!/usr/bin/env python3
"""Makes turns.json beside it: the tokens that a model reads before each answer of a conversation, and the answer's tokens.

    python3 tests/models/chat/make_turns.py      needs transformers

[{"template": name in templates.json, "messages", "turns": [{"prompt": ids, "answer": ids}]}], one turn per message of the
assistant: apply_chat_template of the messages before it with the generation prompt, and the tokens that the template adds for
the answer; with the tokenizer tests/models/tokenizer/qwen.json. A template that removes thoughts from earlier turns does so
in the prompts, as it does when a model answers.
"""
import json
from pathlib import Path

from make_templates import TEMPLATES
from transformers import PreTrainedTokenizerFast

HERE = Path(__file__).resolve().parent


def says(role, content, **more):
    return {"role": role, "content": content, **more}


THOUGHT = "<think>\nTwo and two.\n</think>\n\n4"
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
CONVERSATIONS = [
    [says("user", "a"), says("assistant", "one")],
    [says("system", "Be brief."), says("user", "a"), says("assistant", "one"), says("user", "b"), says("assistant", "two")],
    [says("user", "2 + 2?"), says("assistant", THOUGHT), says("user", "And 3 more?"), says("assistant", "<think>\n4 + 3\n</think>\n\n7"),
     says("user", "\u4e16\u754c?"), says("assistant", "plain")],
    [says("user", "2 + 2?"), says("assistant", "4", reasoning_content="Two and two."), says("user", "open question")],
    # Answers to one question with a tool call between them keep their thoughts, so they are in one text.
    [says("user", "Is it warm in Rome?"), says("assistant", "<think>\nI ask.\n</think>\n\nLet me see.", tool_calls=[CALL]),
     says("tool", "31 degrees"), says("assistant", "<think>\n31 is warm.\n</think>\n\nYes."), says("user", "Thanks"),
     says("assistant", "Welcome.")],
]


def turns_of(tokenizer, template, messages):
    text = lambda some, prompt: tokenizer.apply_chat_template(some, chat_template=template, tokenize=False, add_generation_prompt=prompt)
    ids = lambda some: tokenizer.encode(some, add_special_tokens=False)
    turns = []
    for i, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before, after = text(messages[:i], True), text(messages[:i + 1], False)
        assert after.startswith(before)
        prompt, whole = ids(before), ids(after)
        assert whole[:len(prompt)] == prompt
        turns.append({"prompt": prompt, "answer": whole[len(prompt):]})
    return turns


def main():
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE.parent / "tokenizer/qwen.json"))
    cases = [{"template": name, "messages": messages, "turns": turns_of(tokenizer, TEMPLATES[name], messages)}
             for name, count in (("thinking", len(CONVERSATIONS)), ("turns", 3)) for messages in CONVERSATIONS[:count]]
    (HERE / "turns.json").write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
