#include "models/chat/conversation.h"

#include <algorithm>

#include "models/chat/jinja/values/json_value.h"
#include "models/tokenizer/unicode/byte_alphabet.h"
#include "models/tokenizer/unicode/unicode.h"
#include "schema/file/format/utf8.h"

namespace genesis::chat {
namespace {

using jinja::Rendered;
using jinja::Span;
using jinja::Value;

bool is_assistant(const Value& message) { return *message.dict()->find("role")->text() == "assistant"; }

// Returns false if the message is not to be learned. The key is "weight" in OpenAI's files, "train" in axolotl's.
bool counts(const Value& message, size_t index) {
  const Value *weight = message.dict()->find("weight"), *train = message.dict()->find("train");
  if (train && !train->is_none() && !train->boolean())
    fail("the 'train' of message {} is neither true nor false", index);
  if (train && train->boolean() && !*train->boolean()) return false;
  if (!weight || weight->is_none()) return true;
  if (const int64_t* number = weight->integer(); number && (*number == 0 || *number == 1))
    return *number == 1;
  if (const double* number = weight->real(); number && (*number == 0 || *number == 1)) return *number == 1;
  fail("the 'weight' of message {} is neither 0 nor 1", index);
}

// Returns for each message whether it is an answer to learn.
std::vector<bool> learnt_messages(const Value& messages) {
  const std::vector<Value>& all = messages.sequence()->items;
  if (std::none_of(all.begin(), all.end(), is_assistant))
    fail("no message is the assistant's: there is nothing to learn");
  std::vector<bool> learnt;
  for (size_t i = 0; i < all.size(); ++i) learnt.push_back(counts(all[i], i) && is_assistant(all[i]));
  if (std::find(learnt.begin(), learnt.end(), true) == learnt.end())
    fail("every message of the assistant has a 'weight' of 0 or 'train' false: there is nothing to learn");
  return learnt;
}

// Drops the marked answers that are not to be learned.
void keep_learnt(Rendered& rendered, const Value& messages, const std::vector<bool>& learnt) {
  const std::vector<Value>& all = messages.sequence()->items;
  const auto answers = static_cast<size_t>(std::count_if(all.begin(), all.end(), is_assistant));
  if (static_cast<size_t>(std::count(learnt.begin(), learnt.end(), true)) == answers) return;
  if (rendered.generations.size() != answers)
    fail(
        "a message has a 'weight' of 0 or 'train' false, and the chat template marks {} texts of {} answers "
        "with {{% "
        "generation %}}, so that it "
        "cannot be told which is its",
        rendered.generations.size(), answers);
  std::vector<Span> kept;
  size_t answer = 0;
  for (size_t i = 0; i < all.size(); ++i)
    if (is_assistant(all[i])) {
      if (learnt[i]) kept.push_back(rendered.generations[answer]);
      ++answer;
    }
  rendered.generations = std::move(kept);
}

// Returns the text that the model reads before an answer that begins the conversation; `after` is the text that ends with this
// answer. Templates need not be able to render an empty list, so the generation prompt is taken from rendering an arbitrary user
// message, and searched in `after`.
std::string before_first_answer(const ChatTemplate& chat, const jinja::Dict& variables,
                                const std::string& after) {
  static const Value kAny = jinja::parse_json(R"([{"role": "user", "content": "a"}])");
  const std::string asked = chat.render(kAny, {.variables = variables}).text,
                    prompted =
                        chat.render(kAny, {.add_generation_prompt = true, .variables = variables}).text;
  const std::string prompt = prompted.starts_with(asked) ? prompted.substr(asked.size()) : "";
  const size_t at = prompt.empty() ? std::string::npos : after.find(prompt);
  if (at == std::string::npos)
    fail(
        "the conversation begins with a message of the assistant, and the chat template does not show where "
        "that begins: put a message of the user or the system ahead of it, give it a 'weight' of 0, or mark "
        "answers in the template with {{% generation %}}");
  return after.substr(0, at + prompt.size());
}

std::string before_answer(const ChatTemplate& chat, const Value& messages, size_t index,
                          const jinja::Dict& variables, const std::string& after) {
  try {
    return chat
        .render(first_messages(messages, index), {.add_generation_prompt = true, .variables = variables})
        .text;
  } catch (const Error&) {
    if (index > 0) throw;
    return before_first_answer(chat, variables, after);
  }
}

// Limits the rendering needed to find answers by prefixes, whose work is quadratic in the length of a conversation.
class PrefixWork {
 public:
  explicit PrefixWork(size_t messages) : messages_(messages) {}
  void add(size_t units) {
    units_ += units;
    if (units_ > kMax)
      fail(
          "finding the answers of a conversation of {} messages takes too long, as it is rendered up to each "
          "of "
          "them: split it, or mark answers in the chat template with {{% generation %}}",
          messages_);
  }
  void add_text(size_t bytes) { add(bytes / kBytesOfUnit); }

 private:
  static constexpr size_t kMax = 8'000'000;     // rendered messages: a few seconds
  static constexpr size_t kBytesOfUnit = 1024;  // bytes of text that take as long as a message
  size_t messages_, units_ = 0;
};

// Finds the answers by rendering the messages up to each of them. An answer is learned in the text that ends with it, which is
// how the model will see it, or in the text of a later answer if that begins with it.
std::vector<Rendered> texts_by_prefixes(const ChatTemplate& chat, const Value& messages,
                                        const std::vector<bool>& learnt, const jinja::Dict& variables,
                                        const std::string& whole) {
  std::vector<Rendered> texts;  // in reverse order
  PrefixWork work(learnt.size());
  for (size_t i = 0; i < learnt.size(); ++i)
    if (learnt[i]) work.add(2 * i + 1);
  for (size_t i = messages.sequence()->items.size(); i-- > 0;) {
    if (!learnt[i]) continue;
    std::string after = chat.render(first_messages(messages, i + 1), {.variables = variables}).text;
    const std::string before = before_answer(chat, messages, i, variables, after);
    work.add_text(before.size() + after.size());
    if (!after.starts_with(before))
      fail(
          "the chat template renders what stands before message {} in another way with it, so that what the "
          "assistant says cannot be told: mark it in the template with {{% generation %}}",
          i);
    const Span answer{before.size(), after.size()};
    if (texts.empty() && whole.starts_with(after)) after = whole;
    if (texts.empty() || !texts.back().text.starts_with(after)) texts.push_back({.text = std::move(after)});
    texts.back().generations.push_back(answer);
  }
  for (Rendered& text : texts) std::ranges::reverse(text.generations);
  std::ranges::reverse(texts);
  return texts;
}

// Returns `rendered` normalized as the tokenizer normalizes it. Characters on two sides of a mark are never composed.
Rendered normalized(const Rendered& rendered) {
  Rendered result;
  std::string storage;
  size_t at = 0;
  const auto append_to = [&](size_t end) {
    result.text += text::nfc(std::string_view(rendered.text).substr(at, end - at), storage);
    at = end;
    return result.text.size();
  };
  for (const Span& span : rendered.generations) {
    const size_t begin = append_to(span.begin);
    result.generations.push_back({begin, append_to(span.end)});
  }
  append_to(rendered.text.size());
  return result;
}

bool is_special(const text::Tokenizer& tokenizer, int64_t id) {
  return tokenizer.decode(std::vector<int64_t>{id}, true).empty() &&
         !tokenizer.decode(std::vector<int64_t>{id}, false).empty();
}

bool is_white_space_token(const text::Tokenizer& tokenizer, int64_t id) {
  const std::string text = tokenizer.decode(std::vector<int64_t>{id}, false);
  return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

// Returns the end of the targets of an answer: white space behind a final special token (that of the turn) belongs to the
// template.
size_t end_of_answer(const text::Tokenizer& tokenizer, const std::vector<int64_t>& ids, size_t begin,
                     size_t end) {
  size_t last = end;
  while (last > begin && is_white_space_token(tokenizer, ids[last - 1])) --last;
  return last > begin && is_special(tokenizer, ids[last - 1]) ? last : end;
}

Sample sample_of(const text::Tokenizer& tokenizer, const Rendered& rendered, bool by_prefixes) {
  const std::vector<int64_t> ids = tokenizer.encode(rendered.text, false);
  const std::vector<Span> places = token_spans(tokenizer, rendered.text, ids);
  Sample sample{{ids.begin(), ids.end()}, std::vector<bool>(ids.size())};
  for (const Span& span : rendered.generations) {
    // Token ranges are sorted.
    const auto first =
        std::ranges::partition_point(places, [&](const Span& place) { return place.end <= span.begin; });
    const auto last =
        std::partition_point(first, places.end(), [&](const Span& place) { return place.begin < span.end; });
    const auto begin = static_cast<size_t>(first - places.begin()),
               end = static_cast<size_t>(last - places.begin());
    std::fill(sample.is_target.begin() + (first - places.begin()),
              sample.is_target.begin() +
                  static_cast<std::ptrdiff_t>(by_prefixes ? end_of_answer(tokenizer, ids, begin, end) : end),
              true);
  }
  return sample;
}

// Returns the number of bytes of a token that `text` begins with; 0 if it does not. Tokens of text are written in the byte
// alphabet, added tokens literally.
size_t bytes_of(const std::string& token, std::string_view text) {
  const auto bytes = text::alphabet_bytes(token);
  if (bytes && text.starts_with(*bytes)) return bytes->size();
  return text.starts_with(token) ? token.size() : 0;
}

}  // namespace

std::vector<Span> token_spans(const text::Tokenizer& tokenizer, std::string_view text,
                              const std::vector<int64_t>& ids) {
  std::vector<Span> spans;
  size_t at = 0;
  for (const int64_t id : ids) {
    const size_t bytes = bytes_of(tokenizer.id_to_token(id).value_or(""), text.substr(at));
    if (bytes == 0) break;
    spans.push_back({at, at + bytes});
    at += bytes;
  }
  if (spans.size() != ids.size() || at != text.size())
    fail("token {} of a text of {} bytes is not what stands at byte {}: the tokenizer has changed the text",
         spans.size(), text.size(), at);
  return spans;
}

std::vector<Sample> SampleMaker::of_messages(const Value& given, const jinja::Dict& variables) const {
  check_messages(given);
  const Value messages = normalized_messages(given);
  const std::vector<bool> learnt = learnt_messages(messages);
  Rendered whole = chat_.render(messages, {.variables = variables});
  if (whole.lost_generation)
    fail(
        "the chat template has {{% generation %}} inside of a macro or a block that is set, where its place "
        "is not known");
  if (!whole.generations.empty()) {
    keep_learnt(whole, messages, learnt);
    return {sample_of(whole, false)};
  }
  std::vector<Sample> samples;
  for (const Rendered& text : texts_by_prefixes(chat_, messages, learnt, variables, whole.text))
    samples.push_back(sample_of(text, true));
  return samples;
}

Sample SampleMaker::sample_of(const Rendered& rendered, bool by_prefixes) const {
  try {
    return chat::sample_of(tokenizer_, rendered, by_prefixes);
  } catch (const Error&) {
    return chat::sample_of(tokenizer_, normalized(rendered), by_prefixes);
  }
}

Sample SampleMaker::of_text(std::string_view text) const {
  const std::vector<int64_t> ids = tokenizer_.encode(text);
  Sample sample{{ids.begin(), ids.end()}, {}};
  if (const auto end = tokenizer_.token_to_id(chat_.special_token("eos_token")))
    sample.tokens.push_back(static_cast<int32_t>(*end));
  sample.is_target.assign(sample.tokens.size(), true);
  return sample;
}

}  // namespace genesis::chat
