// The page of a server: a conversation with its model in a browser. It loads nothing from the network.
#include "models/serving/routes.h"

namespace genesis::serving {
namespace {

constexpr std::string_view kPage = R"html(<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Genesis</title>
<style>
  :root { color-scheme: light dark; --line: #8886; --mine: #8882; }
  * { box-sizing: border-box; }
  body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 48rem; height: 100vh; display: flex; flex-direction: column; padding: 0 1rem; }
  header { display: flex; gap: 1rem; align-items: baseline; border-bottom: 1px solid var(--line); padding: .6rem 0; flex-wrap: wrap; }
  header b { flex: 1; }
  #log { flex: 1; overflow-y: auto; padding: 1rem 0; }
  .turn { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0 0 1rem; }
  .user { background: var(--mine); border-radius: .6rem; padding: .5rem .8rem; margin-left: 15%; }
  .error { color: #c33; }
  form { display: flex; gap: .5rem; padding: .6rem 0; border-top: 1px solid var(--line); }
  textarea { flex: 1; font: inherit; resize: vertical; min-height: 3rem; }
  details label { display: inline-block; margin-right: 1rem; }
  input { font: inherit; width: 8rem; }
  #state { opacity: .7; font-size: .85rem; padding-bottom: .5rem; min-height: 1.8rem; }
</style>
<header><b id="name">Genesis</b><select id="model" aria-label="Model" hidden></select><button id="fresh" type="button">New conversation</button></header>
<details><summary>Settings</summary>
  <label>System <input id="system" style="width: 16rem"></label>
  <label>Temperature <input id="temperature" type="number" min="0" step="0.1" placeholder="the model's"></label>
  <label>Most tokens <input id="tokens" type="number" min="1" placeholder="all"></label>
  <label>Key <input id="key" type="password" autocomplete="off"></label>
</details>
<div id="log" aria-live="polite"></div>
<form><textarea id="text" placeholder="A message; Enter sends it, Shift+Enter begins a line" autofocus></textarea><button id="send">Send</button></form>
<div id="state"></div>
<script>
const at = id => document.getElementById(id);
let messages = [], running = null;
const headers = () => Object.assign({'content-type': 'application/json'}, at('key').value ? {authorization: 'Bearer ' + at('key').value} : {});
const show = (kind, text) => {
  const turn = document.createElement('div');
  turn.className = 'turn ' + kind;
  turn.textContent = text;
  at('log').append(turn);
  at('log').scrollTop = at('log').scrollHeight;
  return turn;
};
const memory = async () => {
  const answer = await fetch('metrics', {headers: headers()});
  const found = answer.ok && (await answer.text()).match(/^genesis_resident_bytes (\d+)$/m);
  return found ? ', ' + (found[1] / 2 ** 20).toFixed(0) + ' MiB of memory' : '';
};
const name = async () => {
  const answer = await fetch('v1/models', {headers: headers()});
  if (!answer.ok) return;
  const models = (await answer.json()).data.map(model => model.id);
  at('name').textContent = models[0];
  at('model').hidden = models.length < 2;
  at('model').replaceChildren(...models.map(id => new Option(id)));
};
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let held = '';;) {
    const {value, done} = await reader.read();
    if (done) return;
    const parts = (held + value).split('\n\n');
    held = parts.pop();
    for (const part of parts) if (part.startsWith('data: ') && part !== 'data: [DONE]') yield JSON.parse(part.slice(6));
  }
}
const request = () => {
  const system = at('system').value, body = {messages: system ? [{role: 'system', content: system}, ...messages] : messages};
  if (at('model').value) body.model = at('model').value;
  if (at('temperature').value !== '') body.temperature = Number(at('temperature').value);
  if (at('tokens').value !== '') body.max_tokens = Number(at('tokens').value);
  return JSON.stringify({...body, stream: true, stream_options: {include_usage: true}});
};
const answer = async () => {
  running = new AbortController();
  at('send').textContent = 'Stop';
  const turn = show('assistant', ''), begun = performance.now();
  let first = 0, usage = null;
  try {
    const reply = await fetch('v1/chat/completions', {method: 'POST', headers: headers(), body: request(), signal: running.signal});
    if (!reply.ok) throw new Error((await reply.json()).error.message);
    for await (const event of events(reply.body)) {
      if (event.error) throw new Error(event.error.message);
      usage = event.usage || usage;
      const text = event.choices?.[0]?.delta?.content || '';
      if (text && !first) first = performance.now();
      turn.textContent += text;
      at('log').scrollTop = at('log').scrollHeight;
    }
  } catch (error) {
    if (error.name !== 'AbortError') show('error', error.message);
  }
  if (turn.textContent) messages.push({role: 'assistant', content: turn.textContent});
  running = null;
  at('send').textContent = 'Send';
  if (!usage || !first) return;
  const speed = (usage.completion_tokens - 1) / ((performance.now() - first) / 1000);
  at('state').textContent = `${usage.prompt_tokens} tokens read (${usage.prompt_tokens_details.cached_tokens} from the cache), ` +
    `first after ${((first - begun) / 1000).toFixed(2)} s, ${usage.completion_tokens} written at ${speed.toFixed(1)} tokens/s` + await memory();
};
document.querySelector('form').onsubmit = event => {
  event.preventDefault();
  if (running) return running.abort();
  const text = at('text').value.trim();
  if (!text) return;
  at('text').value = '';
  messages.push({role: 'user', content: text});
  show('user', text);
  answer();
};
at('text').onkeydown = event => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  document.querySelector('form').requestSubmit();
};
at('fresh').onclick = () => {
  if (running) running.abort();
  messages = [];
  at('log').textContent = at('state').textContent = '';
};
at('key').onchange = name;
name();
</script>
</html>
)html";

}  // namespace

std::string_view chat_page() { return kPage; }

}  // namespace genesis::serving
