#include "tools/text/text_codec.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/text/generate.h"

namespace genesis::tools {
namespace {

int64_t vocabulary_of(const Model& model) {
  const Graph& decode = model.entry("decode");
  for (const NamedValue& output : decode.outputs())
    if (output.name == "logits" && decode.type(output.value).shape.rank() == 2)
      return decode.type(output.value).shape[1].value();
  fail("the entry point decode has no output logits");
}

// Tokens that end a text, as the configurations name them that an imported model came with.
std::vector<int64_t> end_tokens_of(const Model& model) {
  std::vector<int64_t> tokens;
  for (const char* file : {"config.json", "generation_config.json"}) {
    const auto config = model.metadata.find(file);
    if (config == model.metadata.end()) continue;
    const auto json = nlohmann::json::parse(config->second, nullptr, false);
    const auto ends = json.is_object() ? json.value("eos_token_id", nlohmann::json()) : nlohmann::json();
    for (const auto& id : ends.is_array() ? ends : nlohmann::json::array({ends}))
      if (id.is_number_integer() &&
          std::find(tokens.begin(), tokens.end(), id.get<int64_t>()) == tokens.end())
        tokens.push_back(id.get<int64_t>());
  }
  return tokens;
}

}  // namespace

TextCodec::TextCodec(const Model& model, const std::string& file, const std::string& tokenizer) {
  const int64_t vocabulary = vocabulary_of(model);
  if (tokenizer.empty()) {
    if (vocabulary != 256)
      fail("{} has a vocabulary of {}: name its tokenizer with --tokenizer (text without one is bytes, 256)",
           file, vocabulary);
    return;
  }
  tokenizer_ = text::Tokenizer::load(tokenizer);
  if (tokenizer_->vocab_size() > vocabulary)
    fail("{} has {} tokens, more than {} has: {}", tokenizer, tokenizer_->vocab_size(), file, vocabulary);
  end_tokens_ = end_tokens_of(model);
}

std::vector<int64_t> TextCodec::encode(const std::string& text) const {
  return tokenizer_ ? tokenizer_->encode(text) : text::encode_bytes(text);
}

std::function<text::TokenText()> TextCodec::token_text() const {
  if (!tokenizer_) return text::byte_text;
  return [tokenizer = *tokenizer_] {
    const auto stream = std::make_shared<text::StreamDecoder>(tokenizer);
    return text::TokenText{[stream](int64_t token) { return stream->add(token); },
                           [stream] { return stream->finish(); }};
  };
}

}  // namespace genesis::tools
